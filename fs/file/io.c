/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The FUSE calls on descriptors that are open.
 *
 * Plain names use direct I/O.  A reader's bytes are loaded at open, and again
 * when it reads on after an end of file.  The pages of a private mapping, and of
 * sendfile and splice, are filled from these bytes, too.  But the kernel has one
 * set of pages and one size per file, for all the versions that are open.  An
 * open and a commit drop the pages.  The kernel uses the size of the last answer
 * that stated one, or 0 after an open with O_TRUNC.
 *
 * Versions are cached by the kernel.  READ reads from the store.  Bytes written
 * in place are staged, and committed before the next READ.
 *
 * The content of a scratch file is its image.  A control file is rendered at
 * open.  A WRITE that ends in a newline also applies the text, because shells
 * ignore the errors of close.  Other text is applied at flush (setting.c), and
 * the text of .schema always (schema.c).
 */
#include "fs/file/file.h"

#include "engine/base/msg.h"
#include "fs/base/ahead.h"
#include "fs/base/node_ops.h"
#include "engine/base/name.h"
#include "fs/base/reply.h"
#include "fs/file/blocks.h"
#include "fs/file/counter.h"
#include "fs/file/read.h"
#include "fs/file/sequential.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

static struct descriptor *descriptor_of(const struct fuse_file_info *fi)
{
	return fi ? (struct descriptor *)(uintptr_t)fi->fh : NULL;
}

uint64_t ofile_seek_end(const struct fuse_file_info *fi)
{
	struct descriptor *d = (struct descriptor *)(uintptr_t)fi->fh;
	struct content *content = d->content;
	struct open_file *file = d->file;
	struct changes c = {0};
	struct tfs_info info;
	uint64_t end;
	uint8_t none;
	size_t got;

	if (d->ended == READER_TOLD || d->ended == READER_END)
		(void)!reader_read(d, false, 0, &none, 1, &got);
	/* If the newest version cannot be loaded, the end stays where it was. */
	if (content_lock(d, false, &c))
		mutex_lock(&file->lock);
	/* A descriptor for writing only has loaded nothing.  Until it has written, its end of file is the newest version's. */
	if (content == &d->own && content->holds == IMAGE_RANGES && !content_is_current(file, content) &&
		!content_is_staged(content) && content->target && node_lives(content->target) &&
		cell_node_stat(content->target, &info) == 0)
		content->base_size = info.size;
	end = content_size(content);
	mutex_unlock(&file->lock);
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

static uint8_t *thread_buffer(size_t n)
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

static void node_mark_paged(struct node *n)
{
	mutex_lock(tree_mutex());
	n->flags |= NODE_PAGED;
	mutex_unlock(tree_mutex());
}

/* Commits the bytes that were written in place, before a READ or FSYNC. */
static int version_commit(struct node *n)
{
	struct staged_attr staged;
	struct changes c = {0};
	struct open_file *file;
	struct mutex *row;
	int err;

	if (!ofile_pending(n, &staged) || !(file = open_file_find(n)))
		return 0;
	row = row_lock(n);
	mutex_lock(&file->lock);
	err = content_commit(&file->shared, true, file, &c);
	mutex_unlock(&file->lock);
	row_unlock(row);
	changes_send(&c);
	open_file_put(file);
	return err;
}

/* -ENOENT: the version was removed, and there is no copy for open descriptors (IMAGE_RANGES). */
static int version_read_once(struct node *n, uint64_t offset, uint8_t *buf, size_t size, size_t *got)
{
	struct open_file *file = open_file_find(n);
	struct node *at = n;
	int err = -ENOENT;

	if (file) {
		mutex_lock(&file->lock);
		at = file->node;
		if (!node_lives(at) && file->shared.holds != IMAGE_RANGES)
			err = content_read(&file->shared, offset, buf, size, got);
		node_hold(at);
		mutex_unlock(&file->lock);
	}
	if (err == -ENOENT && node_lives(at))
		err = blocks_read(at, offset, buf, size, got);
	if (file)
		node_put(at);
	open_file_put(file);
	return err;
}

static int version_read(struct node *n, uint64_t offset, uint8_t *buf, size_t size, size_t *got)
{
	int err;

	node_mark_paged(n);
	err = version_commit(n);
	if (err == 0)
		err = version_read_once(n, offset, buf, size, got);
	if (err == -ENOENT) {
		/* Waits until the thread that removes or renames it has made the copy; that thread holds the row's lock. */
		row_unlock(row_lock(n));
		err = version_read_once(n, offset, buf, size, got);
	}
	return err == -ENOENT ? -ESTALE : err;
}

static int read_without_descriptor(struct node *n, uint64_t offset, uint8_t *buf, size_t size, size_t *got)
{
	int err;

	if (node_ops(n)->text)
		return node_read_text(n, offset, buf, size, got);
	if (n->kind == NODE_FOUND) {
		err = cell_node_read(n, offset, buf, size, got);
		return err == -ENOENT ? -ESTALE : err;
	}
	if (n->kind == NODE_VERSION && !n->file && offset == 0) {
		node_mark_paged(n);
		atomic_store(&fs.unread_values, 0);
		*got = size;
		if (cache_take(&fs.values, n, fs_changes(), buf, got) || (size <= FS_CACHED_VALUE_MAX && ahead_read(n, buf, got)))
			return 0;
	}
	return version_read(n, offset, buf, size, got);
}

void ofile_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi)
{
	struct node *n = node_of(ino);
	struct descriptor *d = descriptor_of(fi);
	struct changes c = {0};
	size_t got = 0;
	uint8_t *buf;
	int err;

	if (node_ops(n)->sequential) {
		sequential_read(req, size, offset, fi);
		return;
	}
	buf = thread_buffer(size);
	if (!buf) {
		reply_err(req, -ENOMEM);
		return;
	}
	if (!d) {
		err = read_without_descriptor(n, (uint64_t)offset, buf, size, &got);
	} else {
		n = d->node;
		if (n->kind == NODE_VERSION) {
			err = version_read(n, (uint64_t)offset, buf, size, &got);
		} else if (n->kind == NODE_PLAIN && !d->writable) {
			const bool paging = !fi->lock_owner; /* read(2) sets lock_owner; a page fault and splice do not */

			if (paging)
				node_mark_paged(n);
			else
				d->pid = fuse_req_ctx(req)->pid;
			err = reader_read(d, paging, (uint64_t)offset, buf, size, &got);
		} else if ((err = content_lock(d, false, &c)) == 0) {
			if (node_ops(n)->read)
				err = node_ops(n)->read(d, (uint64_t)offset, buf, size, &got);
			else if (d->own.counter && d->own.origin && !content_is_staged(&d->own))
				err = cell_node_read(
					n, (uint64_t)offset, buf, size, &got); /* lines were added to the stored number */
			else
				err = content_read(d->content, (uint64_t)offset, buf, size, &got);
			mutex_unlock(&d->file->lock);
		}
		changes_send(&c);
	}
	if (err)
		reply_err(req, refuse_store(err, n, NULL, "cannot be read"));
	else
		fuse_reply_buf(req, (const char *)buf, got);
}

