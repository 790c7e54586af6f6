/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Worker pools, and the timer thread that they share.
 *
 * One lock per pool guards the queue, the timers and the four state bytes of
 * every task.  A task is in the queue (queued), on a worker (running), or
 * neither.  Queueing a running task sets `again`; the worker that ends the
 * run queues it once more.  So no wakeup is lost and no task runs twice at
 * once.  Queueing an armed task leaves its timer armed.
 *
 * Each pool has a list of timers in due order.  One thread serves the timers
 * of all pools on a libev loop: it moves due tasks into their queues and sets
 * one ev_timer to the first due time of any pool.  An ev_async wakes it if a
 * timer is due earlier.  It runs no task.  The first pool starts the thread and
 * the last one ends it, so a process without pools may fork.
 *
 * Workers are started with their pool and not at the first task: a worker
 * inherits the niceness of the thread that starts it.
 *
 * All these threads block all signals: signals are the main thread's.
 */
#include "engine/base/task.h"

#include "engine/base/clock.h"

#include <errno.h>
#include <ev.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct task_pool {
	struct mutex lock;
	struct cond work;           /* the queue is not empty, or stopping */
	struct cond done;           /* a run ended */
	struct tasks queue, timers; /* timers: by due_us */
	unsigned busy;              /* workers in a run */
	bool stopping;              /* no new timers; workers end when the queue is empty */

	struct task_pool *next_pool; /* under timers.lock */

	/* Written before the threads start. */
	unsigned threads;
	task_urgency_fn *urgency; /* NULL: first come, first served */
	int nicer;
	char name[16];
	pthread_t worker[];
};

static struct {
	struct mutex lock;
	struct cond ended;
	/* under lock */
	struct task_pool *pools;
	uint64_t next_us; /* the time to which the ev_timer is set, or UINT64_MAX */
	bool started, ending;
	pthread_t thread;
	/* Exist while the thread does; it alone uses due. */
	struct ev_loop *loop;
	ev_async wake;
	ev_timer due;
} timers = {.lock = MUTEX_INITIALIZER(RANK_TIMERS), .ended = {PTHREAD_COND_INITIALIZER}};

static void enqueue_locked(struct task_pool *p, struct task *t)
{
	t->queued = 1;
	if (p->urgency)
		t->queued_us = monotonic_us();
	TAILQ_INSERT_TAIL(&p->queue, t, in_queue);
	cond_signal(&p->work);
}

static void dequeue_locked(struct task_pool *p, struct task *t)
{
	TAILQ_REMOVE(&p->queue, t, in_queue);
	t->queued = 0;
}

/* Returns the task that a free worker runs next; NULL if there is none for now.  A stopping pool runs all tasks. */
static struct task *next_locked(const struct task_pool *p)
{
	uint64_t most = 0, now;
	struct task *t, *best = NULL;

	if (!p->urgency || p->stopping || TAILQ_EMPTY(&p->queue))
		return TAILQ_FIRST(&p->queue);
	now = monotonic_us();
	TAILQ_FOREACH (t, &p->queue, in_queue) {
		uint64_t u = p->urgency(t, now > t->queued_us ? now - t->queued_us : 0);

		if (u > most) {
			most = u;
			best = t;
		}
	}
	return best;
}

static void make_due_locked(struct task_pool *p, struct task *t)
{
	if (t->queued)
		return;
	if (t->running)
		t->again = 1;
	else
		enqueue_locked(p, t);
}

static void arm_locked(struct task_pool *p, struct task *t)
{
	struct task *later = TAILQ_FIRST(&p->timers);

	while (later && later->due_us <= t->due_us)
		later = TAILQ_NEXT(later, in_timers);
	if (later)
		TAILQ_INSERT_BEFORE(later, t, in_timers);
	else
		TAILQ_INSERT_TAIL(&p->timers, t, in_timers);
	t->armed = 1;
}

static void disarm_locked(struct task_pool *p, struct task *t)
{
	TAILQ_REMOVE(&p->timers, t, in_timers);
	t->armed = 0;
}

