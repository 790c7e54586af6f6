/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Splitting a tablet in memory (paper, sections 5.2 and 6: children share
 * their parent's SSTables), and where to.
 *
 * A split is committed by the server, with one inserted METADATA row
 * (DESIGN 3.2).  Here the parent's memory becomes its children's, in these
 * steps:
 *	0 prepare: no merging or major compaction of the parent is under way,
 *	  and none begins.  This may take as long as one that was asked for.
 *	1 begin: nor is a flush, EDIT is taken: its list of files stands still.
 *	  Reads and writes go on.
 *	2 adopt, for each child: a tablet made from its METADATA row shares the
 *	  parent's memtables, behind a fresh one of its own.  All that can fail
 *	  is done now.
 *	  The server writes METADATA: the one durable step.
 *	3 drain: from here writers wait; those under way end.
 *	4 inherit: sequence numbers, timestamps, redo points of that instant.
 *	  The server puts the children in the parent's place.
 *	5 end: who waited is answered -EREMCHG, and finds the children.
 * A crash up to the METADATA row's write leaves the parent as it was; after
 * it, recovery loads both children from their rows: the parent's redo set
 * leads each to the records of its own rows.
 *
 * Readers and scans that have the parent go on in the view that they hold,
 * which nothing can reach any more: what is written to the children was
 * written after they began.  A scan that would take a new view ends there and
 * says where to go on.
 *
 * The shared memtables are flushed by each child for its own rows, and count
 * as memory until both have.
 *
 * Merging is simpler and slower: both tablets are prepared and flushed, then
 * flushed again with writers waiting, and one is made of their files.
 */
#include "engine/cell/merge.h"
#include "engine/tablet/tablet_impl.h"

#include <errno.h>
#include <stdlib.h>

enum {
	SHARED_MOST = VIEW_MEMS - 3, /* memtables that a child may get from its parent: it must be able to freeze its own */
	CANDIDATES = 16,
};

/* ---- the steps ---- */

static int enough_room(struct tablet *t)
{
	unsigned mems;

	mutex_lock(&t->lock);
	mems = t->view->mem_count;
	mutex_unlock(&t->lock);
	return mems <= SHARED_MOST && !t->pending ? 0 : t->env->compactor->flush(t);
}

int tablet_move_prepare(struct tablet *t)
{
	int err;

	tablet_replay_done(t);
	t->split_wanted = true; /* the background leaves off */
	err = tablet_job_begin(t, &t->majoring);
	if (!err && (err = tablet_job_begin(t, &t->merging)))
		tablet_job_end(t, &t->majoring);
	if (err)
		t->split_wanted = false;
	return err;
}

void tablet_move_done(struct tablet *t)
{
	t->split_wanted = false;
	tablet_job_end(t, &t->merging);
	tablet_job_end(t, &t->majoring);
	tablet_want_merge(t);
}

int tablet_split_begin(struct tablet *t)
{
	int err = tablet_job_begin(t, &t->flushing);

	if (err)
		return err;
	/* What was compacted and could not be entered in METADATA comes first: the children must not both have it. */
	err = t->env->compactor->repeat_edits(t);
	if (!err)
		err = enough_room(t);
	if (err) {
		tablet_job_end(t, &t->flushing);
		tablet_want_flush(t);
		return err;
	}
	mutex_lock(&t->edit);
	return 0;
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
	struct view *v = view_new(child->view->file_count), *old;
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
	for (unsigned i = 0; i < child->view->file_count; i++)
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
	old = view_swap(child, v); /* nobody else knows the child yet */
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
		t->view->mems[i]->tablets++; /* the parent's share passes to one of two children */
		t->view->mems[i]->shared = true;
	}
	mutex_unlock(&t->lock);
}

static void raise(int64_t *to, int64_t v)
{
	if (v > *to)
		*to = v;
}

/* A merged tablet has two parents: the greater of all. */
void tablet_split_inherit(struct tablet *parent, struct tablet *child)
{
	mutex_lock(&parent->lock);
	raise(&child->loaded_newest_us, parent->loaded_newest_us);
	raise(&child->freeze_us, parent->freeze_us);
	if (parent->next_seq > child->next_seq)
		child->next_seq = parent->next_seq;
	child->published = child->next_seq - 1;
	for (unsigned i = 0; i < STRIPES; i++) {
		raise(&child->loaded_newest_us, parent->stripes[i].newest_us);
		child->stripes[i].changed_seq = child->next_seq - 1;
	}
	child->major_unset |= parent->major_unset;
	child->redo_own = parent->redo_own;
	child->redo_maybe = parent->redo_maybe;
	child->dir_durable |= parent->dir_durable;
	child->state = TABLET_SERVING;
	mutex_unlock(&parent->lock);
}

