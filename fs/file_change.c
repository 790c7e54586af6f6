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
#include "fs/file.h"

#include "fs/control.h"
#include "fs/reply.h"

#include <errno.h>

int ofile_truncate(struct node *n, struct handle *h, uint64_t size, struct changes *c)
{
	struct filex *x = filex_get(n);
	struct mutex *row = n->kind == NODE_SCRATCH_FILE ? NULL : ofile_row_lock(n);
	struct node *target = h ? h->target : n;
	struct writer once, *w = NULL;
	int r = 0;

	if (!x)
		return -ENOMEM;
	writer_init(&once);
	if (row)
		mutex_lock(row);
	mutex_lock(&x->lock);
	switch (file_kind(n)) {
	case FILE_PLAIN:
		w = h ? &h->w : &once;
		break;
	case FILE_VERSION:
		w = h && h->life != x->life ? NULL : &x->w;
		break;
	case FILE_SCRATCH:
		w = &x->w;
		filex_wait(x, n, w);
		x->mtime_us = fs_now_us();
		break;
	case FILE_SCHEMA:
	case FILE_SETTING:
		w = h ? &h->w : NULL; /* without a descriptor there is nothing to keep it in: O_TRUNC does it at open */
		break;
	case FILE_NONE:
		r = -EISDIR;
		break;
	}
	if (!w)
		goto out;
	if (!h && (n->kind == NODE_PLAIN || n->kind == NODE_VERSION)) {
		struct cell_place p;
		struct family_info f;
		struct tfs_info info = {0};

		cell_place_of(n, &p);
		r = family_info_get(p.family_node, &f);
		if (r == 0)
			r = cell_stat(&p, &f, &info);
		if (r == -ENOENT && (writer_pending(w) || x->handles))
			r = 0;
		if (r == 0 && info.ts == INT64_MAX && n->kind == NODE_PLAIN)
			r = refuse(-EOVERFLOW, n, NULL, "its newest version has the largest timestamp there is");
		if (r == 0 && f.counter && n->kind == NODE_PLAIN) {
			r = writer_load(w, &p, &f, &info);
			w->whole = true;
		}
		once.life = n->epoch;
		if (r == 0 && w->dead && n->kind == NODE_VERSION) {
			writer_fini(w);
			writer_init(w);
		}
		if (r == 0 && !writer_pending(w))
			w->base_size = info.size;
	}
	if (r == 0)
		r = writer_truncate(w, size);
	if (r == -EFBIG)
		refuse(r, n, NULL, "a value is at most 64 MiB");
	if (r == 0 && !h && (n->kind == NODE_PLAIN || n->kind == NODE_VERSION))
		r = writer_commit(w, target, true, &x->lock, c);
out:
	mutex_unlock(&x->lock);
	if (row)
		mutex_unlock(row);
	writer_fini(&once);
	filex_put(n, x);
	return r == -ENOENT ? -ESTALE : r;
}

/* The descriptor that a time set on the node is meant for: the last one that wrote. */
static struct handle *timed_handle(struct node *n, struct filex *x)
{
	struct handle *done = NULL;

	for (struct handle *h = x->handles; h; h = h->next) {
		if (!h->writable || h->w.error || h->w.dead || h->w.life != h->target->epoch)
			continue;
		if (writer_pending(&h->w))
			return h;
		if (h->w.committed && !done)
			done = h;
	}
	(void)n;
	return done;
}

static int touch(struct node *n, int64_t us, struct changes *c)
{
	struct tfs_result result[1];
	struct tfs_mutation *m;
	struct cell_place p;
	struct tfs_info info;
	int r;

	cell_place_of(n, &p);
	r = tfs_stat(p.table, p.row, p.family, p.qualifier, p.ts, &info);
	if (r || info.ts == us)
		return r;
	if (node_is_latest(n)) {
		struct writer w;

		writer_init(&w);
		w.committed = true;
		w.commit_ts = info.ts;
		w.time_set = true;
		w.time = us;
		r = writer_retime(&w, n, c);
		writer_fini(&w);
		return r;
	}
	m = tfs_mutation_new(p.table, p.row);
	if (!m)
		return -ENOMEM;
	r = tfs_mutation_set_time(m, p.family, p.qualifier, us);
	if (r == 0)
		r = tfs_apply(m, 0, result);
	tfs_mutation_free(m);
	if (r == -EINVAL)
		return refuse(r, n, NULL, "a time cannot pass another version's");
	if (r)
		return r;
	cell_changed(c, p.family_node, node_key(n), info.ts, true, NULL);
	cell_changed(c, p.family_node, node_key(n), us, false, NULL);
	return 0;
}

int ofile_set_time(struct node *n, int64_t us, struct changes *c)
{
	struct mutex *row;
	struct filex *x;
	struct handle *h;
	struct node *target = NULL;
	uint64_t size;
	int r = 0;

	if (n->kind == NODE_VERSION)
		return 0; /* the name has the time */
	if (n->kind == NODE_SCHEMA || n->kind == NODE_SETTING)
		return control_set_time(n, us, c);
	row = ofile_row_lock(n);
	if (row)
		mutex_lock(row);
	x = filex_find(n);
	if (x) {
		mutex_lock(&x->lock);
		if (n->kind == NODE_SCRATCH_FILE) {
			x->mtime_us = us;
			x->w.time_set = true;
			x->w.time = us;
			target = x->forward;
			/* renamed onto a cell, still open */
			if (target && target->kind == NODE_PLAIN && target->epoch == x->w.life && !x->w.dirty) {
				r = writer_retime(&x->w, target, c);
				if (r == 1)
					r = touch(target, us, c);
			}
		} else {
			h = timed_handle(n, x);
			if (h) {
				target = h->target;
				h->w.time_set = true;
				h->w.time = us;
				if (!writer_pending(&h->w))
					r = writer_retime(&h->w, h->target, c);
				if (r == 1)
					r = touch(target, us, c);
			} else if (x->forward) {
				target = x->forward;
				r = touch(target, us, c);
			}
		}
		mutex_unlock(&x->lock);
		filex_put(n, x);
	}
	if (!target && n->kind == NODE_PLAIN)
		r = touch(n, us, c);
	if (row)
		mutex_unlock(row);
	/* The time of a file that was removed while open is nobody's. */
	if (r == -ENOENT)
		r = ofile_is_open(n, &size) ? 0 : -ESTALE;
	return r;
}
