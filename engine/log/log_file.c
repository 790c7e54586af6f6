/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Segment files: creation, rolling over, zeros ahead, removal.
 *
 * Rolling over, durable steps (writer's role):
 *   1 create the file, or rename a spent one to the next number
 *   2 write its header, which states the durable LSN
 *   3 write records
 *   4 the next sync covers both files, then the directory (log.c)
 * Nothing is synced here: a record is durable no earlier than step 4.  A
 * crash before 4 may leave any part of it: a file without a whole header,
 * which replay passes over; one whose header has another number than its
 * name (the rename without the header, or the header without the rename),
 * passed over too; or a header and some records, which count as far as LSNs
 * are gapless.
 *
 * Spent segments.  A dropped segment is kept for the next roll, two at most:
 * writing over blocks that a file has already changes no metadata, so that
 * a sync need not wait for the file system's journal (measured with groups
 * of 100 KiB: 1.4 us a record, growing 2.2).  What is left of its earlier
 * life cannot be taken for records of the new one: every LSN in it is below
 * the new first LSN, since it had been durable as a whole before it was
 * dropped, and replay asks for one LSN only at each place.  An abandoned
 * file (log_switch.c) is never used again: a replaced thread may still write
 * to it.  The header of a spent one is wiped, so that a kill leaves a
 * file that was never finished and not a segment long dropped; that is not
 * synced, as little as an unlink would be.  They go when the disk fills up.
 *
 * Pages of a spent file may have left the page cache, and writing a part of
 * one would read it first; so the first write into a page goes on with zeros
 * to its end.
 *
 * Zeros ahead.  Where syncs are frequent and small, a write that would grow the
 * file goes on with zeros, so that the next few hundred change no metadata
 * and their fdatasync is cheaper.  They go with that write and through its
 * sync.  Zeroing in the background, in a step of megabytes, made the log's
 * own syncs wait for its pages, since an fdatasync writes all that is dirty
 * of a file: measured with 16 synced writers, 49,000 a second and one in a
 * thousand 5 ms, now 56,000 and 1.2 ms.  In bulk, from 32 KiB a sync on,
 * nothing is done: measured with groups of 100 KiB, growing the file takes
 * 2.2 us a record, zeroing beside it 1.9 to 2.8 (the device writes everything
 * twice), a plain fallocate 2.1 to 2.4 (unwritten extents must be converted
 * at each sync).  Where there is no room for the zeros the records are
 * written without.
 *
 * Removal takes whole segments, oldest first, and is not synced: a segment
 * that comes back after a crash lies below what anybody replays from, as
 * does every record in it that a later segment had cut.
 */
#include "engine/log/log_internal.h"

#include "engine/base/clock.h"
#include "engine/base/msg.h"

#include <errno.h>
#include <stdlib.h>

#define AHEAD_BYTES (256u << 10)
#define SPENT_ROOM 8u   /* times its size that must be free on the disk to keep a spent one */
#define QUIET_SYNCS 16u /* in a segment, below it: no zeros ahead */
#define BULK_BYTES_PER_SYNC (32u << 10)

static uint8_t zeros[AHEAD_BYTES + LOG_PAGE_BYTES]; /* not const, or the program's file would hold them */

static char *segment_path(const struct log *l, uint64_t number)
{
	char name[32];

	log_segment_name(name, number);
	return path_join(l->dir, name);
}

/* Step 1 with a spent file; if that fails it is removed. */
static int reuse(struct log *l, struct log_segment *s, const struct log_segment *spent, const char *path)
{
	char *from = segment_path(l, spent->number);
	int err = from ? file_rename(from, path) : -ENOMEM;

	if (!err)
		err = file_open(path, FILE_READWRITE, &s->file);
	if (!err) {
		s->reused = s->allocated = spent->bytes;
	} else {
		msg_warning("%s: cannot be used again: %s", from ? from : path, strerror(-err));
		if (from)
			(void)!file_unlink(from);
		(void)!file_unlink(path);
	}
	free(from);
	return err;
}

