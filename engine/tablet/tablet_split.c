/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Splits and merges tablets in memory (paper, sections 5.2 and 6), and chooses
 * the row of a split.
 *
 * The server commits a split with one inserted METADATA row.  In memory the
 * children share the parent's SSTables and memtables.  The steps:
 *	0 prepare: wait until no merging or major compaction of the parent is
 *	  under way; from then on none begins.
 *	1 begin: wait until no flush is under way, and take EDIT.  From then on
 *	  the list of files does not change.  Reads and writes continue.
 *	2 adopt, for each child: the server has made the child from its METADATA
 *	  row.  The child gets references to the parent's memtables, after a
 *	  fresh active one of its own.  No later step in memory can fail.
 *	  The server now writes METADATA, which is the only durable step.
 *	3 drain: make new writers wait, and wait for those under way.
 *	4 inherit: copy sequence numbers, timestamps and redo points.
 *	  The server replaces the parent by the children.
 *	5 end: waiting writers get -TABLET_MOVED, and find the children.
 * After a crash before the METADATA row is written, only the parent exists.
 * After a later crash, recovery loads both children from their rows.  Both have
 * the parent's redo set, and each replays the records of its own rows.
 *
 * Readers and scans of the parent continue in their view, which does not change
 * any more, because later writes are in the children.  A scan that needs a new
 * view ends instead and reports the row at which the children continue it.
 *
 * Each child flushes its own rows of the shared memtables.  These count as
 * memory until both children have flushed them.
 *
 * A merge is simpler and slower.  Both tablets are prepared and flushed.  Then
 * writers wait while both are flushed again, and one tablet is made from their
 * files.
 */
#include "engine/cell/merge.h"
#include "engine/tablet/tablet_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

enum {
	SHARED_MOST = VIEW_MEMS - 3, /* the most memtables that a child shares, so that it has places for its own */
	NO_MEMORY_US = 1000,
	CANDIDATES = 16, /* how many of the largest files are tried for the row of the split, each with its middle row */
};

/* ---- the steps ---- */

static bool split_may_share_memtables(struct tablet *t)
{
	bool may;

	mutex_lock(&t->lock);
	may = t->view->mem_count <= SHARED_MOST && !t->pending;
	mutex_unlock(&t->lock);
	return may;
}

/* From the return of 0 until tablet_job_end no other flush is under way.  flush: flushes the memtables first. */
static int retire_begin(struct tablet *t, bool flush)
{
	int err = tablet_job_begin(t, &t->flushing);

	if (err)
		return err;
	/*
	 * METADATA may have a failed edit, but the view does not.  The children
	 * get both, so the edit is repeated first.
	 */
	err = t->env->compactor->repeat_edits(t);
	if (!err && (flush || !split_may_share_memtables(t)))
		err = t->env->compactor->flush(t);
	if (err) {
		tablet_job_end(t, &t->flushing);
		tablet_want_flush(t);
	}
	return err;
}

/* A merged tablet has the changes that both parts have kept.  So a part that nobody has written to begins to keep them, too. */
static int retire_keep_changes(struct tablet *t)
{
	bool begins;

	mutex_lock(&t->lock);
	begins = !t->frozen && t->schema->changes_us && !t->changes_low_us;
	mutex_unlock(&t->lock);
	return begins ? tablet_ensure_changes(t) : 0;
}

int tablet_retire_prepare(struct tablet *t, bool leaves)
{
	int err;

	tablet_replay_done(t);
	err = leaves ? 0 : retire_keep_changes(t);
	if (err)
		return err;
	t->leaves = leaves;
	t->split_wanted = true; /* makes background compactions end */
	err = tablet_job_begin(t, &t->majoring);
	if (!err && (err = tablet_job_begin(t, &t->merging)))
		tablet_job_end(t, &t->majoring);
	if (err)
		t->split_wanted = t->leaves = false;
	return err;
}

void tablet_retire_done(struct tablet *t)
{
	t->split_wanted = t->leaves = false;
	tablet_job_end(t, &t->merging);
	tablet_job_end(t, &t->majoring);
	tablet_want_merge(t);
}

