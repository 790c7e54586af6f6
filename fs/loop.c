/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The request loop: serves requests with several threads.  One thread, the
 * leader, receives requests and serves them itself.  For most requests that is
 * fastest: no other thread is woken, and the processor's caches stay warm
 * (libfuse's pool passes each request to the thread that has waited longest,
 * and takes a third more processor time).
 *
 * A long request must not delay other requests.  While there is traffic, a
 * monitor checks the leader every PATIENCE_US; if the leader is in the same
 * request as before, the monitor makes a follower the leader.  The old leader
 * notices that when its request is done, and becomes a follower.  Two threads may
 * then receive for a moment, which is harmless.
 *
 * Therefore no request may wait longer than that for another request, and none does:
 * replies that depend on notifications are sent by the notifier.
 *
 * An old leader that is still in its request has left the loop.  A thread that is
 * about to wait for a row leaves it before it waits.  The threads that have left are
 * a bounded pool, of which each user has a share, because one user, or many users of
 * one row, could otherwise make all threads wait, and no stat(2) would be answered:
 *
 *	A user may have as many threads outside the loop as are left for others.
 *	The last ROW_FREE threads are kept for requests that wait for no row.
 *	A request above the share is copied and queued.  A thread that has ended its
 *	request outside the loop takes a queued request, from each user in turn.
 *
 * A request may wait for the server of the store for a minute (-o timeout).  An INTERRUPT
 * ends the wait with EINTR.  At most WAITING_ALL requests wait for the server at a time,
 * and at most WAITING_USER of one user; others get EAGAIN, so that there are threads for
 * requests that need no server.
 *
 * The waits of one request have that time together, counted from when the request was taken
 * (stop_wait_begin in engine/base/stop.h).
 *
 * The end of the mount has that minute once, from its signal on, for all waits together: the
 * waits of the last requests, of the commits of open descriptors and of the engine's threads.
 * A later commit is tried once.
 *
 * FORGET and INTERRUPT never wait and are never queued.  An INTERRUPT of a request
 * that is queued ends it.
 *
 * At the end, by a signal: a notification may wait in the kernel for the lock
 * of a directory whose holder waits for a reply, so requests must be served
 * until the notifier has ended.  Then the loop ends.  Requests that are queued
 * then get no answer, like requests that the kernel has not passed on.
 */
#include "fs/daemon.h"

#include "engine/base/clock.h"
#include "engine/base/msg.h"
#include "engine/base/stop.h"
#include "engine/base/tree.h"
#include "fs/base/slow.h"
#include "fs/base/access.h"
#include "fs/base/notify.h"
#include "fs/base/reply.h"
#include "fs/file/file.h"

#include <bsd/sys/queue.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define THREADS 64
#define ROW_FREE 8                          /* threads for requests that wait for no row */
#define KERNEL_USER (UINT64_C(1) << 32)     /* the user of requests that the kernel sends by itself, such as RELEASE */
#define QUEUED_BYTES_MAX ((size_t)64 << 20) /* limit of the queued requests of a user */
#define WAITING_ALL 48u                     /* requests that may wait for another process; the other threads serve the rest */
#define WAITING_USER 12u                    /* requests of one user that may wait for another process */
#define PATIENCE_US 500
#define IDLE_CHECKS 20
#define NO_LEADER -1
#define POLL_US 50
#define SLEEPS_MAX 63

struct queued {
	STAILQ_ENTRY(queued) next;
	size_t bytes;
	uint64_t taken_us;
	uint8_t request[] __attribute__((aligned(8))); /* as the kernel has passed it */
};
/* A user with threads outside the loop, or with queued requests. */
struct user {
	RB_ENTRY(user) by_id;
	TAILQ_ENTRY(user) waiting; /* if the queue is not empty */
	uint64_t id;
	unsigned out;
	size_t bytes; /* the bytes of the requests in the queue */
	STAILQ_HEAD(, queued) queue;
};
RB_HEAD(users, user);

struct worker {
	pthread_t thread;
	_Atomic uint64_t steps;  /* odd while in a request */
	_Atomic uint64_t user;   /* the user of that request */
	_Atomic uint64_t unique; /* its number in the kernel */
	_Atomic bool interrupted;
	_Atomic bool waits; /* the thread waits for another process */
	/* under loop.lock */
	bool out;
	struct user *charged; /* NULL: out of memory */
};

