/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports the changes of other processes to the user of a store handle (tfs_watch).
 * A thread of the handle reads the schemas again, because notices do not carry them,
 * calls the user's function, and then confirms to the server that everything was
 * dropped.
 *
 * A server in another process sends a notice at least four times a second.  If none comes for
 * options.coherence_us, or the connection is lost, the user may keep nothing, until the
 * server's next stream begins.
 */
#include "engine/client/client.h"

#include "engine/base/clock.h"
#include "engine/base/task.h"
#include "engine/rpc/notices.h"

#include <errno.h>
#include <stdlib.h>

#define PAUSE_TIMES 3u /* so that a stream of changes costs a quarter of a processor at most */
#define PAUSE_MOST_US 250000u
#define RETRY_US 250000u /* the pause before schemas that could not be read are read again */

struct watch {
	struct task task; /* first */
	struct task_pool *pool;
	struct tfs_store *store;
	void (*fn)(void *arg, const struct tfs_change *changes, unsigned count);
	void *arg;
	/* Guarded by the store's lock. */
	struct notices *queue, *spare;
	uint64_t number; /* the number of the last notice in the queue, or 0 */
	bool lost;       /* notices before the queue's were lost */
	bool told;       /* the server reports all changes */
	_Atomic uint64_t heard_us;
	/* The task writes these. */
	_Atomic bool alive;
	_Atomic uint64_t pause_us; /* the pause before the next call of fn: a multiple of the duration of the last call */
};

void client_changed(struct tfs_store *s, const struct tfs_bytes *notice, uint64_t number, bool told)
{
	struct arena arena = {0};
	struct notice n = {0};
	struct watch *w;

	if (notice && notice_unpack(*notice, &arena, &n))
		n.all = true;
	mutex_lock(&s->lock);
	w = s->watch;
	if (w) {
		w->heard_us = monotonic_us();
		if (!told) {
			n = (struct notice){.schemas = n.schemas || n.all || w->queue->n.schemas || w->queue->n.all};
			notices_reset(w->queue);
			w->lost = true;
		}
		if (notice)
			w->number = number;
		w->told = told;
		notices_add_notice(w->queue, &n);
		if (!notice || !notice_is_empty(&n) || !w->alive)
			task_queue_after(&w->task, w->pause_us); /* under the lock, so that tfs_unwatch does not free it */
	}
	mutex_unlock(&s->lock);
	if (!w && notice && s->o.heard)
		s->o.heard(s->o.arg, number); /* nothing is kept */
	if (!told || n.schemas || n.all)
		waiters_wake(s, 0);
	for (uint32_t i = 0; i < n.row_count; i++)
		waiters_wake(s, n.rows[i].table);
	arena_fini(&arena);
}

/* Returns the id of the open table with this set of tablets, and its salt; 0: it is not open. */
static uint32_t table_of(struct tfs_store *s, uint32_t tablets, uint32_t *salt)
{
	struct tfs_table *t, *tmp;
	uint32_t id = 0;

	mutex_lock(&s->lock);
	HASH_ITER(hh, s->tables, t, tmp)
	if (schema_public(t->schema)->tablets_id == tablets) {
		id = t->id;
		*salt = (uint32_t)schema_public(t->schema)->salt_in_use;
	}
	mutex_unlock(&s->lock);
	return id;
}

static void call(struct watch *w, const struct tfs_change *c, unsigned count)
{
	w->fn(w->arg, c, count);
}

/* Reads the schema of one open table again, and reports a change.  Returns false if it must be read once more. */
static bool refresh(struct watch *w, uint32_t id, const struct schema *before)
{
	struct tfs_store *s = w->store;
	const struct tfs_schema *p = schema_public(before);
	struct schema *now = NULL;
	struct tfs_table *t;
	int err = schemas_by_id(s->o.locks, id, p->snapshot_of ? NULL : p->name, &now);
	bool changed = err == -ENOENT;

	if (!err) {
		changed = schema_public(now)->generation != p->generation || strcmp(schema_public(now)->name, p->name) != 0;
		if (changed)
			table_update_schema(s, now);
		schema_put(now);
	} else if (err == -ENOENT) {
		mutex_lock(&s->lock);
		HASH_FIND(hh, s->tables, &id, sizeof(id), t);
		if (t)
			t->gone = true;
		mutex_unlock(&s->lock);
	}
	if (changed)
		call(w, &(struct tfs_change){.what = TFS_CHANGED_SCHEMA, .table = id, .before = p}, 1);
	return !err || err == -ENOENT || err == -EBADMSG || err == -EPROTO;
}

/* Returns false if a schema could not be read. */
static bool refresh_all(struct watch *w)
{
	struct tfs_store *s = w->store;
	const struct schema **schemas;
	struct tfs_table *t, *tmp;
	unsigned n = 0;
	bool all;

	mutex_lock(&s->lock);
	schemas = calloc(HASH_COUNT(s->tables) + 1u, sizeof(struct schema *));
	if (schemas)
		HASH_ITER(hh, s->tables, t, tmp)
	if (!t->gone)
		schemas[n++] = schema_get(t->schema);
	mutex_unlock(&s->lock);
	all = schemas != NULL;
	for (unsigned i = 0; i < n; i++) {
		all &= refresh(w, schema_public(schemas[i])->table_id, schemas[i]);
		schema_put(schemas[i]);
	}
	free(schemas);
	call(w, &(struct tfs_change){.what = TFS_CHANGED_TABLES}, 1);
	return all;
}

