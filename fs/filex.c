/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of open files, apart from the calls on them: who has a node
 * open, what stat shows while something is pending, and what happens to open
 * descriptors when their name is removed, replaced or renamed.
 *
 * Removal: readers of a version are given a private copy of its content
 * before it goes (the store has no notion of an unlinked cell that is still
 * open); a plain name's readers have theirs since open.  Writers are cut off
 * by a new life: plain nodes count theirs in node->epoch, versions in
 * filex.life, and a writer of an older life commits nothing.
 */
#include "fs/file.h"

#include "engine/base/msg.h"
#include "fs/control.h"

#include <errno.h>
#include <stdlib.h>

struct filex *filex_get(struct node *n)
{
	struct filex *fresh = calloc(1, sizeof(*fresh)), *x;

	if (!fresh)
		return NULL;
	mutex_init(&fresh->lock, RANK_FS_NODE);
	writer_init(&fresh->w);
	fresh->mtime_us = TFS_NO_TIME;
	mutex_lock(tree_mutex());
	if (!n->file) {
		n->file = fresh;
		fresh = NULL;
	}
	x = n->file;
	x->refs++;
	mutex_unlock(tree_mutex());
	filex_free(fresh);
	return x;
}

struct filex *filex_find(struct node *n)
{
	struct filex *x;

	mutex_lock(tree_mutex());
	x = n->file;
	if (x)
		x->refs++;
	mutex_unlock(tree_mutex());
	return x;
}

void filex_put(struct node *n, struct filex *x)
{
	bool last;

	if (!x)
		return;
	mutex_lock(tree_mutex());
	last = --x->refs == 0;
	if (last && n->file == x)
		n->file = NULL;
	mutex_unlock(tree_mutex());
	if (last)
		filex_free(x);
}

void filex_free(struct filex *x)
{
	if (!x)
		return;
	writer_fini(&x->w);
	mutex_fini(&x->lock);
	free(x);
}

void filex_let_go(struct filex *x)
{
	if (!x->given || x->handles)
		return;
	writer_fini(&x->w);
	writer_init(&x->w);
}

void filex_drop_locked(struct filex *x)
{
	if (x && (x->refs <= 1 || --x->refs == 0))
		filex_free(x);
}

struct mutex *ofile_row_lock(struct node *n)
{
	for (; n; n = n->parent)
		if (n->kind == NODE_ROW)
			return fs_row_lock(n);
	return NULL;
}

/* The writer whose state stat shows; the file's lock is held. */
static const struct writer *pending_of(struct node *n, struct filex *x)
{
	if (n->kind == NODE_VERSION)
		return writer_pending(&x->w) ? &x->w : NULL;
	for (struct handle *h = x->handles; h; h = h->next)
		if (h->target == n && h->w.life == n->epoch && writer_pending(&h->w))
			return &h->w;
	return NULL;
}

bool ofile_pending(struct node *n, uint64_t *size, int64_t *time_us)
{
	struct filex *x = filex_find(n);
	const struct writer *w;

	if (!x)
		return false;
	mutex_lock(&x->lock);
	w = pending_of(n, x);
	if (w) {
		*size = writer_size(w);
		*time_us = w->time_set ? w->time : w->touched_us;
	}
	mutex_unlock(&x->lock);
	filex_put(n, x);
	return w != NULL;
}

bool ofile_is_open(struct node *n, uint64_t *size)
{
	struct filex *x = filex_find(n);
	bool open;

	*size = 0;
	if (!x) {
		mutex_lock(tree_mutex());
		open = n->opens > 0;
		mutex_unlock(tree_mutex());
		*size = n->size;
		return open;
	}
	mutex_lock(&x->lock);
	open = x->handles != NULL || x->orphan;
	if (x->handles && n->kind == NODE_PLAIN)
		*size = writer_size(&x->handles->w);
	else
		*size = writer_size(&x->w);
	mutex_unlock(&x->lock);
	filex_put(n, x);
	return open;
}