int log_segment_new(struct log *l, uint64_t number, uint64_t first_lsn, struct log_segment *spent, struct log_segment **out)
{
	struct log_segment *s = calloc(1, sizeof *s);
	char *path = segment_path(l, number);
	int err = -ENOMEM;

	if (!s || !path)
		goto out;
	s->number = number;
	s->first_lsn = first_lsn;
	s->last_lsn = first_lsn - 1;
	s->bytes = LOG_HEADER_BYTES;
	if (!spent || reuse(l, s, spent, path))
		err = file_open(path, FILE_CREATE, &s->file);
	else
		err = 0;
out:
	free(spent);
	free(path);
	if (err)
		free(s);
	else
		*out = s;
	return err;
}

int log_segment_header(struct log *l, struct log_segment *s, uint64_t durable_lsn)
{
	uint8_t bytes[LOG_HEADER_BYTES];
	struct log_header h = {
		.incarnation = l->incarnation,
		.number = s->number,
		.first_lsn = s->first_lsn,
		.durable_lsn = durable_lsn,
		.salt = l->salt,
	};
	struct slice v[2] = {slice_of(bytes, sizeof bytes), log_segment_pad(l, s, sizeof bytes)};
	int err;

	log_header_encode(bytes, &h);
	err = file_pwritev(s->file, v, 2, 0);
	if (!err)
		log_segment_wrote(s, s->bytes, v[1].n);
	return err;
}

static uint64_t page_end(uint64_t at)
{
	return (at + LOG_PAGE_BYTES - 1) & ~(uint64_t)(LOG_PAGE_BYTES - 1);
}

static bool wants_zeros_ahead(const struct log *l, const struct log_segment *s, uint64_t end)
{
	return end > s->allocated && end < l->segment_bytes && !s->no_ahead && s->syncs >= QUIET_SYNCS &&
		s->bytes / s->syncs <= BULK_BYTES_PER_SYNC;
}

struct slice log_segment_pad(const struct log *l, const struct log_segment *s, uint64_t end)
{
	uint64_t to = page_end(end);

	if (wants_zeros_ahead(l, s, end)) {
		to += AHEAD_BYTES;
		if (to > page_end(l->segment_bytes))
			to = page_end(l->segment_bytes);
	} else {
		if (to > s->reused)
			to = s->reused;
		if (end <= s->touched || to < end)
			to = end;
	}
	return slice_of(zeros, (size_t)(to - end));
}

void log_segment_wrote(struct log_segment *s, uint64_t end, size_t pad)
{
	s->bytes = end;
	if (end + pad > s->touched)
		s->touched = end + pad;
	if (end + pad > s->allocated)
		s->allocated = end + pad;
}

void log_segment_discard(struct log *l, struct log_segment *s)
{
	char *path = segment_path(l, s->number);
	int err = path ? file_unlink(path) : -ENOMEM;

	if (err && err != -ENOENT)
		msg_warning("%s: %s", path ? path : l->dir, strerror(-err));
	free(path);
	file_close(s->file);
	free(s);
}

void log_segment_append_locked(struct log *l, struct log_segment *s)
{
	if (l->active)
		l->active->next = s;
	else
		l->segments = s;
	l->active = s;
}

static struct log_segment *spent_take_locked(struct log *l)
{
	struct log_segment *s = l->spent;

	if (s) {
		l->spent = s->next;
		l->spent_count--;
	}
	return s;
}

struct log_segment *log_spent_take_all_locked(struct log *l)
{
	struct log_segment *list = l->spent;

	l->spent = NULL;
	l->spent_count = 0;
	return list;
}

void log_spent_discard(struct log *l, struct log_segment *list)
{
	struct log_segment *next;

	for (; list; list = next) {
		next = list->next;
		log_segment_discard(l, list);
	}
}

void log_give_up_room(struct log *l)
{
	struct log_segment *list;

	mutex_lock(&l->mu);
	list = log_spent_take_all_locked(l);
	mutex_unlock(&l->mu);
	log_spent_discard(l, list);
}

