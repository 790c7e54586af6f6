/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Merging a tablet with the one after it (DESIGN 3.2).
 *
 * Durable steps:
 *	1 both tablets are flushed, at last with writers waiting: their rows say
 *	  all there is of them, and name no log
 *	2 the lower one's row is written into the upper one's `merge` column
 *	3 the lower one's row is deleted.  That is the merge.
 *	4 the upper row's own columns become those of both, and the column goes
 * A crash before 3 leaves both: whoever loads the upper row passes over its
 * merge column as long as the lower row is there.  After 3 recovery takes the
 * column in (meta_tablet_resolve_merge), and the tablet's next change of its row
 * does step 4.
 *
 * When step 3 fails it may have taken place.  The lower row is read until
 * there is an answer, for some seconds; then both tablets are let go.  They
 * are read as before, and neither is written to before there is an answer:
 * flushed, they are in no redo set, and have to change their rows first, which
 * asks again (row_resolve).  A task goes on asking.  If the lower row is there
 * the merge has not been, and if it has gone the merge is ended from what
 * METADATA says, as the next start would.
 *
 * In memory the merged tablet is one made from its row, as if loaded.
 */
#include "engine/base/msg.h"
#include "engine/client/metadata.h"
#include "engine/server/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define ASK_AGAIN_US 50000
#define RESOLVE_US 500000

/* A mutation of the tablet's row, under a check that it is still ours. */
static int mutate_row(struct server *s, struct served_tablet *served, const struct op *ops, unsigned count)
{
	struct op *owner, *all;
	struct arena arena = {0};
	struct buf key = {0};
	unsigned n;
	int err = meta_row_key(&key, served->table, served->last, buf_slice(&served->end));

	if (!err)
		err = meta_ops_owner(&served->row, served->row.server, &arena, &owner, &n);
	if (!err) {
		all = arena_alloc(&arena, (n + count) * sizeof(*all));
		err = all ? 0 : -ENOMEM;
	}
	if (!err) {
		memcpy(all, owner, n * sizeof(*all));
		memcpy(all + n, ops, count * sizeof(*all));
		err = metadata_mutate(s->metadata, buf_slice(&key), all, n + count);
	}
	arena_fini(&arena);
	buf_fini(&key);
	return err;
}

/* Step 2. */
static int write_merge(struct server *s, struct served_tablet *lower, struct served_tablet *upper)
{
	struct arena arena = {0};
	struct op *ops;
	unsigned count;
	int err = meta_ops_merge(&lower->row, &arena, &ops, &count);

	if (!err) {
		err = mutate_row(s, upper, ops, count);
		upper->row_unknown |= err != 0;
	}
	arena_fini(&arena);
	return err;
}

/* Step 3. */
static int delete_lower(struct server *s, struct served_tablet *lower, struct served_tablet *upper)
{
	const struct op op = {.kind = OP_DELETE_ROW, .truncate_to = UINT64_MAX};
	int err = mutate_row(s, lower, &op, 1), there = -EIO;

	if (!err)
		return 0;
	for (unsigned i = 0; i < s->merge_read_tries && there < 0 && !s->closing; i++) {
		if (i)
			(void)usleep(ASK_AGAIN_US);
		there = row_exists(s, lower->table, buf_slice(&lower->end));
	}
	lower->row_unknown = true;
	upper->row_unknown = true; /* it has the merge column of a merge that has not been: read again, it will be deleted */
	if (there < 0) {
		lower->unknown_own = upper->unknown_below = true;
		if (!s->closing)
			task_queue_after(&s->resolve_task, RESOLVE_US);
		msg_warning("table %u: whether the tablets that meet at %s have been merged is not known: %s", lower->table,
			Q(buf_slice(&lower->end)), strerror(-there));
	}
	return there == 0 ? 0 : err;
}

