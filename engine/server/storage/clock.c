/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Saves the clock's mark (base/clock.h) in the lock service: file "clock", an
 * i64.
 *
 * A task saves it when it has moved by an hour, or back.  So after a crash the
 * saved mark is at most two hours old, far less than the gap of a day.
 * Collection does not wait for the save.  An older mark only makes the clock
 * look farther from it, and then less is collected.  Therefore a missing or
 * damaged mark is not an error: the start uses a mark of 1970, and replaces a
 * damaged file.  A new store has no mark; its first reading of the clock
 * becomes the mark.  The first reading also becomes the mark of a cluster's server
 * that finds none: all servers of a new cluster may start before the first one saves
 * the mark, and a lock service that is not in the store's directory does not lose one
 * file.
 *
 * The file "commits" is a number, too: a time above each time of commit up to which a server has told a reader all
 * changes.  A server raises it before it answers the reader, by a second more than it must, so it does so once a second.  A
 * server that loads tablets draws no earlier times of commit.  This holds although its clock may be behind that of the
 * tablet's last server, which may have died.  So after a death a time of commit may be a second ahead of the clock.  A lost file makes a new one:
 * then only a clock that was set back can hide a change from a reader.
 */
#include "engine/server/storage/storage.h"
#include "engine/base/file.h"
#include "engine/base/msg.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define HOUR_US INT64_C(3600000000)
#define DAY_US (24 * HOUR_US)
#define PROMISE_US INT64_C(1000000)
#define NO_MARK INT64_C(1) /* 1970: stands for a missing or damaged mark */

struct clock_mark {
	struct server *s;
	struct task task;
	struct clock *own;           /* NULL if the clock is the caller's */
	_Atomic int64_t saved_us;    /* the mark that the lock service has */
	_Atomic int64_t promised_us; /* at most the time in the file "commits" */
};

/* Writes a text such as "60 d 3 h ahead of the store's mark of 2026-11-22 20:00:00 UTC". */
static void describe_distance(const struct clock_state *st, char out[128])
{
	int64_t us = st->now_us > st->mark_us ? st->now_us - st->mark_us : st->mark_us - st->now_us;
	const char *where = st->now_us > st->mark_us ? "ahead of" : "behind";
	time_t mark = (time_t)(st->mark_us / 1000000);
	char when[40] = "?";
	struct tm tm;

	if (st->mark_us == NO_MARK) {
		snprintf(out, 128, "not comparable: the store's mark is missing or was damaged");
		return;
	}
	if (gmtime_r(&mark, &tm))
		(void)strftime(when, sizeof(when), "%F %T UTC", &tm);
	snprintf(out, 128, "%lld d %lld h %s the store's mark of %s", (long long)(us / DAY_US), (long long)(us % DAY_US / HOUR_US),
		where, when);
}

static void save_mark(struct clock_mark *x)
{
	struct server *s = x->s;
	struct clock_state st;
	uint8_t bytes[8];
	int err;

	clock_get_state(s->o.clock, &st);
	if (st.mark_us >= x->saved_us && st.mark_us - x->saved_us < HOUR_US)
		return;
	put_be64(bytes, (uint64_t)st.mark_us);
	err = lock_put(s->locks, "clock", tfs_bytes_of(bytes, sizeof(bytes)), LOCK_ANY, NULL);
	if (err == -EBADMSG) { /* both copies are damaged */
		err = lock_remove(s->locks, "clock", LOCK_ANY);
		if (!err)
			err = lock_put(s->locks, "clock", tfs_bytes_of(bytes, sizeof(bytes)), LOCK_ANY, NULL);
	}
	if (err)
		msg_warning("the clock's mark could not be written: %s", error_text(err));
	else
		x->saved_us = st.mark_us;
}

static void task_run(struct task *t)
{
	struct clock_mark *x = (struct clock_mark *)(void *)((char *)t - offsetof(struct clock_mark, task));

	if (x->s->closing)
		return;
	save_mark(x);
	task_queue_after(t, HOUR_US);
}

