/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The crash: turns the real files into what a power loss may have left.
 *
 *   1 Choose: each record, oldest first, is lost, whole or torn; an entry's
 *     change that is lost takes with it every later one that needs it.
 *   2 Undo every record, newest first.  Each finds the file or directory as
 *     its operation left it, so the bytes to write again are read here and
 *     need not have been recorded.  Now everything is the last durable
 *     image.
 *   3 Redo the survivors, oldest first.  Overlapping writes thus give the
 *     bytes of the newest survivor, and gaps before a survivor past the end
 *     read as zeros.
 *
 * Undoing a creation moves the file or directory, with all in it, to the
 * side, and redoing it moves it back: inodes stay what other records know.
 * Whatever is left in the side directory at the end is gone for good.
 *
 * Undo and redo of data and of entries do not interfere: data goes by
 * inode.  Within entries, records already durable never stand in the way: a
 * durable record took all it needs with it (forget.c).
 */
#include "t/lib/forget.h"

#include "t/lib/file_faults.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SECTOR_BYTES = 512 };

/* ---- choosing ---- */

static void choose_write(struct forget_rec *r, file_forget_choose_fn *choose, void *arg, unsigned i)
{
	uint64_t first = r->offset / SECTOR_BYTES, last = (r->offset + r->n - 1) / SECTOR_BYTES;
	bool grows = r->offset + r->n > r->old_size;
	unsigned ways = last > first || grows ? 3 : 2;
	unsigned whole;

	r->fate = choose(arg, i, ways) % ways;
	if (r->fate != 2)
		return;
	/* Sectors that survive, one of them possibly cut by the write's start: from none to all but the last. */
	whole = last > first ? choose(arg, i, (unsigned)(last - first + 1)) % (unsigned)(last - first + 1) : 0;
	r->torn_n = whole ? (first + whole) * SECTOR_BYTES - r->offset : 0;
	r->torn_grows = grows && choose(arg, i, 2) % 2 == 1;
}

static void choose_all(file_forget_choose_fn *choose, void *arg)
{
	for (size_t i = 0; i < forget.recs; i++) {
		struct forget_rec *r = forget.rec[i];

		if (r->kind == FORGET_WRITE)
			choose_write(r, choose, arg, (unsigned)i);
		else
			r->fate = choose(arg, (unsigned)i, 2) % 2;
		for (size_t j = 0; r->fate && j < i; j++)
			if (!forget.rec[j]->fate && forget_rec_needs(r, forget.rec[j]))
				r->fate = 0;
	}
}

/* ---- data ---- */

static int pwrite_whole(int fd, const uint8_t *p, size_t n, uint64_t offset)
{
	while (n > 0) {
		ssize_t r = pwrite(fd, p, n, (off_t)offset);

		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0)
			return r < 0 ? -errno : -EIO;
		p += r;
		n -= (size_t)r;
		offset += (uint64_t)r;
	}
	return 0;
}

static int set_size(int fd, uint64_t bytes)
{
	return ftruncate(fd, (off_t)bytes) < 0 ? -errno : 0;
}

static int size_of(int fd, uint64_t *bytes)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	*bytes = (uint64_t)st.st_size;
	return 0;
}

/* Reads what the write left, to be written again if it survives. */
static int save_written(struct forget_rec *r)
{
	uint64_t most;

	if (r->kind != FORGET_WRITE || !r->fate || r->new_size <= r->offset)
		return 0;
	most = r->new_size - r->offset;
	if (r->n < most)
		most = r->n;
	r->now = malloc(most);
	if (!r->now)
		return -ENOMEM;
	while (r->now_n < most) {
		ssize_t got = pread(r->a->fd, r->now + r->now_n, most - r->now_n, (off_t)(r->offset + r->now_n));

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return got < 0 ? -errno : -EIO;
		r->now_n += (size_t)got;
	}
	return 0;
}

