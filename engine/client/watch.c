/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What others change, told to the user of a store handle (tfs_watch).  A thread of the
 * handle reads the schemas again, because notices do not carry them, and then calls the
 * user's function.
 */
#include "engine/client/client.h"

#include "engine/base/clock.h"
#include "engine/base/task.h"

#include <errno.h>
#include <stdlib.h>

#define TABLES_MOST 64u
#define PAUSE_TIMES 3u /* so that a stream of changes costs a quarter of a processor at most */
#define PAUSE_MOST_US 250000u

struct watch {
	struct task task; /* first */
	struct task_pool *pool;
	struct tfs_store *store;
	void (*fn)(void *arg, uint32_t table, const struct tfs_schema *before);
	void *arg;
	/* Guarded by the store's lock. */
	uint32_t tablets[TABLES_MOST];
	unsigned count;
	bool all;
	uint64_t pause_us; /* before the next call of fn: a multiple of the time that the last one took */
};

void client_changed(struct tfs_store *s, uint32_t tablets)
{
	struct watch *w;
	unsigned i = 0;

	mutex_lock(&s->lock);
	w = s->watch;
	if (w && tablets) {
		while (i < w->count && w->tablets[i] != tablets)
			i++;
		if (i == TABLES_MOST)
			w->all = true;
		else if (i == w->count)
			w->tablets[w->count++] = tablets;
	} else if (w) {
		w->all = true;
	}
	if (w)
		task_queue_after(&w->task, w->pause_us); /* under the lock, so that tfs_unwatch does not free it */
	mutex_unlock(&s->lock);
}

/* Returns the id of the open table with this set of tablets; 0: it is not open. */
static uint32_t table_of(struct tfs_store *s, uint32_t tablets)
{
	struct tfs_table *t, *tmp;
	uint32_t id = 0;

	mutex_lock(&s->lock);
	HASH_ITER(hh, s->tables, t, tmp)
	if (schema_public(t->schema)->tablets_id == tablets)
		id = t->id;
	mutex_unlock(&s->lock);
	return id;
}

/* Reads the schema of one open table again, and tells of a change. */
static void refresh(struct watch *w, uint32_t id, const struct schema *before)
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
		w->fn(w->arg, id, p);
}

static void refresh_all(struct watch *w)
{
	struct tfs_store *s = w->store;
	const struct schema **schemas;
	struct tfs_table *t, *tmp;
	unsigned n = 0;

	mutex_lock(&s->lock);
	schemas = calloc(HASH_COUNT(s->tables) + 1u, sizeof(struct schema *));
	if (schemas)
		HASH_ITER(hh, s->tables, t, tmp)
	if (!t->gone)
		schemas[n++] = schema_get(t->schema);
	mutex_unlock(&s->lock);
	for (unsigned i = 0; i < n; i++) {
		refresh(w, schema_public(schemas[i])->table_id, schemas[i]);
		schema_put(schemas[i]);
	}
	free(schemas);
	w->fn(w->arg, 0, NULL);
}

static void watch_run(struct task *task)
{
	struct watch *w = (struct watch *)task;
	struct tfs_store *s = w->store;
	const uint64_t since = monotonic_us();
	uint32_t tablets[TABLES_MOST], id;
	unsigned count;
	bool all;

	mutex_lock(&s->lock);
	count = w->count;
	memcpy(tablets, w->tablets, count * sizeof(*tablets));
	all = w->all;
	w->count = 0;
	w->all = false;
	mutex_unlock(&s->lock);
	if (all)
		refresh_all(w);
	for (unsigned i = 0; i < count && !all; i++) {
		id = table_of(s, tablets[i]);
		if (id)
			w->fn(w->arg, id, NULL);
	}
	mutex_lock(&s->lock);
	w->pause_us = (monotonic_us() - since) * PAUSE_TIMES;
	if (w->pause_us > PAUSE_MOST_US)
		w->pause_us = PAUSE_MOST_US;
	mutex_unlock(&s->lock);
}

int tfs_watch(struct tfs_store *s, void (*fn)(void *arg, uint32_t table, const struct tfs_schema *before), void *arg)
{
	struct watch *w = calloc(1, sizeof(*w)), *old;
	int err = w ? task_pool_new("watch", 1, &w->pool) : -ENOMEM;

	if (err) {
		free(w);
		return err;
	}
	task_init(&w->task, w->pool, watch_run);
	w->store = s;
	w->fn = fn;
	w->arg = arg;
	mutex_lock(&s->lock);
	old = s->watch;
	if (!old)
		s->watch = w;
	mutex_unlock(&s->lock);
	if (!old)
		return 0;
	task_pool_free(w->pool);
	free(w);
	return -EBUSY;
}

void tfs_unwatch(struct tfs_store *s)
{
	struct watch *w;

	mutex_lock(&s->lock);
	w = s->watch;
	s->watch = NULL;
	mutex_unlock(&s->lock);
	if (!w)
		return;
	task_cancel(&w->task);
	task_pool_free(w->pool);
	free(w);
}