/* The notice with this number is not confirmed yet. */
static void read_schemas_later(struct watch *w, uint64_t number)
{
	mutex_lock(&w->store->lock);
	w->queue->n.schemas = true;
	if (!w->number)
		w->number = number;
	task_queue_after(&w->task, RETRY_US);
	mutex_unlock(&w->store->lock);
}

static void tell_cells(struct watch *w, const struct notice *n)
{
	struct tfs_change *v = calloc(n->row_count, sizeof(*v)), all = {.what = TFS_CHANGED_ALL};
	uint32_t salt = 0;
	unsigned count = 0;

	if (!v)
		call(w, &all, 1);
	for (uint32_t i = 0; v && i < n->row_count; i++) {
		const struct notice_row *r = &n->rows[i];
		struct tfs_change *c = &v[count];

		*c = (struct tfs_change){TFS_CHANGED_CELLS, table_of(w->store, r->table, &salt), r->row, r->family, NULL};
		if (!c->table)
			continue;
		if (salt && c->row.n) {
			c->row.p++;
			c->row.n--;
		}
		count++;
	}
	if (count)
		call(w, v, count);
	free(v);
}

/* Plans the moment at which nothing more may be kept. */
static void check_alive(struct watch *w)
{
	const uint64_t now = monotonic_us(), heard = w->heard_us, most = w->store->o.options.coherence_us;
	const uint64_t silent = now > heard ? now - heard : 0;

	if (silent >= most) {
		w->alive = false;
		call(w, &(struct tfs_change){.what = TFS_CHANGES_UNKNOWN}, 1);
	} else {
		task_queue_after(&w->task, most - silent);
	}
}

static void watch_run(struct task *task)
{
	struct watch *w = (struct watch *)task;
	struct tfs_store *s = w->store;
	const uint64_t since = monotonic_us();
	struct notices *q;
	uint64_t number, pause_us;
	bool lost, told, schemas, late = false;

	mutex_lock(&s->lock);
	q = w->queue;
	w->queue = w->spare;
	w->spare = q;
	number = w->number;
	w->number = 0;
	lost = w->lost;
	w->lost = false;
	told = w->told;
	mutex_unlock(&s->lock);
	schemas = q->n.schemas || q->n.all;
	if (lost && w->alive) {
		w->alive = false;
		call(w, &(struct tfs_change){.what = TFS_CHANGES_UNKNOWN}, 1);
	}
	if (schemas)
		late = !refresh_all(w);
	if (told && (q->n.all || (number && !w->alive && !lost))) {
		w->alive = true;
		call(w, &(struct tfs_change){.what = TFS_CHANGED_ALL}, 1);
	}
	if (q->n.row_count)
		tell_cells(w, &q->n);
	notices_reset(q);
	if (late)
		read_schemas_later(w, number);
	else if (schemas && number && s->o.heard)
		s->o.heard(s->o.arg, number);
	pause_us = (monotonic_us() - since) * PAUSE_TIMES;
	w->pause_us = pause_us < PAUSE_MOST_US ? pause_us : PAUSE_MOST_US;
	if (w->alive && s->o.remote)
		check_alive(w);
}

static void watch_free(struct watch *w)
{
	if (w->pool) {
		task_cancel(&w->task);
		task_pool_free(w->pool);
	}
	if (w->queue)
		notices_fini(w->queue);
	if (w->spare)
		notices_fini(w->spare);
	free(w->queue);
	free(w->spare);
	free(w);
}

int tfs_watch(struct tfs_store *s, void (*fn)(void *arg, const struct tfs_change *changes, unsigned count), void *arg)
{
	reason_clear();
	struct watch *w = calloc(1, sizeof(*w)), *old;
	int err = w ? task_pool_new("watch", 1, &w->pool) : -ENOMEM;

	if (!w)
		return err;
	if (!err) {
		task_init(&w->task, w->pool, watch_run);
		w->queue = calloc(1, sizeof(*w->queue));
		w->spare = calloc(1, sizeof(*w->spare));
		err = w->queue && w->spare ? 0 : -ENOMEM;
	}
	if (err) {
		watch_free(w);
		return err;
	}
	w->store = s;
	w->fn = fn;
	w->arg = arg;
	w->alive = !s->o.remote;
	mutex_lock(&s->lock);
	old = s->watch;
	if (!old)
		s->watch = w;
	mutex_unlock(&s->lock);
	if (old) {
		watch_free(w);
		return store_why(s, -EBUSY, "the store has a watch already");
	}
	err = s->o.watch ? s->o.watch(s->o.arg) : 0;
	if (err)
		tfs_unwatch(s);
	return user_errno(err);
}

void tfs_unwatch(struct tfs_store *s)
{
	struct watch *w;

	mutex_lock(&s->lock);
	w = s->watch;
	s->watch = NULL;
	mutex_unlock(&s->lock);
	if (w)
		watch_free(w);
}