void tablet_split_end(struct tablet *t, bool done)
{
	mutex_lock(&t->lock);
	if (done)
		t->state = TABLET_GONE;
	mutex_unlock(&t->lock);
	mutex_unlock(&t->edit);
	tablet_job_end(t, &t->flushing);
}

/* ---- merging ---- */

static bool is_clean(struct tablet *t)
{
	bool clean;

	mutex_lock(&t->lock);
	clean = t->view->mem_count == 1 && !memtable_count(t->view->mems[0]->m) && !t->writers && !t->redo_count &&
		!t->redo_maybe && !t->redo_own && !t->pending;
	mutex_unlock(&t->lock);
	return clean;
}

/*
 * What writes that were refused leave: they have noted from where on they
 * would need the log (redo_maybe), and a flush may be trying to enter that it
 * has flushed nothing (pending).
 */
static bool has_no_cells(struct tablet *t)
{
	bool none;

	mutex_lock(&t->lock);
	none = !t->writers && !t->redo_count && !t->redo_own;
	for (unsigned i = 0; i < t->view->mem_count; i++)
		none &= !memtable_count(t->view->mems[i]->m);
	mutex_unlock(&t->lock);
	return none;
}

static void stop_writers(struct tablet *t)
{
	mutex_lock(&t->lock);
	t->state = TABLET_SPLITTING;
	writers_wait(t, t->next_seq - 1);
	mutex_unlock(&t->lock);
	/* Who is entering the tablet in the redo set is done after this, and nobody begins any more. */
	mutex_lock(&t->edit);
	mutex_unlock(&t->edit);
}

int tablet_merge_begin(struct tablet *t)
{
	int err = tablet_job_begin(t, &t->flushing);

	if (err)
		return err;
	err = t->env->compactor->repeat_edits(t);
	if (!err)
		err = t->env->compactor->flush(t); /* most of it, with writers going on */
	if (err) {
		tablet_job_end(t, &t->flushing);
		tablet_want_flush(t);
	}
	return err;
}

int tablet_merge_stop(struct tablet *t)
{
	int err;

	stop_writers(t);
	err = t->env->compactor->flush(t);
	return err ? err : is_clean(t) ? 0 : -EBUSY;
}

int tablet_merge_again(struct tablet *t)
{
	int err = tablet_job_begin(t, &t->flushing);

	if (err)
		return err;
	stop_writers(t);
	return has_no_cells(t) ? 0 : -EBUSY;
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
	if (child->env->no_background)
		return;
	if (child->view->mem_count > 1) /* what is shared is held in memory until both have flushed it */
		tablet_want_flush(child);
	else
		tablet_want_merge(child);
}

/* ---- where ---- */

struct place {
	struct vfile *file;
	uint64_t from, to; /* offsets of what is the tablet's of it */
};

static int places(const struct view *v, struct place *p, unsigned *count, uint64_t *bytes)
{
	unsigned n = 0;

	*bytes = 0;
	for (unsigned i = 0; i < v->file_count; i++) {
		struct vfile *f = v->files[i];
		int err;

		if (vfile_empty(f) || vfile_excluded(f))
			continue;
		p[n].file = f;
		if ((err = sst_offset_of(f->sst, buf_slice(&f->first), &p[n].from)) ||
			(err = sst_offset_of(f->sst, buf_slice(&f->after), &p[n].to)))
			return err;
		*bytes += p[n].to - p[n].from;
		n++;
	}
	*count = n;
	return 0;
}

static int bytes_below(const struct place *p, unsigned n, struct slice key, uint64_t *below)
{
	*below = 0;
	for (unsigned i = 0; i < n; i++) {
		uint64_t at;
		int err = sst_offset_of(p[i].file->sst, key, &at);

		if (err)
			return err;
		at = at < p[i].from ? p[i].from : at > p[i].to ? p[i].to : at;
		*below += at - p[i].from;
	}
	return 0;
}

static int by_size(const void *a, const void *b)
{
	const struct place *x = a, *y = b;
	uint64_t m = x->to - x->from, n = y->to - y->from;

	return (m < n) - (m > n);
}

