/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One thread, the leader, receives requests and serves them itself.  For most
 * requests that is fastest: no other thread is woken, and the processor's
 * caches stay warm (libfuse's pool passes each request to the thread that has
 * waited longest, and takes a third more processor time).
 *
 * A long request must not delay the others.  While there is traffic, a monitor
 * checks the leader every PATIENCE_US; if the leader is in the same request as
 * before, the monitor makes a follower the leader.  The old leader notices that
 * when its request is done, and becomes a follower.  For a moment two threads
 * may receive, which is harmless.
 *
 * Therefore no request may wait for another one longer than that, and none
 * does: replies that depend on notifications are sent by the notifier.
 *
 * At the end, by a signal: a notification may wait in the kernel for the lock
 * of a directory whose holder waits for a reply, so requests must be served
 * until the notifier has ended.  Then the loop ends.
 */
#include "fs/loop.h"

#include "engine/base/clock.h"
#include "engine/base/msg.h"
#include "fs/base/notify.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define THREADS 24
#define PATIENCE_US 500
#define IDLE_CHECKS 20
#define NO_LEADER -1
#define POLL_US 50
#define SLEEPS_MAX 63

struct worker {
	pthread_t thread;
	_Atomic uint64_t steps; /* odd: in a request */
};

static struct {
	struct mutex lock; /* RANK_FS_NOTIFY: nothing is called under it */
	struct cond followers, monitor;
	struct worker worker[THREADS];
	_Atomic int leader;
	_Atomic bool parked; /* the monitor sleeps until the next request */
	bool stop;
	pthread_t main;
} loop;