static struct {
	struct mutex lock; /* RANK_FS_NOTIFY: nothing is called under it */
	struct cond followers, monitor;
	struct worker worker[THREADS];
	struct users users;
	TAILQ_HEAD(, user) waiting; /* users with queued requests; the next one first */
	_Atomic unsigned out;       /* threads outside the loop */
	_Atomic unsigned queued;    /* requests */
	unsigned threads;
	_Atomic int leader;
	_Atomic bool parked;     /* the monitor sleeps until the next request */
	uint64_t timeout_us;     /* how long a request waits for a silent server */
	_Atomic uint64_t end_us; /* the time at which all waits for another process end; 0 while the mount does not end */
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

/* ---- the threads outside the loop ---- */

static int user_cmp(struct user *a, struct user *b)
{
	return (a->id > b->id) - (a->id < b->id);
}

RB_PROTOTYPE_STATIC(users, user, by_id, user_cmp);
RB_GENERATE_STATIC(users, user, by_id, user_cmp);

static _Thread_local struct worker *self; /* NULL: not a thread of the loop */

static struct user *user_find(uint64_t id)
{
	struct user key = {.id = id};

	return RB_FIND(users, &loop.users, &key);
}

/* NULL: out of memory. */
static struct user *user_get(uint64_t id)
{
	struct user *u = user_find(id);

	if (u)
		return u;
	u = calloc(1, sizeof(*u));
	if (u) {
		u->id = id;
		STAILQ_INIT(&u->queue);
		RB_INSERT(users, &loop.users, u);
	}
	return u;
}

static void user_put(struct user *u)
{
	if (u->out || !STAILQ_EMPTY(&u->queue))
		return;
	RB_REMOVE(users, &loop.users, u);
	free(u);
}

static void leave_locked(struct worker *w)
{
	w->out = true;
	w->charged = user_get(w->user);
	if (w->charged)
		w->charged->out++;
	loop.out++;
}

static void return_locked(struct worker *w)
{
	if (!w->out)
		return;
	w->out = false;
	loop.out--;
	if (!w->charged)
		return;
	w->charged->out--;
	user_put(w->charged);
}

/* The leader leaves the loop. */
static void replace_locked(int leader)
{
	loop.leader = NO_LEADER;
	leave_locked(&loop.worker[leader]);
	cond_signal(&loop.followers);
}

static void loop_step_aside(void)
{
	const int me = self ? (int)(self - loop.worker) : NO_LEADER;

	if (!self || loop.leader != me)
		return;
	mutex_lock(&loop.lock);
	if (loop.leader == me && loop.threads > 1)
		replace_locked(me);
	mutex_unlock(&loop.lock);
}

/* ---- shares ---- */

static const struct fuse_in_header *header_of(const void *request)
{
	return request;
}

static uint64_t user_of(const struct fuse_in_header *h)
{
	return h->pid || h->uid ? h->uid : KERNEL_USER; /* processes outside the PID namespace have no pid */
}

/* Requests that never wait, or that must be taken from the kernel at once. */
static bool is_urgent(uint32_t opcode)
{
	return opcode == FUSE_FORGET || opcode == FUSE_BATCH_FORGET || opcode == FUSE_INTERRUPT || opcode == FUSE_INIT ||
		opcode == FUSE_DESTROY;
}

/* Requests that wait for no row. */
static bool is_light(uint32_t opcode)
{
	return opcode == FUSE_LOOKUP || opcode == FUSE_GETATTR || opcode == FUSE_READDIR || opcode == FUSE_READDIRPLUS ||
		opcode == FUSE_OPENDIR || opcode == FUSE_RELEASEDIR || opcode == FUSE_STATFS || opcode == FUSE_GETXATTR ||
		opcode == FUSE_LISTXATTR || opcode == FUSE_ACCESS;
}

static bool may_serve_locked(const struct user *u, uint32_t opcode)
{
	const unsigned out = u ? u->out : 0, row = loop.threads > 2 * ROW_FREE ? loop.threads - ROW_FREE : loop.threads / 2;

	if (is_light(opcode))
		return out < row / 2 + ROW_FREE / 2 && loop.out + 1 < loop.threads;
	return out + loop.out < row;
}

static void reply_raw(const struct fuse_in_header *h, int err)
{
	const struct fuse_out_header out = {.len = sizeof(out), .error = err, .unique = h->unique};

	(void)!write(fuse_session_fd(fs.session), &out, sizeof(out));
}

static bool must_be_served(uint32_t opcode)
{
	return opcode == FUSE_RELEASE || opcode == FUSE_RELEASEDIR || opcode == FUSE_FLUSH || opcode == FUSE_FSYNC;
}

static void queue_request_locked(struct user *u, const struct fuse_buf *buf)
{
	const struct fuse_in_header *h = header_of(buf->mem);
	struct queued *q = NULL;

	if (u && (must_be_served(h->opcode) || u->bytes + buf->size <= QUEUED_BYTES_MAX))
		q = malloc(sizeof(*q) + buf->size);
	if (!q) {
		reply_raw(h, -EAGAIN);
		return;
	}
	q->bytes = buf->size;
	q->taken_us = monotonic_us();
	memcpy(q->request, buf->mem, buf->size);
	if (STAILQ_EMPTY(&u->queue))
		TAILQ_INSERT_TAIL(&loop.waiting, u, waiting);
	if (must_be_served(h->opcode)) /* a process that ends waits for it */
		STAILQ_INSERT_HEAD(&u->queue, q, next);
	else
		STAILQ_INSERT_TAIL(&u->queue, q, next);
	u->bytes += q->bytes;
	loop.queued++;
}

static void unqueue_locked(struct user *u, struct queued *q)
{
	STAILQ_REMOVE(&u->queue, q, queued, next);
	u->bytes -= q->bytes;
	loop.queued--;
	TAILQ_REMOVE(&loop.waiting, u, waiting);
	if (!STAILQ_EMPTY(&u->queue))
		TAILQ_INSERT_TAIL(&loop.waiting, u, waiting);
}

/* Ends the queued request that an INTERRUPT names.  Returns false if there is none that can be ended. */
static bool interrupt_queued_locked(const void *request)
{
	const struct fuse_interrupt_in *in = (const void *)((const uint8_t *)request + sizeof(struct fuse_in_header));
	struct user *u;
	struct queued *q;

	TAILQ_FOREACH (u, &loop.waiting, waiting)
		STAILQ_FOREACH (q, &u->queue, next)
			if (header_of(q->request)->unique == in->unique && !must_be_served(header_of(q->request)->opcode)) {
				reply_raw(header_of(q->request), -EINTR);
				unqueue_locked(u, q);
				user_put(u);
				free(q);
				return true;
			}
	return false;
}

/* A thread that waits for another process notices it. */
static void interrupt_served_locked(const void *request)
{
	const struct fuse_interrupt_in *in = (const void *)((const uint8_t *)request + sizeof(struct fuse_in_header));

	for (unsigned i = 0; i < loop.threads; i++)
		if (loop.worker[i].unique == in->unique)
			loop.worker[i].interrupted = true;
}

/* Returns true if the request was queued, or ended. */
static bool set_aside(const struct fuse_buf *buf)
{
	const struct fuse_in_header *h = header_of(buf->mem);
	bool aside = false;

	if (buf->size < sizeof(*h) || (is_urgent(h->opcode) && h->opcode != FUSE_INTERRUPT))
		return false;
	mutex_lock(&loop.lock);
	if (h->opcode == FUSE_INTERRUPT) {
		interrupt_served_locked(buf->mem);
		aside = interrupt_queued_locked(buf->mem);
	} else if (!may_serve_locked(user_find(user_of(h)), h->opcode)) {
		queue_request_locked(user_get(user_of(h)), buf);
		aside = true;
	}
	mutex_unlock(&loop.lock);
	return aside;
}

/* Removes and returns a queued request that may be served now, or NULL. */
static struct queued *take_queued_locked(void)
{
	struct user *u;

