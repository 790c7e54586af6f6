/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heartbeats, lease and clock of a session.
 *
 * The lease is one atomic number, its end.  A heartbeat replaces it by a later end, or by
 * LOST.  Only heartbeats change it, and none does after LOST.
 *
 * Rejected: a lease that has ended stays lost.  When the leader of the lock service
 * fails, no heartbeat is committed for some seconds.  So every server would end, and
 * every log be replayed, although all sessions live on.
 *
 * A heartbeat is a put that requires the file to exist, whatever its version.  If
 * the outcome of the last heartbeat is unknown, its version is, too.  If an
 * operator has removed the file, the heartbeat does not create it again, and the
 * session is lost.
 */
#include "engine/lock/session.h"
#include "engine/base/msg.h"
#include "engine/base/task.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define LOST INT64_MIN

struct lock_session {
	struct lock_session_options o; /* name points to memory of this struct */
	_Atomic int64_t end_us;        /* the end of the lease, on o.boottime; or LOST */
	_Atomic int64_t offset_us;     /* lock_session_clock_offset */
	int64_t median_us;             /* the common clock minus the service's; used by lock_session_beat */
	int failed;                    /* the error of the last heartbeat; used by lock_session_beat */
	struct task_pool *pool;        /* lock_session_run */
	struct task beat;
	char *name;
	struct buf address;
};

/* The service's time stamp of a heartbeat, and this server's clock before and after it. */
struct sample {
	int64_t sent_us, service_us, answered_us;
};

static uint64_t period_us(const struct lock_session *s)
{
	return s->o.timeout_us / 8;
}

/* ---- the lease ---- */

static bool is_lost(const struct lock_session *s)
{
	return atomic_load(&s->end_us) == LOST;
}

bool lock_session_held(struct lock_session *s)
{
	return s->o.boottime(s->o.arg) < atomic_load_explicit(&s->end_us, memory_order_acquire);
}

/* ---- the clock ---- */

/* A clock minus this server's, as far as the two readings of this server's clock prove it.  A clock that was set back between them proves nothing. */
static int64_t proven_us(const struct sample *x, int64_t clock_us)
{
	if (x->sent_us > x->answered_us)
		return 0;
	return clock_us < x->sent_us ? clock_us - x->sent_us : clock_us > x->answered_us ? clock_us - x->answered_us : 0;
}

/* One of two clocks is wrong: sets the common clock minus the service's.  Returns false if nothing shows which one. */
static bool clock_ask(struct lock_session *s, const struct sample *x)
{
	struct lock_clocks c;
	int err = lock_clocks_read(s->o.locks, s->name, x->sent_us - x->service_us, x->service_us, 2 * period_us(s), &c);

	if (err || (c.others && !c.count))
		return false;
	if (llabs(c.median_us) <= LOCK_CLOCK_OFF_US)
		c.median_us = 0;
	if (c.median_us && llabs(c.median_us - s->median_us) > LOCK_CLOCK_OFF_US)
		msg_warning("the clock of the lock service alone is %lld ms %s the servers': %s", llabs(c.median_us) / 1000,
			c.median_us < 0 ? "ahead of" : "behind",
			c.others ? "theirs counts" : "the clock of this server, which is alone, counts");
	s->median_us = c.median_us;
	return true;
}

static void clock_compare(struct lock_session *s, const struct sample *x)
{
	const int64_t was_us = atomic_load(&s->offset_us);
	int64_t offset_us;

	if (llabs(proven_us(x, x->service_us)) <= LOCK_CLOCK_OFF_US)
		s->median_us = 0;
	else if (!clock_ask(s, x))
		return;
	offset_us = proven_us(x, x->service_us + s->median_us);
	atomic_store(&s->offset_us, offset_us);
	clock_set_limit(s->o.clock, x->service_us + s->median_us + LOCK_CLOCK_OFF_US);
	if (llabs(was_us) <= LOCK_CLOCK_OFF_US && llabs(offset_us) > LOCK_CLOCK_OFF_US)
		msg_error("the clock of this server is %lld ms %s the cluster's: this server serves nothing until it is right",
			llabs(offset_us) / 1000, offset_us < 0 ? "ahead of" : "behind");
	else if (llabs(was_us) > LOCK_CLOCK_OFF_US && llabs(offset_us) <= LOCK_CLOCK_OFF_US)
		msg_notice("the clock is right again");
}

