/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Worker pools: no run is lost or doubled, tasks are cancelled while running, timers
 * run in the order of their times, and a pool can be ended.
 */
#include "engine/base/clock.h"
#include "engine/base/task.h"

#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <cmocka.h>

struct job {
	struct task task;
	struct mutex lock; /* guards the rest */
	struct cond changed;
	int runs, inside, most_inside;
	bool gate;         /* a run waits while it is closed */
	int again;         /* times a run queues itself again */
	uint64_t again_us; /* by timer, if not 0 */
	uint64_t ran_us;
};

static struct task_pool *pool;

static int setup(void **state)
{
	return task_pool_new("test", 3, &pool);
}

static int teardown(void **state)
{
	task_pool_free(pool);
	return 0;
}

static void run(struct task *t)
{
	struct job *j = (struct job *)(void *)((char *)t - offsetof(struct job, task));
	bool again;

	mutex_lock(&j->lock);
	j->inside++;
	if (j->inside > j->most_inside)
		j->most_inside = j->inside;
	cond_broadcast(&j->changed);
	while (j->gate)
		cond_wait(&j->changed, &j->lock);
	again = j->again > 0;
	if (again)
		j->again--;
	j->inside--;
	j->runs++;
	j->ran_us = monotonic_us();
	cond_broadcast(&j->changed);
	mutex_unlock(&j->lock);
	if (again && j->again_us)
		task_queue_after(t, j->again_us);
	else if (again)
		task_queue(t);
}

static void job_init(struct job *j)
{
	*j = (struct job){0};
	task_init(&j->task, pool, run);
	mutex_init(&j->lock, RANK_TABLET);
	cond_init(&j->changed);
}

static void job_fini(struct job *j)
{
	task_cancel(&j->task);
	mutex_fini(&j->lock);
	cond_fini(&j->changed);
}

static void wait_runs(struct job *j, int runs)
{
	mutex_lock(&j->lock);
	while (j->runs < runs)
		cond_wait(&j->changed, &j->lock);
	mutex_unlock(&j->lock);
}

static void wait_inside(struct job *j)
{
	mutex_lock(&j->lock);
	while (j->inside == 0)
		cond_wait(&j->changed, &j->lock);
	mutex_unlock(&j->lock);
}

static void set_gate(struct job *j, bool closed)
{
	mutex_lock(&j->lock);
	j->gate = closed;
	cond_broadcast(&j->changed);
	mutex_unlock(&j->lock);
}

static int runs_of(struct job *j)
{
	int n;

	mutex_lock(&j->lock);
	n = j->runs;
	mutex_unlock(&j->lock);
	return n;
}

static void test_queue_and_drain(void **state)
{
	struct job j[50];

	for (int i = 0; i < 50; i++)
		job_init(&j[i]);
	for (int i = 0; i < 50; i++)
		task_queue(&j[i].task);
	task_pool_drain(pool);
	for (int i = 0; i < 50; i++) {
		assert_int_equal(runs_of(&j[i]), 1);
		job_fini(&j[i]);
	}
}

static void test_queued_once_and_again(void **state)
{
	struct job j;

	job_init(&j);
	j.gate = true;
	task_queue(&j.task);
	wait_inside(&j);
	for (int i = 0; i < 10; i++)
		task_queue(&j.task); /* while running: one more run, not ten, and not during this run */
	set_gate(&j, false);
	task_pool_drain(pool);
	assert_int_equal(runs_of(&j), 2);
	assert_int_equal(j.most_inside, 1);
	job_fini(&j);
}

static void test_self_requeue(void **state)
{
	struct job j;

	job_init(&j);
	j.again = 99;
	task_queue(&j.task);
	task_pool_drain(pool);
	assert_int_equal(runs_of(&j), 100);
	job_fini(&j);
}

static void *cancel_main(void *arg)
{
	task_cancel(&((struct job *)arg)->task);
	return arg;
}

static void test_cancel_waits_for_the_run(void **state)
{
	struct job j;
	pthread_t t;

	job_init(&j);
	j.gate = true;
	j.again = 1000000; /* it would never end by itself */
	task_queue(&j.task);
	wait_inside(&j);
	assert_int_equal(pthread_create(&t, NULL, cancel_main, &j), 0);
	task_queue(&j.task);
	set_gate(&j, false);
	pthread_join(t, NULL);
	/* The last run may have queued it before or after cancel looked; cancelled again, it is still for good. */
	task_cancel(&j.task);
	mutex_lock(&j.lock);
	assert_int_equal(j.inside, 0);
	j.runs = 0;
	mutex_unlock(&j.lock);
	task_pool_drain(pool);
	assert_int_equal(runs_of(&j), 0);
	job_fini(&j);
}

