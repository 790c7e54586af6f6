/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scans and actions that are not finished with their first answer.
 *
 * Open scans: each has a number, by which the client continues it, and a tablet's
 * scan.  Most scans end with their first answer and never get a number.
 *
 * Numbers are random, and a scan belongs to the client that opened it, in its
 * present epoch.  So a request that arrives late, or that names a scan of an
 * earlier server, does not move another scan.  An open scan keeps memtables and
 * files, so it is freed when it was idle for a minute, or when its client has a
 * later epoch.  A client whose scan was freed gets -SCAN_UNKNOWN and opens the rest of
 * the scan (client/cursor.c).
 *
 * Actions are TS_FLUSH, TS_COMPACT, TS_SPLIT and TS_MERGE.  Each runs in a thread of
 * its own, so that no worker that serves requests waits for it.  The request that
 * starts it waits for a short time.  If the action has not ended by then, the answer
 * has a number, and the client sends TS_POLL with it until the answer has none.  An
 * action continues if its client does not poll any more; its result is dropped a
 * minute after its end.  A server without background work, which one thread
 * drives, carries out an action within its first request.
 */
#include "engine/base/clock.h"
#include "engine/base/hash.h"
#include "engine/server/internal.h"

#include <errno.h>
#include <stdlib.h>

#define NUMBER_BITS 48        /* the client's router uses the others */
#define ACTION_WAIT_US 20000u /* of a request for the end of its action */
#define ACTIONS_MOST 64u

/* Sets *number to a random number above 0. */
static int number_draw(uint64_t *number)
{
	do {
		int err = random_bytes(number, sizeof(*number));

		if (err)
			return err;
		*number &= (UINT64_C(1) << NUMBER_BITS) - 1;
	} while (!*number);
	return 0;
}

/* Removes the scan from the open ones while a request uses it, so no second request can.  Returns NULL if it is not open. */
static struct open_scan *scan_take(struct server *s, const struct ts_request *q)
{
	struct open_scan **p, *o;

	mutex_lock(&s->lock);
	for (p = &s->scans[q->scan % SCAN_BUCKETS]; *p && (*p)->id != q->scan; p = &(*p)->next)
		;
	o = *p;
	if (o && (o->served->table != q->table || o->client != q->token.client || o->epoch != q->epoch))
		o = NULL;
	if (o)
		*p = o->next;
	mutex_unlock(&s->lock);
	return o;
}

/* Sets o->id to a number that no open scan has. */
static int scan_number(struct server *s, struct open_scan *o)
{
	const struct open_scan *other = NULL;
	int err;

	do {
		err = number_draw(&o->id);
		if (err)
			break;
		mutex_lock(&s->lock);
		for (other = s->scans[o->id % SCAN_BUCKETS]; other && other->id != o->id; other = other->next)
			;
		mutex_unlock(&s->lock);
	} while (other);
	return err;
}

/* Adds the scan to the open ones.  From then on another thread may free it. */
static void scan_keep(struct server *s, struct open_scan *o)
{
	bool armed;

	o->idle_since_us = monotonic_us();
	mutex_lock(&s->lock);
	o->next = s->scans[o->id % SCAN_BUCKETS];
	s->scans[o->id % SCAN_BUCKETS] = o;
	armed = s->scans_armed;
	s->scans_armed = true;
	mutex_unlock(&s->lock);
	if (!armed && !s->closing && !s->no_background)
		task_queue_after(&s->scans_task, s->scan_idle_us / 4);
}

static void scan_end(struct open_scan *o)
{
	tablet_scan_free(o->scan);
	served_put(o->served);
	free(o);
}

/* ---- scans that are no longer used ---- */

typedef bool unused_fn(const struct open_scan *o, uint64_t a, uint64_t b);

