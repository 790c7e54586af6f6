/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors for reading and writing share one content, that of the file.
 * The bytes staged in it are those of one descriptor, its writer.  Before
 * another descriptor reads or writes, they are committed; the content is then
 * the newest version, and each open still makes versions of its own.
 *
 * filex.commits counts the changes of the column, and writer.seen states up to
 * which of them an image has.  While the two are equal and no other descriptor
 * has staged bytes, a read costs no more than that comparison.  Otherwise the
 * staged bytes are committed over the newest version, as ranges, and the image
 * is loaded again.
 *
 * So a program that locks the file, reads, writes and unlocks it reads all that
 * was written under the lock before, synced or not.  An early commit is
 * harmless, because later commits of an open replace its version.
 *
 * A descriptor for reading only has an image of one version.  After a read
 * has returned end of file, the next read first replaces the image by the
 * newest version, if that is another.  So a program that reads a file once
 * sees one version, and tail -f sees what is appended.
 *
 * Where the newest version is shorter than the image, fstat shows the smaller
 * size, and tail -f begins again ("file truncated").  tail reads as many bytes
 * as fstat reports and may never read the end of file.  So a read at offset 0
 * by a descriptor that has returned the last byte replaces the image, too.
 *
 * These reads take no lock until the last byte has been returned.
 * handle.readers counts them.  An image is replaced only while handle.ended is
 * not READER_WITHIN and there are no readers.  So either a reader sees that
 * handle.ended has changed and takes the file's lock, or the replacing thread
 * sees the reader and leaves the image as it is.
 *
 * Rejected: commits when a file lock is taken.  The kernel serves file locks by
 * itself unless the daemon does, and F_SETLKW here would occupy a thread for
 * each process that waits.
 */
#include "fs/file/share.h"

#include <errno.h>

static bool has_name(const struct filex *x, const struct writer *w)
{
	return w->target == x->node && node_lives(w->target) && !w->error;
}

static int load_newest(struct filex *x, struct writer *w, bool only_reads)
{
	uint32_t commits = x->commits;
	struct tfs_info info;
	struct stage image;
	int r;

	stage_init(&image);
	r = cell_load(w->target, only_reads, &image, &info);
	if (r) {
		stage_fini(&image);
	} else {
		stage_fini(&w->image);
		w->image = image;
		w->holds = IMAGE_LOADED;
		w->base_size = info.size;
		w->base_ts = info.ts;
	}
	if (r == 0 || r == -ENOENT)
		w->seen = commits;
	return r == -ENOENT ? 0 : r; /* it expired: the image stays */
}

/* ---- descriptors for reading and writing ---- */

static bool others_staged(const struct handle *h)
{
	const struct writer *w = h->content;

	return w->writer != h && (writer_pending(w) || w->error);
}

static bool lacks_commits(const struct handle *h)
{
	const struct writer *w = h->content;

	return has_name(h->x, w) && (w->seen != h->x->commits || w->holds == IMAGE_RANGES);
}

/* The row's and the file's lock are held; the latter is released while the store works. */
static int catch_up(struct handle *h, struct changes *c)
{
	struct writer *w = h->content;
	int r = 0;

	if (writer_pending(w) && (others_staged(h) || lacks_commits(h)))
		r = writer_commit(w, true, h->x, c);
	if (w->error && w->writer != h) {
		/* The next call on its writer returns the error. */
		if (w->writer)
			w->writer->error = w->error;
		writer_discard(w);
		w->holds = IMAGE_RANGES;
		w->error = r = 0;
	}
	if (r == 0 && lacks_commits(h)) {
		r = load_newest(h->x, w, false);
		w->holds = IMAGE_LOADED;
	}
	return r;
}

static void become_writer(struct handle *h)
{
	struct writer *w = h->content;

	if (w->writer == h)
		return;
	w->writer = h;
	w->latest = node_is_latest(h->node);
	w->committed = false;
	w->time = TFS_NO_TIME;
}

int share_lock(struct handle *h, bool writes, struct changes *c)
{
	struct filex *x = h->x;
	bool shared = handle_shares(h);
	struct mutex *row;
	int r = 0;

	mutex_lock(&x->lock);
	if (writes)
		filex_wait(x, h->content);
	if (shared && (others_staged(h) || lacks_commits(h))) {
		mutex_unlock(&x->lock);
		row = ofile_row_lock(h->node);
		mutex_lock(row);
		mutex_lock(&x->lock);
		r = catch_up(h, c);
		mutex_unlock(row);
	}
	r = h->error ? h->error : r;
	if (r)
		mutex_unlock(&x->lock);
	else if (shared && writes)
		become_writer(h);
	return r;
}

void share_open(struct handle *h, bool truncate)
{
	struct filex *x = h->x;
	struct writer *w = &x->w;

	mutex_lock(&x->lock);
	h->content = w;
	if (!w->target) {
		writer_aim(w, x->node);
		w->seen = x->commits;
		w->holds = truncate ? IMAGE_LOADED : IMAGE_RANGES;
	}
	mutex_unlock(&x->lock);
}

/* ---- descriptors for reading ---- */

/* May the column have another newest version?  After a rename its changes are not counted in x. */
static bool reader_is_behind(const struct handle *h, const struct filex *x)
{
	return h->ended != READER_WITHIN && h->readers == 0 && node_lives(h->w.target) &&
		(h->w.target != x->node || h->w.seen != x->commits);
}

static bool newest_is_shorter(const struct handle *h)
{
	struct tfs_info info;

	return cell_node_stat(h->w.target, &info) == 0 && info.size < h->w.image.size;
}

/* Under the row's lock the version of a large value is not replaced between reads of its parts. */
static int reader_catch_up(struct handle *h)
{
	struct filex *x = h->x;
	struct mutex *row = ofile_row_lock(h->node);
	int r = 0;

	mutex_lock(row);
	mutex_lock(&x->lock);
	if (h->ended == READER_END || newest_is_shorter(h)) {
		if (reader_is_behind(h, x))
			r = load_newest(x, &h->w, true);
		if (r == 0 && h->readers == 0)
			h->ended = READER_WITHIN;
	}
	mutex_unlock(&x->lock);
	mutex_unlock(row);
	return r;
}

int reader_read(struct handle *h, bool paging, uint64_t offset, void *buf, size_t n, size_t *got)
{
	struct filex *x = h->x;
	bool locked;
	int r = 0;

	if (!paging && (h->ended == READER_END || (h->ended == READER_ALL && offset == 0)))
		r = reader_catch_up(h);
	if (r)
		return r;
	h->readers++;
	locked = h->ended != READER_WITHIN;
	if (locked) {
		h->readers--;
		mutex_lock(&x->lock);
	}
	r = writer_read(&h->w, offset, buf, n, got);
	if (r == 0 && !paging && *got == 0)
		h->ended = READER_END;
	else if (r == 0 && !paging && h->ended == READER_WITHIN && offset + *got == h->w.image.size)
		h->ended = READER_ALL;
	if (locked)
		mutex_unlock(&x->lock);
	else
		h->readers--;
	return r;
}
