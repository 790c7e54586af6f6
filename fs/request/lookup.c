/* SPDX-License-Identifier: Apache-2.0 */
/*
 * LOOKUP, GETATTR and SETATTR.
 *
 * A directory exists when the store has a cell in it, or when it is an extra
 * entry (extra.h).  The kernel may keep names of directories and versions for
 * long, because every change passes through this daemon, which notifies the
 * kernel.  It asks for other names at each use.
 *
 * An answer that was computed while something was committed may be out of date
 * before the kernel has it.  Therefore fs.changes is read before and after, and
 * if it has changed, the answer has no lifetime.
 */
#include "fs/request/request.h"

#include "fs/base/access.h"
#include "fs/base/dir_time.h"
#include "fs/base/permit.h"
#include "fs/base/reply.h"
#include "fs/file/file.h"
#include "fs/node/schema/schema_edit.h"
#include "fs/node/tree.h"

#include <errno.h>

/* If other threads remove and make the name at the same time, it may be another node at each try. */
#define FIND_TRIES 10

void request_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct node *dir = node_of(parent), *n = NULL;
	struct fuse_entry_param e;
	int err;

	err = permit(dir, PERMIT_SEARCH);
	if (err) {
		reply_err(req, err);
		return;
	}
	err = -ESTALE;
	/* A name that is replaced between the two calls exists at every moment, so it is looked up again. */
	for (int i = 0; err == -ESTALE && i < FIND_TRIES; i++) {
		node_put(n);
		n = NULL;
		err = tree_find(dir, name, &n);
		if (err == 0) {
			fs_looked_up_in(n, dir);
			err = node_ops(n)->looked_up ? node_ops(n)->looked_up(n) : 0;
			err = err ? err : node_entry(n, &e);
		}
	}
	if (err == -ESTALE)
		err = -ENOENT;
	if (err) {
		reply_err(req, refuse_store(err, dir, name, "cannot be looked up"));
	} else {
		tree_count_entry(n, tfs_str(name), &e);
		stale_found(req, n);
		fs_owner_here(&e.attr);
		if (fuse_reply_entry(req, &e) != 0)
			node_forget(n, 1);
	}
	node_put(n);
}

void request_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct node *n = node_of(ino), *other;
	struct family_info f;
	struct stat st;
	double timeout;
	int err;

	err = stale_answer(req, n, node_attr(n, &st, &timeout));
	/* The thread has looked the name up again, and it was replaced again.  Through a handle, no other file is found. */
	other = err == -ENOENT ? node_successor(n) : NULL;
	if (other && node_attr(other, &st, &timeout) == 0)
		err = 0;
	node_put(other);
	if (err == 0 && n->kind == NODE_PLAIN && fi && fi->fh)
		st.st_size = (off_t)ofile_seek_end(fi); /* for lseek, the end of the bytes that this descriptor reads */
	if (err == -ENOENT && node_is(n, KIND_CELL) && family_info_get(n->parent, &f) == 0) {
		/* Removed since it was looked up: a file without a name.  If it is to be opened, OPEN decides. */
		cell_attr(n, &f, n->kind == NODE_VERSION ? n->ts : fs_now_us(), fs_now_us(), 0, &st);
		st.st_nlink = 0;
		timeout = 0;
		err = 0;
	}
	if (err) {
		reply_err(req, refuse_store(err, n, NULL, "its attributes cannot be read"));
	} else {
		fs_owner_here(&st);
		fuse_reply_attr(req, &st, timeout);
	}
}

/* ---- SETATTR ---- */

static int time_us(const struct timespec *t, int64_t *us)
{
	__int128 v = (__int128)t->tv_sec * 1000000 + t->tv_nsec / 1000;

	*us = (int64_t)v;
	return *us == v ? 0 : -EOVERFLOW;
}

static int set_times(struct node *n, const struct stat *attr, int to_set, struct changes *c)
{
	int64_t us = fs_now_us();
	int err = 0;

	if (node_is_dir(n)) {
		if (node_is(n, KIND_TIMED) && node_is_latest(n) &&
			((to_set & FUSE_SET_ATTR_MTIME_NOW) || time_us(&attr->st_mtim, &us) == 0))
			dir_time_set(n, us);
		return 0;
	}
	if (n->kind == NODE_VERSION)
		return 0; /* the name contains the time */
	if ((to_set & FUSE_SET_ATTR_SIZE) && !(to_set & FUSE_SET_ATTR_MTIME))
		return 0; /* truncate(2) also sends the current time */
	if (!(to_set & FUSE_SET_ATTR_MTIME_NOW)) {
		err = time_us(&attr->st_mtim, &us);
		if (err)
			return refuse(err, n, NULL, "the time does not fit a timestamp");
		if (us == 0)
			us = fs_now_us(); /* rsync's mark of an interrupted file */
		if (us == TFS_NO_TIME)
			return refuse(-EOVERFLOW, n, NULL, "the time does not fit a timestamp");
	}
	return node_ops(n)->set_time ? node_ops(n)->set_time(n, us, c) : 0;
}

int request_set_owner(struct node *n, const struct stat *attr, int to_set, struct changes *c)
{
	struct stat now;
	double timeout;
	int err;

	if (node_ops(n)->set_owner)
		return node_ops(n)->set_owner(n, attr, to_set, c);
	err = node_attr(n, &now, &timeout);
	if (err)
		return err;
	if ((!(to_set & FUSE_SET_ATTR_MODE) || (attr->st_mode & 07777) == (now.st_mode & 07777)) &&
		(!(to_set & FUSE_SET_ATTR_UID) || attr->st_uid == now.st_uid) &&
		(!(to_set & FUSE_SET_ATTR_GID) || attr->st_gid == now.st_gid))
		return 0;
	return fs_schema_keep_owner(n);
}

void request_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr, int to_set, struct fuse_file_info *fi)
{
	struct node *n = node_of(ino);
	struct descriptor *h = fi ? (struct descriptor *)(uintptr_t)fi->fh : NULL;
	struct changes c = {0};
	struct stat st;
	double timeout = 0;
	int err;

	attr->st_uid = fs_uid_across(attr->st_uid);
	attr->st_gid = fs_gid_across(attr->st_gid);
	err = permit_setattr(n, attr, to_set, fi);
	if (err) {
		reply_err(req, err);
		return;
	}
	err = tree_check_writable(n, NULL);
	if (err == 0 && to_set & (FUSE_SET_ATTR_SIZE | FUSE_SET_ATTR_MTIME | FUSE_SET_ATTR_MTIME_NOW))
		err = permit_data(n, NULL, (enum node_kind)n->kind, false);
	if (err == 0 && (to_set & (FUSE_SET_ATTR_MODE | FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID))) {
		fs_serve(req);
		err = request_set_owner(n, attr, to_set, &c);
		fs_serve(NULL);
	}
	if (err == 0 && (to_set & FUSE_SET_ATTR_SIZE))
		err = attr->st_size < 0 ? -EINVAL : ofile_truncate(n, h, (uint64_t)attr->st_size, &c);
	if (err == 0 && (to_set & (FUSE_SET_ATTR_MTIME | FUSE_SET_ATTR_MTIME_NOW)))
		err = set_times(n, attr, to_set, &c);
	if (err == 0)
		err = node_attr(n, &st, &timeout);
	err = stale_answer(req, n, err);
	if (err)
		changes_reply_err(&c, req, refuse_store(err, n, NULL, "not changed"));
	else
		changes_reply_attr(&c, req, &st, timeout);
}