static void test_cancel_queued(void **state)
{
	struct job block[3], j, k;

	job_init(&j);
	job_init(&k);
	for (int i = 0; i < 3; i++) {
		job_init(&block[i]);
		block[i].gate = true;
		task_queue(&block[i].task);
		wait_inside(&block[i]);
	}
	task_queue(&k.task);
	task_queue(&j.task); /* last in the queue */
	task_cancel(&j.task);
	task_queue(&j.task);
	task_cancel(&k.task); /* first */
	task_queue_after(&k.task, 3600 * 1000000ull);
	task_cancel(&k.task);
	for (int i = 0; i < 3; i++)
		set_gate(&block[i], false);
	task_pool_drain(pool);
	assert_int_equal(runs_of(&j), 1);
	assert_int_equal(runs_of(&k), 0);
	for (int i = 0; i < 3; i++)
		job_fini(&block[i]);
	job_fini(&j);
	job_fini(&k);
}

static void test_timers(void **state)
{
	struct job a, b, never;
	uint64_t t = monotonic_us();

	job_init(&a);
	job_init(&b);
	job_init(&never);
	task_queue_after(&never.task, UINT64_MAX);
	task_queue_after(&a.task, 600 * 1000000ull);
	task_queue_after(&b.task, 20000); /* becomes the first */
	wait_runs(&b, 1);
	assert_true(b.ran_us >= t + 20000);
	assert_int_equal(runs_of(&a), 0);
	task_queue_after(&a.task, 60000);
	task_queue_after(&a.task, 3600 * 1000000ull); /* armed earlier: nothing */
	wait_runs(&a, 1);
	assert_true(a.ran_us >= t + 60000);

	t = monotonic_us();
	task_queue_after(&b.task, 3600 * 1000000ull);
	task_queue_after(&b.task, 1000); /* earlier: replaces */
	wait_runs(&b, 2);
	assert_true(b.ran_us >= t + 1000);
	task_queue_after(&b.task, 0);
	wait_runs(&b, 3);
	assert_int_equal(runs_of(&never), 0);
	job_fini(&a);
	job_fini(&b);
	job_fini(&never);
}

static void test_periodic(void **state)
{
	struct job j[20];

	for (int i = 0; i < 20; i++) {
		job_init(&j[i]);
		j[i].again = 5 + i;
		j[i].again_us = 500;
		task_queue(&j[i].task);
	}
	for (int i = 0; i < 20; i++) {
		wait_runs(&j[i], 6 + i);
		job_fini(&j[i]);
		assert_int_equal(j[i].most_inside, 1);
	}
}

/* Wakes must not be lost: each thread sets work to do, then queues; the task does all it finds. */
static atomic_int posted, done;
static struct task sum_task;

static void sum_run(struct task *t)
{
	atomic_fetch_add(&done, atomic_exchange(&posted, 0));
}

static void *poster(void *arg)
{
	for (int i = 0; i < 5000; i++) {
		atomic_fetch_add(&posted, 1);
		if (i % 7 == 0)
			task_queue_after(&sum_task, 10);
		else
			task_queue(&sum_task);
		if (i % 100 == 99)
			task_queue(&sum_task);
	}
	return arg;
}

static void test_no_lost_wakeup(void **state)
{
	pthread_t t[3];

	task_init(&sum_task, pool, sum_run);
	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&t[i], NULL, poster, NULL), 0);
	for (int i = 0; i < 3; i++)
		pthread_join(t[i], NULL);
	task_pool_drain(pool);
	assert_int_equal(atomic_load(&done), 15000);
	task_cancel(&sum_task);
}

static void test_free_runs_the_queue(void **state)
{
	struct task_pool *mine = pool;
	struct job block, j, late;

	assert_int_equal(task_pool_new("one", 1, &pool), 0);
	job_init(&block);
	job_init(&j);
	job_init(&late);
	block.again = 3;
	task_queue(&block.task);
	for (int i = 0; i < 3; i++)
		task_queue(&j.task);
	task_queue_after(&late.task, 3600 * 1000000ull);
	task_pool_free(pool);
	pool = mine;
	assert_int_equal(block.runs, 4);
	assert_true(j.runs >= 1);
	assert_int_equal(late.runs, 0);
}

/* ---- ordered pools ---- */
struct wish {
	struct task task;
	uint64_t need;
	_Atomic unsigned order; /* its place among all runs; 0 before it has run */
	_Atomic unsigned left;  /* runs that queue it again */
};
static _Atomic unsigned order;
static _Atomic bool held; /* tasks that need the odd amounts must not run now */

static uint64_t urgency(const struct task *t, uint64_t waited_us)
{
	const struct wish *w = (const struct wish *)(const void *)((const char *)t - offsetof(struct wish, task));

	return held && w->need % 2 ? 0 : 1 + w->need + waited_us;
}

static void grant(struct task *t)
{
	struct wish *w = (struct wish *)(void *)((char *)t - offsetof(struct wish, task));

	if (w->left) {
		w->left--;
		if (w->order == 0)
			task_queue(t);
		return;
	}
	w->order = ++order;
}

static void release(struct task *t)
{
	held = false;
	grant(t);
}

enum { WISHES = 50 };
#define HOURS UINT64_C(3600000000)