/* From here on nothing fails. */
static void become_one(struct server *s, struct served_tablet *lower, struct served_tablet *upper, struct served_tablet *both)
{
	struct served_tablet *old[2] = {lower, upper};
	char event[256];

	/* As old as both have been: sixteen small ones become one in their hour, not in four. */
	both->made_us = lower->made_us > upper->made_us ? lower->made_us : upper->made_us;
	tablet_inherit_files(lower->tablet, both->tablet);
	tablet_inherit_files(upper->tablet, both->tablet);
	tablet_split_inherit(lower->tablet, both->tablet);
	tablet_split_inherit(upper->tablet, both->tablet);
	load_begin(s); /* schemas are set for the tablets of the set */
	served_replace(s, old, 2, &both, 1);
	load_end(s);
	snprintf(event, sizeof(event), "merged at %s", Q(buf_slice(&lower->end)));
	(void)!tablet_split_tidy(both->tablet, event); /* step 4; logged there, and then the next change does it */
	msg_info("table %u: merged at %s", lower->table, Q(buf_slice(&lower->end)));
	tablet_split_start(both->tablet);
	served_put(both);
}

/* Steps 2 to 4. */
static int merge_rows(struct server *s, struct served_tablet *lower, struct served_tablet *upper)
{
	struct meta_tablet row = {0};
	struct served_tablet *both = NULL;
	int err = row_fold(lower);

	if (!err)
		err = row_fold(upper);
	if (!err)
		err = meta_tablet_fold(&lower->row, &upper->row, &row);
	if (!err)
		err = set_reserve(s, 1);
	if (!err)
		err = served_new(s, &row, upper->kind, 0, &both);
	if (!err)
		err = write_merge(s, lower, upper);
	if (!err)
		err = delete_lower(s, lower, upper);
	if (err) {
		served_discard(both);
		meta_tablet_fini(&row);
		return err;
	}
	become_one(s, lower, upper, both);
	return 0;
}

/* Writers wait for both only when little is left to be done, and nothing that takes long. */
int merge_tablets(struct server *s, struct served_tablet *const *v, struct slice at)
{
	struct served_tablet *lower = v[0], *upper = v[1];
	int err = tablet_merge_begin(lower->tablet);

	(void)at;
	if (err)
		return err;
	err = tablet_merge_begin(upper->tablet);
	if (!err) {
		err = tablet_merge_stop(lower->tablet);
		if (!err)
			err = tablet_merge_stop(upper->tablet);
		if (!err)
			err = merge_rows(s, lower, upper);
		tablet_merge_end(upper->tablet, !err);
	}
	tablet_merge_end(lower->tablet, !err);
	return err;
}

/* ---- merges in doubt ---- */

/* The row of both as the next start would read it. */
static int read_both(struct server *s, struct served_tablet *lower, struct served_tablet *upper, struct meta_tablet *row)
{
	struct slice begin = tablet_begin(lower->tablet);
	struct buf key = {0};
	int err = meta_row_key(&key, upper->table, upper->last, buf_slice(&upper->end));

	if (!err)
		err = metadata_read(s->metadata, buf_slice(&key), row);
	if (!err)
		err = meta_tablet_resolve_merge(row, begin);
	if (!err && !row->unfolded)
		err = -EBADMSG;
	if (!err)
		err = buf_set(&row->begin, begin.p, begin.n);
	buf_fini(&key);
	return err;
}

/* The lower row has gone. */
static int end_merge(struct server *s, struct served_tablet *lower, struct served_tablet *upper)
{
	struct meta_tablet row = {0};
	struct served_tablet *both = NULL;
	int err = read_both(s, lower, upper, &row);

	if (!err)
		err = set_reserve(s, 1);
	if (!err)
		err = served_new(s, &row, upper->kind, 0, &both);
	if (!err)
		become_one(s, lower, upper, both);
	meta_tablet_fini(&row);
	return err;
}

int merge_finish(struct server *s, struct served_tablet *const *v, struct slice at)
{
	struct served_tablet *lower = v[0], *upper = v[1];
	int err = tablet_merge_again(lower->tablet), err2;

	(void)at;
	if (err == -EBUSY)
		tablet_merge_end(lower->tablet, false);
	if (err)
		return err;
	err = err2 = tablet_merge_again(upper->tablet);
	if (!err)
		err = end_merge(s, lower, upper);
	if (!err2 || err2 == -EBUSY)
		tablet_merge_end(upper->tablet, !err);
	tablet_merge_end(lower->tablet, !err);
	return err;
}
