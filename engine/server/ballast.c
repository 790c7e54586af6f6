/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A full disk is not to be a dead end: puts are refused there, and all that
 * makes room goes on, METADATA's changes, flushes and the next start before
 * anything else (DESIGN 3.2).
 *
 * Two things keep room for them.  From ourselves: nobody begins to write what
 * does not leave as much as those before him may need (enum tablet_room), by
 * what statvfs says.  From everybody else on the disk: the ballast, a file of
 * up to 16 MiB that is cut shorter, a piece at a time, when there is no other
 * room.  What counts is the sum of both, of which each leaves
 *
 *	METADATA    1/16 of a whole ballast, for the next start (open.c)
 *	FLUSH       1/8.  A flush lets go of the log, which held the same data.
 *	MAJOR       1/8.  It gives back more than it takes.
 *	REMOVE      3/4.  Log records only: before there are many of them a flush
 *	            is to have taken their place.
 *	PUT         9/8, and room to flush all that is in memory, and what
 *	            compactions under way are still to write
 *	MERGE       twice a ballast, and the same
 *
 * So a disk that nobody else fills never takes the ballast, but for a
 * compaction that was asked for, for as long as it runs.
 *
 * A put that does not fit ends the compactions that only tidy up: they take
 * room for a while, which would be refused to puts for nothing.  Then it waits
 * once for what can be given back by flushing (retire.c): where the log and the
 * memtables are large and the disk is small that is most of it.  Then it is
 * refused, and so are all others (full) until there is an eighth of a ballast
 * more than they need, and the ballast is whole: where a quota ends what statvfs
 * calls free, only that shows it.  Meanwhile what was removed is compacted away
 * without waiting for its time.
 *
 * Looking at the disk for each mutation would cost as much as its log record.
 * So a look that finds room gives credit for half of what there is, up to
 * CREDIT_BYTES, and the next look is due when that has been written.  Others
 * may fill the disk before: then the log says so, and the ballast goes.
 *
 * How large a whole one is: half of the store, from 1 to 16 MiB.  So an
 * empty store has a small one, which grows with the store, if there is room for
 * it (ballast_grow).  On a small disk it is at most an eighth of the free disk and
 * the store on it.  A file that is larger at the start stays as large.
 *
 * No step of it is synced: a ballast that a crash brings back, or takes away, is
 * measured at the next start.
 *
 * Decided against: a piece for each use in a file of its own, since nobody
 * knows how much of which will be needed; the ballast as a segment of the
 * log, which nobody else could take: that would help the log alone.
 */
#include "engine/base/file.h"
#include "engine/base/clock.h"
#include "engine/base/msg.h"
#include "engine/server/internal.h"

#include <errno.h>
#include <stdlib.h>

#define BALLAST_BYTES (UINT64_C(16) << 20)
#define BALLAST_FIRST (UINT64_C(1) << 20)
#define BALLAST_LEAST (UINT64_C(256) << 10)
#define GRAIN_LEAST (UINT64_C(64) << 10)
#define CREDIT_BYTES (INT64_C(64) << 20)
#define RETRY_US 1000000u
#define LOG_US 10000000u /* a machine under load takes its time for a fresh file */
#define LOOK_US 20000u

/* As much is worth giving back. */
static uint64_t step(const struct ballast *b)
{
	return b->whole / 8;
}

/* It is given up in pieces of this. */
static uint64_t grain(const struct ballast *b)
{
	return b->whole / 64 > GRAIN_LEAST ? b->whole / 64 : GRAIN_LEAST;
}

/* What of it those leave who want room for this. */
static uint64_t kept(const struct ballast *b, enum tablet_room what)
{
	switch (what) {
	case ROOM_METADATA:
		return b->whole / 16;
	case ROOM_FLUSH:
	case ROOM_MAJOR:
		return b->whole / 8;
	case ROOM_REMOVE:
		return b->whole / 4 * 3;
	case ROOM_PUT:
		break;
	case ROOM_MERGE:
		return 2 * b->whole;
	}
	return b->whole + b->whole / 8;
}

static uint64_t memory(const struct server *s)
{
	uint64_t bytes = 0;

	for (unsigned k = 0; k < KINDS; k++)
		bytes += s->memory[k];
	return bytes;
}