int tablet_split_begin(struct tablet *t)
{
	int err = retire_begin(t, false);

	if (!err)
		mutex_lock(&t->edit);
	return err;
}

void tablet_inherit_files(struct tablet *parent, struct tablet *child)
{
	for (unsigned i = 0; i < child->view->file_count; i++) {
		struct vfile *f = child->view->files[i];

		for (unsigned k = 0; k < parent->view->file_count; k++) {
			struct vfile *p = parent->view->files[k];

			if (p->sst != f->sst || p->meta.group != f->meta.group)
				continue;
			f->excluded_until_us = p->excluded_until_us;
			f->freeze_us = p->freeze_us;
			if (!f->schema && p->schema)
				f->schema = store_schema_get(p->schema);
			break;
		}
	}
}

int tablet_split_adopt(struct tablet *parent, struct tablet *child)
{
	struct view *v = view_new(view_all_files(child->view)), *old;
	struct redo_state *redo;

	mutex_assert_held(&parent->edit);
	if (!v)
		return -ENOMEM;
	mutex_lock(&parent->lock);
	redo = calloc(parent->redo_count + 1u, sizeof *redo);
	if (!redo) {
		mutex_unlock(&parent->lock);
		view_put(v);
		return -ENOMEM;
	}
	for (unsigned i = 0; i < view_all_files(child->view); i++)
		view_add_file(v, child->view->files[i]);
	v->mems[v->mem_count++] = vmem_get(child->view->mems[0]);
	view_take_mems(v, parent->view, NULL, 0);
	for (unsigned i = 0; i < parent->redo_count; i++)
		redo[i] = parent->redo[i];
	free(child->redo);
	child->redo = redo;
	child->redo_count = parent->redo_count;
	mutex_unlock(&parent->lock);
	tablet_inherit_files(parent, child);
	old = view_swap(child, v); /* without the child's lock, because no other thread uses the child yet */
	view_put(old);
	return 0;
}

void tablet_split_drain(struct tablet *t)
{
	mutex_lock(&t->lock);
	t->state = TABLET_SPLITTING;
	writers_wait(t, t->next_seq - 1);
	if (!t->view->mems[0]->frozen_sum)
		vmem_freeze(t->view->mems[0], &t->env->flushing_bytes);
	for (unsigned i = 0; i < t->view->mem_count; i++) {
		t->view->mems[i]->tablets++; /* two children replace one parent */
		t->view->mems[i]->shared = true;
	}
	mutex_unlock(&t->lock);
}

static void raise_time(int64_t *to, int64_t v)
{
	if (v > *to)
		*to = v;
}

/* Called once for each parent.  A merged tablet has two parents, and gets the larger of their values. */
void tablet_split_inherit(struct tablet *parent, struct tablet *child)
{
	mutex_lock(&parent->lock);
	raise_time(&child->loaded_newest_us, parent->loaded_newest_us);
	raise_time(&child->freeze_us, parent->freeze_us);
	tablet_raise_commit(child, parent->newest_commit_us);
	if (parent->next_seq > child->next_seq)
		child->next_seq = parent->next_seq;
	child->published = child->next_seq - 1;
	for (unsigned i = 0; i < STRIPES; i++) {
		raise_time(&child->loaded_newest_us, parent->stripes[i].newest_us);
		child->stripes[i].changed_seq = child->next_seq - 1;
	}
	while (tokens_inherit(&child->tokens, &parent->tokens) == -ENOMEM)
		(void)usleep(NO_MEMORY_US);
	child->tokens_stored |= parent->tokens_stored;
	child->major_unset |= parent->major_unset;
	child->redo_own = parent->redo_own;
	child->redo_maybe = parent->redo_maybe;
	child->dir_durable |= parent->dir_durable;
	child->state = TABLET_SERVING;
	mutex_unlock(&parent->lock);
}

void tablet_split_end(struct tablet *t, bool done)
{
	tablet_merge_end(t, done);
	mutex_unlock(&t->edit);
}

/* ---- merging ---- */

