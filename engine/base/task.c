/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Worker pools and their timers.
 *
 * One lock per pool guards the queue, the timers and the four state bytes of
 * every task.  A task is in the queue (queued), on a worker (running), or
 * neither; queueing a running task sets `again`, and the worker that ends
 * the run puts it back, so no wakeup is lost and no task runs twice at once.
 * A timer is independent of that: queueing an armed task now leaves the
 * timer armed.
 *
 * Timers are a list in due order, served by one thread with a libev loop:
 * an ev_async says that the first due time changed or that the pool ends,
 * one ev_timer waits for the first due time.  The loop's thread only moves
 * due tasks into the queue; it never runs one.
 *
 * Both kinds of thread block all signals: signals are the main thread's.
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
	struct cond work; /* the queue is not empty, or stopping */
	struct cond done; /* a run ended */
	struct task *first, *last;
	struct task *timers; /* by due_us */
	unsigned busy;       /* workers in a run */
	bool stopping;       /* no new timers; workers leave when the queue is empty */

	/* Written before the threads start. */
	struct ev_loop *loop;
	ev_async wake;
	ev_timer due; /* the loop's thread only */
	pthread_t timer_thread;
	unsigned threads;
	task_urgency_fn *urgency; /* NULL: first come, first served */
	int nicer;
	char name[16];
	pthread_t worker[];
};

static void enqueue_locked(struct task_pool *p, struct task *t)
{
	t->queued = 1;
	t->next = NULL;
	if (p->urgency)
		t->queued_us = monotonic_us();
	if (p->last)
		p->last->next = t;
	else
		p->first = t;
	p->last = t;
	cond_signal(&p->work);
}

static void dequeue_locked(struct task_pool *p, struct task *t)
{
	struct task *prev = NULL;

	for (struct task *x = p->first; x != t; x = x->next)
		prev = x;
	if (prev)
		prev->next = t->next;
	else
		p->first = t->next;
	if (p->last == t)
		p->last = prev;
	t->next = NULL;
	t->queued = 0;
}

/* What a free worker runs next; NULL: nothing, or nothing now.  A pool that ends runs all there is. */
static struct task *next_locked(const struct task_pool *p)
{
	uint64_t most = 0, now;
	struct task *best = NULL;

	if (!p->urgency || p->stopping || !p->first)
		return p->first;
	now = monotonic_us();
	for (struct task *t = p->first; t; t = t->next) {
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
	struct task **at = &p->timers;

	while (*at && (*at)->due_us <= t->due_us)
		at = &(*at)->timer_next;
	t->timer_next = *at;
	*at = t;
	t->armed = 1;
}

static void disarm_locked(struct task_pool *p, struct task *t)
{
	struct task **at = &p->timers;

	while (*at != t)
		at = &(*at)->timer_next;
	*at = t->timer_next;
	t->timer_next = NULL;
	t->armed = 0;
}

/* On the loop's thread: queues what is due and waits for the next. */
static void serve_timers(struct task_pool *p)
{
	uint64_t now = monotonic_us(), wait_us = 0;
	bool waiting, stopping;

	mutex_lock(&p->lock);
	while (p->timers && p->timers->due_us <= now) {
		struct task *t = p->timers;

		disarm_locked(p, t);
		make_due_locked(p, t);
	}
	waiting = p->timers != NULL;
	if (waiting)
		wait_us = p->timers->due_us - now;
	stopping = p->stopping;
	mutex_unlock(&p->lock);

	ev_timer_stop(p->loop, &p->due);
	if (stopping) {
		ev_break(p->loop, EVBREAK_ALL);
	} else if (waiting) {
		ev_now_update(p->loop);
		ev_timer_set(&p->due, (double)wait_us / 1e6, 0.);
		ev_timer_start(p->loop, &p->due);
	}
}

static void on_wake(struct ev_loop *loop, ev_async *w, int revents)
{
	(void)loop, (void)revents;
	serve_timers(w->data);
}

static void on_due(struct ev_loop *loop, ev_timer *w, int revents)
{
	(void)loop, (void)revents;
	serve_timers(w->data);
}

/* A thread names itself: the name of another thread is written to /proc, which costs the kernel ten times as much. */
static void name_this_thread(const struct task_pool *p)
{
	pthread_setname_np(pthread_self(), p->name);
}

static void *timer_main(void *arg)
{
	struct task_pool *p = arg;

	name_this_thread(p);
	ev_run(p->loop, 0);
	return NULL;
}

static void *worker_main(void *arg)
{
	struct task_pool *p = arg;
	int nicer = 0;

	name_this_thread(p);
	mutex_lock(&p->lock);
	for (;;) {
		struct task *t;

		while (!(t = next_locked(p)) && !p->stopping)
			cond_wait(&p->work, &p->lock);
		if (!t) {
			/* A run that has not ended may still queue something. */
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
			(void)!nice(nicer); /* Linux: of this thread alone; to be nicer is never refused */
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
		if (p->stopping || (p->urgency && p->first)) /* what was not to run then may run now */
			cond_broadcast(&p->work);
	}
	mutex_unlock(&p->lock);
	return NULL;
}

static void join_all(struct task_pool *p, unsigned workers, bool timer)
{
	mutex_lock(&p->lock);
	p->stopping = true;
	while (p->timers)
		disarm_locked(p, p->timers);
	cond_broadcast(&p->work);
	mutex_unlock(&p->lock);
	for (unsigned i = 0; i < workers; i++)
		pthread_join(p->worker[i], NULL);
	if (timer) {
		ev_async_send(p->loop, &p->wake);
		pthread_join(p->timer_thread, NULL);
	}
	ev_loop_destroy(p->loop);
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
	bool timer = false;
	int rc;

	if (threads == 0 || threads > 1024)
		return -EINVAL;
	p = calloc(1, sizeof(*p) + threads * sizeof(p->worker[0]));
	if (!p)
		return -ENOMEM;
	p->loop = ev_loop_new(EVFLAG_NOENV);
	if (!p->loop) {
		free(p);
		return -ENOMEM;
	}
	mutex_init(&p->lock, RANK_TASK);
	cond_init(&p->work);
	cond_init(&p->done);
	p->threads = threads;
	snprintf(p->name, sizeof(p->name), "%s", name);
	ev_async_init(&p->wake, on_wake);
	p->wake.data = p;
	ev_async_start(p->loop, &p->wake);
	ev_timer_init(&p->due, on_due, 0., 0.);
	p->due.data = p;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &old);
	rc = -pthread_create(&p->timer_thread, NULL, timer_main, p);
	timer = rc == 0;
	while (rc == 0 && workers < threads) {
		rc = -pthread_create(&p->worker[workers], NULL, worker_main, p);
		if (rc == 0)
			workers++;
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rc < 0) {
		join_all(p, workers, timer);
		return rc;
	}
	*out = p;
	return 0;
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
		join_all(p, p->threads, true);
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
		first = p->timers == t;
	}
	/* Under the lock: task_pool_free destroys the loop only after it was held. */
	if (first)
		ev_async_send(p->loop, &p->wake);
	mutex_unlock(&p->lock);
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
	/* Whoever drains the pool may be waiting for what was just taken out. */
	cond_broadcast(&p->done);
	mutex_unlock(&p->lock);
}

void task_pool_drain(struct task_pool *p)
{
	mutex_lock(&p->lock);
	while (p->first || p->busy)
		cond_wait(&p->done, &p->lock);
	mutex_unlock(&p->lock);
}
