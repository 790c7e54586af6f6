/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The FUSE calls on descriptors that are open.
 *
 * Plain names use direct I/O.  The bytes for a reader are loaded at open, and
 * again after the end of the file.  A private mapping is filled from them, too.
 * But all mappings of a file share its pages in the kernel, so while several
 * versions are open, the pages are those of the newest.
 *
 * Versions are cached by the kernel.  READ reads from the store.  Bytes written
 * in place are staged, and committed before the next READ.
 *
 * The content of a scratch file is its image.  A control file is rendered at
 * open.  Its text is applied at flush.  Where one line is a whole setting, the
 * line is applied by the WRITE that ends it, because shells ignore the errors
 * of close.
 */
#include "fs/file/file.h"

#include "engine/base/msg.h"
#include "fs/base/node_ops.h"
#include "fs/base/name.h"
#include "fs/base/reply.h"
#include "fs/file/share.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

static struct handle *handle_of(const struct fuse_file_info *fi)
{
	return fi ? (struct handle *)(uintptr_t)fi->fh : NULL;
}

/* A descriptor for writing only has loaded nothing.  Until it has written, its end of file is that of the newest version. */
static void renew_end(struct handle *h)
{
	struct filex *x = h->x;
	struct tfs_info info;
	bool behind;

	mutex_lock(&x->lock);
	behind = h->w.seen != x->commits && h->w.holds == IMAGE_RANGES && !writer_pending(&h->w) && h->w.target &&
		node_lives(h->w.target);
	mutex_unlock(&x->lock);
	if (!behind || cell_node_stat(h->w.target, &info))
		return;
	mutex_lock(&x->lock);
	if (!writer_pending(&h->w))
		h->w.base_size = info.size;
	mutex_unlock(&x->lock);
}

uint64_t ofile_end(const struct fuse_file_info *fi)
{
	struct handle *h = (struct handle *)(uintptr_t)fi->fh;
	struct filex *x = h->x;
	struct changes c = {0};
	uint64_t end;
	uint8_t none;
	size_t got;

	if (h->writable && !handle_shares(h))
		renew_end(h);
	else if (h->ended == READER_END)
		(void)!reader_read(h, false, 0, &none, 1, &got);
	/* If the newest version cannot be loaded, the end stays where it was. */
	if (share_lock(h, false, &c))
		mutex_lock(&x->lock);
	end = writer_size(h->content);
	mutex_unlock(&x->lock);
	changes_send(&c);
	return end;
}

/* ---- read ---- */

/* Each thread has one buffer, which is freed when the thread ends. */
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

/* Commits the bytes that were written in place, before a READ or FSYNC. */
static int commit_version(struct node *n)
{
	struct mutex *row = ofile_row_lock(n);
	struct filex *x = filex_find(n);
	struct changes c = {0};
	bool pending;
	int r = 0;

	if (!x)
		return 0;
	mutex_lock(&x->lock);
	pending = writer_pending(&x->w);
	mutex_unlock(&x->lock);
	if (pending) {
		mutex_lock(row);
		mutex_lock(&x->lock);
		r = writer_commit(&x->w, true, x, &c);
		mutex_unlock(&x->lock);
		mutex_unlock(row);
		changes_send(&c);
	}
	filex_put(x);
	return r;
}

/* -ENOENT: it was removed, and there is no copy. */
static int read_once(struct node *n, uint64_t offset, uint8_t *buf, size_t size, size_t *got)
{
	struct filex *x = filex_find(n);
	struct node *at = n;
	int r = -ENOENT;

	if (x) {
		mutex_lock(&x->lock);
		at = x->node;
		if (!node_lives(at))
			r = writer_read(&x->w, offset, buf, size, got);
		mutex_unlock(&x->lock);
	}
	if (r == -ENOENT && node_lives(at))
		r = cell_node_read(at, offset, buf, size, got);
	filex_put(x);
	return r;
}

static int read_version(struct node *n, uint64_t offset, uint8_t *buf, size_t size, size_t *got)
{
	struct mutex *row = ofile_row_lock(n);
	int r;

	mark_paged(n);
	r = commit_version(n);
	if (r == 0)
		r = read_once(n, offset, buf, size, got);
	if (r == -ENOENT) {
		/* The thread that removes or renames it holds the row's lock until the copy for descriptors is there. */
		mutex_lock(row);
		mutex_unlock(row);
		r = read_once(n, offset, buf, size, got);
	}
	return r == -ENOENT ? -ESTALE : r;
}

