/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The durable steps of a split (paper, sections 5.2 and 5.3).
 *
 *	1 Insert the lower part's METADATA row, synced, with a check that there
 *	  is none.  The row is a copy of the parent's, with its files clipped,
 *	  and it ends at the split row.  This commits the split.  The parent's
 *	  row is now the upper part's, because a tablet begins where the previous
 *	  one ends.
 *	2 Remove from the upper part's row the files that lie wholly in the lower
 *	  part.
 * A crash before step 1 leaves the parent.  After step 1 recovery loads both
 * parts from their rows.  Each has the parent's files, clipped, and the parent's
 * redo set, so each replays the log's records of its own rows.  Without step 2
 * the upper row names files that it does not need; its next compaction removes
 * them.
 *
 * The durable steps flush nothing: both parts share the parent's memtables.  After
 * step 1 new writers wait, until the writes under way have ended and both parts
 * have replaced the parent in the set.
 *
 * If step 1 fails, the row may have been inserted.  Then the next change of the
 * parent's row first deletes that row (metadata_edits.c), and the split did not
 * take place.  If the process is killed before that, and the row was inserted,
 * the split took place.  If the tablet gets no change, retire.c has the row deleted.
 */
#include "engine/base/msg.h"
#include "engine/client/metadata.h"
#include "engine/server/tablets/tablets.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* Step 1. */
static int split_insert_row(struct server *s, const struct meta_tablet *lower, const char *event)
{
	struct arena arena = {0};
	struct buf key = {0};
	struct op *ops;
	unsigned count;
	int err = meta_row_key(&key, lower->table, false, buf_bytes(&lower->end));

	if (!err)
		err = meta_ops_split(lower, event, &arena, &ops, &count);
	if (!err)
		err = metadata_make(s->metadata, lower->table == META_TABLE ? 0 : lower->table, true, buf_bytes(&key), ops, count);
	arena_fini(&arena);
	buf_fini(&key);
	return err == -ECANCELED ? -EEXIST : err;
}

#define RESOLVE_SPLIT_US UINT64_C(1000000)

struct parts {
	struct meta_tablet lower_row, upper_row;
	struct served_tablet *lower, *upper;
};

/* Makes the tablet of a part, which shares the parent's memtables.  *out may be set after an error. */
static int split_make_part(struct server *s, struct served_tablet *parent, struct meta_tablet *row, struct served_tablet **out)
{
	int err = served_new(s, row, parent->kind, 0, out);

	return err ? err : tablet_split_adopt(parent->tablet, (*out)->tablet);
}

/* Makes the rows of the two halves.  The caller holds the parent's EDIT lock. */
static int split_make_rows(struct server *s, struct served_tablet *served, struct tfs_bytes at, struct parts *p)
{
	int err = row_fold(served);

	if (!err)
		err = meta_tablet_lower(&served->row, at, &p->lower_row);
	if (!err)
		err = meta_tablet_copy(&served->row, &p->upper_row);
	if (err)
		return err;
	p->lower_row.server = s->o.incarnation;
	p->lower_row.assignment = served->assignment;
	err = buf_set(&p->lower_row.begin, tablet_begin(served->tablet).p, tablet_begin(served->tablet).n);
	if (!err)
		err = buf_set(&p->upper_row.begin, at.p, at.n);
	return err;
}

/* Replaces the parent by both parts.  Releases the parent's EDIT lock, which the caller holds. */
static void split_replace_parent(struct server *s, struct served_tablet *served, struct parts *p)
{
	struct served_tablet *parts[2] = {p->lower, p->upper};

	set_begin(s); /* no schema is set during this, because the halves, which are not in the set yet, would miss it */
	tablet_split_drain(served->tablet);
	for (unsigned i = 0; i < 2; i++)
		tablet_split_inherit(served->tablet, parts[i]->tablet);
	served_replace(s, &served, 1, parts, 2);
	tablet_split_end(served->tablet, true);
	set_end(s);
}

static void split_event_text(char *text, size_t n, const char *what, struct tfs_bytes at)
{
	snprintf(text, n, "split at %s: %s", Q(at), what);
}

/* The caller holds the parent's EDIT lock, which this releases. */
static int split_commit(struct server *s, struct served_tablet *served, struct tfs_bytes at)
{
	struct parts p = {0};
	char event[256];
	int err = split_make_rows(s, served, at, &p);

	if (!err)
		err = set_reserve(s, 2);
	if (!err)
		err = split_make_part(s, served, &p.lower_row, &p.lower);
	if (!err)
		err = split_make_part(s, served, &p.upper_row, &p.upper);
	if (!err) {
		split_event_text(event, sizeof(event), "the lower part", at);
		err = buf_set(&served->unknown_split, at.p, at.n); /* now, because after step 1 there may be no memory for it */
	}
	if (!err) {
		err = split_insert_row(s, &p.lower->row, event);
		served->row_unknown = err && err != -EEXIST;
		if (!served->row_unknown)
			buf_fini(&served->unknown_split);
	}
	if (!err) {
		split_replace_parent(s, served, &p);
		served_event(p.lower, event);
		split_event_text(event, sizeof(event), "the upper part", at);
		served_event(p.upper, event);
		/* Step 2.  The callee logs an error, and the next compaction does the same. */
		(void)!tablet_split_tidy(p.upper->tablet, event);
		msg_info("table %u: split at %s", served->table, Q(at));
		tablet_split_start(p.lower->tablet);
		tablet_split_start(p.upper->tablet);
		served_put(p.lower);
		served_put(p.upper);
	} else {
		/* A pass of the master would read this row, whose tablet no server serves, and an idle tablet has no edit. */
		if (served->unknown_split.n) {
			served->unknown_lower = true;
			retire_resolve_after(s, RESOLVE_SPLIT_US);
		}
		tablet_split_end(served->tablet, false);
		served_put(p.lower);
		served_put(p.upper);
	}
	meta_tablet_fini(&p.lower_row);
	meta_tablet_fini(&p.upper_row);
	return err;
}

int split_resolve(struct server *s, struct served_tablet *const *v, struct tfs_bytes at)
{
	int err = tablet_split_begin(v[0]->tablet);

	(void)s, (void)at;
	if (err)
		return err;
	err = row_fold(v[0]);
	tablet_split_end(v[0]->tablet, false);
	return err;
}

int split_tablet(struct server *s, struct served_tablet *const *v, struct tfs_bytes at)
{
	int err = tablet_split_begin(v[0]->tablet);

	return err ? err : split_commit(s, v[0], at);
}
