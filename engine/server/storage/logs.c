/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Removes segments of this server's log.  A segment is removed when the redo
 * points of all tablets are above it.  The collector removes the log of a dead
 * incarnation when no redo set names it (master/collect.c).  For this, the task
 * flushes the tablets that need such a log.
 *
 * The log has a bound (most): the size of the SSTables, but at least
 * LOG_LEAST, and at most LOG_MOST_SEGMENTS segments of log_segment_bytes.  A
 * segment is 1 / LOG_MOST_SEGMENTS of the bound, so a small store has small
 * segments.  The bound does not fall before the next mount.
 *
 * A tablet that is rarely written would keep the log for ever.  So when the log
 * has reached its bound, the task flushes each tablet that needs older segments
 * than the last LOG_KEPT_SEGMENTS.  About half of the log can then be dropped.
 * The task runs when a segment is full, when a redo point has moved, and once a
 * period.
 *
 * The task flushes old records at any size of the log.  Otherwise an idle store
 * would keep its log and replay it at the next start.  The log stores no record
 * ages.  Instead, once a period, the task flushes the records below the LSN
 * that it read a period ago.  So a record is flushed after one to two periods.
 * A period is logs_flush_age_us, but at most a sixteenth of major_within_us.
 *
 * The period depends on major_within_us because deleted data must leave the
 * disk within that time.  Two parts of the log may contain such data for longer:
 * the active segment, which an idle store never fills, and dropped segments that
 * are kept for reuse.  So once a period the task ends the active segment if it
 * has old records, and removes the segments kept for reuse.  After three periods
 * a record is not in the log any more, unless its tablet cannot be flushed.
 *
 * On a full disk logs_drop_all drops the whole log: it ends the active segment,
 * and flushes each tablet for which there is space.
 *
 * A purge (logs_purge) does the same, and recycles nothing.  An error ends it, because its caller is told that the bytes
 * are gone.
 *
 * To find the segments that can be dropped, the log's next LSN is read before
 * the tablets' redo points.  A tablet that writes its first record between the
 * two needs only later records.
 */
#include "engine/server/storage/storage.h"
#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/base/units.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define LOG_MOST_SEGMENTS 6
#define LOG_KEPT_SEGMENTS 3
#define LOG_LEAST (UINT64_C(8) << 20)
#define PURGE_TRIES 100
#define PURGE_PAUSE_US 50000u

struct logs {
	struct server *s;
	void (*grown)(struct server *s, uint64_t bytes);
	struct task task;
	_Atomic bool dead;       /* a tablet may need the log of a dead incarnation */
	uint64_t aged_lsn;       /* the log's next LSN when its age was last checked */
	uint64_t aged_at_us;     /* monotonic time of that check */
	uint64_t most;           /* size in bytes above which tablets are flushed so that the log shrinks */
	_Atomic uint64_t purged; /* the number of the last purge */
};

static uint64_t logs_period_us(const struct server *s)
{
	return s->o.logs_flush_age_us < s->o.major_within_us / 16 ? s->o.logs_flush_age_us : s->o.major_within_us / 16;
}

struct latest {
	const char *logs;
	uint64_t incarnation;
};

/* Ends the listing at the first entry. */
static int found_segment(void *arg, const char *name, bool is_dir)
{
	(void)arg, (void)name, (void)is_dir;
	return 1;
}

/* Ignores a directory without segments: it is not a log, and the collector removes it. */
static int latest_log(void *arg, const char *name, bool is_dir)
{
	struct latest *l = arg;
	uint64_t n;
	char *dir;
	int any;

	if (!is_dir || !number_parse(name, 0, &n, NULL) || n <= l->incarnation)
		return 0;
	dir = path_join(l->logs, name);
	any = dir ? file_list(dir, found_segment, NULL) : -ENOMEM;
	free(dir);
	if (any > 0)
		l->incarnation = n;
	return any < 0 ? any : 0;
}