static int read_without_handle(struct node *n, uint64_t offset, uint8_t *buf, size_t size, size_t *got)
{
	if (node_ops(n)->read_unopened)
		return node_ops(n)->read_unopened(n, offset, buf, size, got);
	if (n->kind == NODE_VERSION && !n->file && offset == 0 && size >= FS_CACHED_VALUE_MAX) {
		mark_paged(n);
		*got = size;
		if (cache_take(&fs.values, n->ino, atomic_load(&fs.changes), buf, got))
			return 0;
	}
	return read_version(n, offset, buf, size, got);
}

/* Are descriptors of other versions open, whose mappings share the pages with those of h? */
static bool pages_are_shared(struct handle *h)
{
	bool shared = false;

	mutex_lock(&h->x->lock);
	if (h->w.target == h->x->node && node_lives(h->w.target))
		for (struct handle *g = h->x->handles; g && !shared; g = g->next)
			shared = g != h && g->readable && (handle_shares(g) || g->w.base_ts != h->w.base_ts);
	mutex_unlock(&h->x->lock);
	return shared;
}

static int read_newest(struct node *n, uint64_t offset, uint8_t *buf, size_t size, size_t *got)
{
	mark_paged(n);
	return cell_node_read(n, offset, buf, size, got);
}

void ofile_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi)
{
	struct node *n = node_of(ino);
	struct handle *h = handle_of(fi);
	uint8_t *buf = buffer_of(size);
	struct changes c = {0};
	size_t got = 0;
	int r;

	if (!buf) {
		reply_err(req, -ENOMEM);
		return;
	}
	if (!h) {
		r = read_without_handle(n, (uint64_t)offset, buf, size, &got);
	} else {
		n = h->node;
		if (n->kind == NODE_VERSION) {
			r = read_version(n, (uint64_t)offset, buf, size, &got);
		} else if (n->kind == NODE_PLAIN && !h->writable) {
			r = -ENOENT;
			if (!fi->lock_owner && pages_are_shared(h)) /* read(2) sets lock_owner, a page fault does not */
				r = read_newest(n, (uint64_t)offset, buf, size, &got);
			if (r == -ENOENT)
				r = reader_read(h, !fi->lock_owner, (uint64_t)offset, buf, size, &got);
		} else if ((r = share_lock(h, false, &c)) == 0) {
			if (node_ops(n)->read)
				r = node_ops(n)->read(h, (uint64_t)offset, buf, size, &got);
			else
				r = writer_read(h->content, (uint64_t)offset, buf, size, &got);
			mutex_unlock(&h->x->lock);
		}
		changes_send(&c);
	}
	if (r)
		reply_err(req, refuse_store(r, n, NULL, "cannot be read"));
	else
		fuse_reply_buf(req, (const char *)buf, got);
}

/* ---- write ---- */

