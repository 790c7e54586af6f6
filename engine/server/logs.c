/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Removes log segments.  A segment of this server's log is removed when the
 * redo points of all tablets are above it.  The log of a dead incarnation is
 * removed when no redo set names it.
 *
 * The log has a bound (log_most): the size of the SSTables, but at least
 * LOG_LEAST, and at most LOG_MOST_SEGMENTS segments of log_segment_bytes.  A
 * segment is 1 / LOG_MOST_SEGMENTS of the bound, so a small store has small
 * segments.  The bound does not fall before the next mount.
 *
 * A tablet that is rarely written would keep the log for ever.  So when the log
 * has reached its bound, the task flushes each tablet that needs more than the
 * last LOG_KEPT_SEGMENTS segments.  About half of the log can then be dropped.
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
 * To find the segments that can be dropped, the log's next LSN is read before
 * the tablets' redo points.  A tablet that writes its first record between the
 * two needs only later records.
 */
#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/base/msg.h"
#include "engine/server/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define LOG_MOST_SEGMENTS 6
#define LOG_KEPT_SEGMENTS 3
#define LOG_LEAST (UINT64_C(8) << 20)

static uint64_t logs_period_us(const struct server *s)
{
	return s->logs_flush_age_us < s->major_within_us / 16 ? s->logs_flush_age_us : s->major_within_us / 16;
}

struct dead_logs {
	struct server *s;
	struct served_tablet **tablets; /* all, in the set's order */
	unsigned count;
	char *dir;  /* DATA_DIR/log */
	bool flush; /* flush the tablets that need a dead log; else remove the logs that no tablet needs */
};

bool number_parse(const char *text, char end, uint64_t *n, const char **rest)
{
	const char *p = text;
	uint64_t v = 0;

	for (; *p >= '0' && *p <= '9'; p++)
		if (__builtin_mul_overflow(v, 10u, &v) || __builtin_add_overflow(v, (uint64_t)(*p - '0'), &v))
			return false;
	if (p == text || *p != end || (*text == '0' && p > text + 1))
		return false;
	*n = v;
	if (rest)
		*rest = *p ? p + 1 : p;
	return true;
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

/* Ignores a directory without segments: it is not a log, and the next start removes it. */
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

static int unlink_segment(void *arg, const char *name, bool is_dir)
{
	char *path = path_join(arg, name);
	int err = path ? 0 : -ENOMEM;

	if (!err && !is_dir)
		err = file_unlink(path);
	free(path);
	return err;
}

static int visit_dead_log(void *arg, const char *name, bool is_dir)
{
	struct dead_logs *d = arg;
	uint64_t incarnation;
	char *dir;
	int err;

	if (!is_dir || !number_parse(name, 0, &incarnation, NULL) || incarnation == d->s->incarnation)
		return 0;
	/* In reverse order, because a flush of a user tablet writes METADATA, whose tablets come first in the set. */
	for (unsigned i = d->count; i-- > 0;) {
		if (tablet_redo_lsn(d->tablets[i]->tablet, incarnation) == UINT64_MAX)
			continue;
		if (!d->flush)
			return 0;
		err = tablet_flush(d->tablets[i]->tablet);
		if (err)
			return 0; /* the tablet has logged the error; the log stays */
	}
	if (d->flush || d->s->refused_count) /* a refused table may need the log */
		return 0;
	dir = path_join(d->dir, name);
	if (!dir)
		return -ENOMEM;
	err = file_list(dir, unlink_segment, dir);
	if (!err)
		err = file_rmdir(dir);
	if (err)
		msg_warning("%s: this old log cannot be removed: %s", dir, strerror(-err));
	free(dir);
	return 0;
}

/* Flushes the tablets that need the dead logs, or removes the logs that no tablet needs. */
static int for_each_dead_log(struct server *s, bool flush)
{
	struct dead_logs d = {.s = s, .flush = flush};
	int err = served_list(s, 0, &d.tablets, &d.count);

	if (err)
		return err;
	d.dir = path_join(s->data_dir, "log");
	err = d.dir ? file_list(d.dir, visit_dead_log, &d) : -ENOMEM;
	free(d.dir);
	served_list_put(d.tablets, d.count);
	return err;
}

int logs_remove_dead(struct server *s)
{
	return for_each_dead_log(s, false);
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
		uint64_t lsn = tablet_redo_lsn(list[i]->tablet, s->incarnation);

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
		if (!s->closing && tablet_redo_lsn(list[i]->tablet, s->incarnation) < lsn)
			err = tablet_flush(list[i]->tablet);
		if (err == -EREMCHG)
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

/* Once a period: flushes the records that existed a period ago, and removes the segments kept for reuse. */
static void logs_flush_aged(struct server *s)
{
	uint64_t now = monotonic_us(), period = logs_period_us(s);

	if (now >= s->aged_at_us + period) {
		log_discard_recycled(s->log);
		/* The tablet logs an error of its flush, which is repeated after a period. */
		if (s->aged_lsn && !log_roll_below(s->log, s->aged_lsn))
			(void)!logs_flush_below(s, s->aged_lsn, false);
		s->aged_lsn = log_next_lsn(s->log);
		s->aged_at_us = now;
	}
	task_queue_after(&s->logs_task, s->aged_at_us + period - now);
}

uint64_t logs_first_segment_bytes(uint64_t largest)
{
	return largest < LOG_LEAST / LOG_MOST_SEGMENTS ? largest : LOG_LEAST / LOG_MOST_SEGMENTS;
}

/* Raises the log's bound after the SSTables have grown. */
static void logs_raise_bound(struct server *s)
{
	uint64_t most, largest = LOG_MOST_SEGMENTS * s->log_segment_bytes;
	struct served_sums sums;

	most = served_sum(s, &sums) || sums.disk_bytes < LOG_LEAST ? LOG_LEAST : sums.disk_bytes;
	most = most < largest ? most : largest;
	if (s->log_most < most)
		s->log_most = most;
	log_grow_segments(s->log, s->log_most / LOG_MOST_SEGMENTS);
}

void logs_task(struct task *t)
{
	struct server *s = (struct server *)((char *)t - offsetof(struct server, logs_task));

	/* A closing server removes tablets from the set.  Their logs would then look unneeded. */
	if (s->recovering || s->closing)
		return;
	logs_raise_bound(s);
	logs_flush_aged(s);
	if (for_each_dead_log(s, true) || logs_remove_dead(s))
		return;
	if (logs_drop_unneeded(s) || log_bytes(s->log) < s->log_most)
		return;
	/* Only synced segments can be dropped.  Without this sync they would stay until the next run. */
	if (!logs_flush_below(s, log_tail_lsn(s->log, s->log_most / LOG_MOST_SEGMENTS * LOG_KEPT_SEGMENTS), false) && !s->closing &&
		!log_sync(s->log))
		(void)!logs_drop_unneeded(s);
}