/*
 * The kernel ends a copy_file_range at the last size that it has got, which may
 * be another version's, and copies its pages itself if the answer is EOPNOTSUPP.
 * After EINVAL programs read and write instead.
 */
void ofile_copy_range(fuse_req_t req, fuse_ino_t from, off_t from_offset, struct fuse_file_info *from_fi, fuse_ino_t to,
	off_t to_offset, struct fuse_file_info *to_fi, size_t n, int flags)
{
	reply_err(req, node_of(from)->kind == NODE_PLAIN ? -EINVAL : -EOPNOTSUPP);
}

/* ---- write ---- */

int descriptor_check_room(struct descriptor *d)
{
	struct open_file *file = d->file;
	bool has_room;
	int err;

	if (!node_is(d->node, KIND_CELL))
		return 0;
	mutex_lock(&file->lock);
	has_room = d->content->has_room;
	mutex_unlock(&file->lock);
	if (has_room)
		return 0;
	err = cell_check_room(d->node);
	mutex_lock(&file->lock);
	open_file_wait(file, d->content);
	d->content->has_room = err == 0;
	/* The open has truncated or created the cell for these bytes. */
	if (err && d->content->staged == STAGED_CREATION)
		(void)content_failed(d->content, err);
	mutex_unlock(&file->lock);
	return err;
}

static int descriptor_write(struct descriptor *d, uint64_t offset, const uint8_t *p, size_t size, int flags, struct changes *c)
{
	struct node *n = d->node;
	struct open_file *file = d->file;
	struct content *content = d->content;
	bool append = (flags & O_APPEND) != 0;
	int err = descriptor_check_room(d);

	if (err == 0)
		err = content_lock(d, true, c);
	if (err)
		return err;
	/* A setting: lines before this WRITE have been applied; origin is where the image begins. */
	if (n->kind == NODE_SETTING && content->image.size == 0)
		content->origin = offset;
	if (n->kind == NODE_SETTING && offset < content->origin)
		err = refuse(-EINVAL, n, NULL, "written out of order");
	else if (content->counter && content->target)
		err = counter_write(content, offset, tfs_bytes_of(p, size), append);
	else
		err = content_write(content, n->kind == NODE_SETTING ? offset - content->origin : offset, p, size,
			append && n->kind != NODE_VERSION);
	if (err == 0 && node_ops(n)->written)
		err = node_ops(n)->written(n, content, append ? content->image.size : offset + size, c);
	if (n->kind == NODE_SCRATCH_FILE) {
		file->mtime_us = fs_now_us();
		content->time = TFS_NO_TIME;
	}
	mutex_unlock(&file->lock);
	return err;
}