/* The row that stands nearest to the middle of the files' bytes, of the rows in the middle of each of the largest. */
static int middle(const struct view *v, struct buf *row)
{
	struct place *p = calloc(v->file_count + 1u, sizeof *p);
	struct buf key = {0}, scratch = {0}, prefix = {0};
	uint64_t bytes, best = UINT64_MAX;
	unsigned n = 0;
	int err = p ? places(v, p, &n, &bytes) : -ENOMEM;

	if (!err)
		qsort(p, n, sizeof *p, by_size);
	for (unsigned i = 0; i < n && i < CANDIDATES && !err; i++) {
		struct cellkey k;
		uint64_t below, off;

		buf_reset(&prefix);
		err = sst_key_near(p[i].file->sst, p[i].from + (p[i].to - p[i].from) / 2, &key);
		if (err)
			break;
		if ((err = cellkey_decode(buf_slice(&key), &k, &scratch)) || (err = cellkey_row_prefix(&prefix, k.row)) ||
			(err = bytes_below(p, n, buf_slice(&prefix), &below)))
			break;
		off = below > bytes / 2 ? below - bytes / 2 : bytes / 2 - below;
		if (off >= best)
			continue;
		best = off;
		err = buf_set(row, k.row.p, k.row.n);
	}
	buf_fini(&key);
	buf_fini(&scratch);
	buf_fini(&prefix);
	free(p);
	return err ? err : best == UINT64_MAX ? -ENOENT : 0;
}

/*
 * Would a split there lead anywhere?  Bytes are counted in whole blocks, and a
 * block that a border cuts is the upper part's.  So where all that a tablet
 * has lies in one block, a split makes a part with nothing, a row, and one
 * that seems as large as before; and again, row by row.  This ends where the
 * block is shared already: a major compaction gives each tablet its own.
 */
static int leads_on(const struct view *v, struct slice row, bool *on)
{
	struct place *p = calloc(v->file_count + 1u, sizeof *p);
	struct buf prefix = {0};
	uint64_t bytes, below;
	unsigned n;
	int err = p ? places(v, p, &n, &bytes) : -ENOMEM;

	if (!err && !(err = cellkey_row_prefix(&prefix, row)) && !(err = bytes_below(p, n, buf_slice(&prefix), &below))) {
		*on = true;
		for (unsigned i = 0; i < n && (!below || below == bytes); i++)
			*on &= !p[i].file->clip;
	}
	buf_fini(&prefix);
	free(p);
	return err;
}

/* The first live row at or above from, or above it. */
static int first_row(struct tablet *t, struct slice from, bool after, struct buf *row)
{
	struct scan_spec spec = {.what = SCAN_ROWS, .row_from = from, .row_from_after = after, .limit = 1, .batch_bytes = 1};
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
	bool on = false;
	struct snap snap;
	int err;

	tablet_enter(t);
	snap_take(t, &snap);
	err = middle(snap.view, &row);
	if (!err)
		err = first_row(t, slice_of(NULL, 0), false, &least);
	/* Both parts are to have rows; a row that is larger than half of all leaves no better place than before it or behind it. */
	if (!err && slice_cmp(buf_slice(&row), buf_slice(&least)) <= 0)
		err = first_row(t, buf_slice(&least), true, &row);
	else if (!err)
		err = first_row(t, buf_slice(&row), false, &row);
	if (!err)
		err = leads_on(snap.view, buf_slice(&row), &on);
	snap_put(&snap);
	if (!err && !on)
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

/* ---- what is left over ---- */

/*
 * Files that lie wholly in the sibling go from the list; the begin hint is
 * written with them.  Nothing depends on it: an upper child's row lists them
 * until then.
 */
static int list_empty_files(struct tablet *t, struct tablet_change *c, bool *needless)
{
	struct file_set *empty = c->arg;
	int err = t->state == TABLET_SERVING ? 0 : -ESHUTDOWN;

	(void)needless;
	for (unsigned i = 0; i < t->view->file_count && !err; i++)
		if (vfile_empty(t->view->files[i]) && !t->view->files[i]->busy)
			err = file_set_add(empty, t->view->files[i]);
	c->removed = empty;
	return err;
}

int tablet_split_tidy(struct tablet *t, const char *event)
{
	struct file_set empty = {0};
	struct tablet_change c = {.edit = {.event = event}, .prepare = list_empty_files, .arg = &empty};
	int err;

	tablet_enter(t);
	err = tablet_change(t, &c);
	tablet_drop_files(t, &empty, !err);
	tablet_leave(t);
	return err;
}