/* How much they may write, where so much is free; below 0: others lack it. */
static int64_t available(const struct server *s, enum tablet_room what, uint64_t room)
{
	const struct ballast *b = &s->ballast;
	int64_t bytes = (int64_t)(room + b->bytes) - (int64_t)kept(b, what);

	if (what >= ROOM_PUT)
		bytes -= (int64_t)memory(s);
	if (what >= ROOM_PUT || what == ROOM_MAJOR)
		bytes -= (int64_t)b->promised;
	return bytes;
}

/* ---- the file ---- */

static int open_file(struct server *s, const char *path, struct file **f)
{
	int err = s->ballast.bytes ? file_open(path, FILE_READWRITE, f) : -ENOENT;

	if (err) {
		(void)!file_unlink(path);
		err = file_open(path, FILE_CREATE, f);
	}
	return err;
}

/* True: it is whole.  The caller holds the lock, as in all _locked. */
static bool refill_locked(struct server *s)
{
	struct ballast *b = &s->ballast;
	uint64_t room, missing = b->bytes < b->whole ? b->whole - b->bytes : 0;
	struct file *f = NULL;
	char *path;

	if (!missing)
		return true;
	if (file_free_bytes(s->data_dir, &room) || room < missing + b->whole / 8)
		return false;
	path = path_join(s->data_dir, "ballast");
	if (path && open_file(s, path, &f) == 0) {
		if (file_preallocate(f, b->bytes, missing, false) == 0)
			b->bytes = b->whole;
		else
			(void)!file_truncate(f, b->bytes); /* that much of it there was before */
		file_close(f);
	}
	free(path);
	return b->bytes == b->whole;
}

static void cut_locked(struct server *s, uint64_t to)
{
	struct ballast *b = &s->ballast;
	char *path = path_join(s->data_dir, "ballast");
	struct file *f = NULL;
	int err = path ? to ? file_open(path, FILE_READWRITE, &f) : file_unlink(path) : -ENOMEM;

	if (!err && f)
		err = file_truncate(f, to);
	file_close(f);
	if (err == -ENOENT)
		to = err = 0;
	if (err) {
		msg_error("%s: the disk is full, and the ballast file cannot be given up: %s", s->data_dir, strerror(-err));
	} else {
		if (b->bytes >= b->whole)
			msg_warning("%s: the disk is full; some of the ballast file is given up so that cells can be removed",
				s->data_dir);
		b->bytes = to;
	}
	free(path);
}

/* False: there is none to be had for this. */
static bool cut_for_locked(struct server *s, enum tablet_room what, uint64_t bytes)
{
	struct ballast *b = &s->ballast;
	uint64_t least = kept(b, what), had = b->bytes;

	if (had <= least)
		return false;
	bytes += grain(b) - bytes % grain(b);
	cut_locked(s, had - least > bytes ? had - bytes : least);
	return b->bytes < had;
}

/* So many bytes are free on return. */
static bool take_locked(struct server *s, enum tablet_room what, uint64_t bytes)
{
	const struct ballast *b = &s->ballast;
	uint64_t room;

	if (file_free_bytes(s->data_dir, &room))
		return true; /* whoever writes will hear of it */
	if (room < bytes + grain(b)) {
		log_give_up_room(s->log);
		(void)!file_free_bytes(s->data_dir, &room);
	}
	if (available(s, what, room) < (int64_t)bytes)
		return false;
	return room >= bytes || cut_for_locked(s, what, bytes - room);
}

/* ---- whether puts are refused ---- */

static void set_full_locked(struct server *s, bool full)
{
	struct ballast *b = &s->ballast;

	if (full)
		b->credit = 0;
	if (full != b->full) {
		b->full = full;
		if (full)
			msg_warning("%s: the disk is full: puts are refused until there is room", s->data_dir);
		else
			msg_notice("%s: the disk has room again", s->data_dir);
	}
}