void clock_mark_start(struct server *s)
{
	struct clock_mark *x = s->mark;
	struct clock_state st;
	struct buf b = {0};
	int64_t mark = NO_MARK;
	char how[128];
	int err = lock_get(s->locks, "clock", &b, NULL);

	if (!err && b.n == 8)
		mark = (int64_t)load_be64(b.p);
	else if (err == -ENOENT && (s->o.incarnation == 1 || s->o.held))
		mark = INT64_MIN;
	buf_fini(&b);
	/* save_mark() saves a mark that is below saved_us.  So INT64_MAX makes it replace a damaged file. */
	x->saved_us = err == -EBADMSG ? INT64_MAX : mark > NO_MARK ? mark : 0;
	clock_set_mark(s->o.clock, mark, (int64_t)s->o.clock_gap_us);
	clock_get_state(s->o.clock, &st);
	if (!st.trusted) {
		describe_distance(&st, how);
		msg_warning(
			"the clock is %s; nothing that expired in between is removed before the store has been mounted for 24 hours"
			" with a steady clock; if the clock is right: echo confirm-clock > MOUNTPOINT/.tabletfs/ctl",
			how);
	}
	save_mark(x);
	if (!s->o.no_background)
		task_queue_after(&x->task, HOUR_US);
}

/* ---- promised times of commit ---- */

int clock_promise(struct server *s, int64_t us)
{
	struct clock_mark *x = s->mark;
	uint64_t stored = 0, version;
	uint8_t bytes[8];
	int64_t to = us + PROMISE_US;
	int err = 0;

	if (us <= x->promised_us)
		return 0;
	do {
		err = lock_get_number(s->locks, "commits", &stored, &version);
		if (err == -EBADMSG) {
			err = 0;
			stored = 0;
			version = LOCK_ANY;
		}
		if (!err && (int64_t)stored >= us) {
			to = (int64_t)stored;
			break;
		}
		put_be64(bytes, (uint64_t)to);
		if (!err)
			err = lock_put(s->locks, "commits", tfs_bytes_of(bytes, sizeof(bytes)), version, NULL);
	} while (err == -VERSION_CHANGED);
	if (is_no_space(err))
		to = (int64_t)stored;
	else if (err)
		return err;
	for (int64_t before = x->promised_us; before < to && !atomic_compare_exchange_weak(&x->promised_us, &before, to);)
		;
	return err;
}

int64_t clock_promised(struct server *s)
{
	return s->mark->promised_us;
}

int clock_keep_promises(struct server *s)
{
	uint64_t stored = 0, version;
	int err = lock_sync(s->locks);

	if (!err)
		err = lock_get_number(s->locks, "commits", &stored, &version);
	if (err == -EBADMSG)
		return 0;
	if (!err && stored)
		clock_raise_commit(s->o.clock, (int64_t)stored);
	return err;
}

void server_confirm_clock(struct server *s)
{
	clock_confirm(s->o.clock);
	msg_notice("the clock was confirmed");
	save_mark(s->mark);
}

int server_clock_attention(struct server *s, struct buf *out)
{
	const int64_t offset_us = s->fence ? fence_clock_offset(s->fence) : 0;
	struct clock_state st;
	char how[128];

	if (offset_us)
		return buf_printf(out, "the clock is %lld s %s the cluster's, so this server serves nothing; ",
			llabs(offset_us) / 1000000, offset_us < 0 ? "ahead of" : "behind");
	clock_get_state(s->o.clock, &st);
	if (st.trusted)
		return 0;
	describe_distance(&st, how);
	return buf_printf(out,
		"the clock is %s, expired cells are kept for %lld more hours (if it is right: echo confirm-clock > .tabletfs/ctl); ",
		how, (long long)((st.left_us + HOUR_US - 1) / HOUR_US));
}

static int begin(struct server *s, struct task_pool *pool)
{
	struct clock_mark *x = s->mark;

	x->s = s;
	task_init(&x->task, pool, task_run);
	if (!s->o.clock)
		s->o.clock = x->own = clock_new(NULL, NULL);
	return s->o.clock ? 0 : -ENOMEM;
}

static void stop(struct server *s)
{
	task_cancel(&s->mark->task);
}

static void end(struct server *s)
{
	if (s->mark->own)
		clock_free(s->mark->own);
}

const struct server_part mark_part = {offsetof(struct server, mark), sizeof(struct clock_mark), begin, stop, end};