void ofile_write(fuse_req_t req, fuse_ino_t ino, const char *p, size_t size, off_t offset, struct fuse_file_info *fi)
{
	struct descriptor *d = descriptor_of(fi);
	struct changes c = {0};
	int err;

	if (node_ops(node_of(ino))->sequential) {
		sequential_write(req, p, size, fi);
		return;
	}
	if (!d) {
		reply_err(req, -EBADF);
		return;
	}
	d->pid = fuse_req_ctx(req)->pid;
	err = descriptor_write(d, (uint64_t)offset, (const uint8_t *)p, size, fi->flags, &c);
	if (err == -EFBIG && node_ops(d->node)->written)
		refuse(err, d->node, NULL, "more than 1 MiB; nothing of it is applied");
	else if (err == -EFBIG)
		refuse(err, d->node, NULL, "a value is at most 64 MiB; nothing of it is stored");
	else if (err != -EINVAL)
		refuse_store(err, d->node, NULL, "the write was refused");
	if (err)
		changes_reply_err(&c, req, err);
	else
		changes_reply_write(&c, req, size);
}

/* ---- flush, fsync, release ---- */

/* A scratch file that was renamed while open commits to its target. */
static int scratch_commit_renamed(struct open_file *file, struct changes *c)
{
	struct node *forward = open_file_target(file);
	struct content *content = &file->shared;
	struct mutex *row;
	int err = 0;

	if (!forward)
		return 0;
	row = row_lock(forward);
	mutex_lock(&file->lock);
	if (!content->target || !node_ops(content->target)->apply) {
		err = content_commit(content, false, file, c);
	} else if (content->staged == STAGED_BYTES && node_lives(content->target)) {
		content->staged = STAGED_NOTHING;
		err = node_ops(content->target)->apply(content->target, content, c);
	}
	mutex_unlock(&file->lock);
	row_unlock(row);
	node_put(forward);
	return err;
}

int ofile_commit(struct descriptor *d, bool last, struct changes *c)
{
	struct node *n = d->node;
	struct open_file *file = d->file;
	struct mutex *row;
	int err = 0;

	if (!d->writable)
		return 0;
	if (node_ops(n)->commit) {
		mutex_lock(&file->lock);
		err = node_ops(n)->commit(n, &d->own, last, c);
		mutex_unlock(&file->lock);
		return err;
	}
	if (n->kind == NODE_SCRATCH_FILE)
		return scratch_commit_renamed(file, c);
	row = row_lock(n);
	mutex_lock(&file->lock);
	if (d->error)
		err = d->error;
	else if (!descriptor_shares(d) || d->content->writer == d || content_is_dropped(d->content))
		err = content_commit(d->content, last, file, c);
	content_flushed(d);
	mutex_unlock(&file->lock);
	row_unlock(row);
	return err;
}

void ofile_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct descriptor *d = descriptor_of(fi);
	struct changes c = {0};
	int err;

	if (node_ops(node_of(ino))->sequential) {
		sequential_flush(req, false, fi);
		return;
	}
	err = d ? ofile_commit(d, false, &c) : 0;
	changes_reply_err(&c, req, err);
}

void ofile_fsync(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi)
{
	struct descriptor *d = descriptor_of(fi);
	struct node *n = node_of(ino);
	struct changes c = {0};
	int err = 0;

	if (node_ops(n)->sequential) {
		sequential_flush(req, true, fi);
		return;
	}
	if (d)
		n = d->node;
	/* fsync also commits a cell that was only created or truncated; and a version through any descriptor, also for reading. */
	if (n->kind == NODE_VERSION && !(d && d->writable)) {
		err = version_commit(n);
	} else if (d) {
		err = ofile_commit(d, n->kind == NODE_PLAIN || n->kind == NODE_VERSION, &c);
	}
	if (err == 0)
		err = tfs_sync(fs.store);
	changes_reply_err(&c, req, err);
}

/*
 * No process waits for the answer.  The kernel limits the number of such requests
 * without an answer, and counts read-ahead among them.  So the answer does not wait
 * for a row.
 */
void ofile_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct descriptor *d = descriptor_of(fi);
	struct changes c = {0};

	if (node_ops(node_of(ino))->sequential) {
		sequential_release(req, sequential_of(fi));
		return;
	}
	if (d) {
		fuse_reply_err(req, 0);
		(void)!ofile_commit(d, true, &c);
		descriptor_free(d);
		changes_send(&c);
		return;
	}
	if (!fs.no_open && node_of(ino)->kind == NODE_VERSION)
		version_count_close(node_of(ino));
	else if (!fs.no_open)
		node_opened(node_of(ino), false);
	fuse_reply_err(req, 0);
}

void ofile_close_all(void)
{
	sequential_close_all();
	for (;;) {
		struct descriptor *d = descriptor_first();
		struct changes c = {0};

		if (!d)
			return;
		refuse_begin();
		if (ofile_commit(d, true, &c) == -EINTR)
			(void)!refuse(-EIO, d->node, NULL, "its last bytes are lost: the mount ends, and the server is silent");
		changes_fini(&c);
		descriptor_free(d);
	}
}
