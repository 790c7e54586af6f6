/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Actions: the requests that last long, which are TS_FLUSH, TS_COMPACT,
 * TS_PURGE, TS_SPLIT and TS_MERGE.  Each runs in a thread of its own, so that no worker
 * that serves requests waits for it.  The request that starts it waits for a
 * short time.  If the action has not ended by then, the answer has a number,
 * and the client sends TS_POLL with it until the answer has none.  An action
 * continues if its client does not poll any more; its result is dropped a
 * minute after its end.  A server without background work, which one thread
 * drives, carries out an action within its first request.
 */
#include "engine/server/requests/requests.h"
#include "engine/base/clock.h"

#include <errno.h>
#include <stdlib.h>

#define ACTION_WAIT_US 20000u /* how long a request waits for the end of its action */
#define ACTIONS_MOST 64u
#define KEPT_US UINT64_C(60000000)

struct action {
	struct task task; /* first */
	struct task_pool *pool;
	struct server *s;
	struct action *next;
	action_fn *fn;
	struct ts_request q; /* without user, because access was checked */
	struct buf row;
	uint64_t id;
	/* Guarded by actions.lock. */
	bool done, used; /* used: a request waits for it */
	int err;
	struct ts_answer a;
	uint64_t done_us;
};

static void action_run(struct task *t)
{
	struct action *x = (struct action *)t;
	int err = x->fn(x->s, &x->q, &x->a);

	mutex_lock(&x->s->actions->lock);
	x->err = err;
	x->done = true;
	x->done_us = monotonic_us();
	cond_broadcast(&x->s->actions->ended);
	mutex_unlock(&x->s->actions->lock);
}

static void action_free(struct action *x)
{
	if (x->pool)
		task_pool_free(x->pool);
	ts_answer_fini(&x->a);
	buf_fini(&x->row);
	free(x);
}

static int action_new(struct server *s, const struct ts_request *q, action_fn *fn, struct action **out)
{
	struct action *x = calloc(1, sizeof(*x));
	int err = x ? number_draw(&x->id) : -ENOMEM;

	if (!err)
		err = buf_set(&x->row, q->row.p, q->row.n);
	if (!err)
		err = task_pool_new("action", 1, &x->pool);
	if (err) {
		if (x)
			action_free(x);
		return err;
	}
	task_init(&x->task, x->pool, action_run);
	x->s = s;
	x->fn = fn;
	x->q = (struct ts_request){.method = q->method,
		.table = q->table,
		.row = buf_bytes(&x->row),
		.offset = q->offset,
		.token = {.client = q->token.client},
		.epoch = q->epoch};
	*out = x;
	return 0;
}

/* Removes from the list the actions whose result no client has asked for, and returns them.  Sets *count to the number of actions that are left. */
static struct action *actions_take_old_locked(struct server *s, unsigned *count)
{
	const uint64_t now = monotonic_us();
	struct action *old = NULL, *x;

	*count = 0;
	for (struct action **p = &s->actions->first; (x = *p) != NULL;) {
		if (!x->done || x->used || now - x->done_us < s->actions->kept_us) {
			++*count;
			p = &x->next;
			continue;
		}
		*p = x->next;
		x->next = old;
		old = x;
	}
	return old;
}

/* Waits for a short time.  x is marked as used. */
static int action_answer(struct server *s, struct action *x, struct ts_answer *a)
{
	const uint64_t until = monotonic_us() + ACTION_WAIT_US;
	struct action **p;
	uint64_t now;
	int err = 0;

	mutex_lock(&s->actions->lock);
	while (!x->done && (now = monotonic_us()) < until)
		(void)cond_wait_us(&s->actions->ended, &s->actions->lock, until - now);
	x->used = false;
	if (!x->done) {
		a->scan = x->id;
		mutex_unlock(&s->actions->lock);
		return 0;
	}
	for (p = &s->actions->first; *p != x; p = &(*p)->next)
		;
	*p = x->next;
	mutex_unlock(&s->actions->lock);
	err = x->err;
	a->scan = 0;
	a->failed_op = x->a.failed_op;
	a->tablet_end = (struct tfs_bytes){NULL, 0};
	if (!err && x->a.tablet_end.p && !arena_dup(&a->arena, x->a.tablet_end, &a->tablet_end))
		err = -ENOMEM;
	action_free(x);
	return err;
}

int action_begin(struct server *s, const struct ts_request *q, struct ts_answer *a, action_fn *fn)
{
	struct action *x, *old;
	unsigned count;
	int err;

	if (s->o.no_background)
		return fn(s, q, a);
	err = action_new(s, q, fn, &x);
	if (err)
		return err;
	mutex_lock(&s->actions->lock);
	old = actions_take_old_locked(s, &count);
	if (count < ACTIONS_MOST) {
		x->used = true;
		x->next = s->actions->first;
		s->actions->first = x;
	}
	mutex_unlock(&s->actions->lock);
	while (old) {
		struct action *next = old->next;

		action_free(old);
		old = next;
	}
	if (count >= ACTIONS_MOST) {
		action_free(x);
		return -EAGAIN;
	}
	task_queue(&x->task);
	return action_answer(s, x, a);
}

int action_poll(struct server *s, const struct ts_request *q, struct ts_answer *a)
{
	struct action *x;

	mutex_lock(&s->actions->lock);
	for (x = s->actions->first; x && x->id != q->scan; x = x->next)
		;
	if (x && (x->used || x->q.table != q->table || x->q.token.client != q->token.client || x->q.epoch != q->epoch))
		x = NULL;
	if (x)
		x->used = true;
	mutex_unlock(&s->actions->lock);
	return x ? action_answer(s, x, a) : -SCAN_UNKNOWN;
}

static int begin(struct server *s, struct task_pool *pool)
{
	s->actions->kept_us = KEPT_US;
	mutex_init(&s->actions->lock, RANK_SERVER);
	cond_init(&s->actions->ended);
	return 0;
}

static void stop(struct server *s)
{
	struct action *x;

	while ((x = s->actions->first)) {
		s->actions->first = x->next;
		action_free(x);
	}
}

static void end(struct server *s)
{
	cond_fini(&s->actions->ended);
	mutex_fini(&s->actions->lock);
}

const struct server_part actions_part = {offsetof(struct server, actions), sizeof(struct actions), begin, stop, end};
