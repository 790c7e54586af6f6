/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The FUSE calls on descriptors that are open.
 *
 * Plain names: direct I/O; a reader's bytes are loaded at open and are his
 * own, a writer's are staged per descriptor.  Versions: cached by the kernel;
 * reads go to the store, stores in place are staged per node and committed
 * before anything is read again.  Scratch: its image is the file.  Control
 * files: a rendering at open; what is written is applied at flush, or at once
 * where one line is a whole setting, so that even a shell sees the refusal.
 */
#include "fs/file.h"

#include "engine/base/msg.h"
#include "fs/cache.h"
#include "fs/control.h"
#include "fs/name.h"
#include "fs/reply.h"
#include "fs/share.h"
#include "fs/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

static struct handle *handle_of(const struct fuse_file_info *fi)
{
	return fi ? (struct handle *)(uintptr_t)fi->fh : NULL;
}

uint64_t ofile_end(const struct fuse_file_info *fi)
{
	struct handle *h = (struct handle *)(uintptr_t)fi->fh;
	struct filex *x = h->node->file;
	uint64_t end;

	mutex_lock(&x->lock);
	end = writer_size(&h->w);
	mutex_unlock(&x->lock);
	return end;
}

/* ---- read ---- */

/* One buffer a thread, freed with it. */
struct thread_buffer {
	size_t bytes;
	uint8_t data[];
};
static pthread_key_t buffer_key;
static pthread_once_t buffer_once = PTHREAD_ONCE_INIT;

static void make_buffer_key(void)
{
	pthread_key_create(&buffer_key, free);
}

static uint8_t *buffer_of(size_t n)
{
	struct thread_buffer *b;

	pthread_once(&buffer_once, make_buffer_key);
	b = pthread_getspecific(buffer_key);
	if (!b || n > b->bytes) {
		struct thread_buffer *more = realloc(b, sizeof(*b) + n);

		if (!more)
			return NULL;
		b = more;
		b->bytes = n;
		pthread_setspecific(buffer_key, b);
	}
	return b->data;
}

static void mark_paged(struct node *n)
{
	mutex_lock(tree_mutex());
	n->flags |= NODE_PAGED;
	mutex_unlock(tree_mutex());
}

/* Stores in place are committed before anything is read again, or made durable. */
static int commit_version(struct node *n, struct filex *x)
{
	struct mutex *row = ofile_row_lock(n);
	struct changes c = {0};
	bool pending;
	int r;

	mutex_lock(&x->lock);
	pending = writer_pending(&x->w);
	mutex_unlock(&x->lock);
	if (!pending)
		return 0;
	mutex_lock(row);
	mutex_lock(&x->lock);
	r = writer_commit(&x->w, n, true, &x->lock, &c);
	mutex_unlock(&x->lock);
	mutex_unlock(row);
	changes_send(&c);
	return r;
}

static int read_version(struct node *n, struct filex *x, uint64_t offset, uint8_t *buf, size_t size, size_t *got)
{
	struct cell_place p;
	struct family_info f;
	int r;

	mark_paged(n);
	if (x) {
		r = commit_version(n, x);
		if (r)
			return r;
	}
	cell_place_of(n, &p);
	r = family_info_get(p.family_node, &f);
	if (r == 0)
		r = cell_read(&p, &f, offset, buf, size, got, NULL);
	if (r == -ENOENT && x) {
		mutex_lock(&x->lock);
		if (x->w.dead)
			r = writer_read(&x->w, offset, buf, size, got);
		mutex_unlock(&x->lock);
	}
	return r == -ENOENT ? -ESTALE : r;
}

static int read_without_handle(struct node *n, uint64_t offset, uint8_t *buf, size_t size, size_t *got)
{
	struct filex *x;
	int r;

	if (n->kind == NODE_SETTING || n->kind == NODE_SCHEMA)
		return control_read(n, offset, buf, size, got);
	if (n->kind == NODE_VERSION && !n->file && offset == 0 && size >= CACHE_VALUE_MAX) {
		mark_paged(n);
		if (cache_take(n, buf, got))
			return 0;
	}
	x = filex_find(n);
	r = read_version(n, x, offset, buf, size, got);
	filex_put(n, x);
	if (r == -ESTALE && !x && (x = filex_find(n)) != NULL) {
		/* Removed just now: its content has been kept for those who have it open. */
		r = read_version(n, x, offset, buf, size, got);
		filex_put(n, x);
	}
	return r;
}

