/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Segment files: creation, rolling over, zeros ahead, removal.
 *
 * Rolling over, durable steps (writer's role):
 *   1 create the file, or rename a recycled one to the next number
 *   2 write its header, which states the durable LSN
 *   3 write records
 *   4 the next sync covers both files, then the directory (log.c)
 * Nothing is synced here: a record is durable no earlier than step 4.  A
 * crash before 4 may leave any part of it: a file without a valid header; a
 * file whose header has another number than its name (the rename without the
 * header, or the header without the rename); or a header and some records.
 * Replay ignores the first two and reads the records up to the first gap.
 *
 * Recycled segments.  At most two dropped segments wait for the next roll.
 * Overwriting blocks that a file already has changes no metadata, so a sync
 * need not wait for the file system's journal (measured with groups of
 * 100 KiB: 1.4 us a record; growing a file 2.2).  The old records cannot be
 * mistaken for new ones: their LSNs are below the new first LSN, because the
 * whole segment was durable before it was dropped, and replay accepts exactly
 * one LSN at each place.  An abandoned file (log_switch.c) is never used again,
 * because a replaced thread may still write to it.  The header of a recycled
 * segment is overwritten with zeros, so after a kill it is an unfinished file
 * and not a dropped segment.  That write is not synced; an unlink would not be
 * either.  Recycled segments are removed when the disk is full.
 *
 * Pages of a recycled file may have left the page cache, and writing a part of
 * such a page would read it first.  So the first write into a page is extended
 * with zeros to the page's end.
 *
 * Zeros ahead.  If syncs are frequent and small, a write that would grow the
 * file is extended with zeros, so that the next few hundred writes change no
 * metadata and their fdatasync is cheaper.  Zeroing in the background, in
 * steps of megabytes, made the log's syncs wait for those pages, because an
 * fdatasync writes all dirty pages of a file (measured with 16 synced writers:
 * 49,000 writes a second and 5 ms for one in a thousand; with zeros ahead
 * 56,000 and 1.2 ms).  If syncs cover 32 KiB or more, no zeros are written (measured
 * with groups of 100 KiB: growing the file takes 2.2 us a record, zeroing in
 * the background 1.9 to 2.8, because the device writes everything twice, a
 * plain fallocate 2.1 to 2.4, because unwritten extents are converted at each
 * sync).  Without space for the zeros the records are written alone.
 *
 * Segments are removed whole, oldest first, without a sync.  A segment that
 * reappears after a crash lies below every LSN that is replayed, and so do the
 * records in it that a later segment had cut.
 *
 * With a fence, the next owners may replay the files from a seal while this
 * process still runs without knowing it.  So it neither unlinks nor cuts off
 * bytes that a seal may list: a segment with a header is unlinked only when it
 * is dropped, because then it lies below every redo point.
 */
#include "engine/log/log_internal.h"

#include "engine/base/clock.h"
#include "engine/base/msg.h"

#include <errno.h>
#include <stdlib.h>

#define AHEAD_BYTES (256u << 10)
#define RECYCLED_FREE 8u /* times its size that must be free on the disk to recycle a segment */
#define QUIET_SYNCS 16u  /* below this size of a segment, no zeros are written ahead */
#define BULK_BYTES_PER_SYNC (32u << 10)

static uint8_t zeros[AHEAD_BYTES + LOG_PAGE_BYTES]; /* not const, or the program's file would hold them */

static char *segment_path(const struct log *l, uint64_t number)
{
	char name[32];

	log_segment_name(name, number);
	return path_join(l->dir, name);
}

/* Step 1 with a recycled file; it is removed on error. */
static int segment_reuse(struct log *l, struct log_segment *s, const struct log_segment *recycled, const char *path)
{
	char *from = segment_path(l, recycled->number);
	int err = from ? file_rename(from, path) : -ENOMEM;

	if (!err)
		err = file_open(path, FILE_READWRITE, &s->file);
	if (!err) {
		s->reused = s->allocated = recycled->bytes;
	} else {
		msg_warning("%s: cannot be used again: %s", from ? from : path, error_text(err));
		if (from)
			(void)!file_unlink(from);
		(void)!file_unlink(path);
	}
	free(from);
	return err;
}

int log_segment_new(struct log *l, uint64_t number, uint64_t first_lsn, struct log_segment *recycled, struct log_segment **out)
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
	if (!recycled || segment_reuse(l, s, recycled, path))
		err = file_open(path, FILE_CREATE, &s->file);
	else
		err = 0;
