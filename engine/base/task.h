/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Worker tasks: pools of threads that run blocking background work, and
 * timers that queue it.  One thread serves the timers of all pools.
 *
 * A task is embedded in its owner and is queued at most once.  Queueing a
 * queued task does nothing; queueing a running task makes it run once more.
 * Threads: all calls from any thread.  task_cancel waits until the task is
 * neither queued nor running, so the owner may be freed after it.  It must
 * not be called from the task itself or under a lock that the task takes.
 */
#ifndef TFS_BASE_TASK_H
#define TFS_BASE_TASK_H

#include "engine/base/bytes.h"
#include "engine/base/mutex.h"

#include <bsd/sys/queue.h>

struct task_pool;
struct task;
typedef void task_fn(struct task *t);

struct task {
	task_fn *run;
	struct task_pool *pool;
	unsigned char queued, running, again, armed;
	uint64_t due_us;    /* CLOCK_MONOTONIC, when armed */
	uint64_t queued_us; /* CLOCK_MONOTONIC, when it was queued; in ordered pools */
	TAILQ_ENTRY(task) in_queue, in_timers;
};
TAILQ_HEAD(tasks, task);

int task_pool_new(const char *name, unsigned threads, struct task_pool **out) TFS_MUST;
/*
 * Makes workers take the most urgent task of the queue; among equally urgent tasks, the first.
 * A free worker calls fn for each queued task under the pool's lock; fn is fast and takes no
 * lock below RANK_CLOCK.  A task of urgency 0 does not run now; fn is called again when
 * another task ends or is queued. fn includes waited_us in its result, so that no task waits
 * for ever.  Before the first task.
 */
typedef uint64_t task_urgency_fn(const struct task *t, uint64_t waited_us);
void task_pool_order(struct task_pool *p, task_urgency_fn *fn);
/* Adds this to the niceness of the pool's workers (nice(2)).  Before the first task. */
void task_pool_yield(struct task_pool *p, int by);
/* Runs all queued tasks, drops timers, joins the threads. */
void task_pool_free(struct task_pool *p);
void task_init(struct task *t, struct task_pool *p, task_fn *run);
void task_queue(struct task *t);
/* Queues the task delay_us from now unless it is queued or armed earlier. */
void task_queue_after(struct task *t, uint64_t delay_us);
void task_cancel(struct task *t);
/* Waits until no task of the pool is queued or running.  Timers do not count. */
void task_pool_drain(struct task_pool *p);

#endif
