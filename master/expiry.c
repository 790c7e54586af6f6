/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drops one snapshot, or the snapshots that are older than their table's
 * snapshot_maxage (snapshots.c has the durable steps).
 *
 * The master looks at the ages when a schema with the setting is written, when
 * such a table gets a snapshot, at the start, and when the next one is due.
 */
#include "engine/base/clock.h"
#include "engine/base/msg.h"
#include "master/internal.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

int snapshot_drop_one(struct master *m, const struct tfs_schema *p, uint64_t version)
{
	char file[SCHEMA_FILE_MAX], note[DROP_NOTE_MAX];
	struct lock_op ops[2] = {{.name = file, .what = LOCK_REMOVE, .expect = version}, drop_note(p->tablets_id, note)};
	int err;

	schema_file_name(p, file);
	err = master_multi(m, ops, 2);
	if (!err)
		master_tablets_delete(m, p->tablets_id);
	return err;
}

#define AGE_LEAST_US UINT64_C(1000000)
#define AGE_MOST_US UINT64_C(3600000000)

/* The snapshots of one table that are older than the table's snapshot_maxage. */
struct aged {
	struct master *m;
	const struct tfs_schema *table;
	int64_t now, next; /* Sets *next to the time when the next snapshot of any table is too old, or to INT64_MAX */
	char (*old)[TFS_NAME_MAX + 1];
	unsigned old_count;
};

static int age_note(void *arg, uint32_t table, const char *name)
{
	struct aged *g = arg;
	struct schema *s = NULL;
	uint64_t version;
	int64_t end;

	if (schemas_snapshot(g->m->locks, table, name, &s, &version))
		return 0; /* a damaged one stays */
	if (__builtin_add_overflow(schema_public(s)->snapshot_us, g->table->snapshot_maxage_us, &end))
		end = INT64_MAX;
	schema_put(s);
	if (end > g->now) {
		g->next = end < g->next ? end : g->next;
		return 0;
	}
	if (array_grow(&g->old, g->old_count, sizeof(*g->old)))
		return -ENOMEM;
	strcpy(g->old[g->old_count++], name);
	return 0;
}

static void age_drop(struct master *m, const struct tfs_schema *p, const char *name)
{
	struct schema *s = NULL;
	uint64_t version;
	int err = schemas_snapshot(m->locks, p->table_id, name, &s, &version);

	if (!err)
		err = snapshot_drop_one(m, schema_public(s), version);
	schema_put(s);
	if (err)
		msg_warning("table %s: snapshot %s is older than snapshot_maxage, but cannot be dropped: %s", p->name, name,
			error_text(err));
	else
		msg_notice("table %s: snapshot %s is older than snapshot_maxage: dropped", p->name, name);
}

static int age_table(void *arg, const char *name)
{
	struct aged *g = arg;
	struct schema *s = NULL;
	uint64_t version;

	if (schemas_table(g->m->locks, name, &s, &version))
		return 0;
	g->table = schema_public(s);
	g->old_count = 0;
	if (g->table->snapshot_maxage_us)
		(void)!schemas_each_snapshot(g->m->locks, g->table->table_id, age_note, g);
	for (unsigned i = 0; i < g->old_count; i++)
		age_drop(g->m, g->table, g->old[i]);
	schema_put(s);
	return 0;
}

/* It uses the time of compactions: while the system's clock is not trusted, nothing expires. */
static void age_check(struct task *t)
{
	struct master *m = (struct master *)(void *)((char *)t - offsetof(struct master, age_check));
	struct aged g = {.m = m, .now = clock_collect(m->clock), .next = INT64_MAX};
	uint64_t wait;

	mutex_lock(&m->lock);
	(void)!m->locks->ops->list(m->locks, "tables", age_table, &g);
	if (g.next != INT64_MAX) {
		wait = (uint64_t)(g.next - g.now) < AGE_MOST_US ? (uint64_t)(g.next - g.now) : AGE_MOST_US;
		task_queue_after(t, wait > AGE_LEAST_US ? wait : AGE_LEAST_US);
	}
	mutex_unlock(&m->lock);
	free(g.old);
}

void snapshots_watch(struct master *m, const struct tfs_schema *p)
{
	if (p->snapshot_maxage_us)
		master_later(m, &m->age_check, age_check, AGE_LEAST_US);
}
