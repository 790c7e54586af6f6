/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OPEN and CREATE.
 *
 * A plain name's reader is given the version of this moment: its bytes are
 * loaded, and are his own.  A version for reading only needs no state.
 */
#include "fs/file/file.h"

#include "fs/node/control.h"
#include "fs/base/reply.h"
#include "fs/file/share.h"
#include "fs/node/tree.h"

#include <errno.h>
#include <fcntl.h>

static int open_plain(struct node *n, struct handle *h, bool truncate, bool created, bool append)
{
	struct filex *x = h->x;
	struct mutex *row = NULL;
	struct cell_place p;
	struct family_info f;
	struct tfs_info info = {.ts = INT64_MIN};
	bool pending;
	int r;

	cell_place_of(n, &p);
	r = family_info_get(p.family_node, &f);
	if (r)
		return r == -ENOENT ? -ESTALE : r;
	h->w.only_reads = !h->writable;
	if (h->readable && h->writable && !f.counter)
		share_open(h);
	r = ofile_stat(n, &p, &info, &pending);
	if (r == 0)
		created = false; /* another was faster: what it wrote is the base of what is written here */
	if (r == -ENOENT && (created || pending)) {
		info = (struct tfs_info){.ts = INT64_MIN};
		r = 0;
	} else if (r == 0 && !truncate && (h->readable || f.counter)) {
		if (info.size >= (1u << 20)) {
			row = ofile_row_lock(n);
			mutex_lock(row);
		}
		mutex_lock(&x->lock);
		r = writer_load(&h->w, &p, &info);
		mutex_unlock(&x->lock);
		if (row)
			mutex_unlock(row);
	} else if (r == 0) {
		h->w.base_size = info.size;
	}
	/* What was read may be another's meanwhile.  Who reads nothing has opened what was removed the instant after. */
	if (r == 0 && !node_lives(n) && h->readable && !truncate && !created)
		r = -ESTALE;
	if (r)
		return r == -ENOENT ? -ESTALE : r;
	h->w.base_ts = info.ts;
	if (h->writable && info.ts == INT64_MAX)
		return refuse(-EOVERFLOW, n, NULL, "its newest version has the largest timestamp there is");
	mutex_lock(&x->lock);
	if (f.counter)
		h->w.whole = true;
	if (truncate || (created && !append)) {
		writer_begin_whole(&h->w);
	} else if (created) {
		/* What is appended is not the whole of it: another may have created it as well, and be first to commit. */
		h->w.fresh = h->w.loaded = true;
		h->w.touched_us = fs_now_us();
	}
	mutex_unlock(&x->lock);
	return 0;
}

int version_ready(struct filex *x)
{
	struct cell_place p;
	struct family_info f;
	struct tfs_info info;
	int r;

	cell_place_of(x->node, &p);
	r = family_info_get(p.family_node, &f);
	if (r)
		return r == -ENOENT ? -ESTALE : r;
	r = cell_stat(&p, &info);
	if (r || writer_pending(&x->w))
		return r;
	if (x->w.dead) {
		/* a new life of the name */
		writer_fini(&x->w);
		writer_init(&x->w);
	}
	x->w.error = 0;
	x->w.base_size = info.size;
	return 0;
}

static int open_version(struct node *n, bool truncate, bool created)
{
	struct filex *x = version_lock(n);
	bool pending = writer_pending(&x->w);
	int r = node_lives(x->node) ? version_ready(x) : -ESTALE;

	/* created: unless by another, just before */
	if (r == -ENOENT && (created || pending)) {
		truncate = truncate || !pending;
		r = 0;
	}
	if (r == 0 && truncate)
		writer_begin_whole(&x->w);
	version_unlock(x);
	return r == -ENOENT ? -ESTALE : r;
}

/* A version for reading only: no state, if the store still has it. */
static int open_reader(struct node *n)
{
	struct cell_place p;
	struct family_info f;
	struct tfs_info info;
	bool pending;
	int r;

	if (n->epoch != 0 && n->epoch == table_epoch(n))
		return 0;
	if (!node_lives(n))
		return -ESTALE;
	cell_place_of(n, &p);
	r = family_info_get(p.family_node, &f);
	if (r == 0)
		r = ofile_stat(n, &p, &info, &pending);
	else
		pending = false;
	if (r == -ENOENT && pending)
		return 0;
	return r == -ENOENT ? -ESTALE : r;
}

static int open_handle(struct handle *h, int flags, bool created)
{
	bool truncate = (flags & O_TRUNC) != 0;
	struct node *n = h->node;
	struct filex *x = h->x;
	int r = 0;

	switch (file_kind(n)) {
	case FILE_PLAIN:
		r = open_plain(n, h, truncate, created, (flags & O_APPEND) != 0);
		break;
	case FILE_VERSION:
		r = open_version(n, truncate, created);
		break;
	case FILE_SCRATCH:
		mutex_lock(&x->lock);
		if (x->given && x->handles == h && !h->next) {
			r = -ESTALE; /* it is a cell now, and found by its name */
		} else if (truncate) {
			filex_wait(x, &x->w);
			r = writer_truncate(&x->w, 0);
			x->mtime_us = fs_now_us();
		}
		mutex_unlock(&x->lock);
		break;
	case FILE_SCHEMA:
	case FILE_SETTING:
		r = control_open(n, &h->w, h->writable, truncate || created);
		break;
	case FILE_NONE:
		r = -EISDIR;
		break;
	}
	return r;
}

