/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A renamed scratch file is a second node over the same filex: the kernel
 * goes on using the old node for descriptors that are open and finds the new
 * one by name.  A directory of scratch is not renamed to another scratch name
 * (EXDEV; mv copies), but to a row or family (adopt.c).
 *
 * Serial numbers keep two lives of one scratch name apart, inode number
 * included.
 */
#include "fs/node/scratch.h"

#include "engine/base/msg.h"
#include "fs/node/control.h"
#include "fs/file/file.h"
#include "fs/node/made.h"
#include "fs/base/reply.h"
#include "fs/node/tree.h"

#include <errno.h>
#include <stdlib.h>

static _Atomic int64_t serial;

/* Like cells, scratch has neither setuid nor setgid: a chmod that sets them succeeds without them, so that cp -p and rsync go on. */
#define SCRATCH_MODES 01777

struct node *scratch_find(struct node *dir, struct slice name)
{
	struct node *n;

	mutex_lock(tree_mutex());
	n = node_extra_find_locked(dir, 0, name);
	if (n && n->kind != NODE_SCRATCH_FILE && n->kind != NODE_SCRATCH_DIR)
		n = NULL;
	if (n)
		n->refs++;
	mutex_unlock(tree_mutex());
	return n;
}

/* Has it, or something that it lies in, been removed? */
static bool is_removed(const struct node *dir)
{
	while (dir && node_lives(dir))
		dir = dir->parent;
	return dir != NULL;
}

/*
 * A new node for the name, listed; the tree lock is not held.  share: it is
 * renamed from another name, and takes the place of a file that has this one.
 */
static int place(struct node *dir, struct slice name, enum node_kind kind, struct filex *share, struct node **out)
{
	struct node *n = node_get(dir, kind, name, atomic_fetch_add(&serial, 1) + 1), *home = n ? node_home_get(dir) : NULL, *old;
	struct changes c = {0};
	int r = 0;

	if (!home) {
		node_put(n);
		return -ENOMEM;
	}
	mutex_lock(tree_mutex());
	/* Its directory stays while it has scratch, cells or not. */
	if (is_removed(dir))
		r = -ENOENT;
	else if (dir->kind == NODE_ROW || dir->kind == NODE_FAMILY || dir->kind == NODE_ROW_PART || dir->kind == NODE_CELL_PART)
		r = made_has_scratch_locked(home);
	old = r ? NULL : node_extra_find_locked(dir, 0, name);
	if (old && share && old->kind == NODE_SCRATCH_FILE) {
		node_end_locked(old);
		node_extra_replace_locked(old, n);
	} else if (old) {
		r = -EEXIST;
	} else if (r == 0) {
		r = node_extra_add_locked(n, EXTRA_SCRATCH);
	}
	if (r == 0 && share) {
		n->file = share;
		share->refs++;
	}
	mutex_unlock(tree_mutex());
	node_put(home);
	made_settle(&c);
	changes_send(&c);
	if (r == 0 && control_dropped(dir))
		r = -ESTALE;
	if (r)
		node_put(n);
	else
		*out = n;
	return r;
}

int scratch_make(struct node *dir, struct slice name, bool is_dir, mode_t mode, uid_t uid, gid_t gid, struct node **out)
{
	struct node *n;
	int r;

	r = place(dir, name, is_dir ? NODE_SCRATCH_DIR : NODE_SCRATCH_FILE, NULL, &n);
	if (r)
		return r;
	if (is_dir) {
		struct dirx *d;

		mutex_lock(tree_mutex());
		d = node_dirx_locked(n);
		if (d) {
			d->mode = mode & SCRATCH_MODES;
			d->uid = uid;
			d->gid = gid;
		}
		mutex_unlock(tree_mutex());
		r = d ? 0 : -ENOMEM;
	} else {
		struct filex *x = filex_get(n); /* the node's own count */

		if (x) {
			x->mode = mode & SCRATCH_MODES;
			x->uid = uid;
			x->gid = gid;
			x->mtime_us = x->w.touched_us = fs_now_us();
			x->w.holds = IMAGE_WHOLE;
		}
		r = x ? 0 : -ENOMEM;
	}
	if (r) {
		(void)!scratch_remove(n);
		node_put(n);
		return r;
	}
	*out = n;
	return 0;
}

