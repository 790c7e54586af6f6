/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Worker tasks (engine/base/task.h) in the simulation: the linker uses this file
 * in place of engine/base/task.c.  A task that is queued gets a thread of the
 * scheduler, of the process that created the pool, as soon as the pool has fewer
 * running tasks than workers.  A timer is a thread that sleeps.
 *
 * Only one thread runs, and none of these functions waits except task_cancel,
 * task_pool_drain and task_pool_free, so there is no lock.
 */
#include "engine/base/clock.h"
#include "engine/base/task.h"
#include "t/sim/sched.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>

struct task_pool {
	struct proc *proc;
	struct tasks queue;
	unsigned threads, busy;
	bool stopping;
	task_urgency_fn *urgency;
};

/* A timer owns itself.  If the task was cancelled or armed again, it does nothing. */
struct timer {
	struct task *task;
	uint64_t due_us;
	struct timer *next;
};
static struct timer *timers;

static void serve(struct task_pool *p);

static void run_task(void *arg)
{
	struct task *t = arg;
	struct task_pool *p = t->pool;

	t->run(t);
	mutex_assert_none_held();
	t->running = 0;
	p->busy--;
	if (t->again) {
		t->again = 0;
		task_queue(t);
	}
	serve(p);
	sim_wake(p, UINT_MAX);
}

static struct task *next_task(struct task_pool *p)
{
	struct task *t, *best = NULL;
	uint64_t most = 0, now = monotonic_us();

	if (!p->urgency || p->stopping)
		return TAILQ_FIRST(&p->queue);
	TAILQ_FOREACH (t, &p->queue, in_queue) {
		uint64_t u = p->urgency(t, now > t->queued_us ? now - t->queued_us : 0);

		if (u > most) {
			most = u;
			best = t;
		}
	}
	return best;
}

/* Begins queued tasks while workers are free. */
static void serve(struct task_pool *p)
{
	struct task *t;

	while (p->busy < p->threads && (t = next_task(p))) {
		TAILQ_REMOVE(&p->queue, t, in_queue);
		t->queued = 0;
		t->running = 1;
		p->busy++;
		sim_spawn(p->proc, sim_random(20), run_task, t);
	}
}

int task_pool_new(const char *name, unsigned threads, struct task_pool **out)
{
	struct task_pool *p = calloc(1, sizeof(*p));

	(void)name;
	if (!p)
		return -ENOMEM;
	p->proc = proc_self();
	p->threads = threads;
	TAILQ_INIT(&p->queue);
	*out = p;
	return 0;
}

void task_pool_order(struct task_pool *p, task_urgency_fn *fn)
{
	p->urgency = fn;
}

void task_pool_yield(struct task_pool *p, int by)
{
	(void)p, (void)by;
}

static void drop_timers(const struct task *t, const struct task_pool *p)
{
	for (struct timer *x = timers; x; x = x->next)
		if (x->task && (t ? x->task == t : x->task->pool == p)) {
			x->task->armed = 0;
			x->task = NULL;
		}
}

void task_pool_drain(struct task_pool *p)
{
	while (!TAILQ_EMPTY(&p->queue) || p->busy) {
		serve(p);
		(void)sim_wait(p, SIM_NEVER);
	}
}

void task_pool_free(struct task_pool *p)
{
	if (!p)
		return;
	p->stopping = true;
	drop_timers(NULL, p);
	task_pool_drain(p);
	free(p);
}

void task_init(struct task *t, struct task_pool *p, task_fn *run)
{
	*t = (struct task){.run = run, .pool = p};
}

void task_queue(struct task *t)
{
	if (t->queued)
		return;
	if (t->running) {
		t->again = 1;
		return;
	}
	t->queued = 1;
	t->queued_us = monotonic_us();
	TAILQ_INSERT_TAIL(&t->pool->queue, t, in_queue);
	serve(t->pool);
}

static void timer_main(void *arg)
{
	struct timer *x = arg, **at = &timers;
	struct task *t = x->task;

	while (*at != x)
		at = &(*at)->next;
	*at = x->next;
	if (t) {
		t->armed = 0;
		task_queue(t);
	}
	free(x);
}

void task_queue_after(struct task *t, uint64_t delay_us)
{
	uint64_t due = sim_now() + (delay_us > SIM_NEVER / 2 ? SIM_NEVER / 2 : delay_us);
	struct timer *x;

	if (t->pool->stopping || t->queued || (t->armed && t->due_us <= due))
		return;
	drop_timers(t, NULL);
	x = calloc(1, sizeof(*x));
	if (!x)
		sim_fail("out of memory");
	*x = (struct timer){.task = t, .due_us = due, .next = timers};
	timers = x;
	t->due_us = due;
	t->armed = 1;
	sim_spawn(t->pool->proc, due - sim_now(), timer_main, x);
}

void task_cancel(struct task *t)
{
	struct task_pool *p = t->pool;

	if (!p)
		return;
	for (;;) {
		drop_timers(t, NULL);
		if (t->queued) {
			TAILQ_REMOVE(&p->queue, t, in_queue);
			t->queued = 0;
		}
		t->again = 0;
		if (!t->running)
			break;
		(void)sim_wait(p, SIM_NEVER);
	}
	sim_wake(p, UINT_MAX);
}
