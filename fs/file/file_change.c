/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SETATTR's part in files: truncation and times.
 *
 * ftruncate and truncate come with and without a descriptor; without one the
 * cut is a commit of its own.  Kernels send futimens without a descriptor, so
 * a time is matched by node: it is meant for the last descriptor that wrote
 * and has not been released, as long as what it committed is the newest
 * version; else it moves the newest version, atomically, as touch -d asks.
 */
#include "fs/file/file.h"

#include "fs/node/control.h"
#include "fs/base/reply.h"

#include <errno.h>

/* A commit of its own. */
static int cut_plain(struct filex *x, struct node *n, uint64_t size, struct changes *c)
{
	struct writer once;
	struct cell_place p;
	struct family_info f;
	struct tfs_info info = {0};
	int r;

	writer_init(&once);
	once.latest = node_is_latest(n);
	cell_place_of(n, &p);
	r = family_info_get(p.family_node, &f);
	if (r == 0)
		r = cell_stat(&p, &info);
	if (r == -ENOENT && x->handles)
		r = 0; /* created, and not yet committed */
	if (r == 0 && info.ts == INT64_MAX)
		r = refuse(-EOVERFLOW, n, NULL, "its newest version has the largest timestamp there is");
	once.base_size = info.size;
	if (r == 0 && f.counter) {
		r = writer_load(&once, &p, &info);
		once.whole = true;
	}
	if (r == 0)
		r = writer_truncate(&once, size);
	if (r == 0)
		r = writer_commit(&once, x->node, true, x, c);
	writer_fini(&once);
	return r;
}

static int truncate_plain(struct node *n, struct handle *h, uint64_t size, struct changes *c)
{
	struct filex *x = filex_get(n);
	struct mutex *row = ofile_row_lock(n);
	int r;

	if (!x)
		return -ENOMEM;
	mutex_lock(row);
	mutex_lock(&x->lock);
	if (!h && !node_lives(n))
		r = -ESTALE;
	else
		r = h ? writer_truncate(&h->w, size) : cut_plain(x, n, size, c);
	mutex_unlock(&x->lock);
	mutex_unlock(row);
	filex_put(x);
	return r;
}

static int truncate_version(struct node *n, struct handle *h, uint64_t size, struct changes *c)
{
	struct filex *own = filex_get(n), *x;
	struct mutex *row = ofile_row_lock(n);
	bool pending;
	int r = 0;

	if (!own)
		return -ENOMEM;
	mutex_lock(row);
	x = version_lock(n);
	pending = writer_pending(&x->w);
	if (!h)
		r = node_lives(n) ? version_ready(x) : -ESTALE;
	if (r == -ENOENT && pending)
		r = 0;
	if (r == 0)
		r = writer_truncate(&x->w, size);
	if (r == 0 && !h)
		r = writer_commit(&x->w, x->node, true, x, c);
	version_unlock(x);
	mutex_unlock(row);
	filex_put(own);
	return r;
}

static int truncate_other(struct node *n, struct handle *h, uint64_t size)
{
	struct filex *x = filex_get(n);
	int r = 0;

	if (!x)
		return -ENOMEM;
	mutex_lock(&x->lock);
	if (n->kind == NODE_SCRATCH_FILE) {
		filex_wait(x, &x->w);
		x->mtime_us = fs_now_us();
		r = writer_truncate(&x->w, size);
	} else if (h) {
		r = writer_truncate(&h->w, size);
	} /* else there is nothing to keep it in: O_TRUNC does it at open */
	mutex_unlock(&x->lock);
	filex_put(x);
	return r;
}

int ofile_truncate(struct node *n, struct handle *h, uint64_t size, struct changes *c)
{
	int r = -EISDIR;

	switch (file_kind(n)) {
	case FILE_PLAIN:
		r = truncate_plain(n, h, size, c);
		break;
	case FILE_VERSION:
		r = h && h->w.dead ? 0 : truncate_version(n, h, size, c);
		break;
	case FILE_SCRATCH:
	case FILE_SCHEMA:
	case FILE_SETTING:
		r = truncate_other(n, h, size);
		break;
	case FILE_NONE:
		break;
	}
	if (r == -EFBIG)
		refuse(r, n, NULL, "a value is at most 64 MiB");
	return r == -ENOENT ? -ESTALE : r;
}