	TAILQ_FOREACH (u, &loop.waiting, waiting) {
		struct queued *q = STAILQ_FIRST(&u->queue);

		if (may_serve_locked(u, header_of(q->request)->opcode)) {
			unqueue_locked(u, q);
			return q;
		}
	}
	return NULL;
}

/* ---- waits for the server of the store ---- */

/* Called by a thread that waits for long.  Returns true if its request must end, with EINTR or EAGAIN.  A slow server is no crowd. */
static bool loop_ends_wait(bool silent)
{
	const uint64_t end_us = loop.end_us;
	unsigned all = 0, user = 0;
	bool crowded;

	if (silent && end_us && monotonic_us() >= end_us)
		return true;
	if (!self || self->interrupted || !silent)
		return self && self->interrupted;
	mutex_lock(&loop.lock);
	self->waits = true;
	for (unsigned i = 0; i < loop.threads; i++) {
		const struct worker *w = &loop.worker[i];

		all += w->waits;
		user += w->waits && w->user == self->user;
	}
	crowded = user > WAITING_USER || all > WAITING_ALL;
	self->waits = !crowded;
	mutex_unlock(&loop.lock);
	if (crowded)
		fs_set_crowded(true);
	return crowded;
}

static void serve(const struct fuse_buf *buf, uint64_t taken_us)
{
	struct fuse_in_header *h = buf->mem;
	const uint64_t since_us = monotonic_us();
	struct slow_place place;
	uint32_t opcode;
	bool waited;
	pid_t pid;
	uid_t uid;

	if (fs.shared) {
		stop_wait_begin(taken_us, loop.timeout_us);
		repeats_begin((pid_t)h->pid);
	}
	self->interrupted = self->waits = false;
	fs_set_crowded(false);
	self->unique = h->unique;
	h->uid = fs_uid_across(h->uid);
	h->gid = fs_gid_across(h->gid);
	refuse_begin();
	fs_asked_by(h->uid, h->gid, (pid_t)h->pid);
	opcode = h->opcode; /* libfuse may use the memory for the answer */
	pid = (pid_t)h->pid;
	uid = h->uid;
	slow_begin(h, buf->size, &place);
	fuse_session_process_buf(fs.session, buf);
	waited = self->waits; /* a request for changes to come is not slow */
	self->waits = false;
	slow_end(opcode, pid, uid, since_us, !waited, &place);
}

/* Serves queued requests outside the loop. */
static void serve_queued_locked(struct worker *w)
{
	struct queued *q;

	while (!loop.stop && (q = take_queued_locked()) != NULL) {
		const struct fuse_buf buf = {.mem = q->request, .size = q->bytes};

		w->user = user_of(header_of(q->request));
		leave_locked(w);
		mutex_unlock(&loop.lock);
		serve(&buf, q->taken_us);
		free(q);
		mutex_lock(&loop.lock);
		return_locked(w);
	}
}

static void drop_queued(void)
{
	struct user *u;
	struct queued *q;

	while ((u = TAILQ_FIRST(&loop.waiting)) != NULL) {
		q = STAILQ_FIRST(&u->queue);
		unqueue_locked(u, q);
		user_put(u);
		free(q);
	}
}

/* ---- the loop ---- */

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
		if (loop.out && set_aside(buf))
			continue;
		w->user = user_of(header_of(buf->mem));
		w->steps++;
		if (loop.parked)
			wake_monitor();
		serve(buf, fs.shared ? monotonic_us() : 0);
		w->steps++;
		if (loop.leader != me)
			return true;
	}
	return false;
}