static int handle_open(struct node *n, int flags, bool created, struct handle **out)
{
	struct handle *h;
	int r;

	if (n->kind == NODE_VERSION)
		version_enter(n);
	/* To create a cell is to truncate it, even through a descriptor for reading only: release commits it. */
	h = handle_new(n, created && (n->kind == NODE_PLAIN || n->kind == NODE_VERSION) ? flags | O_TRUNC : flags);
	r = h ? open_handle(h, flags, created) : -ENOMEM;
	if (h && r)
		handle_free(h);
	if (n->kind == NODE_VERSION)
		version_leave(n);
	if (r == 0)
		*out = h;
	return r;
}

/*
 * The name was found and gone at OPEN, twice running.  Whether O_CREAT was
 * asked for the kernel does not say here, so neither creating it nor ENOENT
 * is right for all; but a file that was opened and removed the instant after
 * is: it has no name, and what is written to it goes nowhere.
 */
static int open_gone(struct node *n, int flags, struct handle **out)
{
	struct handle *h = handle_new(n, flags);

	if (!h)
		return -ENOMEM;
	mutex_lock(&h->x->lock);
	writer_begin_whole(&h->w);
	h->w.fresh = false;
	h->w.dead = true;
	mutex_unlock(&h->x->lock);
	*out = h;
	return 0;
}

/*
 * A version that is only written needs no pages: direct I/O saves the kernel
 * a question about capabilities before each write.
 */
static void set_open_flags(const struct node *n, struct fuse_file_info *fi)
{
	if (n->kind == NODE_VERSION && (fi->flags & O_ACCMODE) != O_WRONLY)
		fi->keep_cache = 1;
	else
		fi->direct_io = 1;
}

static bool only_counted(const struct node *n, const struct fuse_file_info *fi)
{
	return n->kind == NODE_VERSION && (fi->flags & O_ACCMODE) == O_RDONLY && !(fi->flags & O_TRUNC);
}

/* A version for reading only.  True: answered. */
static bool count_reader(fuse_req_t req, struct node *n, struct fuse_file_info *fi, int *r)
{
	version_enter(n);
	*r = open_reader(n);
	if (*r == 0) {
		fi->fh = 0;
		fi->keep_cache = 1;
		fi->noflush = 1;
		if (fuse_reply_open(req, fi) == 0)
			return true;
	}
	version_leave(n);
	return *r == 0;
}

void ofile_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct node *n = node_of(ino), *other;
	struct handle *h;
	int r;

	if (fs.no_open) {
		fuse_reply_err(req, ENOSYS);
		return;
	}
	if (only_counted(n, fi)) {
		if (count_reader(req, n, fi, &r))
			return;
	} else {
		r = handle_open(n, fi->flags, false, &h);
		if (r == 0)
			set_open_flags(n, fi);
	}
	other = r == -ESTALE ? node_again(n) : NULL;
	if (other) {
		/* Replaced as it was opened: the kernel would look for it again, but once only.  Past the pages that it has of n. */
		fi->direct_io = 1;
		fi->keep_cache = 0;
		r = handle_open(other, fi->flags, false, &h);
		node_put(other);
	}
	r = stale_answer(req, n, r);
	if (r == -ENOENT && (fi->flags & O_ACCMODE) != O_RDONLY && (n->kind == NODE_PLAIN || n->kind == NODE_VERSION))
		r = open_gone(n, fi->flags, &h);
	if (r) {
		reply_err(req, refuse_store(r, n, NULL, "cannot be opened"));
		return;
	}
	h->pid = fuse_req_ctx(req)->pid;
	if (h->writable && n->kind == NODE_SCHEMA)
		h->w.who = control_who(req);
	fi->fh = (uint64_t)(uintptr_t)h;
	if (!h->writable)
		fi->noflush = 1;
	if (fuse_reply_open(req, fi) != 0)
		handle_free(h);
}

int ofile_make(struct node *n, struct changes *c)
{
	struct handle *h;
	int r = handle_open(n, O_WRONLY, true, &h);

	if (r)
		return r;
	r = ofile_commit(h, true, c);
	handle_free(h);
	return r;
}

int ofile_create(fuse_req_t req, struct node *n, bool exists, struct fuse_file_info *fi)
{
	struct fuse_entry_param e = {0};
	struct handle *h;
	int r;

	r = handle_open(n, fi->flags, !exists, &h);
	if (r)
		return r;
	h->pid = fuse_req_ctx(req)->pid;
	if (h->writable && n->kind == NODE_SCHEMA)
		h->w.who = control_who(req);
	r = tree_entry(n, &e);
	if (r) {
		handle_free(h);
		return r;
	}
	fi->fh = (uint64_t)(uintptr_t)h;
	set_open_flags(n, fi);
	node_lookup(n);
	if (fuse_reply_create(req, &e, fi) != 0) {
		handle_free(h);
		node_forget(n, 1);
	}
	return 0;
}