int scratch_remove(struct node *n)
{
	int r = 0;

	mutex_lock(tree_mutex());
	if (n->kind == NODE_SCRATCH_DIR && node_extra_any_locked(n)) {
		r = -ENOTEMPTY;
	} else {
		node_extra_drop_locked(n);
		node_end_locked(n);
	}
	mutex_unlock(tree_mutex());
	return r;
}

int scratch_attr(struct node *n, struct stat *st)
{
	struct node *target;
	struct filex *x;
	double timeout;
	int r;

	if (n->kind == NODE_SCRATCH_DIR) {
		if (!n->dir)
			return -ESTALE; /* just being made */
		tree_dir_attr(n, n->dir->mode, n->dir->uid, n->dir->gid, st);
		return 0;
	}
	x = filex_find(n);
	if (!x)
		return -ESTALE;
	mutex_lock(&x->lock);
	if (x->w.error == -ESTALE) {
		mutex_unlock(&x->lock);
		filex_put(x);
		return -ESTALE;
	}
	memset(st, 0, sizeof(*st));
	st->st_ino = n->ino;
	st->st_mode = S_IFREG | (x->mode & 07777);
	st->st_nlink = n->flags & NODE_GONE ? 0 : 1;
	st->st_uid = x->uid;
	st->st_gid = x->gid;
	st->st_size = (off_t)x->w.image.size;
	st->st_blksize = 4096;
	st->st_blocks = (st->st_size + 511) / 512;
	stat_time(&st->st_mtim, x->mtime_us);
	st->st_atim = st->st_mtim;
	stat_time(&st->st_ctim, x->w.touched_us);
	mutex_unlock(&x->lock);
	target = filex_target(x);
	filex_put(x);
	if (!target)
		return 0;
	r = tree_attr(target, st, &timeout);
	node_put(target);
	return r;
}

void scratch_set(struct node *n, mode_t mode, uid_t uid, gid_t gid)
{
	struct filex *x = n->kind == NODE_SCRATCH_FILE ? filex_find(n) : NULL;
	struct mutex *lock = n->kind == NODE_SCRATCH_DIR ? tree_mutex() : x ? &x->lock : NULL;
	mode_t *m = x ? &x->mode : lock ? &n->dir->mode : NULL;
	uid_t *u = x ? &x->uid : lock ? &n->dir->uid : NULL;
	gid_t *g = x ? &x->gid : lock ? &n->dir->gid : NULL;

	if (!lock)
		return;
	mutex_lock(lock);
	if (mode != (mode_t)-1)
		*m = mode & SCRATCH_MODES;
	if (uid != (uid_t)-1)
		*u = uid;
	if (gid != (gid_t)-1)
		*g = gid;
	mutex_unlock(lock);
	filex_put(x);
}

int scratch_rename(struct node *n, struct node *dir, struct slice name, bool noreplace)
{
	struct node *old, *fresh;
	struct filex *x;
	int r = 0;

	if (n->kind == NODE_SCRATCH_DIR)
		return -EXDEV;
	old = scratch_find(dir, name);
	if (old == n) {
		node_put(old);
		return noreplace ? -EEXIST : 0;
	}
	if (old && noreplace)
		r = -EEXIST;
	else if (old && old->kind == NODE_SCRATCH_DIR)
		r = -EISDIR;
	node_put(old);
	if (r)
		return r;
	x = filex_find(n);
	if (!x)
		return -ESTALE;
	r = place(dir, name, NODE_SCRATCH_FILE, x, &fresh);
	filex_put(x);
	if (r)
		return r;
	node_put(fresh);
	return scratch_remove(n);
}

static void report_one(void *arg, struct node *n)
{
	char path[512];

	(void)arg;
	if (n->kind == NODE_SCRATCH_FILE && (n->flags & NODE_EXTRA))
		msg_notice("%s: scratch file dropped at the end of the mount", node_describe(n, NULL, path, sizeof(path)));
}

static void end_one(struct node *n)
{
	char path[512];

	if (n->kind == NODE_SCRATCH_FILE)
		msg_notice("%s: scratch file dropped with its directory", node_describe(n, NULL, path, sizeof(path)));
}

void scratch_end(bool (*ends)(void *arg, const struct node *n), void *arg)
{
	node_extras_end(ends, arg, end_one);
}

void scratch_report(void)
{
	node_each(report_one, NULL);
}
