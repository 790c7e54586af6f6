/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The entries of scratch.  Serial numbers distinguish a scratch file from a
 * later file with the same name, also by inode number.
 */
#include "fs/node/scratch/scratch.h"

#include "fs/base/extra.h"
#include "fs/base/reply.h"
#include "fs/file/file.h"
#include "fs/node/made.h"
#include "fs/node/schema/schema_edit.h"
#include "fs/node/tree.h"

#include <errno.h>
#include <stdlib.h>

static _Atomic int64_t serial;

/* Like cells, scratch has no setuid or setgid bit.  A chmod that sets one succeeds without it, so that cp -p and rsync continue. */
#define SCRATCH_MODES 01777

int scratch_find(struct node *dir, struct resolved *r, struct node **out)
{
	struct node *n;

	mutex_lock(tree_mutex());
	n = extra_find_locked(dir, 0, buf_bytes(&r->key));
	if (n && !node_is(n, KIND_SCRATCH))
		n = NULL;
	if (n)
		n->refs++;
	mutex_unlock(tree_mutex());
	*out = n;
	return n ? 0 : -ENOENT;
}

bool scratch_is_of_sed(const char *name)
{
	return strncmp(name, "sed", 3) == 0 && strlen(name) == 9 && !strchr(name, '.');
}

bool scratch_of_sed_is_there(struct node *table, const char *name)
{
	struct resolved r = {.key = {.p = (uint8_t *)(uintptr_t)name, .n = strlen(name)}};
	struct node *n = NULL;

	if (!scratch_is_of_sed(name) || table->kind != NODE_TABLE)
		return false;
	(void)!scratch_find(table, &r, &n);
	node_put(n);
	return n != NULL;
}

int scratch_resolve_name(struct node *dir, const char *name, struct resolved *out)
{
	if (node_in_scan(dir))
		return -ENOENT;
	out->kind = NODE_SCRATCH_FILE;
	out->parent = dir;
	return buf_set(&out->key, name, strlen(name));
}

/* Returns true if the directory, or one above it, was removed. */
static bool is_removed(const struct node *dir)
{
	while (dir && node_lives(dir))
		dir = dir->parent;
	return dir != NULL;
}

int scratch_place(struct node *dir, struct tfs_bytes name, enum node_kind kind, struct open_file *share, struct node **out)
{
	struct node *n = node_get(dir, kind, name, atomic_fetch_add(&serial, 1) + 1), *own = n ? node_in_table_get(dir) : NULL,
		    *old;
	struct changes c = {0};
	int err = 0;

	if (!own) {
		node_put(n);
		return -ENOMEM;
	}
	mutex_lock(tree_mutex());
	/* An entry of its own keeps the directory while it has scratch. */
	if (is_removed(dir))
		err = -ENOENT;
	else if (node_is(dir, KIND_IN_VIEW))
		err = made_keep_locked(own);
	old = err ? NULL : extra_find_locked(dir, 0, name);
	if (old && share && old->kind == NODE_SCRATCH_FILE) {
		node_end_locked(old);
		extra_replace_locked(old, n);
	} else if (old) {
		err = -EEXIST;
	} else if (err == 0) {
		err = extra_add_locked(n, EXTRA_SCRATCH);
	}
	if (err == 0 && share) {
		n->file = share;
		share->refs++;
	}
	mutex_unlock(tree_mutex());
	node_put(own);
	made_trim(&c);
	changes_send(&c);
	if (err == 0 && fs_schema_family_dropped(dir))
		err = -ESTALE;
	if (err)
		node_put(n);
	else
		*out = n;
	return err;
}

