/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Logs that nobody needs any more.  A segment of our own log goes when every
 * tablet's redo point is past it; the log of a dead incarnation when no redo
 * set names it.
 *
 * The log grows with the store: it may become as large as the SSTables, from
 * LOG_LEAST to LOG_MOST_SEGMENTS segments of the largest size, and a segment is a
 * LOG_MOST_SEGMENTS-th of that.  So a small store has small segments, in use
 * and kept to be written over.  Neither shrinks before the next mount.
 *
 * A tablet that is hardly written would hold the log for ever.  So if the
 * log has grown to that size, all tablets are flushed that need more
 * than the last LOG_KEPT_SEGMENTS of it: a thousand of them in one round, and
 * the next one is due when as much has been written again.  This is looked at
 * when a segment is full and when a redo point has moved.  And what was
 * written more than logs_flush_age_us ago is flushed whatever the log's size, or
 * a store that rests would keep its log, to be replayed at the next start, as
 * long as it rests.  How old that is nobody writes down: the LSN of the last
 * look tells what is older than it, so the age is between one period and two.
 *
 * On a full disk all of it is dropped at once (logs_drop_all): the active segment
 * is ended, and each tablet is flushed for which there is space.
 *
 * The log is also to forget.  What was deleted is promised to be off the disk
 * within major_within, and the log has it too: in the active segment, which a
 * store that rests never fills, and in the segments kept to be written over.
 * So the active one is ended when it has records as old as that, and those
 * kept go with each look; a store that is written to as fast as that gains by
 * them has used them before.  The period is a sixteenth of the promise at the
 * most: within three of them nothing of a record is left, or it is in a
 * tablet that cannot be flushed.
 *
 * The order matters: the next LSN is read before the tablets' redo points,
 * so a tablet that writes its first record meanwhile needs only what comes
 * after.
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

static uint64_t period_us(const struct server *s)
{
	return s->logs_flush_age_us < s->major_within_us / 16 ? s->logs_flush_age_us : s->major_within_us / 16;
}

struct dead {
	struct server *s;
	struct served_tablet **tablets;
	unsigned count;
	char *dir;
	bool flush; /* flush what holds a dead log rather than remove logs */
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

static int found(void *arg, const char *name, bool is_dir)
{
	(void)arg, (void)name, (void)is_dir;
	return 1;
}

/* An empty directory is nobody's log: the next start removes it. */
static int later_log(void *arg, const char *name, bool is_dir)
{
	struct latest *l = arg;
	uint64_t n;
	char *dir;
	int any;

	if (!is_dir || !number_parse(name, 0, &n, NULL) || n <= l->incarnation)
		return 0;
	dir = path_join(l->logs, name);
	any = dir ? file_list(dir, found, NULL) : -ENOMEM;
	free(dir);
	if (any > 0)
		l->incarnation = n;
	return any < 0 ? any : 0;
}

int server_latest_log(const char *data_dir, uint64_t *incarnation)
{
	char *dir = path_join(data_dir, "log");
	struct latest l = {.logs = dir};
	int err = dir ? file_list(dir, later_log, &l) : -ENOMEM;

	free(dir);
	if (!err)
		*incarnation = l.incarnation;
	return err;
}

static int unlink_in(void *arg, const char *name, bool is_dir)
{
	char *path = path_join(arg, name);
	int err = path ? 0 : -ENOMEM;

	if (!err && !is_dir)
		err = file_unlink(path);
	free(path);
	return err;
}

static int dead_log(void *arg, const char *name, bool is_dir)
{
	struct dead *d = arg;
	uint64_t incarnation;
	char *dir;
	int err;

	if (!is_dir || !number_parse(name, 0, &incarnation, NULL) || incarnation == d->s->incarnation)
		return 0;
	for (unsigned i = 0; i < d->count; i++) {
		if (tablet_redo_lsn(d->tablets[i]->tablet, incarnation) == UINT64_MAX)
			continue;
		if (!d->flush)
			return 0;
		err = tablet_flush(d->tablets[i]->tablet);
		if (err)
			return 0; /* logged there; the log stays */
	}
	if (d->flush || d->s->refused_count) /* a refused table may need it */
		return 0;
	dir = path_join(d->dir, name);
	if (!dir)
		return -ENOMEM;
	err = file_list(dir, unlink_in, dir);
	if (!err)
		err = file_rmdir(dir);
	if (err)
		msg_warning("%s: this old log cannot be removed: %s", dir, strerror(-err));
	free(dir);
	return 0;
}

static int each_dead_log(struct server *s, bool flush)
{
	struct dead d = {.s = s, .flush = flush};
	int err = served_list(s, 0, &d.tablets, &d.count);

	if (err)
		return err;
	/* User tablets stand after METADATA's in the set; their flush writes METADATA, so they go first. */
	for (unsigned i = 0; i < d.count / 2; i++) {
		struct served_tablet *served = d.tablets[i];

		d.tablets[i] = d.tablets[d.count - 1 - i];
		d.tablets[d.count - 1 - i] = served;
	}
	d.dir = path_join(s->data_dir, "log");
	err = d.dir ? file_list(d.dir, dead_log, &d) : -ENOMEM;
	free(d.dir);
	for (unsigned i = 0; i < d.count; i++)
		served_put(d.tablets[i]);
	free(d.tablets);
	return err;
}

int logs_remove_dead(struct server *s)
{
	return each_dead_log(s, false);
}

/* Our own log: drops what nobody needs. */
static int drop_own(struct server *s)
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
		served_put(list[i]);
	}
	free(list);
	return log_drop_below(s->log, least);
}