int server_latest_log(const char *data_dir, uint64_t *incarnation)
{
	char *dir = path_join(data_dir, "log");
	struct latest l = {.logs = dir};
	int err = dir ? file_list(dir, latest_log, &l) : -ENOMEM;

	free(dir);
	if (!err)
		*incarnation = l.incarnation;
	return err;
}

/*
 * Flushes the tablets that need the logs of dead incarnations, and informs the
 * collector when no tablet needs them.  It flushes in reverse order, because a
 * flush of a user tablet writes METADATA, whose tablets come first in the set.
 * A tablet logs the error of its flush.
 */
static int logs_flush_dead(struct server *s)
{
	struct served_tablet **list;
	unsigned count;
	bool needed;
	int err = served_list(s, 0, &list, &count);

	if (err)
		return err;
	for (unsigned i = count; i-- > 0 && !s->closing;)
		if (tablet_redo_next(list[i]->tablet, 0))
			(void)!tablet_flush(list[i]->tablet);
	needed = logs_needed_next(list, count, 0);
	served_list_put(list, count);
	if (!needed && atomic_exchange(&s->logs->dead, false))
		files_notify(s);
	return 0;
}

/* Drops the segments of this server's log that no tablet needs. */
static int logs_drop_unneeded(struct server *s)
{
	uint64_t least = log_next_lsn(s->log);
	struct served_tablet **list;
	unsigned count;
	int err = served_list(s, 0, &list, &count);

	if (err)
		return err;
	for (unsigned i = 0; i < count; i++) {
		uint64_t lsn = tablet_redo_lsn(list[i]->tablet, s->o.incarnation);

		if (lsn < least)
			least = lsn;
	}
	served_list_put(list, count);
	return log_drop_below(s->log, least);
}

/*
 * Flushes the tablets that need records below lsn: first user tablets, then
 * METADATA's, then the root tablet, because a flush writes the tablet's row in
 * the next of these three.  all: continues after an error.
 */
static int logs_flush_below(struct server *s, uint64_t lsn, bool all)
{
	struct served_tablet **list;
	unsigned count;
	int err = served_list(s, 0, &list, &count);

	if (err)
		return err;
	for (unsigned i = count; i-- > 0 && (all || !err);) {
		if (!s->closing && tablet_redo_lsn(list[i]->tablet, s->o.incarnation) < lsn)
			err = tablet_flush(list[i]->tablet);
		if (err == -TABLET_MOVED)
			err = 0; /* the tablet was split, merged or dropped; the next run finds its successors */
	}
	served_list_put(list, count);
	return err;
}

/* Ends the active segment if it has records below lsn, so that it can be dropped. */
static int logs_end_active(struct server *s, uint64_t lsn)
{
	enum { TRIES = 20 }; /* log_roll_below does nothing while another thread writes or syncs */
	int err = 0;

	for (unsigned i = 0; i < TRIES && !err && log_tail_lsn(s->log, 0) < lsn; i++)
		err = log_roll_below(s->log, lsn);
	return err;
}

void logs_drop_all(struct server *s)
{
	uint64_t lsn = log_next_lsn(s->log);

	log_discard_recycled(s->log);
	if (logs_end_active(s, lsn))
		return;
	(void)!logs_flush_below(s, lsn, true);
	if (!log_sync(s->log))
		(void)!logs_drop_unneeded(s);
}

/* One attempt to remove all segments with records below lsn. */
static int logs_purge_below(struct server *s, uint64_t lsn)
{
	int err = logs_end_active(s, lsn);

	if (!err)
		err = logs_flush_dead(s);
	if (!err)
		err = logs_flush_below(s, lsn, false);
	if (!err)
		err = log_sync(s->log);
	return err ? err : logs_drop_unneeded(s);
}

