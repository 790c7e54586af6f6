/* SPDX-License-Identifier: Apache-2.0 */
/* The thread of the connections, and the calls that other threads plan for it. */
#include "engine/rpc/events.h"

#include "engine/base/mutex.h"

#include <errno.h>
#include <ev.h>
#include <signal.h>

static struct events {
	struct mutex start; /* RANK_WIRE; held while the thread starts or ends */
	unsigned users;     /* under start */
	struct mutex lock;  /* RANK_EVENTS */
	struct cond ran;
	STAILQ_HEAD(, event_call) calls; /* under lock, as is `ending` */
	bool ending;
	pthread_t thread;
	struct ev_loop *loop;
	ev_async wake;
} events = {.start = MUTEX_INITIALIZER(RANK_WIRE), .lock = MUTEX_INITIALIZER(RANK_EVENTS), .ran = {PTHREAD_COND_INITIALIZER}};
static struct events unused; /* the initial state of `events` */
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* The thread does not exist in a child process.  Its loop is left alone, because the parent uses the same epoll(7). */
static void in_child(void)
{
	memcpy(&events, &unused, sizeof(events));
}

static void begin(void)
{
	memcpy(&unused, &events, sizeof(events));
	(void)pthread_atfork(NULL, NULL, in_child);
}

static void on_wake(struct ev_loop *loop, ev_async *w, int revents)
{
	struct event_call *c;
	bool ending;

	mutex_lock(&events.lock);
	while ((c = STAILQ_FIRST(&events.calls)) != NULL) {
		STAILQ_REMOVE_HEAD(&events.calls, link);
		c->queued = false;
		mutex_unlock(&events.lock);
		c->fn(c);
		mutex_lock(&events.lock);
	}
	ending = events.ending;
	mutex_unlock(&events.lock);
	if (ending)
		ev_break(loop, EVBREAK_ALL);
}

static void *events_main(void *arg)
{
	pthread_setname_np(pthread_self(), "wire");
	ev_run(events.loop, 0);
	return NULL;
}

static int start_locked(void)
{
	sigset_t all, old;
	int err;

	events.loop = ev_loop_new(EVFLAG_NOENV);
	if (!events.loop)
		return -ENOMEM;
	STAILQ_INIT(&events.calls);
	events.ending = false;
	ev_async_init(&events.wake, on_wake);
	ev_async_start(events.loop, &events.wake);
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &old);
	err = -pthread_create(&events.thread, NULL, events_main, NULL);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (err)
		ev_loop_destroy(events.loop);
	return err;
}

int events_start(void)
{
	int err;

	(void)pthread_once(&once, begin);
	mutex_lock(&events.start);
	err = events.users ? 0 : start_locked();
	events.users += !err;
	mutex_unlock(&events.start);
	return err;
}

void events_stop(void)
{
	mutex_lock(&events.start);
	if (--events.users == 0) {
		mutex_lock(&events.lock);
		events.ending = true;
		mutex_unlock(&events.lock);
		ev_async_send(events.loop, &events.wake);
		pthread_join(events.thread, NULL);
		ev_loop_destroy(events.loop);
	}
	mutex_unlock(&events.start);
}

struct ev_loop *events_loop(void)
{
	return events.loop;
}

bool events_post(struct event_call *c)
{
	bool first = false, planned;

	mutex_lock(&events.lock);
	planned = c->queued;
	if (!planned) {
		first = STAILQ_EMPTY(&events.calls);
		c->queued = true;
		STAILQ_INSERT_TAIL(&events.calls, c, link);
	}
	mutex_unlock(&events.lock);
	if (first)
		ev_async_send(events.loop, &events.wake);
	return !planned;
}

struct run {
	struct event_call call; /* first */
	void (*fn)(void *arg);
	void *arg;
	bool done; /* under lock */
};

static void run_call(struct event_call *c)
{
	struct run *r = (struct run *)c;

	r->fn(r->arg);
	mutex_lock(&events.lock);
	r->done = true;
	cond_broadcast(&events.ran);
	mutex_unlock(&events.lock);
}

void events_run(void (*fn)(void *arg), void *arg)
{
	struct run r = {.call.fn = run_call, .fn = fn, .arg = arg};

	(void)events_post(&r.call);
	mutex_lock(&events.lock);
	while (!r.done)
		cond_wait(&events.ran, &events.lock);
	mutex_unlock(&events.lock);
}
