/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SETATTR of files: truncation and times.
 *
 * The kernel sends a truncation with or without a descriptor.  Without one it
 * is a commit of its own.
 *
 * The kernel sends futimens without a descriptor.  So a time is meant for the
 * descriptor that wrote last, if that is still open and the version that it
 * committed is the newest.  Otherwise it moves the newest version, atomically,
 * as touch -d does.
 */
#include "fs/file/file.h"

#include "fs/file/share.h"
#include "fs/base/reply.h"

#include <errno.h>

/* Truncates a plain name in a commit of its own. */
static int cut_plain(struct filex *x, struct node *n, uint64_t size, struct changes *c)
{
	struct writer once;
	struct family_info f;
	struct tfs_info info = {0};
	int r;

	writer_init(&once);
	once.latest = node_is_latest(n);
	once.target = x->node;
	r = family_info_get(n->parent, &f);
	if (r == 0)
		r = cell_node_stat(n, &info);
	if (r == -ENOENT && x->handles)
		r = 0; /* created, not committed */
	if (r == 0 && info.ts == INT64_MAX)
		r = refuse(-EOVERFLOW, n, NULL, "its newest version has the largest timestamp there is");
	if (r == 0 && f.counter) {
		r = cell_load(n, false, &once.image, &info);
		once.holds = IMAGE_WHOLE;
	}
	once.base_size = info.size;
	if (r == 0)
		r = writer_truncate(&once, size);
	if (r == 0)
		r = writer_commit(&once, true, x, c);
	writer_fini(&once);
	return r;
}

static int truncate_handle(struct handle *h, uint64_t size, struct changes *c)
{
	int r = share_lock(h, true, c);

	if (r)
		return r;
	r = h->node->kind == NODE_SCRATCH_FILE ? scratch_truncate(h->x, size) : writer_truncate(h->content, size);
	mutex_unlock(&h->x->lock);
	return r;
}

static int truncate_name(struct node *n, uint64_t size, struct changes *c)
{
	struct mutex *row = ofile_row_lock(n);
	struct filex *x;
	int r;

	if (n->kind == NODE_SCHEMA || n->kind == NODE_SETTING)
		return 0; /* open with O_TRUNC truncates it */
	if (row)
		mutex_lock(row);
	x = filex_get(n);
	if (x) {
		mutex_lock(&x->lock);
		if (n->kind == NODE_SCRATCH_FILE) {
			r = scratch_truncate(x, size);
		} else if (!node_lives(n)) {
			r = -ESTALE;
		} else if (n->kind == NODE_PLAIN) {
			r = cut_plain(x, n, size, c);
		} else {
			r = version_ready(x);
			if (r == 0)
				r = writer_truncate(&x->w, size);
			if (r == 0)
				r = writer_commit(&x->w, true, x, c);
		}
		mutex_unlock(&x->lock);
	} else {
		r = -ENOMEM;
	}
	if (row)
		mutex_unlock(row);
	filex_put(x);
	return r;
}

int ofile_truncate(struct node *n, struct handle *h, uint64_t size, struct changes *c)
{
	int r = node_is_dir(n) ? -EISDIR : h ? truncate_handle(h, size, c) : truncate_name(n, size, c);

	if (r == -EFBIG)
		refuse(r, n, NULL, "a value is at most 64 MiB");
	return r == -ENOENT ? -ESTALE : r;
}

/* Returns the content to which a time that is set on the node applies, or NULL. */
static struct writer *timed_writer(struct filex *x)
{
	struct writer *done = NULL;

	for (struct handle *h = x->handles; h; h = h->next) {
		struct writer *w = h->content;

		if (!h->writable || w->error || !w->target || !node_lives(w->target))
			continue;
		if (writer_pending(w))
			return w;
		if (w->committed && !done)
			done = w;
	}
	return done;
}