int scratch_make(const struct making *m, struct resolved *r, struct node **out)
{
	struct node *n;
	int err;

	err = scratch_place(m->dir, buf_bytes(&r->key), m->is_dir ? NODE_SCRATCH_DIR : NODE_SCRATCH_FILE, NULL, &n);
	if (err)
		return err;
	if (m->is_dir) {
		struct dirx *d;

		mutex_lock(tree_mutex());
		d = node_dirx_locked(n);
		if (d) {
			d->mode = m->mode & SCRATCH_MODES;
			d->uid = m->ctx->uid;
			d->gid = m->ctx->gid;
		}
		mutex_unlock(tree_mutex());
		err = d ? 0 : -ENOMEM;
	} else {
		struct open_file *x = open_file_get(n); /* the node's own count */

		if (x) {
			x->mode = m->mode & SCRATCH_MODES;
			x->uid = m->ctx->uid;
			x->gid = m->ctx->gid;
			x->mtime_us = x->shared.touched_us = fs_now_us();
			x->shared.holds = IMAGE_WHOLE;
		}
		err = x ? 0 : -ENOMEM;
	}
	if (err) {
		(void)!scratch_remove(n);
		node_put(n);
		return err;
	}
	*out = n;
	return 0;
}

int scratch_remove(struct node *n)
{
	int err = 0;

	mutex_lock(tree_mutex());
	if (n->kind == NODE_SCRATCH_DIR && extra_any_locked(n)) {
		err = -ENOTEMPTY;
	} else {
		extra_remove_locked(n);
		node_end_locked(n);
	}
	mutex_unlock(tree_mutex());
	return err;
}

int scratch_dir_attr(struct node *n, struct stat *st, double *timeout)
{
	if (!n->dir)
		return -ESTALE; /* just being made */
	tree_dir_attr(n, n->dir->mode, n->dir->uid, n->dir->gid, st);
	return 0;
}

int scratch_file_attr(struct node *n, struct stat *st, double *timeout)
{
	struct node *target;
	struct open_file *x;
	double unused;
	int err;

	x = open_file_find(n);
	if (!x)
		return -ESTALE;
	mutex_lock(&x->lock);
	if (x->shared.error == -ESTALE) {
		mutex_unlock(&x->lock);
		open_file_put(x);
		return -ESTALE;
	}
	cell_attr(n, &(struct family_info){.mode = x->mode & 07777, .uid = x->uid, .gid = x->gid}, x->mtime_us,
		x->shared.touched_us, x->shared.image.size, st);
	st->st_nlink = n->flags & NODE_GONE ? 0 : 1;
	mutex_unlock(&x->lock);
	target = open_file_target(x);
	open_file_put(x);
	if (!target)
		return 0;
	err = node_attr(target, st, &unused);
	node_put(target);
	return err;
}

int scratch_set_owner(struct node *n, const struct stat *attr, int to_set, struct changes *c)
{
	struct open_file *x = n->kind == NODE_SCRATCH_FILE ? open_file_find(n) : NULL;
	struct mutex *lock = n->kind == NODE_SCRATCH_DIR ? tree_mutex() : x ? &x->lock : NULL;
	struct node *target;
	int err = 0;

	if (!lock)
		return 0;
	mutex_lock(lock);
	if (x)
		open_file_wait(x, &x->shared); /* a rename may be under way */
	target = x ? x->shared.target : NULL;
	if (target) {
		/* It has become a cell or .schema.  A chmod that would have no effect must not succeed. */
		node_hold(target);
		mutex_unlock(lock);
		err = node_ops(target)->set_owner ? node_ops(target)->set_owner(target, attr, to_set, c) : 0;
		goto out;
	}
	if (to_set & FUSE_SET_ATTR_MODE)
		*(x ? &x->mode : &n->dir->mode) = attr->st_mode & SCRATCH_MODES;
	if (to_set & FUSE_SET_ATTR_UID)
		*(x ? &x->uid : &n->dir->uid) = attr->st_uid;
	if (to_set & FUSE_SET_ATTR_GID)
		*(x ? &x->gid : &n->dir->gid) = attr->st_gid;
	mutex_unlock(lock);
out:
	node_put(target);
	open_file_put(x);
	return err;
}
