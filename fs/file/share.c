/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each descriptor has an image of its own, the content as it loaded it and
 * what it wrote since.  filex.commits counts the changes of the column, and
 * handle.seen says up to which of them the image has: while the two are the
 * same and nobody else has anything staged, a read costs no more than that
 * comparison.  Else, before it reads:
 *
 *   1 what the others have staged is committed, oldest descriptor last;
 *   2 so is its own, over the newest version, as ranges;
 *   3 it loads the newest version.
 *
 * So a program that takes a lock, reads, writes and lets go finds everything
 * that was written under the lock before, fsynced or not.  To commit early is
 * allowed: later commits of an open replace its version.
 *
 * A descriptor for reading only has an image of one version.  After a read
 * has returned end of file, the next read first replaces the image by the
 * newest version, if that is another.  So a program that reads a file once
 * sees one version, and tail -f sees what is appended.
 *
 * Where the newest version is shorter than the image, fstat shows the smaller
 * size, and tail -f begins again ("file truncated").  It reads by sizes and
 * may never have met the end of file, so a read at offset 0 by a descriptor
 * that has returned the last byte replaces the image then, too.
 *
 * These reads take no lock until the last byte has been returned.
 * handle.readers counts them.  An image is replaced only while handle.ended is
 * not READER_WITHIN and there are no readers: so a reader either sees the
 * former and takes the file's lock, or the replacing thread sees the reader
 * and leaves the image as it is.
 *
 * Decided against: looking at locks.  The kernel keeps them by itself as long
 * as this daemon does not ask for them, and to serve F_SETLKW here would cost
 * a thread for each that waits.
 */
#include "fs/file/share.h"

#include <errno.h>

void share_changed_locked(struct node *plain)
{
	if (plain->file && plain->file->node == plain)
		atomic_fetch_add(&plain->file->commits, 1);
}

static bool has_name(const struct handle *h)
{
	return h->target == h->x->node && node_lives(h->target) && !h->w.dead && !h->w.error;
}

static bool staged_by(const struct handle *g)
{
	return g->w.shares && has_name(g) && writer_pending(&g->w);
}

static bool others_staged(const struct handle *h, const struct filex *x)
{
	for (const struct handle *g = x->handles; g; g = g->next)
		if (g != h && staged_by(g))
			return true;
	return false;
}

/* Row and file locks are held; the latter is let go while a commit is under way. */
static void commit_others(const struct handle *h, struct filex *x, struct changes *c)
{
	/* Those who refuse hear of it themselves, at their next call. */
	for (struct handle *g = x->handles; g; g = g->next)
		if (g != h && staged_by(g))
			(void)!handle_commit(g, true, c);
}

/* Does the image lack anything?  The file's lock is held. */
static bool is_behind(const struct handle *h, const struct filex *x)
{
	return has_name(h) && (h->seen != x->commits || others_staged(h, x));
}

static int load_newest(struct handle *h, struct filex *x)
{
	uint32_t commits = x->commits;
	struct cell_place p;
	struct family_info f;
	struct tfs_info info;
	struct writer now;
	int r;

	writer_init(&now);
	now.only_reads = h->w.only_reads;
	cell_place_of(h->target, &p);
	r = family_info_get(p.family_node, &f);
	if (r == 0)
		r = writer_load(&now, &p, &info);
	if (r == 0) {
		stage_fini(&h->w.image);
		h->w.image = now.image;
		stage_init(&now.image);
		h->w.whole = false;
		h->w.loaded = true;
		h->w.base_size = info.size;
		h->w.base_ts = info.ts;
	}
	writer_fini(&now);
	if (r == 0 || r == -ENOENT)
		h->seen = commits;
	return r == -ENOENT ? 0 : r; /* it expired: the descriptor keeps what it has */
}

static int catch_up(struct handle *h, struct filex *x, struct changes *c)
{
	int r = 0;

	commit_others(h, x, c);
	if (h->seen == x->commits)
		return 0;
	if (writer_pending(&h->w))
		r = handle_commit(h, true, c);
	return r ? r : load_newest(h, x);
}

void share_open(struct handle *h)
{
	struct filex *x = h->x;
	struct mutex *row = ofile_row_lock(h->node);
	struct changes c = {0};
	bool others;

	h->w.shares = true;
	mutex_lock(&x->lock);
	others = others_staged(h, x);
	h->seen = x->commits;
	mutex_unlock(&x->lock);
	if (!others)
		return;
	mutex_lock(row);
	mutex_lock(&x->lock);
	commit_others(h, x, &c);
	h->seen = x->commits;
	mutex_unlock(&x->lock);
	mutex_unlock(row);
	changes_send(&c);
}

int share_read(struct handle *h, uint64_t offset, void *buf, size_t n, size_t *got)
{
	struct filex *x = h->x;
	struct mutex *row;
	struct changes c = {0};
	int r;

	mutex_lock(&x->lock);
	if (!is_behind(h, x)) {
		r = writer_read(&h->w, offset, buf, n, got);
		mutex_unlock(&x->lock);
		return r;
	}
	mutex_unlock(&x->lock);
	row = ofile_row_lock(h->node);
	mutex_lock(row);
	mutex_lock(&x->lock);
	r = catch_up(h, x, &c);
	if (r == 0)
		r = writer_read(&h->w, offset, buf, n, got);
	mutex_unlock(&x->lock);
	mutex_unlock(row);
	changes_send(&c);
	return r;
}

/* Has the column another newest version?  After a rename its changes are not counted here. */
static bool reader_is_behind(const struct handle *h, const struct filex *x)
{
	return h->ended != READER_WITHIN && h->readers == 0 && node_lives(h->target) &&
		(h->target != x->node || h->seen != x->commits);
}

static bool newest_is_shorter(const struct handle *h)
{
	struct cell_place p;
	struct family_info f;
	struct tfs_info info;

	cell_place_of(h->target, &p);
	return family_info_get(p.family_node, &f) == 0 && cell_stat(&p, &info) == 0 && info.size < h->w.image.size;
}

/* The row's lock keeps a large value in place while its parts are read. */
static int reader_catch_up(struct handle *h)
{
	struct filex *x = h->x;
	struct mutex *row = ofile_row_lock(h->node);
	int r = 0;

	mutex_lock(row);
	mutex_lock(&x->lock);
	if (h->ended == READER_END || newest_is_shorter(h)) {
		if (reader_is_behind(h, x))
			r = load_newest(h, x);
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