/* Frees the scans of which fn returns true.  Returns true if others are open. */
static bool scans_free_unused(struct server *s, unused_fn *fn, uint64_t a, uint64_t b)
{
	struct open_scan *unused = NULL, *o;
	bool others = false;

	mutex_lock(&s->lock);
	for (unsigned i = 0; i < SCAN_BUCKETS; i++)
		for (struct open_scan **p = &s->scans[i]; (o = *p) != NULL;) {
			if (!fn(o, a, b)) {
				others = true;
				p = &o->next;
				continue;
			}
			*p = o->next;
			o->next = unused;
			unused = o;
		}
	mutex_unlock(&s->lock);
	while ((o = unused)) {
		unused = o->next;
		scan_end(o);
	}
	return others;
}

static bool is_idle(const struct open_scan *o, uint64_t since_us, uint64_t unused)
{
	return o->idle_since_us <= since_us;
}

static bool is_of_client(const struct open_scan *o, uint64_t client, uint64_t epoch)
{
	return o->client == client && o->epoch < epoch;
}

static bool is_any(const struct open_scan *o, uint64_t unused, uint64_t unused2)
{
	return true;
}

bool scans_free_idle(struct server *s)
{
	const uint64_t now = monotonic_us();

	return scans_free_unused(s, is_idle, now > s->scan_idle_us ? now - s->scan_idle_us : 0, 0);
}

void scans_free_client(struct server *s, uint64_t client, uint64_t epoch)
{
	(void)scans_free_unused(s, is_of_client, client, epoch);
}

void scans_free(struct server *s)
{
	(void)scans_free_unused(s, is_any, 0, 0);
}

void scans_task(struct task *t)
{
	struct server *s = (struct server *)((char *)t - offsetof(struct server, scans_task));
	bool armed;

	mutex_lock(&s->lock);
	s->scans_armed = false; /* before the look, so that a scan that is kept meanwhile queues the task again */
	mutex_unlock(&s->lock);
	if (!scans_free_idle(s) || s->closing)
		return;
	mutex_lock(&s->lock);
	armed = s->scans_armed;
	s->scans_armed = true;
	mutex_unlock(&s->lock);
	if (!armed)
		task_queue_after(t, s->scan_idle_us / 4);
}

/* ---- requests ---- */

/* Fills the next batch.  Ends the scan after its last batch and after an error. */
static int scan_more(struct server *s, struct open_scan *o, struct ts_answer *a)
{
	/* A dropped table has no cells, although its tablet could still be read. */
	const bool dropped = o->served->user_table && user_table_dropped(s, o->served->user_table);
	int err = dropped ? -TABLE_DROPPED : 0;
	struct tfs_bytes row;

	if (!err)
		err = tablet_scan_fill(o->scan, &a->batch);
	if (!err)
		traffic_tablet(o->served, TABLE_SCANNED_CELLS, a->batch.count);
	a->schema_generation = served_generation(o->served);
	a->scan = 0;
	/* The tablet was split or merged: other tablets serve the rest of the scan, from this row on. */
	if (!err && a->batch.done && tablet_scan_moved(o->scan, &row) && !arena_dup(&a->arena, row, &a->tablet_end))
		err = -ENOMEM;
	if (err || a->batch.done) {
		scan_end(o);
		return err;
	}
	if (!o->id)
		err = scan_number(s, o);
	if (err) {
		scan_end(o);
		return err;
	}
	a->scan = o->id;
	scan_keep(s, o);
	return 0;
}

static int scan_open(struct server *s, const struct ts_request *q, struct ts_answer *a)
{
	struct tfs_bytes rest = {NULL, 0}; /* where the client continues in the next tablet */
	struct scan_spec spec;
	uint16_t *ids = NULL;
	struct open_scan *o;
	bool none = false;
	int err;

	/* Iterators of one row, and those that skip damage, move forward only. */
	if (!q->spec || (q->spec->pub.reverse && (q->spec->pub.one_row || q->spec->pub.past_damage)))
		return -EINVAL;
	if (s->no_background)
		(void)scans_free_idle(s); /* nothing else does */
	o = calloc(1, sizeof(*o));
	if (!o)
		return -ENOMEM;
	err = served_find_for(s, q, q->row, &o->served);
	if (err) {
		free(o);
		return err;
	}
	o->client = q->token.client;
	o->epoch = q->epoch;
	arena_reset(&a->arena);
	a->tablet_end = (struct tfs_bytes){NULL, 0};
	if (q->spec->pub.reverse)
		rest = tablet_begin(o->served->tablet);
	else if (!o->served->last && !q->spec->pub.one_row)
		rest = buf_bytes(&o->served->end);
	if (!arena_dup(&a->arena, rest, &a->tablet_end))
		err = -ENOMEM;
	if (!err)
		spec = *q->spec;
	if (!err && q->user) {
		err = access_readable(o->served, q, spec.family_ids, spec.pub.family_count, &ids, &spec.pub.family_count);
		spec.family_ids = ids;
		none = !err && spec.pub.family_count == 0;
	}
	if (!err && !none)
		err = tablet_scan_new(o->served->tablet, &spec, &o->scan);
	free(ids);
	if (none) {
		/* The user may read no family: there are no cells. */
		scan_batch_reset(&a->batch);
		a->batch.done = true;
	}
	if (err || none) {
		served_put(o->served);
		free(o);
		return err;
	}
	return scan_more(s, o, a);
}