static void *worker_main(void *arg)
{
	int me = (int)(intptr_t)arg;
	struct worker *w = &loop.worker[me];
	struct fuse_buf buf = {0};

	self = w;
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
		free(buf.mem); /* the buffer may have become large */
		buf.mem = NULL;
		mutex_lock(&loop.lock);
		return_locked(w);
		if (continues) {
			serve_queued_locked(w);
			continue;
		}
		loop.stop = true;
		cond_broadcast(&loop.followers);
		cond_signal(&loop.monitor);
		pthread_kill(loop.main, SIGTERM);
	}
	mutex_unlock(&loop.lock);
	fs_asked_by(0, 0, 0); /* frees the data that it keeps of the last user */
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
		if (leader != NO_LEADER && loop.leader == leader && steps % 2 == 1 && loop.worker[leader].steps == steps &&
			loop.threads > 1)
			replace_locked(leader);
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

int loop_run(bool single_threaded, uint64_t timeout_us, const sigset_t *signals, bool (*ends)(int sig))
{
	struct sigaction sa = {.sa_handler = loop_interrupt};
	int r, sig, started = 0, threads = single_threaded ? 1 : THREADS;
	pthread_t monitor;
	bool watched;

	mutex_init(&loop.lock, RANK_FS_NOTIFY);
	cond_init(&loop.followers);
	cond_init(&loop.monitor);
	loop.main = pthread_self();
	loop.timeout_us = timeout_us;
	loop.leader = NO_LEADER;
	RB_INIT(&loop.users);
	TAILQ_INIT(&loop.waiting);
	loop.threads = (unsigned)threads;
	fs_set_before_waiting(loop_step_aside);
	stop_set_waiting(loop_ends_wait);
	asker_set(fs_asker_user);
	set_nonblocking(fuse_session_fd(fs.session));
	sigaction(SIGUSR1, &sa, NULL);
	r = pthread_create(&monitor, NULL, monitor_main, NULL);
	watched = r == 0;
	for (int i = 0; r == 0 && i < threads; i++) {
		r = pthread_create(&loop.worker[i].thread, NULL, worker_main, (void *)(intptr_t)i);
		started += r == 0;
	}
	mutex_lock(&loop.lock);
	loop.threads = (unsigned)started;
	mutex_unlock(&loop.lock);
	if (started)
		r = 0; /* fewer threads are enough */
	if (r == 0) {
		do
			(void)sigwait(signals, &sig);
		while (!ends(sig));
		loop.end_us = monotonic_us() + timeout_us;
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
	drop_queued();
	fuse_session_reset(fs.session);
	cond_fini(&loop.followers);
	cond_fini(&loop.monitor);
	mutex_fini(&loop.lock);
	return -r;
}