int64_t lock_session_clock_offset(const struct lock_session *s)
{
	return atomic_load_explicit(&s->offset_us, memory_order_relaxed);
}

/* ---- heartbeats ---- */

/* Writes the file.  On 0 *end_us is the end of the lease that this begins. */
static int file_write(struct lock_session *s, bool create, int64_t *end_us, struct sample *x)
{
	struct lock_op op = {.name = s->name, .ephemeral = create, .expect = create ? LOCK_ABSENT : LOCK_EXISTS};
	const int64_t sent_boot_us = s->o.boottime(s->o.arg), sent_us = clock_now(s->o.clock);
	struct buf b = {0};
	struct lock_stat stat;
	int err = lock_clocks_encode(buf_bytes(&s->address), sent_us, &b);

	op.contents = buf_bytes(&b);
	if (!err)
		err = lock_multi(s->o.locks, &op, 1, &stat);
	buf_fini(&b);
	if (err)
		return err;
	*x = (struct sample){sent_us, stat.mtime_us, clock_now(s->o.clock)};
	*end_us = sent_boot_us + (int64_t)(s->o.timeout_us / 10 * 6);
	return 0;
}

/* Begins the next lease. */
static void lease_begin(struct lock_session *s, int64_t end_us)
{
	const int64_t paused_us = s->o.boottime(s->o.arg) - atomic_load(&s->end_us);

	atomic_store_explicit(&s->end_us, end_us, memory_order_release);
	if (paused_us > 0)
		msg_notice("%s: no heartbeat was accepted in time: this server paused for %lld ms", s->name,
			(long long)paused_us / 1000);
}

uint64_t lock_session_beat(struct lock_session *s)
{
	struct sample x;
	int64_t end_us = 0;
	int err;

	if (is_lost(s))
		return s->o.timeout_us;
	err = file_write(s, false, &end_us, &x);
	if (err == -SESSION_ENDED || err == -ENOENT) {
		msg_error("%s: %s", s->name,
			err == -ENOENT ? "a master has removed this file" : "the lock service has ended this session");
		atomic_store(&s->end_us, LOST);
		if (s->o.lost)
			s->o.lost(s->o.arg);
	} else if (err) {
		if (err != s->failed)
			msg_warning("%s: no heartbeat: %s", s->name, error_text(err));
	} else {
		lease_begin(s, end_us);
		clock_compare(s, &x);
	}
	s->failed = err;
	return period_us(s);
}

static void beat_run(struct task *t)
{
	struct lock_session *s = (struct lock_session *)((char *)t - offsetof(struct lock_session, beat));

	task_queue_after(t, lock_session_beat(s));
}

int lock_session_run(struct lock_session *s)
{
	int err = task_pool_new("session", 1, &s->pool);

	if (err)
		return err;
	task_init(&s->beat, s->pool, beat_run);
	task_queue(&s->beat);
	return 0;
}

/* ---- begin and end ---- */

static void session_free_memory(struct lock_session *s)
{
	buf_fini(&s->address);
	free(s->name);
	free(s);
}

int lock_session_new(const struct lock_session_options *o, struct lock_session **out)
{
	struct lock_session *s = calloc(1, sizeof(*s));
	struct sample x;
	int64_t end_us = 0;
	int err = -ENOMEM;

	if (!s)
		return err;
	s->o = *o;
	if (!s->o.boottime)
		s->o.boottime = clock_boottime;
	s->name = strdup(o->name);
	if (s->name && !buf_set(&s->address, o->contents.p, o->contents.n))
		err = file_write(s, true, &end_us, &x);
	if (err) {
		session_free_memory(s);
		return err;
	}
	clock_set_limit(o->clock, x.service_us + LOCK_CLOCK_OFF_US); /* if nothing shows yet which clock is wrong */
	clock_compare(s, &x);
	atomic_store(&s->end_us, end_us);
	*out = s;
	return 0;
}

void lock_session_free(struct lock_session *s)
{
	int err = 0;

	if (!s)
		return;
	if (s->pool) {
		task_cancel(&s->beat);
		task_pool_free(s->pool);
	}
	if (!is_lost(s))
		err = lock_remove(s->o.locks, s->name, LOCK_ANY);
	if (err)
		msg_warning("%s: not removed; it ends with the session: %s", s->name, error_text(err));
	session_free_memory(s);
}