static void wishes_init(struct wish *w, struct task_pool *p)
{
	order = 0;
	held = false;
	for (unsigned i = 0; i < WISHES; i++) {
		w[i] = (struct wish){.need = (uint64_t)(i * 7 % WISHES) * HOURS};
		task_init(&w[i].task, p, grant);
	}
}

static int priority_seen;

static void see_priority(struct task *t)
{
	priority_seen = getpriority(PRIO_PROCESS, 0);
}

static void test_workers_give_way(void **state)
{
	const int mine = getpriority(PRIO_PROCESS, 0);
	struct task_pool *p;
	struct task t;

	assert_int_equal(task_pool_new("nicer", 1, &p), 0);
	task_pool_yield(p, 3);
	task_init(&t, p, see_priority);
	for (unsigned i = 0; i < 2; i++) { /* once, and not again and again */
		task_queue(&t);
		task_pool_drain(p);
		assert_int_equal(priority_seen, mine + 3 < 19 ? mine + 3 : 19);
	}
	task_pool_free(p);
	task_init(&t, pool, see_priority);
	task_queue(&t);
	task_pool_drain(pool);
	assert_int_equal(priority_seen, mine);
	assert_int_equal(getpriority(PRIO_PROCESS, 0), mine);
}

static void test_most_urgent_first(void **state)
{
	struct task_pool *one;
	struct wish w[WISHES];
	struct job block;

	assert_int_equal(task_pool_new("one", 1, &one), 0);
	task_pool_order(one, urgency);
	wishes_init(w, one);
	/* the worker is kept busy while they are queued */
	job_init(&block);
	task_init(&block.task, one, run);
	block.gate = true;
	task_pool_order(one, NULL);
	task_queue(&block.task);
	mutex_lock(&block.lock);
	while (!block.inside)
		cond_wait(&block.changed, &block.lock);
	mutex_unlock(&block.lock);
	task_pool_order(one, urgency);
	for (unsigned i = 0; i < WISHES; i++)
		task_queue(&w[i].task);
	mutex_lock(&block.lock);
	block.gate = false;
	cond_broadcast(&block.changed);
	mutex_unlock(&block.lock);
	task_pool_drain(one);
	for (unsigned i = 0; i < WISHES; i++)
		assert_int_equal(w[i].order, WISHES - w[i].need / HOURS);
	job_fini(&block);
	task_pool_free(one);
}

/* A task that may not run now runs when the obstacle is over; a pool that ends runs it at any urgency. */
static void test_not_now(void **state)
{
	struct task_pool *two;
	struct wish w[WISHES];
	struct wish free_them = {.need = 0};

	assert_int_equal(task_pool_new("two", 2, &two), 0);
	task_pool_order(two, urgency);
	wishes_init(w, two);
	for (unsigned i = 0; i < WISHES; i++)
		w[i].need += i % 2;
	held = true;
	for (unsigned i = 0; i < WISHES; i++)
		task_queue(&w[i].task);
	task_init(&free_them.task, two, release);
	while (order < WISHES / 2)
		sched_yield();
	for (unsigned i = 1; i < WISHES; i += 2)
		assert_int_equal(w[i].order, 0);
	task_queue(&free_them.task);
	task_pool_drain(two);
	for (unsigned i = 1; i < WISHES; i += 2)
		assert_true(w[i].order > WISHES / 2);
	held = true;
	task_queue(&w[1].task);
	task_pool_free(two);
	assert_int_equal(w[1].order, order);
}

/* Two that are always more urgent, and always there, keep the third waiting for as long as they need more, not longer. */
static void test_waiting_counts(void **state)
{
	struct wish w[3];
	struct task_pool *one;
	uint64_t since = monotonic_us();

	order = 0;
	held = false;
	assert_int_equal(task_pool_new("one", 1, &one), 0);
	task_pool_order(one, urgency);
	for (unsigned i = 0; i < 3; i++) {
		w[i] = (struct wish){.need = i < 2 ? 20000 : 0, .left = i < 2 ? UINT32_MAX : 0};
		task_init(&w[i].task, one, grant);
		task_queue(&w[i].task);
	}
	while (!w[2].order)
		assert_true(monotonic_us() < since + 60000000u);
	w[0].order = w[1].order = 1; /* they end */
	w[0].left = w[1].left = 1;
	task_pool_drain(one);
	task_pool_free(one);
}

static void test_bad_pools(void **state)
{
	struct task_pool *p = NULL;
	struct task t = {0};

	assert_int_equal(task_pool_new("none", 0, &p), -EINVAL);
	assert_null(p);
	task_cancel(&t); /* never initialised */
	task_pool_free(NULL);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(test_queue_and_drain),
		T(test_queued_once_and_again),
		T(test_self_requeue),
		T(test_cancel_waits_for_the_run),
		T(test_cancel_queued),
		T(test_timers),
		T(test_periodic),
		T(test_no_lost_wakeup),
		T(test_free_runs_the_queue),
		T(test_bad_pools),
		T(test_workers_give_way),
		T(test_most_urgent_first),
		T(test_not_now),
		T(test_waiting_counts),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