void ofile_cut_off_version(struct node *family_node, struct slice qualifier, int64_t ts)
{
	struct node *main_family = family_node, *twin = NULL, *n;
	struct filex *x = NULL;
	bool wanted, again;

	if (node_is_latest(family_node)) {
		twin = family_twin(family_node);
		main_family = twin;
		if (!twin)
			return;
	}
	n = node_find(main_family, NODE_VERSION, qualifier, ts);
	if (!n)
		goto out;
	mutex_lock(tree_mutex());
	wanted = n->opens > 0 || n->file;
	mutex_unlock(tree_mutex());
	if (!wanted)
		goto out;
	x = filex_get(n);
	if (!x)
		goto out;
	mutex_lock(&x->lock);
	again = x->orphan; /* an earlier life, still open: its reference is there */
	if (!again || !x->w.dead) {
		struct cell_place p;
		struct family_info f;
		struct tfs_info info;
		bool keep = writer_pending(&x->w) && x->w.whole;

		cell_place_of(n, &p);
		if (!keep) {
			/* What a writer had staged goes; the readers see the version as it was. */
			writer_fini(&x->w);
			writer_init(&x->w);
			if (family_info_get(main_family, &f) == 0)
				(void)!writer_load(&x->w, &p, &f, &info);
		}
		x->w.dead = true;
		x->w.loaded = true;
		x->w.dirty = x->w.fresh = false;
		x->life++;
		x->orphan = true; /* keeps the reference taken above until nobody has it open */
		n->epoch = 0;
	}
	mutex_unlock(&x->lock);
	if (again)
		filex_put(n, x);
out:
	node_put(n);
	node_put(twin);
}

void ofile_cut_off_versions(struct node *family_node, struct slice qualifier, const struct versions *v)
{
	for (size_t i = 0; i < v->n; i++)
		ofile_cut_off_version(family_node, qualifier, v->ts[i]);
}

static void new_life(struct node *family_node, struct slice qualifier)
{
	struct node *n = node_find(family_node, NODE_PLAIN, qualifier, 0);

	if (n)
		n->epoch++;
	node_put(n);
}

void ofile_cut_off_plain(struct node *family_node, struct slice qualifier)
{
	struct node *twin = family_twin(family_node);

	new_life(family_node, qualifier);
	if (twin)
		new_life(twin, qualifier);
	node_put(twin);
}

int ofile_settle(struct node *n, struct changes *c)
{
	struct filex *x = filex_find(n);
	int r = 0;

	if (!x)
		return 0;
	mutex_lock(&x->lock);
	if (n->kind == NODE_PLAIN) {
		for (struct handle *h = x->handles; h && r == 0; h = h->next)
			if (h->target == n && writer_pending(&h->w))
				r = writer_commit(&h->w, n, true, c);
	} else if (n->kind == NODE_VERSION) {
		r = writer_commit(&x->w, n, true, c);
	}
	mutex_unlock(&x->lock);
	filex_put(n, x);
	return r;
}

void ofile_forward(struct node *n, struct node *target, int64_t commit_ts)
{
	struct filex *x = filex_find(n);
	struct node *old = NULL;

	if (!x)
		return;
	mutex_lock(&x->lock);
	if (n->kind == NODE_PLAIN) {
		for (struct handle *h = x->handles; h; h = h->next) {
			if (h->target != n || h->w.life != n->epoch)
				continue;
			node_hold(target);
			node_put(h->target);
			h->target = target;
			h->w.life = target->epoch;
			if (h->w.committed)
				h->w.commit_ts = commit_ts;
		}
	} else if (n->kind == NODE_SCRATCH_FILE) {
		x->w.committed = true;
		x->w.commit_ts = commit_ts;
		x->w.life = target->epoch;
		x->w.dirty = x->w.fresh = false;
		x->given = true;
		filex_let_go(x);
	}
	if (x->handles) {
		old = x->forward;
		node_hold(target);
		x->forward = target;
	}
	mutex_unlock(&x->lock);
	filex_put(n, x);
	node_put(old);
}
