/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Point reads.
 *
 * One column is read from the sources that may contain it (tablet_column.c).
 * The newest version is the first live one.  A version at a timestamp is found
 * by a seek, unless the GC rule counts versions; then the column is read from
 * its start.  A read of a large value reads only the units that have the wanted
 * bytes.
 *
 * Users may delete versions one by one, newest first.  Then a read of the newest
 * live version skips more and more entries.  So a reader that has skipped many
 * stores a note for the next reader: no version of this column above a
 * timestamp is live.  Each stripe of rows has one note.  The note is valid as
 * long as all mutations under the stripe only delete single versions.  Each
 * other mutation raises stripe.changed_seq before it is published.
 */
#include "engine/tablet/tablet_impl.h"

#include <errno.h>
#include <stdlib.h>

#include "engine/cell/merge.h"
#include "engine/tablet/tablet_column.h"

enum { DEAD_BUDGET = 64 }; /* entries that a reader skips before it uses or stores a note */

/*
 * Sets *changed to the stripe's changed_seq.  Returns true if the snapshot
 * includes all mutations of the stripe up to it.  The sequence of a snapshot
 * may be newer than its view.  Then a mutation up to that sequence may be in a
 * memtable that the view does not have.
 */
static bool snap_includes_stripe(struct tablet *t, const struct snap *snap, const struct stripe *s, uint64_t *changed)
{
	bool same;

	*changed = s->changed_seq;
	mutex_lock(&t->view_lock);
	same = t->view->mems[0] == snap->view->mems[0];
	mutex_unlock(&t->view_lock);
	return same && *changed <= snap->seq;
}

/* Seeks to the timestamp of the stripe's note, if it is for this column and valid. */
static int note_use(struct stripe *s, struct colread *c)
{
	struct note n = {0};

	mutex_lock(&s->m);
	if (bytes_eq(buf_bytes(&s->note.column), colread_column(c)) && s->note.seq <= c->seq && s->changed_seq == s->note.changed)
		n = s->note;
	mutex_unlock(&s->m);
	return n.seq ? colread_jump_to(c, n.ts, n.column_del) : 0;
}

/* Stores the note that no version above ts is live.  Removes the note if out of memory. */
static void note_store(struct stripe *s, const struct colread *c, uint64_t changed, int64_t ts)
{
	struct tfs_bytes column = colread_column(c);

	mutex_lock(&s->m);
	s->note.seq = 0;
	if (buf_set(&s->note.column, column.p, column.n) == 0) {
		s->note.seq = c->seq;
		s->note.changed = changed;
		s->note.ts = ts;
		s->note.column_del = c->column_del;
	}
	mutex_unlock(&s->m);
}

/* Reads the newest live version as colread_next does.  Uses the stripe's note, or stores one. */
static int read_newest(struct tablet *t, const struct snap *snap, struct tfs_bytes row, struct colread *c, struct colver *ver)
{
	struct stripe *s;
	uint64_t changed;
	bool all;
	int err;

	c->budget = DEAD_BUDGET;
	err = colread_next(c, ver);
	if (err != COLREAD_PAUSED)
		return err;
	s = stripe_of(t, row);
	if ((err = note_use(s, c)))
		return err;
	c->budget = DEAD_BUDGET;
	err = colread_next(c, ver);
	if (err != COLREAD_PAUSED)
		return err;
	all = snap_includes_stripe(t, snap, s, &changed);
	err = colread_next(c, ver);
	if (err >= 0 && all)
		note_store(s, c, changed, err ? ver->ts : INT64_MIN);
	return err;
}

/* Reads the version at ts.  -ENOENT. */
static int read_version(struct colread *c, const struct gc_rule *rule, int64_t now, int64_t ts, struct colver *ver)
{
	int err;

	/* Seeks if the number of versions above ts does not change the time at which the rule hides it. */
	if ((!rule || gc_expires(rule, 0, ts) == gc_expires(rule, UINT64_MAX, ts)) && (err = colread_skip_to(c, ts)))
		return err;
	while ((err = colread_next(c, ver)) != 0) {
		if (is_damage(err) && c->limit > ts) { /* unreadable versions do not count for the rule, as in listings */
			if ((err = colread_skip_to(c, ts)))
				return err;
			continue;
		}
		if (err < 0)
			return err;
		if (gc_hides(rule, ver->index, ver->ts, now))
			return -ENOENT;
		if (ver->ts == ts)
			return 0;
		if (ver->ts < ts)
			return -ENOENT;
	}
	return -ENOENT;
}