/* With more than one processor, reads of the device do not block, so that the thread can poll. */
static void set_nonblocking(int fd)
{
	cpu_set_t cpus;
	int flags = fcntl(fd, F_GETFL);

	if (sched_getaffinity(0, sizeof(cpus), &cpus) == 0 && CPU_COUNT(&cpus) > 1 && flags >= 0)
		(void)!fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

ssize_t loop_read(int fd, void *buf, size_t n)
{
	/* After a poll that found nothing, the next reads do not poll: one, then 3, 7 ... */
	static _Thread_local unsigned sleeps_after_poll, sleeps;
	struct pollfd p = {.fd = fd, .events = POLLIN};
	uint64_t until = 0;
	ssize_t r;

	r = read(fd, buf, n);
	if (r >= 0 || errno != EAGAIN)
		return r;
	if (sleeps) {
		sleeps--;
	} else {
		until = monotonic_us() + POLL_US;
		do {
			sched_yield();
			r = read(fd, buf, n);
		} while (r < 0 && errno == EAGAIN && monotonic_us() < until);
		if (r >= 0 || errno != EAGAIN) {
			sleeps_after_poll = 0;
			return r;
		}
		sleeps_after_poll = sleeps_after_poll >= SLEEPS_MAX ? SLEEPS_MAX : 2 * sleeps_after_poll + 1;
		sleeps = sleeps_after_poll;
	}
	do {
		if (poll(&p, 1, -1) < 0)
			return -1;
		r = read(fd, buf, n); /* another thread may have read it */
	} while (r < 0 && errno == EAGAIN);
	return r;
}

static void wake_monitor(void)
{
	mutex_lock(&loop.lock);
	cond_signal(&loop.monitor);
	mutex_unlock(&loop.lock);
}

/* Serves requests until another thread is the leader, or the session has ended (false). */
static bool loop_lead(int me, struct fuse_buf *buf)
{
	struct worker *w = &loop.worker[me];

	while (!fuse_session_exited(fs.session)) {
		int r = fuse_session_receive_buf(fs.session, buf);

		if (r == -EINTR || r == -EAGAIN)
			continue;
		if (r <= 0) {
			if (r < 0 && r != -ENODEV)
				msg_error("reading requests: %s", strerror(-r));
			return false;
		}
		w->steps++;
		if (loop.parked)
			wake_monitor();
		fuse_session_process_buf(fs.session, buf);
		w->steps++;
		if (loop.leader != me)
			return true;
	}
	return false;
}

static void *worker_main(void *arg)
{
	int me = (int)(intptr_t)arg;
	struct fuse_buf buf = {0};

	mutex_lock(&loop.lock);
	while (!loop.stop) {
		bool continues;

		if (loop.leader != NO_LEADER) {
			cond_wait(&loop.followers, &loop.lock);
			continue;
		}
		loop.leader = me;
		mutex_unlock(&loop.lock);
		continues = loop_lead(me, &buf);
		mutex_lock(&loop.lock);
		if (continues)
			continue;
		loop.stop = true;
		cond_broadcast(&loop.followers);
		cond_signal(&loop.monitor);
		pthread_kill(loop.main, SIGTERM);
	}
	mutex_unlock(&loop.lock);
	free(buf.mem);
	return NULL;
}

static void *monitor_main(void *arg)
{
	int idle = 0, leader;
	uint64_t steps = 0, now;

	mutex_lock(&loop.lock);
	while (!loop.stop) {
		leader = loop.leader;
		now = leader == NO_LEADER ? 0 : loop.worker[leader].steps;
		idle = now == steps && now % 2 == 0 ? idle + 1 : 0;
		steps = now;
		if (idle > IDLE_CHECKS) {
			loop.parked = true;
			/* A request may have begun before its thread could read loop.parked. */
			leader = loop.leader;
			if (leader != NO_LEADER && loop.worker[leader].steps == steps)
				cond_wait(&loop.monitor, &loop.lock);
			loop.parked = false;
			idle = 0;
			continue;
		}
		(void)!cond_wait_us(&loop.monitor, &loop.lock, PATIENCE_US);
		if (leader != NO_LEADER && loop.leader == leader && steps % 2 == 1 && loop.worker[leader].steps == steps) {
			loop.leader = NO_LEADER;
			cond_signal(&loop.followers);
		}
	}
	mutex_unlock(&loop.lock);
	return NULL;
}

static void loop_interrupt(int sig)
{
}

/* Interrupts a thread that is in a read of the device until it has ended. */
static void loop_join(pthread_t thread)
{
	static const struct timespec pause = {.tv_nsec = 2000000};

	while (pthread_tryjoin_np(thread, NULL) != 0) {
		pthread_kill(thread, SIGUSR1);
		nanosleep(&pause, NULL);
	}
}

int loop_run(bool single_threaded, const sigset_t *signals, bool (*ends)(int sig))
{
	struct sigaction sa = {.sa_handler = loop_interrupt};
	int r, sig, started = 0, threads = single_threaded ? 1 : THREADS;
	pthread_t monitor;
	bool watched;

	mutex_init(&loop.lock, RANK_FS_NOTIFY);
	cond_init(&loop.followers);
	cond_init(&loop.monitor);
	loop.main = pthread_self();
	loop.leader = NO_LEADER;
	set_nonblocking(fuse_session_fd(fs.session));
	sigaction(SIGUSR1, &sa, NULL);
	r = pthread_create(&monitor, NULL, monitor_main, NULL);
	watched = r == 0;
	for (int i = 0; r == 0 && i < threads; i++) {
		r = pthread_create(&loop.worker[i].thread, NULL, worker_main, (void *)(intptr_t)i);
		started += r == 0;
	}
	if (started)
		r = 0; /* fewer threads are enough */
	if (r == 0) {
		do
			(void)sigwait(signals, &sig);
		while (!ends(sig));
		notify_stop();
	}
	fuse_session_exit(fs.session);
	mutex_lock(&loop.lock);
	loop.stop = true;
	cond_broadcast(&loop.followers);
	cond_signal(&loop.monitor);
	mutex_unlock(&loop.lock);
	for (int i = 0; i < started; i++)
		loop_join(loop.worker[i].thread);
	if (watched)
		pthread_join(monitor, NULL);
	fuse_session_reset(fs.session);
	cond_fini(&loop.followers);
	cond_fini(&loop.monitor);
	mutex_fini(&loop.lock);
	return -r;
}
