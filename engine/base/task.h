/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Worker tasks: pools of threads that run blocking background work, and
 * timers that queue it.  One libev loop per pool set runs the timers
 * (DESIGN 4: timers are on libev loops, work that blocks on workers).
 *
 * A task is embedded in its owner and is queued at most once: queueing a
 * queued task does nothing, queueing a running one makes it run again after.
 * Threads: all calls from any thread; task_cancel waits until the task is
 * neither queued nor running, so the owner may be freed after it (never call
 * it from the task itself or under a lock the task takes).
 */
#ifndef TFS_BASE_TASK_H
#define TFS_BASE_TASK_H

#include "engine/base/bytes.h"
#include "engine/base/mutex.h"

struct task_pool;
struct task;
typedef void task_fn(struct task *t);

struct task {
	task_fn *run;
	struct task *next;
	struct task_pool *pool;
	unsigned char queued, running, again, armed;
	uint64_t due_us; /* CLOCK_MONOTONIC, when armed */
	struct task *timer_next;
};

int task_pool_new(const char *name, unsigned threads, struct task_pool **out) TFS_MUST;
/* Runs what is queued to its end, drops timers, joins the threads. */
void task_pool_free(struct task_pool *p);
void task_init(struct task *t, struct task_pool *p, task_fn *run);
void task_queue(struct task *t);
/* Queues the task delay_us from now unless it is queued or armed earlier. */
void task_queue_after(struct task *t, uint64_t delay_us);
void task_cancel(struct task *t);
/* Waits until the pool has nothing queued or running (timers not counted). */
void task_pool_drain(struct task_pool *p);

#endif