int scans_call(struct server *s, const struct ts_request *q, struct ts_answer *a)
{
	struct open_scan *o;

	if (q->method == TS_SCAN_OPEN)
		return scan_open(s, q, a);
	o = scan_take(s, q);
	if (!o)
		return -SCAN_UNKNOWN;
	if (q->method == TS_SCAN_NEXT)
		return scan_more(s, o, a);
	scan_end(o);
	return 0;
}

/* ---- actions ---- */

struct action {
	struct task task; /* first */
	struct task_pool *pool;
	struct server *s;
	struct action *next;
	action_fn *fn;
	struct ts_request q; /* without user, because access was checked */
	struct buf row;
	uint64_t id;
	/* Guarded by server.lock. */
	bool done, used; /* used: a request waits for it */
	int err;
	struct ts_answer a;
	uint64_t done_us;
};

static void action_run(struct task *t)
{
	struct action *x = (struct action *)t;
	int err = x->fn(x->s, &x->q, &x->a);

	mutex_lock(&x->s->lock);
	x->err = err;
	x->done = true;
	x->done_us = monotonic_us();
	cond_broadcast(&x->s->changed);
	mutex_unlock(&x->s->lock);
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
		.token = {.client = q->token.client},
		.epoch = q->epoch};
	*out = x;
	return 0;
}

/* Removes from the list those whose result no client has asked for, and returns them.  *count: those that are left. */
static struct action *actions_take_old_locked(struct server *s, unsigned *count)
{
	const uint64_t now = monotonic_us();
	struct action *old = NULL, *x;

	*count = 0;
	for (struct action **p = &s->actions; (x = *p) != NULL;) {
		if (!x->done || x->used || now - x->done_us < s->scan_idle_us) {
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

	mutex_lock(&s->lock);
	while (!x->done && (now = monotonic_us()) < until)
		(void)cond_wait_us(&s->changed, &s->lock, until - now);
	x->used = false;
	if (!x->done) {
		a->scan = x->id;
		mutex_unlock(&s->lock);
		return 0;
	}
	for (p = &s->actions; *p != x; p = &(*p)->next)
		;
	*p = x->next;
	mutex_unlock(&s->lock);
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

	if (s->no_background)
		return fn(s, q, a);
	err = action_new(s, q, fn, &x);
	if (err)
		return err;
	mutex_lock(&s->lock);
	old = actions_take_old_locked(s, &count);
	if (count < ACTIONS_MOST) {
		x->used = true;
		x->next = s->actions;
		s->actions = x;
	}
	mutex_unlock(&s->lock);
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

	mutex_lock(&s->lock);
	for (x = s->actions; x && x->id != q->scan; x = x->next)
		;
	if (x && (x->used || x->q.table != q->table || x->q.token.client != q->token.client || x->q.epoch != q->epoch))
		x = NULL;
	if (x)
		x->used = true;
	mutex_unlock(&s->lock);
	return x ? action_answer(s, x, a) : -SCAN_UNKNOWN;
}

void actions_free(struct server *s)
{
	while (s->actions) {
		struct action *x = s->actions;

		s->actions = x->next;
		action_free(x);
	}
}