void ofile_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi)
{
	struct node *n = node_of(ino);
	struct handle *h = handle_of(fi);
	uint8_t *buf = buffer_of(size);
	size_t got = 0;
	int r;

	if (!buf) {
		reply_err(req, -ENOMEM);
		return;
	}
	if (!h) {
		r = read_without_handle(n, (uint64_t)offset, buf, size, &got);
	} else {
		struct filex *x = h->node->file;

		n = h->node;
		if (n->kind == NODE_VERSION) {
			r = read_version(n, x, (uint64_t)offset, buf, size, &got);
		} else if (h->w.shares) {
			r = share_read(h, (uint64_t)offset, buf, size, &got);
		} else if (n->kind == NODE_PLAIN && !h->writable) {
			r = writer_read(&h->w, (uint64_t)offset, buf, size, &got); /* nobody changes it */
		} else {
			mutex_lock(&x->lock);
			r = writer_read(n->kind == NODE_SCRATCH_FILE ? &x->w : &h->w, (uint64_t)offset, buf, size, &got);
			mutex_unlock(&x->lock);
		}
	}
	if (r)
		reply_err(req, refuse_store(r, n, NULL, "cannot be read"));
	else
		fuse_reply_buf(req, (const char *)buf, got);
}

/* ---- write ---- */

/* A counter's text so far must be able to become a number. */
static int counter_check(struct node *n, struct writer *w)
{
	struct family_info f;
	struct slice text;
	int r;

	if (!w->whole || w->image.size > 64 || n->parent->kind != NODE_FAMILY)
		return 0;
	r = family_info_get(n->parent, &f);
	if (r || !f.counter)
		return r;
	r = stage_bytes(&w->image, &text);
	if (r || counter_prefix(text))
		return r;
	w->error = -EINVAL;
	return refuse(-EINVAL, n, NULL, "a counter is written as one decimal number");
}

static int write_bytes(struct handle *h, uint64_t offset, const uint8_t *p, size_t size, int flags)
{
	struct node *n = h->node;
	struct filex *x = n->file;
	bool append = (flags & O_APPEND) != 0;
	int r = 0;

	mutex_lock(&x->lock);
	filex_wait(x, n, n->kind == NODE_VERSION || n->kind == NODE_SCRATCH_FILE ? &x->w : &h->w);
	switch (file_kind(n)) {
	case FILE_PLAIN:
		r = writer_write(&h->w, offset, p, size, append);
		if (r == 0)
			r = counter_check(h->target, &h->w);
		break;
	case FILE_VERSION:
		if (h->life != x->life)
			break; /* removed: nobody will read it */
		r = writer_write(&x->w, offset, p, size, false);
		if (r == 0)
			r = counter_check(n, &x->w);
		break;
	case FILE_SCRATCH:
		r = writer_write(&x->w, offset, p, size, append);
		x->mtime_us = fs_now_us();
		x->w.time_set = false;
		break;
	case FILE_SETTING:
		/* Lines before this one have been applied and are gone. */
		if (h->w.image.size == 0)
			h->w.origin = offset;
		if (offset < h->w.origin) {
			r = refuse(-EINVAL, n, NULL, "written out of order");
			break;
		}
		r = writer_write(&h->w, offset - h->w.origin, p, size, append);
		if (r == 0)
			r = control_written(n, &h->w);
		break;
	case FILE_SCHEMA:
		r = writer_write(&h->w, offset, p, size, append);
		if (r == 0)
			r = control_written(n, &h->w);
		break;
	case FILE_NONE:
		r = -EISDIR;
		break;
	}
	mutex_unlock(&x->lock);
	if (r == -EFBIG)
		return refuse(r, n, NULL, "a value is at most 64 MiB; nothing of it is stored");
	return r == -EINVAL ? r : refuse_store(r, n, NULL, "the write was not taken");
}