/* A counter's text must be the beginning of a number. */
static int counter_check(struct node *n, struct writer *w)
{
	struct family_info f;
	struct slice text;
	int r;

	if (w->holds != IMAGE_WHOLE || w->image.size > 64 || n->parent->kind != NODE_FAMILY)
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

static int write_bytes(struct handle *h, uint64_t offset, const uint8_t *p, size_t size, int flags, struct changes *c)
{
	struct node *n = h->node;
	struct filex *x = h->x;
	bool append = (flags & O_APPEND) != 0;
	int r = share_lock(h, true, c);

	if (r)
		return r;
	switch (file_kind(n)) {
	case FILE_PLAIN:
		r = writer_write(h->content, offset, p, size, append);
		if (r == 0 && h->content->target)
			r = counter_check(h->content->target, h->content);
		break;
	case FILE_VERSION:
		r = writer_write(h->content, offset, p, size, false);
		break;
	case FILE_SCRATCH:
		r = writer_write(&x->w, offset, p, size, append);
		x->mtime_us = fs_now_us();
		x->w.time = TFS_NO_TIME;
		break;
	case FILE_SETTING:
		/* Lines before this one have been applied. */
		if (h->w.image.size == 0)
			h->w.origin = offset;
		if (offset < h->w.origin) {
			r = refuse(-EINVAL, n, NULL, "written out of order");
			break;
		}
		r = writer_write(&h->w, offset - h->w.origin, p, size, append);
		if (r == 0)
			r = node_ops(n)->written(n, &h->w, offset + size, c);
		break;
	case FILE_SCHEMA:
		r = writer_write(&h->w, offset, p, size, append);
		if (r == 0)
			r = node_ops(n)->written(n, &h->w, offset + size, c);
		break;
	case FILE_NONE:
		r = -EISDIR;
		break;
	}
	mutex_unlock(&x->lock);
	return r;
}

void ofile_write(fuse_req_t req, fuse_ino_t ino, struct fuse_bufvec *in, off_t offset, struct fuse_file_info *fi)
{
	struct handle *h = handle_of(fi);
	size_t size = fuse_buf_size(in);
	struct fuse_bufvec whole = FUSE_BUFVEC_INIT(size);
	struct changes c = {0};
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
	r = write_bytes(h, (uint64_t)offset, p, size, fi->flags, &c);
	if (r == -EFBIG && (file_kind(h->node) == FILE_SCHEMA || file_kind(h->node) == FILE_SETTING))
		refuse(r, h->node, NULL, "more than 1 MiB; nothing of it is applied");
	else if (r == -EFBIG)
		refuse(r, h->node, NULL, "a value is at most 64 MiB; nothing of it is stored");
	else if (r != -EINVAL)
		refuse_store(r, h->node, NULL, "the write was refused");
	if (r)
		changes_reply_err(&c, req, r);
	else
		changes_reply_write(&c, req, size);
}

/* ---- flush, fsync, release ---- */

/* A scratch file that was renamed while open commits to its target. */
static int commit_scratch(struct filex *x, struct changes *c)
{
	struct node *forward;
	struct mutex *row;
	int r = 0;

	forward = filex_target(x);
	if (!forward)
		return 0;
	row = ofile_row_lock(forward);
	if (row)
		mutex_lock(row);
	mutex_lock(&x->lock);
	if (x->w.target && node_ops(x->w.target)->apply) {
		if (x->w.staged == STAGED_BYTES && node_lives(x->w.target)) {
			x->w.staged = STAGED_NOTHING;
			r = node_ops(x->w.target)->apply(x->w.target, &x->w, c);
		}
	} else if (x->w.target)
		r = writer_commit(&x->w, false, x, c);
	mutex_unlock(&x->lock);
	if (row)
		mutex_unlock(row);
	node_put(forward);
	return r;
}

int ofile_commit(struct handle *h, bool last, struct changes *c)
{
	struct node *n = h->node;
	struct filex *x = h->x;
	struct mutex *row;
	int r = 0;

	if (!h->writable)
		return 0;
	if (node_ops(n)->commit) {
		mutex_lock(&x->lock);
		r = node_ops(n)->commit(n, &h->w, last, c);
		mutex_unlock(&x->lock);
		return r;
	}
	if (n->kind == NODE_SCRATCH_FILE)
		return commit_scratch(x, c);
	row = ofile_row_lock(n);
	mutex_lock(row);
	mutex_lock(&x->lock);
	if (h->error)
		r = h->error;
	else if (!handle_shares(h) || h->content->writer == h)
		r = writer_commit(h->content, last, x, c);
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
	r = h ? ofile_commit(h, false, &c) : 0;
	changes_reply_err(&c, req, r);
}

void ofile_fsync(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi)
{
	struct handle *h = handle_of(fi);
	struct node *n = h ? h->node : node_of(ino);
	struct changes c = {0};
	int r = 0;

	(void)datasync;
	/* fsync also commits a cell that was only created or truncated.  Through any descriptor it commits a version's bytes. */
	if (n->kind == NODE_VERSION && !(h && h->writable)) {
		r = commit_version(n);
	} else if (h) {
		r = ofile_commit(h, n->kind == NODE_PLAIN || n->kind == NODE_VERSION, &c);
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
		r = ofile_commit(h, true, &c);
		handle_free(h);
	} else if (!fs.no_open && node_of(ino)->kind == NODE_VERSION) {
		version_leave(node_of(ino));
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
		(void)!ofile_commit(h, true, &c);
		changes_fini(&c);
		handle_free(h);
	}
}