/* Is it, for who wants so much? */
static bool look_locked(struct server *s, enum tablet_room what, uint64_t bytes)
{
	struct ballast *b = &s->ballast;
	int64_t left;
	uint64_t room;
	bool ok = true;

	if (file_free_bytes(s->data_dir, &room))
		return true;
	left = available(s, ROOM_PUT, room);
	if (left >= (int64_t)(b->whole / 8) && b->full && refill_locked(s))
		set_full_locked(s, false);
	if (what >= ROOM_PUT) {
		left -= (int64_t)bytes;
		ok = left >= 0 && !b->full;
		if (!ok && left + (int64_t)bytes < (int64_t)(b->whole / 8)) /* else it is too large, and others are not */
			set_full_locked(s, true);
	} else if (room < bytes + grain(b)) {
		set_full_locked(s, true);
		ok = take_locked(s, what, bytes + grain(b));
	}
	b->credit = left > 0 && !b->full ? left / 2 < CREDIT_BYTES ? left / 2 : CREDIT_BYTES : 0;
	return ok;
}

/* ---- giving back ---- */

/* A pass would find more than the last one left, and enough to be worth its while. */
static bool worth_giving(struct server *s)
{
	return !s->no_background && !s->closing && memory(s) + log_bytes(s->log) >= s->ballast.left + step(&s->ballast);
}

static uint64_t ask(struct server *s)
{
	uint64_t number = atomic_fetch_add(&s->ballast.asked, 1) + 1;

	task_queue(&s->retire);
	return number;
}

/* Until those who were asked have ended. */
static void wait_for(struct server *s, uint64_t number)
{
	mutex_lock(&s->lock);
	while (s->ballast.given < number && !s->closing)
		(void)cond_wait_us(&s->changed, &s->lock, LOOK_US);
	mutex_unlock(&s->lock);
}

static void stop_tidying(struct server *s)
{
	s->ballast.wanting++;
	mutex_lock(&s->lock);
	while (s->ballast.tidying && !s->closing)
		(void)cond_wait_us(&s->changed, &s->lock, LOOK_US);
	mutex_unlock(&s->lock);
	s->ballast.wanting--;
}

static bool look(struct server *s, enum tablet_room what, uint64_t bytes)
{
	bool ok;

	mutex_lock(&s->ballast.lock);
	ok = look_locked(s, what, bytes);
	mutex_unlock(&s->ballast.lock);
	return ok;
}

int ballast_admit(struct server *s, enum tablet_room what, uint64_t bytes)
{
	struct ballast *b = &s->ballast;
	const int64_t cost = 2 * (int64_t)bytes; /* in the log, and where it is flushed to */
	bool ok;

	if (!b->whole || (!b->full && atomic_fetch_sub(&b->credit, cost) >= cost))
		return 0;
	ok = look(s, what, (uint64_t)cost);
	if (!ok && what >= ROOM_PUT && b->tidying) {
		stop_tidying(s);
		ok = look(s, what, (uint64_t)cost);
	}
	if (what != ROOM_METADATA && (!ok || b->full) && worth_giving(s)) { /* giving back is METADATA's changes, too */
		uint64_t number = ask(s);

		if (!ok) {
			wait_for(s, number);
			ok = look(s, what, (uint64_t)cost);
		}
	}
	ballast_look_soon(s);
	return ok || what < ROOM_PUT ? 0 : -ENOSPC;
}

bool ballast_give_up(struct server *s, enum tablet_room what, unsigned tries)
{
	struct ballast *b = &s->ballast;
	uint64_t until = monotonic_us() + LOG_US;
	bool gave;
	int err;

	log_give_up_room(s->log);
	mutex_lock(&b->lock);
	set_full_locked(s, b->whole != 0);
	gave = cut_for_locked(s, what, (tries + 1) * grain(b));
	mutex_unlock(&b->lock);
	ballast_look_soon(s);
	if (what >= ROOM_PUT)
		return false;
	while ((err = log_try_again(s->log)) == -EAGAIN && monotonic_us() < until) {
		mutex_lock(&s->lock);
		(void)cond_wait_us(&s->changed, &s->lock, LOOK_US);
		mutex_unlock(&s->lock);
	}
	return gave || (err == 0 && tries == 0); /* another has given some up meanwhile */
}

bool server_make_room(struct server *s)
{
	struct ballast *b = &s->ballast;
	bool gave;

	mutex_lock(&b->lock);
	set_full_locked(s, b->whole != 0);
	gave = cut_for_locked(s, ROOM_METADATA, grain(b));
	mutex_unlock(&b->lock);
	ballast_look_soon(s);
	return gave;
}

/* ---- compactions ---- */