out:
	free(recycled);
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
	struct tfs_bytes v[2] = {tfs_bytes_of(bytes, sizeof bytes), log_segment_pad(l, s, sizeof bytes)};
	int err;

	log_header_encode(bytes, &h);
	s->headed = true;
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

struct tfs_bytes log_segment_pad(const struct log *l, const struct log_segment *s, uint64_t end)
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
	return tfs_bytes_of(zeros, (size_t)(to - end));
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
	int err = !path ? -ENOMEM : l->fence && s->headed ? 0 : file_unlink(path);

	if (err && err != -ENOENT)
		msg_warning("%s: %s", path ? path : l->dir, error_text(err));
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

void log_discard_recycled(struct log *l)
{
	struct log_segment *s, *next;

	mutex_lock(&l->mu);
	s = l->recycled;
	l->recycled = NULL;
	l->recycled_count = 0;
	mutex_unlock(&l->mu);
	for (; s; s = next) {
		next = s->next;
		log_segment_discard(l, s);
	}
}

void log_erase_begin(struct log *l)
{
	mutex_lock(&l->mu);
	l->erasers++;
	mutex_unlock(&l->mu);
	log_discard_recycled(l);
}

void log_erase_end(struct log *l)
{
	log_discard_recycled(l); /* a drop that was under way at the begin may have recycled one */
	mutex_lock(&l->mu);
	l->erasers--;
	mutex_unlock(&l->mu);
}

int log_roll_locked(struct log *l, uint64_t gen)
{
	uint64_t number = l->next_number++, first = l->written_lsn + 1, durable = l->durable_lsn;
	struct log_segment *s = NULL, *recycled = l->recycled;
	int err;

	if (recycled) {
		l->recycled = recycled->next;
		l->recycled_count--;
	}
	log_io_begin(l, NULL);
	err = log_segment_new(l, number, first, recycled, &s);
	if (!err)
		err = log_segment_header(l, s, durable);
	log_io_end(l, NULL);
	if (gen == l->gen && !err) {
		l->active->last_lsn = first - 1;
		l->write_since_us = monotonic_us();
		log_segment_append_locked(l, s);
		if (l->rolled)
			task_queue(l->rolled);
		return 0;
	}
	if (s) {
		log_io_begin(l, NULL);
		log_segment_discard(l, s);
		log_io_end(l, NULL);
	}
	return err ? err : -ECANCELED;
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
	for (s = l->segments; s && n > bytes; s = s->next)
		n -= s->bytes;
	lsn = (s ? s : l->active)->first_lsn;
	mutex_unlock(&l->mu);
	return lsn;
}

/* Overwrites the header of a dropped segment, which will be recycled. */
static int segment_wipe(const struct log *l, const char *path, uint64_t *size)
{
	struct file *f;
	uint64_t room, bytes;
	int err = file_free_bytes(l->dir, &room);

	if (!err)
		err = file_open(path, FILE_READWRITE, &f);
	if (err)
		return err;
	err = file_size(f, &bytes);
	if (!err && room / RECYCLED_FREE < bytes)
		err = -ENOSPC;
	if (!err)
		err = file_pwrite(f, zeros, LOG_HEADER_BYTES, 0);
	file_close(f);
	if (!err)
		*size = bytes;
	return err;
}

static void recycled_add_locked(struct log *l, struct log_segment *s)
{
	struct log_segment **at = &l->recycled;

	while (*at)
		at = &(*at)->next;
	s->next = NULL;
	s->headed = false;
	*at = s;
	l->recycled_count++;
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
		bool keep = !s->abandoned && !l->refusing && !l->erasers && l->recycled_count < LOG_RECYCLED_MOST;
		uint64_t size;
		char *path;

		s->io++;
		mutex_unlock(&l->mu);
		path = segment_path(l, s->number);
		keep = keep && path && segment_wipe(l, path, &size) == 0;
		if (!keep)
			err = path ? file_unlink(path) : -ENOMEM;
		if (err == -ENOENT)
			err = 0;
		if (err)
			msg_error("log segment %llu of %s: %s", (unsigned long long)s->number, l->dir, error_text(err));
		free(path);
		mutex_lock(&l->mu);
		s->io--;
		if (err)
			break;
		l->segments = s->next;
		if (keep) {
			s->bytes = size;
			recycled_add_locked(l, s);
		} else {
			free(s);
		}
	}
	l->dropping = false;
	mutex_unlock(&l->mu);
	return err;
}