/* Queues the pool's due tasks.  Returns when its next timer is due; UINT64_MAX if it has none. */
static uint64_t pool_queue_due(struct task_pool *p, uint64_t now)
{
	uint64_t next_us;
	struct task *t;

	mutex_lock(&p->lock);
	while ((t = TAILQ_FIRST(&p->timers)) && t->due_us <= now) {
		disarm_locked(p, t);
		make_due_locked(p, t);
	}
	next_us = t ? t->due_us : UINT64_MAX;
	mutex_unlock(&p->lock);
	return next_us;
}

static void timers_serve(void)
{
	uint64_t now = monotonic_us(), next_us = UINT64_MAX;
	bool ending;

	mutex_lock(&timers.lock);
	for (struct task_pool *p = timers.pools; p; p = p->next_pool) {
		uint64_t due_us = pool_queue_due(p, now);

		if (due_us < next_us)
			next_us = due_us;
	}
	timers.next_us = next_us;
	ending = timers.ending;
	mutex_unlock(&timers.lock);

	ev_timer_stop(timers.loop, &timers.due);
	if (ending) {
		ev_break(timers.loop, EVBREAK_ALL);
	} else if (next_us != UINT64_MAX) {
		ev_now_update(timers.loop);
		ev_timer_set(&timers.due, (double)(next_us - now) / 1e6, 0.);
		ev_timer_start(timers.loop, &timers.due);
	}
}

static void on_wake(struct ev_loop *loop, ev_async *w, int revents)
{
	timers_serve();
}

static void on_due(struct ev_loop *loop, ev_timer *w, int revents)
{
	timers_serve();
}

/* A thread sets its own name: to name another thread is a write to /proc, which is ten times slower. */
static void *timers_main(void *arg)
{
	pthread_setname_np(pthread_self(), "timers");
	ev_run(timers.loop, 0);
	return NULL;
}

static int timers_start_locked(void)
{
	int err;

	timers.loop = ev_loop_new(EVFLAG_NOENV);
	if (!timers.loop)
		return -ENOMEM;
	timers.next_us = UINT64_MAX;
	ev_async_init(&timers.wake, on_wake);
	ev_async_start(timers.loop, &timers.wake);
	ev_timer_init(&timers.due, on_due, 0., 0.);
	err = -pthread_create(&timers.thread, NULL, timers_main, NULL);
	if (err)
		ev_loop_destroy(timers.loop);
	timers.started = !err;
	return err;
}

/* Starts the timer thread for the first pool. */
static int timers_add(struct task_pool *p)
{
	int err;

	mutex_lock(&timers.lock);
	while (timers.ending)
		cond_wait(&timers.ended, &timers.lock);
	err = timers.started ? 0 : timers_start_locked();
	if (!err) {
		p->next_pool = timers.pools;
		timers.pools = p;
	}
	mutex_unlock(&timers.lock);
	return err;
}

/* Ends the timer thread with the last pool. */
static void timers_remove(struct task_pool *p)
{
	struct task_pool **at = &timers.pools;

	mutex_lock(&timers.lock);
	while (*at != p)
		at = &(*at)->next_pool;
	*at = p->next_pool;
	timers.ending = !timers.pools;
	if (timers.ending) {
		ev_async_send(timers.loop, &timers.wake);
		mutex_unlock(&timers.lock);
		pthread_join(timers.thread, NULL);
		mutex_lock(&timers.lock);
		ev_loop_destroy(timers.loop);
		timers.started = timers.ending = false;
		cond_broadcast(&timers.ended);
	}
	mutex_unlock(&timers.lock);
}

static void *worker_main(void *arg)
{
	struct task_pool *p = arg;
	int nicer = 0;

	pthread_setname_np(pthread_self(), p->name);
	mutex_lock(&p->lock);
	for (;;) {
		struct task *t;

		while (!(t = next_locked(p)) && !p->stopping)
			cond_wait(&p->work, &p->lock);
		if (!t) {
			/* A running task may still queue another. */
			if (p->busy == 0)
				break;
			cond_wait(&p->work, &p->lock);
			continue;
		}
		dequeue_locked(p, t);
		t->running = 1;
		p->busy++;
		if (nicer != p->nicer) {
			nicer = p->nicer;
			(void)!nice(nicer); /* on Linux this changes only this thread; a higher niceness is always permitted */
		}
		mutex_unlock(&p->lock);

		t->run(t);
		mutex_assert_none_held();

		mutex_lock(&p->lock);
		p->busy--;
		t->running = 0;
		if (t->again) {
			t->again = 0;
			enqueue_locked(p, t);
		}
		cond_broadcast(&p->done);
		if (p->stopping || (p->urgency && !TAILQ_EMPTY(&p->queue))) /* tasks of urgency 0 may run now */
			cond_broadcast(&p->work);
	}
	mutex_unlock(&p->lock);
	return NULL;
}