int log_roll_locked(struct log *l, uint64_t gen)
{
	uint64_t number = l->next_number++, first = l->written_lsn + 1, durable = l->durable_lsn;
	struct log_segment *s = NULL, *spent = spent_take_locked(l);
	int err;

	l->inflight++;
	mutex_unlock(&l->mu);
	err = log_segment_new(l, number, first, spent, &s);
	if (!err)
		err = log_segment_header(l, s, durable);
	mutex_lock(&l->mu);
	if (gen == l->gen && !err) {
		l->inflight--;
		l->active->last_lsn = first - 1;
		l->write_since_us = monotonic_us();
		log_segment_append_locked(l, s);
		if (l->rolled)
			task_queue(l->rolled);
		return 0;
	}
	if (!err)
		err = -ECANCELED;
	if (s) {
		mutex_unlock(&l->mu);
		log_segment_discard(l, s);
		mutex_lock(&l->mu);
	}
	l->inflight--;
	return err;
}

void log_reap_locked(struct log *l)
{
	struct log_segment *s;

	l->reap = false;
	for (s = l->segments; s; s = s->next) {
		if (s->retired && s->io == 0 && s->file) {
			struct file *f = s->file;

			s->file = NULL;
			s->io++; /* keeps it in the list */
			mutex_unlock(&l->mu);
			file_close(f);
			mutex_lock(&l->mu);
			s->io--;
		}
	}
}

void log_grow_segments(struct log *l, uint64_t bytes)
{
	mutex_lock(&l->mu);
	if (bytes > l->segment_bytes)
		l->segment_bytes = bytes;
	mutex_unlock(&l->mu);
}

uint64_t log_bytes(struct log *l)
{
	struct log_segment *s;
	uint64_t n = 0;

	mutex_lock(&l->mu);
	for (s = l->segments; s; s = s->next)
		n += s->bytes;
	mutex_unlock(&l->mu);
	return n;
}

uint64_t log_tail_lsn(struct log *l, uint64_t bytes)
{
	struct log_segment *s;
	uint64_t n = 0, lsn;

	mutex_lock(&l->mu);
	for (s = l->segments; s; s = s->next)
		n += s->bytes;
	lsn = l->active->first_lsn;
	for (s = l->segments; s && s != l->active; s = s->next) {
		if (n <= bytes) {
			lsn = s->first_lsn;
			break;
		}
		n -= s->bytes;
	}
	mutex_unlock(&l->mu);
	return lsn;
}

/* Makes a dropped segment a spent one. */
static int wipe(const struct log *l, const char *path, uint64_t *size)
{
	struct file *f;
	uint64_t room, bytes;
	int err = file_free_bytes(l->dir, &room);

	if (!err)
		err = file_open(path, FILE_READWRITE, &f);
	if (err)
		return err;
	err = file_size(f, &bytes);
	if (!err && room / SPENT_ROOM < bytes)
		err = -ENOSPC;
	if (!err)
		err = file_pwrite(f, zeros, LOG_HEADER_BYTES, 0);
	file_close(f);
	if (!err)
		*size = bytes;
	return err;
}

static void spent_add_locked(struct log *l, struct log_segment *s)
{
	struct log_segment **at = &l->spent;

	while (*at)
		at = &(*at)->next;
	s->next = NULL;
	*at = s;
	l->spent_count++;
}

int log_drop_below(struct log *l, uint64_t lsn)
{
	struct log_segment *s;
	int err = 0;

	mutex_lock(&l->mu);
	if (l->dropping) {
		mutex_unlock(&l->mu);
		return 0;
	}
	l->dropping = true;
	log_reap_locked(l);
	while ((s = l->segments) != l->active && s->retired && !s->file && s->io == 0 && s->last_lsn < lsn) {
		bool keep = !s->abandoned && !l->refusing && l->spent_count < LOG_SPENT_MOST;
		uint64_t size;
		char *path;

		s->io++;
		mutex_unlock(&l->mu);
		path = segment_path(l, s->number);
		keep = keep && path && wipe(l, path, &size) == 0;
		if (!keep)
			err = path ? file_unlink(path) : -ENOMEM;
		if (err == -ENOENT)
			err = 0;
		if (err)
			msg_error("log segment %llu of %s: %s", (unsigned long long)s->number, l->dir, strerror(-err));
		free(path);
		mutex_lock(&l->mu);
		s->io--;
		if (err)
			break;
		l->segments = s->next;
		if (keep) {
			s->bytes = size;
			spent_add_locked(l, s);
		} else {
			free(s);
		}
	}
	l->dropping = false;
	mutex_unlock(&l->mu);
	return err;
}
