/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The crash: changes the real files to a state that a power loss may leave.
 *
 *   1 Choose, oldest record first, whether it is lost, whole or torn.  If a
 *   change of an entry is lost, later changes that depend on it are lost too.
 *   2 Undo all records, newest first.  Each finds its file or directory as its
 *     operation left it, so the bytes to write again are read here and are not
 *     recorded.  The files now have their last durable state.
 *   3 Redo the survivors, oldest first.  So overlapping writes leave the bytes
 *     of the newest survivor, and a gap before a survivor reads as zeros.
 *
 * To undo a creation, the file or directory is moved to the side directory; to
 * redo it, it is moved back.  So the inodes in other records stay valid.  The
 * files in the side directory are removed at the end.
 *
 * Records of data and of entries do not interfere, because data records name
 * inodes.  Durable entries do not interfere either: all records that they
 * depend on became durable with them.
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
	/* The sectors that survive: from none to all except the last. */
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

/* Reads the bytes of a write that survives, to write them again. */
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
	int err = size_of(r->a->fd, &r->new_size);

	if (err == 0)
		err = save_written(r);
	if (err == 0 && r->new_size != r->old_size)
		err = set_size(r->a->fd, r->old_size);
	if (err == 0)
		err = pwrite_whole(r->a->fd, r->old, r->old_n, r->offset);
	return err;
}

static int redo_data(struct forget_rec *r)
{
	uint64_t size, end = 0;
	size_t n = r->now_n;
	int err;

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
	err = pwrite_whole(r->a->fd, r->now, n, r->offset);
	if (err == 0)
		err = size_of(r->a->fd, &size);
	if (err == 0 && size < end)
		err = set_size(r->a->fd, end);
	return err;
}

/* ---- entries ---- */

static int entry_move(int from_fd, const char *from, int to_fd, const char *to)
{
	return renameat(from_fd, from, to_fd, to) < 0 ? -errno : 0;
}

static int undo_entry(const struct forget_rec *r)
{
	char side[32];
	int err;

	if (r->kind == FORGET_CREATE || r->kind == FORGET_MKDIR) {
		forget_side_name(side, 'u', r);
		return entry_move(r->a->fd, r->a_name, forget.side_fd, side);
	}
	forget_side_name(side, 'k', r);
	if (r->kind != FORGET_RENAME)
		return entry_move(forget.side_fd, side, r->a->fd, r->a_name);
	err = entry_move(r->b->fd, r->b_name, r->a->fd, r->a_name);
	if (err == 0 && r->kept)
		err = entry_move(forget.side_fd, side, r->b->fd, r->b_name);
	return err;
}

static int redo_entry(const struct forget_rec *r)
{
	char side[32];
	int err = 0;

	if (r->kind == FORGET_CREATE || r->kind == FORGET_MKDIR) {
		forget_side_name(side, 'u', r);
		return entry_move(forget.side_fd, side, r->a->fd, r->a_name);
	}
	forget_side_name(side, 'k', r);
	if (r->kind != FORGET_RENAME)
		return entry_move(r->a->fd, r->a_name, forget.side_fd, side);
	if (r->kept)
		err = entry_move(r->b->fd, r->b_name, forget.side_fd, side);
	if (err == 0)
		err = entry_move(r->a->fd, r->a_name, r->b->fd, r->b_name);
	return err;
}

int file_forget_crash(file_forget_choose_fn *choose, void *arg)
{
	int err = 0;

	pthread_mutex_lock(&forget.lock);
	if (forget.state != FORGET_ON) {
		pthread_mutex_unlock(&forget.lock);
		return -EINVAL;
	}
	choose_all(choose, arg);
	for (size_t i = forget.recs; err == 0 && i-- > 0;) {
		struct forget_rec *r = forget.rec[i];

		err = forget_rec_is_data(r) ? undo_data(r) : undo_entry(r);
	}
	for (size_t i = 0; err == 0 && i < forget.recs; i++) {
		struct forget_rec *r = forget.rec[i];

		if (r->fate)
			err = forget_rec_is_data(r) ? redo_data(r) : redo_entry(r);
	}
	forget_clear_locked();
	forget.crasher = pthread_self();
	forget.state = FORGET_DEAD;
	pthread_mutex_unlock(&forget.lock);
	return err;
}