static void join_all(struct task_pool *p, unsigned workers)
{
	mutex_lock(&p->lock);
	p->stopping = true;
	while (!TAILQ_EMPTY(&p->timers))
		disarm_locked(p, TAILQ_FIRST(&p->timers));
	cond_broadcast(&p->work);
	mutex_unlock(&p->lock);
	for (unsigned i = 0; i < workers; i++)
		pthread_join(p->worker[i], NULL);
	timers_remove(p);
	cond_fini(&p->work);
	cond_fini(&p->done);
	mutex_fini(&p->lock);
	free(p);
}

int task_pool_new(const char *name, unsigned threads, struct task_pool **out)
{
	struct task_pool *p;
	sigset_t all, old;
	unsigned workers = 0;
	int err;

	if (threads == 0 || threads > 1024)
		return -EINVAL;
	p = calloc(1, sizeof(*p) + threads * sizeof(p->worker[0]));
	if (!p)
		return -ENOMEM;
	mutex_init(&p->lock, RANK_TASK);
	TAILQ_INIT(&p->queue);
	TAILQ_INIT(&p->timers);
	cond_init(&p->work);
	cond_init(&p->done);
	p->threads = threads;
	snprintf(p->name, sizeof(p->name), "%s", name);

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &old);
	err = timers_add(p);
	if (err) {
		free(p);
	} else {
		while (!err && workers < threads) {
			err = -pthread_create(&p->worker[workers], NULL, worker_main, p);
			if (!err)
				workers++;
		}
		if (err)
			join_all(p, workers);
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (!err)
		*out = p;
	return err;
}

void task_pool_order(struct task_pool *p, task_urgency_fn *fn)
{
	mutex_lock(&p->lock);
	p->urgency = fn;
	mutex_unlock(&p->lock);
}

void task_pool_yield(struct task_pool *p, int by)
{
	mutex_lock(&p->lock);
	p->nicer = by;
	mutex_unlock(&p->lock);
}

void task_pool_free(struct task_pool *p)
{
	if (p)
		join_all(p, p->threads);
}

void task_init(struct task *t, struct task_pool *p, task_fn *run)
{
	*t = (struct task){.run = run, .pool = p};
}

void task_queue(struct task *t)
{
	struct task_pool *p = t->pool;

	mutex_lock(&p->lock);
	make_due_locked(p, t);
	mutex_unlock(&p->lock);
}

void task_queue_after(struct task *t, uint64_t delay_us)
{
	struct task_pool *p = t->pool;
	uint64_t now = monotonic_us();
	uint64_t due = delay_us > UINT64_MAX - now ? UINT64_MAX : now + delay_us;
	bool first = false;

	mutex_lock(&p->lock);
	if (!p->stopping && !t->queued && !(t->armed && t->due_us <= due)) {
		if (t->armed)
			disarm_locked(p, t);
		t->due_us = due;
		arm_locked(p, t);
		first = TAILQ_FIRST(&p->timers) == t;
	}
	mutex_unlock(&p->lock);
	if (first) {
		mutex_lock(&timers.lock);
		if (due < timers.next_us) {
			timers.next_us = due;
			ev_async_send(timers.loop, &timers.wake);
		}
		mutex_unlock(&timers.lock);
	}
}

void task_cancel(struct task *t)
{
	struct task_pool *p = t->pool;

	if (!p)
		return;
	mutex_lock(&p->lock);
	for (;;) {
		if (t->armed)
			disarm_locked(p, t);
		if (t->queued)
			dequeue_locked(p, t);
		t->again = 0;
		if (!t->running)
			break;
		cond_wait(&p->done, &p->lock);
	}
	/* task_pool_drain may wait for the task just removed. */
	cond_broadcast(&p->done);
	mutex_unlock(&p->lock);
}

void task_pool_drain(struct task_pool *p)
{
	mutex_lock(&p->lock);
	while (!TAILQ_EMPTY(&p->queue) || p->busy)
		cond_wait(&p->done, &p->lock);
	mutex_unlock(&p->lock);
}