/* p NULL: the bytes are read into memory from the arena. */
static int read_cell(struct tablet *t, struct tfs_bytes row, uint16_t family, struct tfs_bytes qualifier, struct tfs_ts ts,
	uint64_t offset, uint8_t *p, size_t n, struct arena *arena, struct tfs_bytes *bytes, struct tfs_info *info)
{
	const struct store_family *f;
	const struct gc_rule *rule;
	struct colread c;
	struct colver ver;
	struct snap snap;
	size_t done = 0;
	int64_t now;
	int err;

	tablet_enter(t);
	snap_take(t, &snap);
	f = store_schema_family(snap.schema, family);
	if (!f) {
		err = -EINVAL;
		goto out;
	}
	err = colread_open(&c, snap.view, snap.seq, row, family, qualifier);
	if (err)
		goto out;
	rule = f->rule;
	now = rule && gc_has_age(rule) ? tablet_now(t) : 0;
	if (ts.when != TFS_NEWEST)
		err = read_version(&c, rule, now, ts.us, &ver);
	else if ((err = read_newest(t, &snap, row, &c, &ver)) >= 0)
		err = err && !gc_hides(rule, 0, ver.ts, now) ? 0 : -ENOENT;
	if (!err && !p) {
		n = offset >= ver.size ? 0 : ver.size - offset < n ? ver.size - offset : n;
		if (n && !(p = arena_alloc(arena, n)))
			err = -ENOMEM;
	}
	if (!err && n)
		err = colread_bytes(&c, offset, p, n, &done);
	colread_close(&c);
	if (err)
		goto out;
	*bytes = tfs_bytes_of(p, done);
	if (info)
		*info = (struct tfs_info){.ts = ver.ts,
			.size = ver.size,
			.expires_us = t->frozen ? INT64_MAX : gc_expires(rule, ver.index, ver.ts),
			.commit_us = ver.commit_us};
out:
	snap_put(&snap);
	tablet_leave(t);
	return err;
}

int tablet_read(struct tablet *t, struct tfs_bytes row, uint16_t family, struct tfs_bytes qualifier, struct tfs_ts ts,
	uint64_t offset, void *p, size_t n, size_t *got, struct tfs_info *info)
{
	struct tfs_bytes bytes;
	int err = read_cell(t, row, family, qualifier, ts, offset, p, p ? n : 0, NULL, &bytes, info);

	if (!err && got)
		*got = bytes.n;
	return err;
}

int tablet_read_most(struct tablet *t, struct tfs_bytes row, uint16_t family, struct tfs_bytes qualifier, struct tfs_ts ts,
	uint64_t offset, size_t most, struct arena *arena, struct tfs_bytes *bytes, struct tfs_info *info)
{
	return read_cell(t, row, family, qualifier, ts, offset, NULL, most, arena, bytes, info);
}

/* Sets *exists if the row has cells in one of these families (NULL: in any). */
static int row_exists_in(struct tablet *t, struct tfs_bytes row, const uint16_t *families, unsigned count, bool *exists)
{
	struct scan_spec spec = {.pub.what = TFS_SCAN_ROWS,
		.pub.row_from = row,
		.pub.one_row = true,
		.pub.limit = 1,
		.family_ids = families,
		.pub.family_count = count};
	struct scan_batch b = {0};
	struct tablet_scan *s;
	int err;

	/*
	 * If a block cannot be read, the second round skips it and reads others.  If
	 * that finds no cell, the row is reported to exist, because the filter of a
	 * damaged file contains it.  So users can write lost cells again.
	 */
	for (;;) {
		err = tablet_scan_new(t, &spec, &s);
		if (!err) {
			err = tablet_scan_fill(s, &b);
			tablet_scan_free(s);
		}
		if (spec.pub.past_damage || !is_damage(err))
			break;
		spec.pub.past_damage = true;
	}
	if (!err)
		*exists = b.count > 0 || b.damaged;
	scan_batch_fini(&b);
	return err;
}

/*
 * Sets *exists if the row has any cell.  Asks the locality groups one by one,
 * those with in_memory first.  When one source has the row, no further source
 * is read.
 */
static int row_exists_in_any(struct tablet *t, const struct store_schema *s, struct tfs_bytes row, bool *exists)
{
	uint16_t *families;
	int err = 0;

	*exists = false;
	if (s->group_count == 1)
		return row_exists_in(t, row, NULL, 0, exists);
	families = malloc((s->family_count + 1u) * sizeof *families);
	if (!families)
		return -ENOMEM;
	for (unsigned i = 0; i < 2 * s->group_count && !err && !*exists; i++) {
		const struct store_group *g = &s->groups[i % s->group_count];
		unsigned n = 0;

		if (g->sst.in_memory != (i < s->group_count))
			continue;
		for (unsigned k = 0; k < s->family_count; k++)
			if (s->families[k].group == g->id)
				families[n++] = s->families[k].id;
		if (n)
			err = row_exists_in(t, row, families, n, exists);
	}
	free(families);
	return err;
}

int tablet_row_exists(struct tablet *t, struct tfs_bytes row, uint16_t family, bool *exists)
{
	struct snap snap;
	int err;

	if (family)
		return row_exists_in(t, row, &family, 1, exists);
	tablet_enter(t);
	snap_take(t, &snap);
	err = row_exists_in_any(t, snap.schema, row, exists);
	snap_put(&snap);
	tablet_leave(t);
	return err;
}