/*
 * Returns true if the tablet has no unflushed cells.  after_refusals: also if
 * refused writes have left a redo point (redo_maybe), or a flush whose edit
 * fails (pending).
 */
static bool tablet_is_clean(struct tablet *t, bool after_refusals)
{
	bool clean;

	mutex_lock(&t->lock);
	clean = !t->writers && !t->redo_count && !t->redo_own;
	for (unsigned i = 0; i < t->view->mem_count; i++)
		clean &= !memtable_count(t->view->mems[i]->m);
	if (!after_refusals)
		clean &= t->view->mem_count == 1 && !t->redo_maybe && !t->pending;
	mutex_unlock(&t->lock);
	return clean;
}

static void tablet_stop_writers(struct tablet *t)
{
	mutex_lock(&t->lock);
	t->state = TABLET_SPLITTING;
	writers_wait(t, t->next_seq - 1);
	mutex_unlock(&t->lock);
	/*
	 * Waits for a writer that is adding the incarnation to the redo set.
	 * No further change begins, because writers wait.
	 */
	mutex_lock(&t->edit);
	mutex_unlock(&t->edit);
}

int tablet_merge_begin(struct tablet *t)
{
	return retire_begin(t, true); /* flushes most of the data, while writers continue */
}

int tablet_merge_stop(struct tablet *t)
{
	int err;

	tablet_stop_writers(t);
	err = t->env->compactor->flush(t);
	return err ? err : tablet_is_clean(t, false) ? 0 : -EBUSY;
}

int tablet_merge_again(struct tablet *t)
{
	int err = tablet_job_begin(t, &t->flushing);

	if (err)
		return err;
	tablet_stop_writers(t);
	return tablet_is_clean(t, true) ? 0 : -EBUSY;
}

void tablet_merge_end(struct tablet *t, bool done)
{
	mutex_lock(&t->lock);
	if (done)
		t->state = TABLET_GONE;
	else if (t->state == TABLET_SPLITTING)
		t->state = TABLET_SERVING;
	mutex_unlock(&t->lock);
	tablet_job_end(t, &t->flushing);
	if (!done)
		tablet_want_flush(t);
}

void tablet_split_start(struct tablet *child)
{
	bool shares;

	if (child->env->no_background)
		return;
	mutex_lock(&child->view_lock); /* because a writer may replace the view */
	shares = child->view->mem_count > 1;
	mutex_unlock(&child->view_lock);
	if (shares) /* shared memtables stay in memory until both children have flushed them */
		tablet_want_flush(child);
	else
		tablet_want_merge(child);
}

/* ---- the row of a split ---- */

struct split_file {
	struct vfile *file;
	uint64_t from, to; /* offsets of the tablet's part in the file */
};
struct split_files {
	struct split_file *v; /* the largest first */
	unsigned n;
	uint64_t bytes;
};

static int by_size(const void *a, const void *b)
{
	const struct split_file *x = a, *y = b;
	uint64_t m = x->to - x->from, n = y->to - y->from;

	return (m < n) - (m > n);
}

/* Lists the files that have rows of the tablet, except excluded ones.  The caller frees s->v, also after an error. */
static int split_list_files(const struct view *v, struct split_files *s)
{
	*s = (struct split_files){.v = calloc(v->file_count + 1u, sizeof *s->v)};
	if (!s->v)
		return -ENOMEM;
	for (unsigned i = 0; i < v->file_count; i++) {
		struct split_file *p = &s->v[s->n];
		struct vfile *f = v->files[i];
		int err;

		if (vfile_empty(f) || vfile_excluded(f))
			continue;
		p->file = f;
		if ((err = sst_offset_of(f->sst, buf_bytes(&f->first), &p->from)) ||
			(err = sst_offset_of(f->sst, buf_bytes(&f->after), &p->to)))
			return err;
		s->bytes += p->to - p->from;
		s->n++;
	}
	qsort(s->v, s->n, sizeof *s->v, by_size);
	return 0;
}

