/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The durable steps of a merge of two neighbours: the lower tablet and the upper
 * one.
 *
 *	1 Flush both tablets, and then again while their writers wait.  Their
 *	  rows then name all of their data, and no log.
 *	2 Write the lower row's contents into the upper row's `merge` column,
 *	  and its begin into the upper row's begin hint.
 *	3 Delete the lower row.  This commits the merge.
 *	4 Set the upper row's own columns to the columns of the two rows, and
 *	remove the merge column.  A start that loads the upper row with a merge
 *	column does not look up the lower row.  It compares the begin in the merge
 *	column with the end of the table's previous tablet
 *	(meta_tablet_resolve_merge).  After a crash before step 3 the two differ,
 *	because the previous tablet is the lower one.  Both tablets remain, and
 *	the merge column is ignored until the next edit of the upper row deletes
 *	it.  After step 3 the two are equal.  The tablet is made from both rows,
 *	and the next edit of the upper row does step 4.
 *
 * If step 3 fails, the lower row may have been deleted.  The server tries for
 * some seconds to read it.  If METADATA does not answer, both tablets can be
 * read but not written: their redo sets are empty, so the first write to a
 * tablet must edit its row first, and row_resolve lets no edit pass while the
 * outcome is unknown.  A task repeats the read (retire.c).  If the lower row
 * exists, the merge did not take place: the read is of this server's next epoch, so
 * METADATA's server refuses copies of the delete that arrive later (requests/clients.c).
 * If not, the server completes the merge from METADATA's rows, as the next start would.
 *
 * The merged tablet is a new object made from its row.
 */
#include "engine/base/msg.h"
#include "engine/client/metadata.h"
#include "engine/server/tablets/tablets.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define READ_AGAIN_US 50000 /* between two reads of the lower row */
#define RESOLVE_US 500000   /* the time from the last read to the task */

/* Step 2. */
static int merge_write_column(struct served_tablet *lower, struct served_tablet *upper)
{
	struct arena arena = {0};
	struct op *ops;
	unsigned count;
	int err = meta_ops_merge(&lower->row, &arena, &ops, &count);

	if (!err) {
		err = row_mutate(upper, false, ops, count);
		upper->row_unknown |= err != 0;
	}
	arena_fini(&arena);
	return err;
}

/* Step 3.  Returns 0 if the lower row was deleted. */
static int merge_delete_lower(struct server *s, struct served_tablet *lower, struct served_tablet *upper)
{
	const struct op op = {.kind = OP_DELETE_ROW, .w.truncate_to = UINT64_MAX};
	int err = row_mutate(lower, false, &op, 1), exists = -EIO;

	if (!err)
		return 0;
	for (unsigned i = 0; i < s->o.merge_read_tries && exists < 0 && !s->closing; i++) {
		if (i)
			(void)usleep(READ_AGAIN_US);
		exists = row_exists(s->metadata, lower->table, buf_bytes(&lower->end));
	}
	lower->row_unknown = true;
	upper->row_unknown = true; /* its next change reads the row, finds the merge column, and deletes it */
	if (exists < 0) {
		lower->unknown_own = upper->unknown_below = true;
		retire_resolve_after(s, RESOLVE_US);
		msg_warning("table %u: it is unknown if the tablets that meet at %s were merged: METADATA cannot be read: %s",
			lower->table, Q(buf_bytes(&lower->end)), error_text(exists));
	}
	return exists == 0 ? 0 : err;
}

/* Cannot fail. */
static void merge_replace(struct server *s, struct served_tablet *lower, struct served_tablet *upper, struct served_tablet *both)
{
	struct served_tablet *old[2] = {lower, upper};
	char event[256];

	/* The merged tablet is as old as its younger part.  With age 0, sixteen small tablets would need four hours to become one. */
	both->made_us = lower->made_us > upper->made_us ? lower->made_us : upper->made_us;
	tablet_inherit_files(lower->tablet, both->tablet);
	tablet_inherit_files(upper->tablet, both->tablet);
	tablet_split_inherit(lower->tablet, both->tablet);
	tablet_split_inherit(upper->tablet, both->tablet);
	set_begin(s); /* no schema is set during this, because `both`, which is not in the set yet, would miss it */
	served_replace(s, old, 2, &both, 1);
	set_end(s);
	snprintf(event, sizeof(event), "merged at %s", Q(buf_bytes(&lower->end)));
	served_event(both, event);
	/* Step 4.  The callee logs an error, and the next change of the row repeats the step. */
	(void)!tablet_split_tidy(both->tablet, event);
	msg_info("table %u: merged at %s", lower->table, Q(buf_bytes(&lower->end)));
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
		err = merge_write_column(lower, upper);
	if (!err)
		err = merge_delete_lower(s, lower, upper);
	if (err) {
		served_put(both);
		meta_tablet_fini(&row);
		return err;
	}
	merge_replace(s, lower, upper, both);
	return 0;
}

/* Writers wait from the second flush to the end of the merge.  The first flush leaves little for the second. */
int merge_tablets(struct server *s, struct served_tablet *const *v, struct tfs_bytes at)
{
	struct served_tablet *lower = v[0], *upper = v[1];
	int err = tablet_merge_begin(lower->tablet);

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

/* ---- a merge whose outcome was unknown ---- */

/* Reads the row of the merged tablet as the next start would. */
static int merged_row_read(struct server *s, struct served_tablet *lower, struct served_tablet *upper, struct meta_tablet *row)
{
	struct tfs_bytes begin = tablet_begin(lower->tablet);
	struct buf key = {0};
	int err = meta_row_key(&key, upper->table, upper->last, buf_bytes(&upper->end));

	if (!err)
		err = metadata_read(s->metadata, buf_bytes(&key), row);
	if (!err)
		err = meta_tablet_resolve_merge(row, begin);
	if (!err && !row->unfolded)
		err = -EBADMSG;
	if (!err)
		err = buf_set(&row->begin, begin.p, begin.n);
	buf_fini(&key);
	return err;
}

/* Completes the merge after the lower row was deleted. */
static int merge_complete_from_row(struct server *s, struct served_tablet *lower, struct served_tablet *upper)
{
	struct meta_tablet row = {0};
	struct served_tablet *both = NULL;
	int err = merged_row_read(s, lower, upper, &row);

	if (!err)
		err = set_reserve(s, 1);
	if (!err)
		err = served_new(s, &row, upper->kind, 0, &both);
	if (!err)
		merge_replace(s, lower, upper, both);
	meta_tablet_fini(&row);
	return err;
}

int merge_finish(struct server *s, struct served_tablet *const *v, struct tfs_bytes at)
{
	struct served_tablet *lower = v[0], *upper = v[1];
	int err = tablet_merge_again(lower->tablet), err2;

	if (err == -EBUSY)
		tablet_merge_end(lower->tablet, false);
	if (err)
		return err;
	err = err2 = tablet_merge_again(upper->tablet);
	if (!err)
		err = merge_complete_from_row(s, lower, upper);
	if (!err2 || err2 == -EBUSY)
		tablet_merge_end(upper->tablet, !err);
	tablet_merge_end(lower->tablet, !err);
	return err;
}