/* Flushes the tablets that need records of ours below lsn: user tablets, then METADATA, then the root tablet, as each writes into the next. */
static int flush_below(struct server *s, uint64_t lsn)
{
	struct served_tablet **list;
	unsigned count;
	int err = served_list(s, 0, &list, &count);

	if (err)
		return err;
	for (unsigned i = count; i-- > 0;) {
		if (!err && !s->closing && tablet_redo_lsn(list[i]->tablet, s->incarnation) < lsn)
			err = tablet_flush(list[i]->tablet);
		if (err == -EREMCHG)
			err = 0; /* others have taken its place: they are looked at the next time */
		served_put(list[i]);
	}
	free(list);
	return err;
}

/* Ends the active segment, so that all that there is now can go. */
static int roll(struct server *s, uint64_t lsn)
{
	enum { TRIES = 20 }; /* none while another thread writes or syncs */
	int err = 0;

	for (unsigned i = 0; i < TRIES && !err && log_tail_lsn(s->log, 0) < lsn; i++)
		err = log_roll_below(s->log, lsn);
	return err;
}

void logs_drop_all(struct server *s)
{
	uint64_t lsn = log_next_lsn(s->log);
	struct served_tablet **list;
	unsigned count;

	log_discard_recycled(s->log);
	if (roll(s, lsn) || served_list(s, 0, &list, &count))
		return;
	/* A tablet that does not fit must not keep the others from it. */
	for (unsigned i = count; i-- > 0;) {
		if (!s->closing && tablet_redo_lsn(list[i]->tablet, s->incarnation) < lsn)
			(void)!tablet_flush(list[i]->tablet);
		served_put(list[i]);
	}
	free(list);
	if (!log_sync(s->log))
		(void)!drop_own(s);
}

/* What was there at the last look is old now. */
static void flush_aged(struct server *s)
{
	uint64_t now = monotonic_us(), period = period_us(s);

	if (now >= s->aged_at_us + period) {
		log_discard_recycled(s->log);
		if (s->aged_lsn && !log_roll_below(s->log, s->aged_lsn))
			(void)!flush_below(s, s->aged_lsn); /* logged there; tried again a period later */
		s->aged_lsn = log_next_lsn(s->log);
		s->aged_at_us = now;
	}
	task_queue_after(&s->logs_task, s->aged_at_us + period - now);
}

uint64_t logs_first_segment_bytes(uint64_t largest)
{
	return largest < LOG_LEAST / LOG_MOST_SEGMENTS ? largest : LOG_LEAST / LOG_MOST_SEGMENTS;
}

/* Log and reserve grow with the store. */
static void grow(struct server *s)
{
	uint64_t tables, largest = LOG_MOST_SEGMENTS * s->log_segment_bytes;

	if (server_tables_bytes(s, &tables))
		tables = 0;
	space_grow(s, tables + log_bytes(s->log));
	tables = tables > LOG_LEAST ? tables : LOG_LEAST;
	tables = tables < largest ? tables : largest;
	if (s->log_most < tables)
		s->log_most = tables;
	log_grow_segments(s->log, s->log_most / LOG_MOST_SEGMENTS);
}

void logs_task(struct task *t)
{
	struct server *s = (struct server *)((char *)t - offsetof(struct server, logs_task));

	/* A closing server's set is not whole: what a tablet taken out of it needs would be removed. */
	if (s->recovering || s->closing)
		return;
	grow(s);
	flush_aged(s);
	if (each_dead_log(s, true) || logs_remove_dead(s))
		return;
	if (drop_own(s) || log_bytes(s->log) < s->log_most)
		return;
	/* Synced, or the segments that nobody needs any more could not go yet, and nobody would look again. */
	if (!flush_below(s, log_tail_lsn(s->log, s->log_most / LOG_MOST_SEGMENTS * LOG_KEPT_SEGMENTS)) && !s->closing &&
		!log_sync(s->log))
		(void)!drop_own(s);
}