static int undo_data(struct forget_rec *r)
{
	int rc = size_of(r->a->fd, &r->new_size);

	if (rc == 0)
		rc = save_written(r);
	if (rc == 0 && r->new_size != r->old_size)
		rc = set_size(r->a->fd, r->old_size);
	if (rc == 0)
		rc = pwrite_whole(r->a->fd, r->old, r->old_n, r->offset);
	return rc;
}

static int redo_data(struct forget_rec *r)
{
	uint64_t size, end = 0;
	size_t n = r->now_n;
	int rc;

	switch (r->kind) {
	case FORGET_TRUNCATE:
		return r->new_size == r->old_size ? 0 : set_size(r->a->fd, r->new_size);
	case FORGET_ALLOCATE:
		end = r->new_size;
		n = 0;
		break;
	case FORGET_WRITE:
		if (r->fate == 2) {
			n = r->torn_n < r->now_n ? (size_t)r->torn_n : r->now_n;
			end = r->torn_grows ? r->offset + r->now_n : 0;
		}
		break;
	case FORGET_CREATE:
	case FORGET_MKDIR:
	case FORGET_UNLINK:
	case FORGET_RMDIR:
	case FORGET_RENAME:
		return -EINVAL;
	}
	rc = pwrite_whole(r->a->fd, r->now, n, r->offset);
	if (rc == 0)
		rc = size_of(r->a->fd, &size);
	if (rc == 0 && size < end)
		rc = set_size(r->a->fd, end);
	return rc;
}

/* ---- entries ---- */

static int move(int from_fd, const char *from, int to_fd, const char *to)
{
	return renameat(from_fd, from, to_fd, to) < 0 ? -errno : 0;
}

static int undo_entry(const struct forget_rec *r)
{
	char side[32];
	int rc;

	if (r->kind == FORGET_CREATE || r->kind == FORGET_MKDIR) {
		forget_side_name(side, 'u', r);
		return move(r->a->fd, r->a_name, forget.side_fd, side);
	}
	forget_side_name(side, 'k', r);
	if (r->kind != FORGET_RENAME)
		return move(forget.side_fd, side, r->a->fd, r->a_name);
	rc = move(r->b->fd, r->b_name, r->a->fd, r->a_name);
	if (rc == 0 && r->kept)
		rc = move(forget.side_fd, side, r->b->fd, r->b_name);
	return rc;
}

static int redo_entry(const struct forget_rec *r)
{
	char side[32];
	int rc = 0;

	if (r->kind == FORGET_CREATE || r->kind == FORGET_MKDIR) {
		forget_side_name(side, 'u', r);
		return move(forget.side_fd, side, r->a->fd, r->a_name);
	}
	forget_side_name(side, 'k', r);
	if (r->kind != FORGET_RENAME)
		return move(r->a->fd, r->a_name, forget.side_fd, side);
	if (r->kept)
		rc = move(r->b->fd, r->b_name, forget.side_fd, side);
	if (rc == 0)
		rc = move(r->a->fd, r->a_name, r->b->fd, r->b_name);
	return rc;
}

int file_forget_crash(file_forget_choose_fn *choose, void *arg)
{
	int rc = 0;

	pthread_mutex_lock(&forget.lock);
	if (forget.state != FORGET_ON) {
		pthread_mutex_unlock(&forget.lock);
		return -EINVAL;
	}
	choose_all(choose, arg);
	for (size_t i = forget.recs; rc == 0 && i-- > 0;) {
		struct forget_rec *r = forget.rec[i];

		rc = forget_rec_is_data(r) ? undo_data(r) : undo_entry(r);
	}
	for (size_t i = 0; rc == 0 && i < forget.recs; i++) {
		struct forget_rec *r = forget.rec[i];

		if (r->fate)
			rc = forget_rec_is_data(r) ? redo_data(r) : redo_entry(r);
	}
	forget_clear_locked();
	forget.crasher = pthread_self();
	forget.state = FORGET_DEAD;
	pthread_mutex_unlock(&forget.lock);
	return rc;
}