/* The descriptor that a time set on the node is meant for: the last one that wrote. */
static struct handle *timed_handle(struct filex *x)
{
	struct handle *done = NULL;

	for (struct handle *h = x->handles; h; h = h->next) {
		if (!h->writable || h->w.error || h->w.dead || !node_lives(h->target))
			continue;
		if (writer_pending(&h->w))
			return h;
		if (h->w.committed && !done)
			done = h;
	}
	return done;
}

/* Under the row's lock, and no file's. */
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
	r = tfs_stat(p.table, p.row, p.family, p.qualifier, p.ts, &info);
	if (r || info.ts == us)
		return r;
	if (latest) {
		struct writer w;

		writer_init(&w);
		w.committed = w.time_set = w.latest = true;
		w.commit_ts = info.ts;
		w.time = us;
		r = writer_retime(&w, n, c);
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

/* The time of what w writes, staged or committed.  The row's and the file's lock are held; the latter is let go while the store works. */
static int set_writers_time(struct filex *x, struct writer *w, struct node *target, int64_t us, struct changes *c)
{
	bool was_set = w->time_set;
	int64_t was = w->time;
	int r;

	w->time_set = true;
	w->time = us;
	if (writer_pending(w))
		return 0;
	w->busy = true;
	mutex_unlock(&x->lock);
	r = writer_retime(w, target, c);
	if (r == 1)
		r = touch(target, us, w->latest, c);
	mutex_lock(&x->lock);
	w->busy = false;
	cond_broadcast(&x->idle);
	if (r) {
		w->time_set = was_set;
		w->time = was;
	}
	return r;
}

static int set_plain_time(struct node *n, int64_t us, struct changes *c)
{
	struct mutex *row = ofile_row_lock(n);
	struct node *target = NULL;
	struct handle *h = NULL;
	struct filex *x;
	uint64_t size;
	int r = 0;

	mutex_lock(row);
	x = filex_find(n);
	if (x) {
		mutex_lock(&x->lock);
		h = timed_handle(x);
		target = h ? h->target : x->forward;
		if (target)
			node_hold(target);
		if (h)
			r = set_writers_time(x, &h->w, target, us, c);
		mutex_unlock(&x->lock);
		filex_put(x);
	}
	if (!h && !target && !node_lives(n))
		r = -ENOENT;
	else if (!h)
		r = touch(target ? target : n, us, node_is_latest(n), c);
	mutex_unlock(row);
	node_put(target);
	/* The time of a file that was removed while open is nobody's. */
	if (r == -ENOENT)
		r = ofile_is_open(n, &size) ? 0 : -ESTALE;
	return r;
}

static int set_scratch_time(struct node *n, int64_t us, struct changes *c)
{
	struct filex *x = filex_find(n);
	struct node *target;
	struct mutex *row;
	int r = 0;

	if (!x)
		return -ESTALE;
	mutex_lock(&x->lock);
	target = x->forward;
	if (target)
		node_hold(target);
	mutex_unlock(&x->lock);
	row = target ? ofile_row_lock(target) : NULL;
	if (row)
		mutex_lock(row);
	mutex_lock(&x->lock);
	x->mtime_us = us;
	x->w.touched_us = fs_now_us();
	filex_wait(x, &x->w);
	/* Renamed onto a cell, still open?  What was written to it since has the time of its own commit. */
	if (row && x->forward && node_lives(x->forward) && x->forward->kind == NODE_PLAIN && !x->w.dirty) {
		node_put(target);
		target = x->forward;
		node_hold(target);
		r = set_writers_time(x, &x->w, target, us, c);
	} else {
		x->w.time_set = true;
		x->w.time = us;
	}
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
		return control_set_time(n, us, c);
	case FILE_VERSION: /* the name has the time */
	case FILE_NONE:
		break;
	}
	return 0;
}