/* Sets *below to the bytes of the tablet's files below the row.  scratch: any buffer; it is overwritten. */
static int split_bytes_below(const struct split_files *s, struct tfs_bytes row, struct buf *scratch, uint64_t *below)
{
	int err;

	buf_reset(scratch);
	*below = 0;
	if ((err = cellkey_row_prefix(scratch, row)))
		return err;
	for (unsigned i = 0; i < s->n; i++) {
		const struct split_file *p = &s->v[i];
		uint64_t at;

		if ((err = sst_offset_of(p->file->sst, buf_bytes(scratch), &at)))
			return err;
		at = at < p->from ? p->from : at > p->to ? p->to : at;
		*below += at - p->from;
	}
	return 0;
}

/*
 * Takes the row in the middle of each of the largest files.  Sets *row to the
 * key among them that is nearest to the middle of all bytes.  -ENOENT.
 */
static int split_middle(const struct split_files *s, struct buf *row)
{
	struct buf key = {0}, scratch = {0}, prefix = {0};
	uint64_t best = UINT64_MAX;
	int err = 0;

	for (unsigned i = 0; i < s->n && i < CANDIDATES && !err; i++) {
		const struct split_file *p = &s->v[i];
		struct cellkey k;
		uint64_t below, off;

		if ((err = sst_key_near(p->file->sst, p->from + (p->to - p->from) / 2, &key)) ||
			(err = cellkey_decode(buf_bytes(&key), &k, &scratch)) ||
			(err = split_bytes_below(s, k.row, &prefix, &below)))
			break;
		off = below > s->bytes / 2 ? below - s->bytes / 2 : s->bytes / 2 - below;
		if (off >= best)
			continue;
		best = off;
		err = buf_set(row, k.row.p, k.row.n);
	}
	buf_fini(&key);
	buf_fini(&scratch);
	buf_fini(&prefix);
	return err ? err : best == UINT64_MAX ? -ENOENT : 0;
}

/*
 * Sets *useful to false if a split at row would not make the parts smaller.
 * Bytes are counted in whole blocks.  A block with rows of two tablets counts
 * for the upper one.  So if all data of a tablet is in one block, the upper part
 * of a split seems to be as large as the tablet, and would be split again, row
 * by row.  Such a tablet is split only if no file of it is shared with another
 * tablet.  A major compaction writes it files of its own.
 */
static int split_is_useful(const struct split_files *s, struct tfs_bytes row, bool *useful)
{
	struct buf prefix = {0};
	uint64_t below;
	int err = split_bytes_below(s, row, &prefix, &below);

	*useful = true;
	for (unsigned i = 0; i < s->n && (!below || below == s->bytes); i++)
		*useful &= !s->v[i].file->clip;
	buf_fini(&prefix);
	return err;
}

/* Finds the first live row at or above from; after: above it.  -ENOENT. */
static int split_first_row(struct tablet *t, struct tfs_bytes from, bool after, struct buf *row)
{
	struct scan_spec spec = {
		.pub.what = TFS_SCAN_ROWS, .pub.row_from = from, .pub.row_from_after = after, .pub.limit = 1, .pub.batch_bytes = 1};
	struct scan_batch b = {0};
	struct tablet_scan *s;
	int err = tablet_scan_new(t, &spec, &s);

	if (!err) {
		err = tablet_scan_fill(s, &b);
		tablet_scan_free(s);
	}
	if (!err)
		err = b.count ? buf_set(row, b.cells[0].row.p, b.cells[0].row.n) : -ENOENT;
	scan_batch_fini(&b);
	return err;
}