/* Moves the newest version of n to the time.  The row's lock is held, and no file's. */
static int touch(struct node *n, int64_t us, bool latest, struct changes *c)
{
	struct tfs_result result[1];
	struct tfs_mutation *m;
	struct kept kept = {0};
	struct cell_place p;
	struct tfs_info info;
	int r;

	if (n->kind != NODE_PLAIN || !node_lives(n))
		return 0;
	cell_place_of(n, &p);
	r = cell_stat(&p, &info);
	if (r || info.ts == us)
		return r;
	if (latest) {
		struct writer w;

		writer_init(&w);
		w.target = n;
		w.committed = w.latest = true;
		w.commit_ts = info.ts;
		w.time = us;
		r = writer_retime(&w, c);
		writer_fini(&w);
		return r;
	}
	r = kept_add(&kept, p.family_node, node_key(n), info.ts, true);
	m = r ? NULL : tfs_mutation_new(p.table, p.row);
	if (r == 0)
		r = m ? tfs_mutation_set_time(m, p.family, p.qualifier, us) : -ENOMEM;
	if (r == 0)
		r = tfs_apply(m, 0, result);
	tfs_mutation_free(m);
	if (r == 0) {
		cell_changed(c, p.family_node, node_key(n), info.ts, true, NULL);
		cell_changed(c, p.family_node, node_key(n), us, false, NULL);
		kept_moved(&kept, p.family_node, node_key(n), info.ts, n, us, c);
	}
	kept_fini(&kept);
	return r == -EINVAL ? refuse(r, n, NULL, "a time cannot pass another version's") : r;
}

/*
 * Sets the time of what w has staged or committed.  The row's and the file's
 * lock are held; the latter is released while the store works.
 */
static int set_writers_time(struct filex *x, struct writer *w, int64_t us, struct changes *c)
{
	int64_t was = w->time;
	int r;

	w->time = us;
	if (writer_pending(w))
		return 0;
	w->busy = true;
	mutex_unlock(&x->lock);
	r = writer_retime(w, c);
	if (r == 1)
		r = touch(w->target, us, w->latest, c);
	mutex_lock(&x->lock);
	w->busy = false;
	cond_broadcast(&x->idle);
	if (r)
		w->time = was;
	return r;
}

static int set_plain_time(struct node *n, int64_t us, struct changes *c)
{
	struct mutex *row = ofile_row_lock(n);
	struct node *target = NULL;
	struct writer *w = NULL;
	struct filex *x;
	uint64_t size;
	int r = 0;

	mutex_lock(row);
	x = filex_find(n);
	if (x) {
		mutex_lock(&x->lock);
		w = timed_writer(x);
		if (w)
			r = set_writers_time(x, w, us, c);
		mutex_unlock(&x->lock);
		target = w ? NULL : filex_target(x);
		filex_put(x);
	}
	if (!w && !target && !node_lives(n))
		r = -ENOENT;
	else if (!w)
		r = touch(target ? target : n, us, node_is_latest(n), c);
	mutex_unlock(row);
	node_put(target);
	/* A file that was removed while open has no stored time. */
	if (r == -ENOENT)
		r = ofile_is_open(n, &size) ? 0 : -ESTALE;
	return r;
}

static int set_scratch_time(struct node *n, int64_t us, struct changes *c)
{
	struct filex *x = filex_find(n);
	struct node *target = x ? filex_target(x) : NULL;
	struct mutex *row = target ? ofile_row_lock(target) : NULL;
	int r = 0;

	if (!x)
		return -ESTALE;
	if (row)
		mutex_lock(row);
	mutex_lock(&x->lock);
	x->mtime_us = us;
	x->w.touched_us = fs_now_us();
	filex_wait(x, &x->w);
	/* It was renamed to a cell: the time is the cell's, unless bytes were written since. */
	if (row && x->w.target && node_lives(x->w.target) && x->w.target->kind == NODE_PLAIN && x->w.staged != STAGED_BYTES)
		r = set_writers_time(x, &x->w, us, c);
	else
		x->w.time = us;
	mutex_unlock(&x->lock);
	if (row)
		mutex_unlock(row);
	node_put(target);
	filex_put(x);
	return r == -ENOENT ? 0 : r;
}

int ofile_set_time(struct node *n, int64_t us, struct changes *c)
{
	switch (file_kind(n)) {
	case FILE_PLAIN:
		return set_plain_time(n, us, c);
	case FILE_SCRATCH:
		return set_scratch_time(n, us, c);
	case FILE_SCHEMA:
	case FILE_SETTING:
	case FILE_VERSION:
	case FILE_NONE:
		break;
	}
	return 0;
}
