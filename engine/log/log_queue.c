/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The commit log's waiting writers: their tickets in two queues (not yet
 * written; written, waiting for a sync), how they are answered and woken, and
 * how long a sync waits for more of them.
 *
 * A writer that waits for a sync sleeps on one of two shared events, so that
 * one call wakes all writers that the sync answers.  Any other writer sleeps on
 * an event of its own.
 */
#include "engine/log/log_internal.h"

#include "engine/base/clock.h"

#define GATHER_MOST_US 2000u
#define GATHER_ROUNDS_MOST 256u

/* ---- gathering ---- */

/* Returns false if the next sync may begin: no wait has begun, enough writers have arrived, or the time is over. */
bool log_gathering_locked(struct log *l, uint64_t now)
{
	struct log_gather *g = &l->gather;

	if (!g->until_us)
		return false;
	if (l->syncers >= g->want) {
		if (g->cap_rounds)
			g->cap_rounds--;
		else
			g->cap_next = 1;
	} else if (now < g->until_us) {
		return true;
	} else {
		g->cap = l->syncers > g->left ? l->syncers - g->left : 0;
		g->cap_rounds = g->cap_next;
		g->cap_next = g->cap_next < GATHER_ROUNDS_MOST ? 2 * g->cap_next : GATHER_ROUNDS_MOST;
	}
	g->until_us = 0;
	return false;
}

void log_gather_begin_locked(struct log *l, unsigned answered, uint64_t now, uint64_t us)
{
	struct log_gather *g = &l->gather;

	us = us < GATHER_MOST_US ? us : GATHER_MOST_US;
	g->sync_us = g->sync_us ? (7 * g->sync_us + us) / 8 : us;
	g->left = l->syncers;
	g->want = l->syncers + (g->cap_rounds && g->cap < answered ? g->cap : answered);
	g->until_us = now + g->sync_us;
	g->timed = false;
}

/* Values of a writer's own event.  A shared event is incremented instead. */
enum { LOOK = 1, ANSWERED = 2 };

static bool is_shared_event(const struct log *l, const struct event *e)
{
	return e == &l->rounds[0] || e == &l->rounds[1];
}

/* Answers the first ticket.  Returns the event to wake, or NULL.  The writer may free the ticket as soon as it is TICKET_DONE. */
static struct event *answer_locked(struct log *l, struct ticket_list *list, int error)
{
	struct log_ticket *t = STAILQ_FIRST(list);
	struct event *e = t->private_;

	STAILQ_REMOVE_HEAD(list, private_next);
	t->private_error = error;
	l->outstanding--;
	l->syncers -= t->sync && t->private_record;
	t->private_state = TICKET_DONE; /* log_ticket_done */
	if (e)
		event_set(e, is_shared_event(l, e) ? e->number + 1 : ANSWERED);
	return e;
}

void log_finish_locked(struct log *l, struct ticket_list *list, int error)
{
	struct event *e = answer_locked(l, list, error);

	if (e)
		event_wake_all(e);
}

void log_finish_later_locked(struct log *l, struct ticket_list *list, struct log_wakeups *w)
{
	struct event *e = answer_locked(l, list, 0);

	if (e && is_shared_event(l, e)) {
		w->rounds = l->rounds;
		w->round[e - l->rounds] = true;
	} else if (e && w->n < sizeof(w->v) / sizeof(*w->v)) {
		w->v[w->n++] = e;
	} else if (e) {
		event_wake(e);
	}
}

void log_wake(struct log_wakeups *w)
{
	for (unsigned i = 0; i < w->n; i++)
		event_wake(w->v[i]);
	for (unsigned i = 0; w->rounds && i < 2; i++)
		if (w->round[i])
			event_wake_all(&w->rounds[i]);
	*w = (struct log_wakeups){.n = 0};
}

static void wake_ticket_locked(const struct log *l, struct log_ticket *t)
{
	struct event *e = t->private_;

	event_set(e, is_shared_event(l, e) ? e->number + 1 : LOOK);
	event_wake(e); /* if it is shared: any one of its sleepers */
}

/*
 * Wakes one sleeper that can take a free role.  Writing has priority, so that
 * queued records are part of the next sync.
 */
void log_wake_next_locked(struct log *l)
{
	bool may_sync = !l->syncing && !(l->gather.until_us && l->gather.timed);
	struct log_ticket *t;

	if (l->switching)
		return;
	if (!l->writing && !(l->no_space && l->syncing))
		STAILQ_FOREACH (t, &l->queued, private_next)
			if (t->private_ && (!t->sync || may_sync)) {
				wake_ticket_locked(l, t);
				return;
			}
	if (may_sync)
		STAILQ_FOREACH (t, &l->written, private_next)
			if (t->private_) {
				wake_ticket_locked(l, t);
				return;
			}
}

uint64_t log_stall_time_locked(const struct log *l)
{
	uint64_t at = UINT64_MAX;

	if (l->fence_waits && l->fence_waits(l->fence_arg))
		return at;
	if (l->writing)
		at = l->write_since_us + l->stall_us;
	if (l->syncing && l->sync_since_us + l->stall_us < at)
		at = l->sync_since_us + l->stall_us;
	if (l->switching && !l->fence && l->switch_since_us + LOG_PATIENCE * l->stall_us < at)
		at = l->switch_since_us + LOG_PATIENCE * l->stall_us;
	return at;
}

bool log_sleep_locked(struct log *l, struct log_ticket *t)
{
	uint64_t now = monotonic_us(), until = log_stall_time_locked(l);
	bool timed = t->sync && t->private_record && l->gather.until_us && !l->gather.timed;
	struct event own = {0}, *e = &own;
	uint32_t seen = 0;

	if (until > now + l->stall_us)
		until = now + l->stall_us;
	if (timed) {
		l->gather.timed = true;
		until = l->gather.until_us < until ? l->gather.until_us : until;
	}
	if (t->sync) {
		e = &l->rounds[(l->round + !(l->syncing && t->lsn <= l->sync_target)) % 2];
		seen = e->number;
	}
	t->private_ = e;
	mutex_unlock(&l->mu);
	if (event_wait_us(e, seen, until > now ? until - now + 1 : 1) == ANSWERED && e == &own)
		return true;
	if (e != &own && t->private_state == TICKET_DONE)
		return true;
	mutex_lock(&l->mu);
	t->private_ = NULL;
	if (timed)
		l->gather.timed = false;
	return false;
}

bool log_ticket_done(const struct log_ticket *t, int *err)
{
	if (t->private_state != TICKET_DONE)
		return false;
	*err = t->private_error;
	return true;
}