int logs_purge(struct server *s, uint64_t number)
{
	const uint64_t lsn = log_next_lsn(s->log);
	bool gone = false;
	int err = 0;

	if (atomic_load(&s->logs->purged) == number)
		return 0;
	log_erase_begin(s->log);
	for (unsigned tries = 0; !err && !gone && tries < PURGE_TRIES && !s->closing; tries++) {
		/* Another thread writes, syncs or drops segments, or a tablet is being replaced. */
		if (tries)
			(void)usleep(PURGE_PAUSE_US);
		err = logs_purge_below(s, lsn);
		gone = log_tail_lsn(s->log, UINT64_MAX) >= lsn;
	}
	log_erase_end(s->log);
	if (!err && !gone)
		err = -EBUSY;
	if (!err)
		atomic_store(&s->logs->purged, number);
	return err;
}

/* Once a period: flushes the records that existed a period ago, and removes the segments kept for reuse. */
static void logs_flush_aged(struct server *s)
{
	uint64_t now = monotonic_us(), period = logs_period_us(s);

	if (now >= s->logs->aged_at_us + period) {
		log_discard_recycled(s->log);
		/* The tablet logs an error of its flush, which is repeated after a period. */
		if (s->logs->aged_lsn && !log_roll_below(s->log, s->logs->aged_lsn))
			(void)!logs_flush_below(s, s->logs->aged_lsn, false);
		s->logs->aged_lsn = log_next_lsn(s->log);
		s->logs->aged_at_us = now;
	}
	task_queue_after(&s->logs->task, s->logs->aged_at_us + period - now);
}

uint64_t logs_first_segment_bytes(uint64_t largest)
{
	return largest < LOG_LEAST / LOG_MOST_SEGMENTS ? largest : LOG_LEAST / LOG_MOST_SEGMENTS;
}

/* Calls `grown`, and raises the log's bound after the SSTables have grown. */
static void logs_raise_bound(struct server *s)
{
	uint64_t most, largest = LOG_MOST_SEGMENTS * s->o.log_segment_bytes;
	struct served_sums sums;

	if (served_sum(s, &sums))
		sums.disk_bytes = 0;
	else
		s->logs->grown(s, sums.disk_bytes + log_bytes(s->log));
	most = sums.disk_bytes < LOG_LEAST ? LOG_LEAST : sums.disk_bytes;
	most = most < largest ? most : largest;
	if (s->logs->most < most)
		s->logs->most = most;
	log_grow_segments(s->log, s->logs->most / LOG_MOST_SEGMENTS);
}

static void task_run(struct task *t)
{
	struct server *s = ((struct logs *)(void *)((char *)t - offsetof(struct logs, task)))->s;

	/* A closing server removes tablets from the set.  Their logs would then look unneeded. */
	if (s->recovering || s->closing)
		return;
	logs_raise_bound(s);
	logs_flush_aged(s);
	if (logs_flush_dead(s))
		return;
	if (logs_drop_unneeded(s) || log_bytes(s->log) < s->logs->most)
		return;
	/* Only synced segments can be dropped.  Without this sync they would stay until the next run. */
	if (!logs_flush_below(s, log_tail_lsn(s->log, s->logs->most / LOG_MOST_SEGMENTS * LOG_KEPT_SEGMENTS), false) &&
		!s->closing && !log_sync(s->log))
		(void)!logs_drop_unneeded(s);
}

struct task *logs_task(struct server *s)
{
	return &s->logs->task;
}

void logs_soon(struct server *s)
{
	server_queue(s, &s->logs->task);
}

void logs_on_growth(struct server *s, void (*fn)(struct server *s, uint64_t bytes))
{
	s->logs->grown = fn;
}

static int begin(struct server *s, struct task_pool *pool)
{
	s->logs->s = s;
	s->logs->dead = true;
	task_init(&s->logs->task, pool, task_run);
	return 0;
}

static void stop(struct server *s)
{
	task_cancel(&s->logs->task);
}

const struct server_part logs_part = {offsetof(struct server, logs), sizeof(struct logs), begin, stop, NULL};
