/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The changes that a table with `changes` keeps: when a tablet begins and ends to keep them, and how they are read.
 *
 * A tablet has its changes (engine/cell/change_format.h) beside its cells: in a second skip list of each memtable, and in
 * files of the group TABLET_GROUP_CHANGES.  No reader of cells sees them.  A commit inserts a cell and its change together
 * (tablet_plan.c).  The log has the cell only, because replay makes the same change from it, with the same key.
 * Files of changes list the first and the last row of their changes, so splits and merges handle them like other
 * files, but the order of their keys is that of times of commit.
 *
 * The low mark (changes_low_us) is in METADATA: the tablet has all changes with a later time of commit.  It is 0 while the
 * tablet keeps none.  Steps:
 *	1 the schema gets or loses `changes`
 *	2 the next writer, reader of changes, or merge of files finds that the tablet does not do so yet.  One edit sets the low mark to the time of
 *	  commit of now, or to 0; to 1 if the tablet has never had a commit.  Writers wait for it.  The new schema queues the task that
 *	  merges, because from=start begins at the largest low mark of all tablets: without it, a tablet without writes would
 *	  let the first reader begin at its own time.
 *	3 the next commits have changes, or have none
 * An edit that removes changes raises the mark with it.  So a reader that asks for a removed change gets an
 * error after any crash, and never a list with a gap.  So does a reader that asks for a change which has expired but is not
 * removed yet.  A table that does not change keeps old places valid.
 *
 * A reader needs to know which changes are all there are up to some time.  The server draws a time of commit, which all later
 * commits of its tablets exceed, and then calls tablet_changes, which waits for the commits under way.
 *
 * Changes of a row are in the order of its commits, so times of commit must rise across servers and openings.  A tablet that
 * is loaded raises the clock above the times of its changes, also of those that are replayed.
 *
 * Rejected: changes as versions that compactions keep.  Reads would pass them, and a reader of changes would search
 * all files.
 */
#include "engine/cell/change_format.h"
#include "engine/cell/merge.h"
#include "engine/tablet/tablet_impl.h"

#include <errno.h>
#include <stdlib.h>

#define START_US INT64_C(10000000)

int64_t tablet_changes_low(struct tablet *t)
{
	int64_t low;

	mutex_lock(&t->lock);
	low = t->changes_low_us;
	mutex_unlock(&t->lock);
	return low;
}

int64_t tablet_newest_commit(struct tablet *t)
{
	return tablet_changes_low(t) ? t->newest_commit_us : 0;
}

/* ---- reading ---- */

/* Waits for the commits under way, and takes a snapshot, which has all changes above c->low_us. */
static int changes_begin(struct tablet *t, struct tablet_changes *c, struct snap *snap, int64_t *expired_us)
{
	int64_t low, start;
	int err = t->frozen ? -EOPNOTSUPP : 0;

	while (!err) {
		bool keeps;

		mutex_lock(&t->lock);
		keeps = t->schema->changes_us != 0;
		low = t->changes_low_us;
		err = keeps ? tablet_state_error(t) : -EOPNOTSUPP;
		if (!err && low)
			writers_wait(t, t->next_seq - 1);
		mutex_unlock(&t->lock);
		if (err || low)
			break;
		err = tablet_ensure_changes(t);
	}
	if (err)
		return err;
	snap_take(t, snap);
	/* After the snapshot, because an edit that removes files raises the mark before it publishes its view. */
	low = tablet_changes_low(t);
	*expired_us = clock_now(t->env->clock) - snap->schema->changes_us;
	c->low_us = low;
	start = *expired_us + (snap->schema->changes_us / 10 < START_US ? snap->schema->changes_us / 10 : START_US);
	if (!c->from.n && start > low) /* the reader begins there a moment later */
		c->low_us = start;
	return 0;
}