int tablet_split_key(struct tablet *t, struct buf *out)
{
	struct buf row = {0}, least = {0};
	bool useful = false;
	struct split_files files;
	struct snap snap;
	int err;

	tablet_enter(t);
	snap_take(t, &snap);
	err = split_list_files(snap.view, &files);
	if (!err)
		err = split_middle(&files, &row);
	if (!err)
		err = split_first_row(t, tfs_bytes_of(NULL, 0), false, &least);
	/*
	 * Both parts must have rows.  If the first row has more than half of
	 * the bytes, the split is after this row.
	 */
	if (!err && bytes_cmp(buf_bytes(&row), buf_bytes(&least)) <= 0)
		err = split_first_row(t, buf_bytes(&least), true, &row);
	else if (!err)
		err = split_first_row(t, buf_bytes(&row), false, &row);
	if (!err)
		err = split_is_useful(&files, buf_bytes(&row), &useful);
	free(files.v);
	snap_put(&snap);
	if (!err && !useful)
		err = -ENOENT;
	if (!err) {
		buf_fini(out);
		*out = row;
		row = (struct buf){0};
	}
	buf_fini(&row);
	buf_fini(&least);
	tablet_leave(t);
	return err;
}

/* ---- samples ---- */

enum { SAMPLES_MOST = 16384, SAMPLE_BYTES_MOST = 500 };

/* Adds the row at an offset of the file, unless it is outside of the tablet. */
static int samples_add(
	struct tablet *t, const struct split_file *p, uint64_t at, struct arena *arena, struct tfs_bytes *rows, uint32_t *n)
{
	struct buf key = {0}, scratch = {0};
	struct cellkey k;
	int err = sst_key_near(p->file->sst, at, &key);

	if (!err)
		err = cellkey_decode(buf_bytes(&key), &k, &scratch);
	if (!err && k.row.n > SAMPLE_BYTES_MOST)
		k.row.n = SAMPLE_BYTES_MOST;
	if (!err && bytes_cmp(k.row, tablet_begin(t)) > 0 && (!tablet_end(t).p || bytes_cmp(k.row, tablet_end(t)) < 0)) {
		err = arena_dup(arena, k.row, &rows[*n]) ? 0 : -ENOMEM;
		*n += !err;
	}
	buf_fini(&key);
	buf_fini(&scratch);
	return err;
}

static int by_row(const void *a, const void *b)
{
	const struct tfs_bytes *x = a, *y = b;

	return bytes_cmp(*x, *y);
}

int tablet_samples(struct tablet *t, uint64_t bytes, struct arena *arena, struct tfs_bytes **out, uint32_t *count)
{
	struct tfs_bytes *rows = NULL;
	struct split_files files;
	uint32_t n = 0;
	struct snap snap;
	int err;

	tablet_enter(t);
	snap_take(t, &snap);
	err = split_list_files(snap.view, &files);
	if (!err && bytes < files.bytes / SAMPLES_MOST + 1)
		bytes = files.bytes / SAMPLES_MOST + 1;
	if (!err)
		rows = arena_alloc(arena, (files.bytes / bytes + files.n + 1u) * sizeof(*rows));
	if (!err && !rows)
		err = -ENOMEM;
	for (unsigned i = 0; i < files.n && !err; i++)
		for (uint64_t at = files.v[i].from + bytes / 2; at < files.v[i].to && !err; at += bytes)
			err = samples_add(t, &files.v[i], at, arena, rows, &n);
	free(files.v);
	snap_put(&snap);
	tablet_leave(t);
	if (err)
		return err;
	qsort(rows, n, sizeof(*rows), by_row);
	*out = rows;
	*count = n;
	return 0;
}

/* ---- after a split ---- */

/* Prepares the edit that removes the files without rows of the tablet. */
static int split_list_empty_files(struct tablet *t, struct tablet_change *c, bool *needless)
{
	struct file_set *empty = c->arg;
	int err = t->state == TABLET_SERVING ? 0 : -TABLET_STOPPED;

	for (unsigned i = 0; i < view_all_files(t->view) && !err; i++)
		if (vfile_empty(t->view->files[i]) && !t->view->files[i]->busy)
			err = file_set_add(empty, t->view->files[i]);
	c->removed = empty;
	return err;
}

int tablet_split_tidy(struct tablet *t, const char *event)
{
	struct file_set empty = {0};
	struct tablet_change c = {.edit = {.event = event}, .prepare = split_list_empty_files, .arg = &empty};
	int err;

	tablet_enter(t);
	err = tablet_change(t, &c);
	tablet_drop_files(&empty, !err);
	tablet_leave(t);
	return err;
}
