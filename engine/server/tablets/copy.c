/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Snapshots and clones: METADATA rows of one table, as of one instant, copied
 * under the id of another table (paper, sections 5.3 and 6: tablets share
 * SSTables).  The new table has the same files and nothing to replay.  The
 * master creates the table around this (master/snapshots.c).
 *
 *	1 For each tablet: flush it, and stop other flushes of it.  Because a split
 *	  or merge needs the same right, the set of tablets remains as it is.
 *	2 New mutations of the table wait while each tablet gets a fresh memtable.
 *	  This is the instant.  It writes nothing, and waits only for mutations that
 *	  have a place in the log already.
 *	3 For each tablet: minor compaction of what was frozen, then a copy of its
 *	  row.
 *	4 Insert the copies as rows of the new table, synced.
 * Only step 4 changes METADATA for the new table.  Until the master writes its
 * schema, a crash leaves rows of a table without one.  The note that the
 * master wrote before lets the next start delete them.
 *
 * If mutation 2 began after mutation 1 was acknowledged and the copy has mutation
 * 2, it has mutation 1: mutation 1 can be missing only if it was acknowledged after
 * step 2 began, and then mutation 2 waited for the end of step 2.
 *
 * Step 1 waits for the flush of a tablet, also for a flush before a split.
 * Mutations do not wait for step 1.  A mutation that waits for memory must not
 * delay step 2, because the flush that frees the memory may wait for step 3.
 *
 * From step 3 to the end of step 4 the copies have references to their files.
 * Otherwise a compaction between the two could replace a file, and the collector
 * could remove it.  After step 4 METADATA names the files.
 *
 * Rejected: to stop compactions from step 1 to step 3.  A major compaction that
 * a user asked for takes minutes.  It need not be stopped, because its input is
 * not newer than the instant.
 */
#include "engine/base/msg.h"
#include "engine/client/metadata.h"
#include "engine/server/storage/storage.h"
#include "engine/server/tablets/tablets.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { HOLD_TRIES = 100 }; /* splits and merges while the tablets are held */

struct table_copy {
	uint32_t table; /* the table that has the rows */
	struct meta_tablet *rows;
	unsigned count;
	struct sst **files; /* references to the rows' files */
	unsigned file_count;
};

static void copy_fini(struct table_copy *c)
{
	for (unsigned i = 0; i < c->count; i++)
		meta_tablet_fini(&c->rows[i]);
	for (unsigned i = 0; i < c->file_count; i++)
		sst_put(c->files[i]);
	free(c->files);
	free(c->rows);
}

/* ---- step 1 ---- */

struct held {
	struct served_tablet **tablets;
	struct tablet_hold *holds;
	unsigned count;
};

static void held_end(struct held *h)
{
	for (unsigned i = 0; i < h->count && h->holds; i++)
		tablet_hold_end(&h->holds[i]);
	free(h->holds);
	served_list_put(h->tablets, h->count);
	*h = (struct held){0};
}

/* Returns true if the table still has these tablets. */
static bool held_all(struct server *s, uint32_t table, const struct held *h)
{
	struct held now = {0};
	bool same;

	if (served_list(s, table, &now.tablets, &now.count))
		return false;
	same = now.count == h->count;
	for (unsigned i = 0; i < now.count && same; i++)
		same = now.tablets[i] == h->tablets[i];
	held_end(&now);
	return same;
}

/* -TABLET_MOVED if the tablets have changed. */
static int hold_once(struct server *s, uint32_t table, bool frozen, struct held *h)
{
	int err = served_list(s, table, &h->tablets, &h->count);

	if (err)
		return err;
	if (!frozen) {
		h->holds = calloc(h->count + 1u, sizeof(*h->holds));
		err = h->holds ? 0 : -ENOMEM;
		for (unsigned i = 0; i < h->count && !err; i++)
			err = tablet_hold_begin(h->tablets[i]->tablet, &h->holds[i]);
	}
	if (!err && !held_all(s, table, h))
		err = -TABLET_MOVED;
	if (err)
		held_end(h);
	return err;
}

static int hold(struct server *s, uint32_t table, bool frozen, struct held *h)
{
	int err = -TABLET_MOVED;

	for (unsigned tries = 0; err == -TABLET_MOVED && tries < HOLD_TRIES; tries++)
		err = hold_once(s, table, frozen, h);
	return err;
}

/* ---- step 2 ---- */