void ofile_write(fuse_req_t req, fuse_ino_t ino, struct fuse_bufvec *in, off_t offset, struct fuse_file_info *fi)
{
	struct handle *h = handle_of(fi);
	size_t size = fuse_buf_size(in), done = 0;
	struct fuse_bufvec whole = FUSE_BUFVEC_INIT(size);
	const uint8_t *p;
	int r;

	(void)ino;
	if (!h) {
		reply_err(req, -EBADF);
		return;
	}
	if (in->count == 1 && in->idx == 0 && in->off == 0 && !(in->buf[0].flags & FUSE_BUF_IS_FD)) {
		p = in->buf[0].mem;
	} else {
		ssize_t n;

		p = whole.buf[0].mem = buffer_of(size);
		n = p ? fuse_buf_copy(&whole, in, 0) : -ENOMEM;
		if (n < 0) {
			reply_err(req, (int)n);
			return;
		}
		size = (size_t)n;
	}
	h->pid = fuse_req_ctx(req)->pid;
	r = write_bytes(h, (uint64_t)offset, p, size, fi->flags);
	done = size;
	if (r)
		reply_err(req, r);
	else
		fuse_reply_write(req, done);
}

/* ---- flush, fsync, release ---- */

static int commit_handle(struct handle *h, bool last, struct changes *c)
{
	struct node *n = h->node;
	struct filex *x = n->file;
	struct mutex *row;
	int r = 0;

	if (!h->writable)
		return 0;
	if (n->kind == NODE_SCHEMA || n->kind == NODE_SETTING)
		return control_commit(n, x, &h->w, last, c);
	if (n->kind == NODE_SCRATCH_FILE) {
		struct node *forward;

		mutex_lock(&x->lock);
		forward = x->forward;
		if (forward)
			node_hold(forward);
		mutex_unlock(&x->lock);
		if (!forward)
			return 0;
		row = ofile_row_lock(forward);
		if (row)
			mutex_lock(row);
		mutex_lock(&x->lock);
		if (x->forward_file && x->forward_file->life != x->forward_life)
			x->w.dead = true; /* the version was removed or replaced */
		if (forward->kind == NODE_PLAIN || forward->kind == NODE_VERSION)
			r = writer_commit(&x->w, forward, false, &x->lock, c);
		mutex_unlock(&x->lock);
		if (row)
			mutex_unlock(row);
		node_put(forward);
		return r;
	}
	row = ofile_row_lock(n);
	mutex_lock(row);
	mutex_lock(&x->lock);
	if (n->kind == NODE_PLAIN)
		r = handle_commit(h, last, c);
	else if (h->life == x->life)
		r = writer_commit(&x->w, n, last, &x->lock, c);
	mutex_unlock(&x->lock);
	mutex_unlock(row);
	return r;
}

void ofile_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct handle *h = handle_of(fi);
	struct changes c = {0};
	int r;

	(void)ino;
	r = h ? commit_handle(h, false, &c) : 0;
	changes_reply_err(&c, req, r);
}

void ofile_fsync(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi)
{
	struct handle *h = handle_of(fi);
	struct node *n = h ? h->node : node_of(ino);
	struct changes c = {0};
	int r = 0;

	(void)datasync;
	/* A cell that was only created or truncated is on disk after this too; a version's stores are everybody's. */
	if (n->kind == NODE_VERSION && !(h && h->writable)) {
		struct filex *x = filex_find(n);

		r = x ? commit_version(n, x) : 0;
		filex_put(n, x);
	} else if (h) {
		r = commit_handle(h, n->kind == NODE_PLAIN || n->kind == NODE_VERSION, &c);
	}
	if (r == 0)
		r = tfs_sync(fs.store);
	changes_reply_err(&c, req, r);
}

void ofile_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct handle *h = handle_of(fi);
	struct changes c = {0};
	int r = 0;

	if (h) {
		r = commit_handle(h, true, &c);
		handle_free(h);
	} else if (!fs.no_open) {
		struct node *n = node_of(ino);
		struct filex *orphan = NULL;

		if (n->kind == NODE_VERSION) {
			mutex_lock(tree_mutex());
			if (n->opens > 0)
				n->opens--;
			if (n->opens == 0 && n->file && n->file->orphan && !n->file->handles) {
				orphan = n->file;
				orphan->orphan = false;
			}
			mutex_unlock(tree_mutex());
			filex_put(n, orphan);
		}
	}
	changes_reply_err(&c, req, r);
}

void ofile_close_all(void)
{
	for (;;) {
		struct handle *h = handle_any();
		struct changes c = {0};

		if (!h)
			return;
		refuse_begin();
		(void)!commit_handle(h, true, &c);
		changes_fini(&c);
		handle_free(h);
	}
}