static int changes_iter(const struct view *v, const struct tablet_changes *c, int64_t from_us, struct iter **out)
{
	struct iter **sources = calloc(v->mem_count + v->change_count + 1u, sizeof(struct iter *));
	unsigned n = 0;
	int err = 0;

	if (!sources)
		return -ENOMEM;
	for (unsigned i = 0; i < v->mem_count && !err; i++) {
		if (!v->mems[i]->changes)
			continue;
		err = memtable_iter_new(v->mems[i]->changes, &sources[n]);
		n += !err;
	}
	for (unsigned i = v->file_count; i < view_all_files(v) && !err; i++) {
		struct vfile *f = v->files[i];

		if (vfile_empty(f) || f->meta.newest_us < from_us || f->meta.oldest_us > c->until_us)
			continue;
		err = sst_walk_new(f->sst, &sources[n]);
		if (!err)
			sst_iter_expect(sources[n], c->bytes);
		n += !err;
	}
	err = merge_iter_new(sources, n, err, out);
	free(sources);
	return err;
}

static bool is_hidden(const struct tablet_changes *c, const struct store_schema *s, uint16_t family)
{
	if (!c->families && !family)
		return false;
	if (family && !store_schema_family(s, family))
		return true;
	for (unsigned i = 0; i < c->family_count; i++)
		if (!family || c->families[i] == family)
			return false;
	return c->families != NULL;
}

/* Appends the change at the iterator.  Returns 0, 1 if the answer is full, -errno. */
static int changes_add(struct tablet_changes *c, struct iter *it, const struct change *change, bool hidden, struct buf *out)
{
	struct sent_change s = {.position = tfs_bytes_of(it->key.p, change_position_len(it->key)),
		.c = *change,
		.size = it->size,
		.hidden = hidden};
	const bool first = !out->n;
	uint64_t n = hidden ? 0 : it->size - c->offset;
	void *bytes = NULL;
	int err = 0;

	if (!hidden && c->offset > it->size)
		return -EINVAL;
	if (!first && out->n + n > c->bytes)
		return 1;
	n = n > c->bytes ? c->bytes : n;
	if (it->value && n) {
		s.value = tfs_bytes_of(it->value + c->offset, n);
	} else if (n) {
		bytes = malloc(n);
		err = bytes ? iter_read(it, c->offset, n, bytes) : -ENOMEM;
		s.value = tfs_bytes_of(bytes, n);
	}
	if (!err)
		err = sent_change_append(out, &s);
	free(bytes);
	return err ? err : c->offset || c->offset + n < s.size || out->n >= c->bytes;
}

static int changes_fill(struct tablet *t, struct tablet_changes *c, const struct store_schema *schema, int64_t expired_us,
	struct iter *it, struct buf *out)
{
	struct buf scratch = {0};
	struct change change;
	uint64_t seq;
	int err = 0;

	for (iter_seek(it, c->from); it->valid; iter_next(it)) {
		buf_reset(&scratch);
		err = change_decode(it->key, &change, &seq, &scratch);
		if (err || change.stamp > c->until_us)
			break;
		if (!tablet_contains_row(t, change.row) || bytes_cmp(change.row, c->row) < 0)
			continue;
		if (change.stamp <= expired_us)
			err = -CHANGES_REMOVED; /* hidden, as if it was removed */
		else
			err = changes_add(c, it, &change, is_hidden(c, schema, change.family), out);
		if (err)
			break;
	}
	buf_fini(&scratch);
	c->more = err > 0;
	return err < 0 ? err : err ? 0 : it->valid ? 0 : it->err;
}

int tablet_changes(struct tablet *t, struct tablet_changes *c, struct buf *out)
{
	struct iter *it = NULL;
	int64_t from_us = 0, expired_us;
	struct snap snap;
	int err = c->from.n ? change_stamp(c->from, &from_us) : 0;

	if (err)
		return -EINVAL;
	c->more = false;
	tablet_enter(t);
	tablet_replay_done(t);
	err = changes_begin(t, c, &snap, &expired_us);
	if (!err) {
		if (c->from.n && from_us <= c->low_us)
			err = -CHANGES_REMOVED;
		else if (c->from.n)
			err = changes_iter(snap.view, c, from_us, &it);
		if (!err && it)
			err = changes_fill(t, c, snap.schema, expired_us, it, out);
		iter_free(it);
		snap_put(&snap);
	}
	tablet_leave(t);
	return err;
}