static int freeze(struct server *s, uint32_t table, struct held *h, int64_t *us)
{
	const uint64_t since_us = monotonic_us();
	int err = user_table_hold_writes(s, table);

	if (err)
		return err;
	*us = clock_now(s->o.clock);
	for (unsigned i = 0; i < h->count && !err; i++)
		err = tablet_hold_freeze(&h->holds[i]);
	if (user_table_release_writes(s, table, since_us))
		retire_soon(s);
	return err;
}

/* ---- step 3 ---- */

/* Adds references to the row's files.  The caller holds EDIT, so the tablet has them. */
static int copy_refer(struct server *s, struct table_copy *c, const struct meta_tablet *m)
{
	int err = 0;

	for (unsigned i = 0; i < m->file_count && !err; i++) {
		const struct tablet_file *f = &m->files[i];
		char *path = tablet_file_path(s->o.data_dir, f->table, f->incarnation, f->number);

		err = path && array_grow(&c->files, c->file_count, sizeof(struct sst *)) == 0
			? sst_new(s->cache, path, false, &c->files[c->file_count])
			: -ENOMEM;
		c->file_count += !err;
		free(path);
	}
	return err;
}

static int row_copy(struct server *s, struct served_tablet *served, struct table_copy *c)
{
	struct meta_tablet m = {0};
	int err;

	tablet_edit_begin(served->tablet);
	err = row_fold(served);
	if (!err)
		err = copy_refer(s, c, &served->row);
	if (!err)
		err = meta_tablet_copy(&served->row, &m);
	if (!err) {
		for (unsigned i = 0; i < m.token_count; i++)
			buf_fini(&m.tokens[i].result);
		m.token_count = m.redo_count = 0;
		meta_drop_changes(&m); /* a snapshot has none, and a clone its own */
		m.table = c->table;
		m.server = s->o.incarnation;
		m.assignment = 1;
		err = buf_set(&m.begin, tablet_begin(served->tablet).p, tablet_begin(served->tablet).n);
	}
	if (!err)
		c->rows[c->count++] = m;
	else
		meta_tablet_fini(&m);
	tablet_edit_end(served->tablet);
	return err;
}

static int copy_rows(struct server *s, struct held *h, struct table_copy *c)
{
	int err = 0;

	for (unsigned i = 0; i < h->count && !err; i++) {
		if (h->holds)
			err = tablet_hold_flush(&h->holds[i]);
		if (!err)
			err = row_copy(s, h->tablets[i], c);
		if (h->holds)
			tablet_hold_end(&h->holds[i]);
	}
	return err;
}

/* ---- step 4 ---- */

static int insert_rows(struct server *s, const struct table_copy *c, uint32_t from)
{
	char event[64];
	int err = 0;

	snprintf(event, sizeof(event), "copied from table %u", from);
	for (unsigned i = 0; i < c->count && !err; i++) {
		struct arena arena = {0};
		struct buf key = {0};
		struct op *ops;
		unsigned count;

		err = meta_row_key(&key, c->table, c->rows[i].last, buf_bytes(&c->rows[i].end));
		if (!err)
			err = meta_ops_split(&c->rows[i], event, &arena, &ops, &count);
		if (!err)
			err = metadata_make(s->metadata, c->table, false, buf_bytes(&key), ops, count);
		arena_fini(&arena);
		buf_fini(&key);
	}
	return err == -ECANCELED ? -EEXIST : err;
}

/* ---- requests ---- */

static int copy_held(struct server *s, const struct ts_request *q, const struct user_table *u, struct held *h, int64_t *us)
{
	struct table_copy c = {.table = q->to_table, .rows = calloc(h->count + 1u, sizeof(*c.rows))};
	int err = c.rows ? 0 : -ENOMEM;

	if (h->count)
		*us = u->frozen_us;
	if (!err && !u->frozen && h->count)
		err = freeze(s, q->table, h, us);
	if (!err)
		err = copy_rows(s, h, &c);
	held_end(h);
	if (!err)
		err = insert_rows(s, &c, q->table);
	copy_fini(&c);
	return err;
}

int copy_table(struct server *s, const struct ts_request *q, struct ts_answer *a)
{
	struct user_table *u = NULL;
	struct held h = {0};
	int err = q->table < META_FIRST_USER_TABLE || q->to_table < META_FIRST_USER_TABLE ? -EINVAL
											  : user_table_find(s, q->table, &u);

	/* The rows belong to METADATA, but they pin as much space as a put. */
	if (!err)
		err = space_admit(s, DISK_PUT, 0);
	if (!err && space_is_full(s))
		err = -ENOSPC;
	if (!err)
		err = hold(s, q->table, u->frozen, &h);
	if (!err)
		err = copy_held(s, q, u, &h, &a->ts);
	user_table_put(s, u);
	return err;
}