bool ballast_room_begin(struct server *s, enum tablet_room what, uint64_t bytes, bool again)
{
	struct ballast *b = &s->ballast;
	bool ok;

	mutex_lock(&b->lock);
	ok = again ? cut_for_locked(s, what, bytes) : take_locked(s, what, bytes);
	if (ok && what != ROOM_METADATA && what != ROOM_FLUSH)
		b->promised += bytes;
	b->tidying += ok && what == ROOM_MERGE;
	if (!ok && what != ROOM_MERGE && b->whole)
		set_full_locked(s, true);
	mutex_unlock(&b->lock);
	ballast_look_soon(s);
	return ok;
}

void ballast_room_end(struct server *s, enum tablet_room what, uint64_t bytes)
{
	if (what != ROOM_METADATA && what != ROOM_FLUSH)
		s->ballast.promised -= bytes;
	s->ballast.tidying -= what == ROOM_MERGE;
	ballast_look_soon(s);
}

/* ---- the background ---- */

void ballast_refill(struct server *s)
{
	mutex_lock(&s->ballast.lock);
	(void)refill_locked(s);
	(void)look_locked(s, ROOM_PUT, 0);
	mutex_unlock(&s->ballast.lock);
}

static void compact_soon(struct server *s)
{
	struct held **list;
	unsigned count;

	if (held_list(s, 0, &list, &count))
		return;
	for (unsigned i = 0; i < count; i++) {
		tablet_compact_soon(list[i]->tablet);
		held_put(list[i]);
	}
	free(list);
}

static bool short_of_room(const struct ballast *b)
{
	return b->full || b->bytes < b->whole;
}

static void refill_run(struct task *t)
{
	struct server *s = (struct server *)((char *)t - offsetof(struct server, ballast.refill));
	struct ballast *b = &s->ballast;

	if (s->closing || !short_of_room(b))
		return;
	ballast_refill(s);
	if (!short_of_room(b))
		return;
	if (b->full) {
		/* The last pass left what had no room to be flushed; others may have made some. */
		if (memory(s) + log_bytes(s->log) >= step(b))
			(void)ask(s);
		compact_soon(s);
	}
	task_queue_after(t, RETRY_US);
}

void ballast_look_soon(struct server *s)
{
	if (!s->no_background && !s->recovering && !s->closing && short_of_room(&s->ballast))
		task_queue_after(&s->ballast.refill, LOOK_US);
}

/* For a store of so many bytes, on a disk that has so much room beside it. */
static uint64_t size_for(uint64_t store, uint64_t room)
{
	uint64_t bytes = store / 2;

	bytes = bytes > BALLAST_FIRST ? bytes : BALLAST_FIRST;
	bytes = bytes < BALLAST_BYTES ? bytes : BALLAST_BYTES;
	return (bytes < (room + store) / 8 ? bytes : (room + store) / 8) / 4096 * 4096;
}

void ballast_grow(struct server *s, uint64_t store)
{
	struct ballast *b = &s->ballast;
	uint64_t room, was, bytes;

	mutex_lock(&b->lock);
	was = b->whole;
	if (was && !b->full && b->bytes >= was && !file_free_bytes(s->data_dir, &room)) {
		bytes = size_for(store, room + b->bytes);
		if (bytes >= was + was / 4) {
			b->whole = bytes;
			if (!refill_locked(s))
				b->whole = was;
		}
	}
	mutex_unlock(&b->lock);
}

void ballast_start(struct server *s)
{
	struct ballast *b = &s->ballast;
	char *path = path_join(s->data_dir, "ballast");
	uint64_t bytes = 0, room = 0, store = 0, whole;

	task_init(&b->refill, s->misc, refill_run);
	if (!path || file_stat_size(path, &bytes))
		bytes = 0;
	free(path);
	if (s->no_background && !bytes)
		return; /* who only looks makes none */
	if (file_free_bytes(s->data_dir, &room) || server_disk_bytes(s, &store))
		return;
	whole = size_for(store, room + bytes);
	if (whole < bytes) /* its size is only believed as far as we would have made it */
		whole = bytes < BALLAST_BYTES ? bytes : BALLAST_BYTES;
	if (whole < BALLAST_LEAST)
		return;
	b->bytes = bytes;
	b->whole = whole;
	/* At once: the disk may fill before a task would run. */
	if (!s->no_background)
		ballast_refill(s);
	ballast_look_soon(s);
}
