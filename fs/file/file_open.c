/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OPEN and CREATE.
 *
 * A descriptor of a plain name loads the version that is the newest at open.  A
 * version that is opened for reading only has no state but a count.
 */
#include "fs/file/file.h"

#include "fs/base/node_ops.h"

#include "fs/base/caller.h"
#include "fs/base/reply.h"
#include "fs/file/share.h"

#include <errno.h>
#include <fcntl.h>

/* stat of n's cell.  *exists is set if it is stored; otherwise its creation is not committed. */
static int plain_stat(struct node *n, const struct cell_place *p, bool created, bool *exists, struct tfs_info *info)
{
	bool pending;
	int r = ofile_stat(n, p, info, &pending);

	*exists = r == 0;
	if (r != -ENOENT || !(created || pending))
		return r;
	*info = (struct tfs_info){.ts = INT64_MIN};
	return 0;
}

/* Under the row's lock the version of a large value is not replaced between reads of its parts. */
static int plain_load(struct handle *h, struct tfs_info *info)
{
	struct mutex *row = info->size >= CELL_READ_AT_ONCE ? ofile_row_lock(h->node) : NULL;
	int r;

	if (row)
		mutex_lock(row);
	mutex_lock(&h->x->lock);
	r = cell_load(h->node, !h->writable, &h->w.image, info);
	h->w.holds = IMAGE_LOADED;
	mutex_unlock(&h->x->lock);
	if (row)
		mutex_unlock(row);
	return r;
}

static int open_plain(struct handle *h, bool truncate, bool created, bool append, struct changes *c)
{
	struct tfs_info info = {.ts = INT64_MIN};
	struct node *n = h->node;
	struct cell_place p;
	struct family_info f;
	bool exists = false;
	struct writer *w;
	int r;

	cell_place_of(n, &p);
	r = family_info_get(p.family_node, &f);
	if (r == 0 && h->readable && h->writable && !f.counter) {
		share_open(h, truncate);
		r = share_lock(h, false, c);
		if (r == 0)
			mutex_unlock(&h->x->lock);
	}
	if (r == 0)
		r = plain_stat(n, &p, created, &exists, &info);
	created = created && !exists; /* another descriptor created it first: its content is the base */
	if (r == 0 && exists && !truncate && !handle_shares(h) && (h->readable || f.counter))
		r = plain_load(h, &info);
	/* The name may have a new cell now, and its bytes may have been loaded.  A descriptor that has loaded nothing is one of the removed cell. */
	if (r == 0 && !node_lives(n) && h->readable && !truncate && !created)
		r = -ESTALE;
	if (r == 0 && h->writable && info.ts == INT64_MAX)
		r = refuse(-EOVERFLOW, n, NULL, "its newest version has the largest timestamp there is");
	if (r == 0)
		r = share_lock(h, truncate || created, c);
	if (r)
		return r == -ENOENT ? -ESTALE : r;
	w = h->content;
	if (!handle_shares(h)) {
		w->base_size = info.size;
		w->base_ts = info.ts;
	}
	if (f.counter)
		w->holds = IMAGE_WHOLE;
	if (truncate || (created && !append)) {
		writer_begin_whole(w);
		w->base_ts = info.ts;
	} else if (created) {
		/* Another descriptor may have created it, too, and commit first: then the bytes are appended. */
		w->staged = STAGED_CREATION;
		w->holds = IMAGE_LOADED;
		w->touched_us = fs_now_us();
	}
	mutex_unlock(&h->x->lock);
	return 0;
}

static int open_version(struct handle *h, bool truncate, bool created)
{
	struct filex *x = h->x;
	int r;

	mutex_lock(&x->lock);
	filex_wait(x, &x->w);
	r = version_ready(x);
	if (r == -ENOENT && created) {
		truncate = true;
		r = 0;
	}
	if (r == 0 && truncate)
		writer_begin_whole(&x->w);
	mutex_unlock(&x->lock);
	return r == -ENOENT ? -ESTALE : r;
}

/* Opens a version for reading only. */
static int open_reader(struct node *n)
{
	struct cell_place p;
	struct tfs_info info;
	bool pending;
	int r;

	if (n->epoch != 0 && n->epoch == table_epoch(n))
		return 0;
	if (!node_lives(n))
		return -ESTALE;
	cell_place_of(n, &p);
	r = ofile_stat(n, &p, &info, &pending);
	if (r == -ENOENT && pending)
		return 0;
	return r == -ENOENT ? -ESTALE : r;
}

static int open_handle(struct handle *h, int flags, bool created, struct changes *c)
{
	bool truncate = (flags & O_TRUNC) != 0;
	struct node *n = h->node;
	struct filex *x = h->x;
	int r = 0;

	switch (file_kind(n)) {
	case FILE_PLAIN:
		r = open_plain(h, truncate, created, (flags & O_APPEND) != 0, c);
		break;
	case FILE_VERSION:
		r = open_version(h, truncate, created);
		break;
	case FILE_SCRATCH:
		mutex_lock(&x->lock);
		if (x->w.error == -ESTALE)
			r = -ESTALE; /* it has become a cell */
		else if (truncate)
			r = scratch_truncate(x, 0);
		mutex_unlock(&x->lock);
		break;
	case FILE_SCHEMA:
	case FILE_SETTING:
		r = node_ops(n)->open(n, &h->w, h->writable, truncate || created);
		break;
	case FILE_NONE:
		r = -EISDIR;
		break;
	}
	return r;
}

static int handle_open(struct node *n, int flags, bool created, struct handle **out)
{
	struct mutex *row = n->kind == NODE_VERSION ? ofile_row_lock(n) : NULL;
	struct changes c = {0};
	struct handle *h;
	int r;

	/* A rename moves the state of a version to another node.  Under the row's lock there is only one state. */
	if (row)
		mutex_lock(row);
	/* A creation is a truncation, even through a descriptor for reading only: release commits it. */
	h = handle_new(n, created && (n->kind == NODE_PLAIN || n->kind == NODE_VERSION) ? flags | O_TRUNC : flags);
	r = h ? open_handle(h, flags, created, &c) : -ENOMEM;
	if (row)
		mutex_unlock(row);
	changes_send(&c);
	if (h && r)
		handle_free(h);
	if (r == 0)
		*out = h;
	return r;
}

/*
 * LOOKUP found the name and OPEN did not, twice.  The kernel does not state at
 * OPEN whether O_CREAT was set.  Neither a creation nor ENOENT is correct in
 * both cases, but a file that was removed right after the open is: it has no
 * name, and its bytes are discarded.
 */
static int open_gone(struct node *n, int flags, struct handle **out)
{
	struct handle *h = handle_new(n, flags);

	if (!h)
		return -ENOMEM;
	mutex_lock(&h->x->lock);
	h->content = &h->w;
	h->w.holds = IMAGE_WHOLE;
	writer_aim(&h->w, NULL);
	mutex_unlock(&h->x->lock);
	*out = h;
	return 0;
}

/*
 * A version that is only written needs no pages.  With direct I/O the kernel
 * does not ask for its capabilities before each write.
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

/* Opens a version for reading only.  Returns true if it has replied. */
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
		/* The cell was replaced meanwhile.  The kernel would repeat the LOOKUP, but only once.  Its pages of n are not used. */
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
		h->w.caller = caller_new(req);
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
		h->w.caller = caller_new(req);
	r = node_entry(n, &e);
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
