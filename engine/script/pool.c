/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pool of workers: the places for runs, which users take in turn, and the workers that wait for the next run.
 * A worker serves one user: a script that has taken it over sees nothing of another one's rows.
 */
#include "engine/script/pool.h"
#include "engine/base/clock.h"
#include "engine/base/mutex.h"
#include "engine/base/stop.h"

#include <bsd/sys/queue.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

/* A thread that waits for places, or a user who has some. */
struct waiter {
	STAILQ_ENTRY(waiter) next;
	uint32_t uid;
	unsigned count;
};
struct user_places {
	uint32_t uid;
	unsigned count; /* 0: unused */
};
struct script_pool {
	struct mutex lock;
	struct cond room;
	struct script_limits limits;
	unsigned most, taken, idle_count, waiting;
	STAILQ_HEAD(, waiter) waiters;
	struct user_places *users;     /* most elements: each user who has places has one at least */
	struct worker_process *idle[]; /* most elements */
};

static void set_limits(struct script_limits *to, const struct script_limits *l)
{
	to->instructions = l->instructions ? l->instructions : SCRIPT_INSTRUCTIONS;
	to->memory = l->memory ? l->memory : SCRIPT_MEMORY;
	to->time_us = l->time_us ? l->time_us : SCRIPT_TIME_US;
}

int script_pool_new(const struct script_limits *l, unsigned workers, struct script_pool **out)
{
	struct script_pool *p = calloc(1, sizeof(*p) + workers * sizeof(*p->idle));

	if (p)
		p->users = calloc(workers, sizeof(*p->users));
	if (!p || !p->users) {
		free(p);
		return -ENOMEM;
	}
	mutex_init(&p->lock, RANK_SCRIPT);
	cond_init(&p->room);
	STAILQ_INIT(&p->waiters);
	set_limits(&p->limits, l);
	p->most = workers;
	*out = p;
	return 0;
}

void script_pool_free(struct script_pool *p)
{
	if (!p)
		return;
	for (unsigned i = 0; i < p->idle_count; i++)
		(void)process_end(p->idle[i]);
	cond_fini(&p->room);
	mutex_fini(&p->lock);
	free(p->users);
	free(p);
}

void script_pool_set_limits(struct script_pool *p, const struct script_limits *l)
{
	mutex_lock(&p->lock);
	set_limits(&p->limits, l);
	mutex_unlock(&p->lock);
}

/* ---- places ---- */

/* The user's element; if the user has no places, one that is unused. */
static struct user_places *places_of(struct script_pool *p, uint32_t uid)
{
	struct user_places *u = p->users;

	for (unsigned i = 0; i < p->most; i++) {
		if (p->users[i].count && p->users[i].uid == uid)
			return &p->users[i];
		if (!p->users[i].count)
			u = &p->users[i];
	}
	return u;
}

/* Returns true if the user's share permits this many places more. */
static bool share_permits(struct script_pool *p, uint32_t uid, unsigned count, unsigned share)
{
	const struct user_places *u = places_of(p, uid);

	return (u->uid == uid ? u->count : 0) + count <= (share < count ? count : share);
}

/* Returns true if the waiter is the first of those that their shares permit to take places, and there is room. */
static bool is_its_turn(struct script_pool *p, const struct waiter *w, unsigned share)
{
	const struct waiter *first;

	STAILQ_FOREACH (first, &p->waiters, next)
		if (first == w || share_permits(p, first->uid, first->count, share))
			break;
	return first == w && p->most - p->taken >= w->count && share_permits(p, w->uid, w->count, share);
}

int script_pool_take(struct script_pool *p, uint32_t uid, unsigned count, unsigned share, uint64_t wait_us)
{
	struct waiter w = {.uid = uid, .count = count};
	uint64_t until = monotonic_us();
	int err = 0;

	if (count > p->most)
		return -EINVAL;
	mutex_lock(&p->lock);
	STAILQ_INSERT_TAIL(&p->waiters, &w, next);
	/* A thread of the server waits here.  If many waited for long, none would be left for other requests. */
	until += p->waiting++ < p->most || wait_us < STOP_CHECK_US ? wait_us : STOP_CHECK_US;
	while (!err && !is_its_turn(p, &w, share)) {
		err = stop_asked() ? -EINTR : monotonic_us() >= until ? -EAGAIN : 0;
		if (!err)
			(void)cond_wait_us(&p->room, &p->lock, STOP_CHECK_US);
	}
	STAILQ_REMOVE(&p->waiters, &w, waiter, next);
	p->waiting--;
	if (!err) {
		struct user_places *u = places_of(p, uid);

		u->uid = uid;
		u->count += count;
		p->taken += count;
	}
	cond_broadcast(&p->room); /* the next one may be permitted now */
	mutex_unlock(&p->lock);
	return err;
}

void script_pool_give(struct script_pool *p, uint32_t uid, unsigned count)
{
	mutex_lock(&p->lock);
	places_of(p, uid)->count -= count;
	p->taken -= count;
	cond_broadcast(&p->room);
	mutex_unlock(&p->lock);
}

/* ---- workers ---- */

/* Returns false if the worker died while it was idle, or has another limit. */
static bool is_usable(struct worker_process *w, const struct script_limits *limits)
{
	struct pollfd fd = {.fd = w->fd, .events = 0};

	return w->memory == limits->memory && poll(&fd, 1, 0) == 0;
}

/* Takes an idle worker of this user; of another user only if all places would have a process.  That one is to be ended. */
static struct worker_process *take_idle(struct script_pool *p, uint32_t uid, bool *is_own)
{
	struct worker_process *w = NULL;
	unsigned at = 0;

	*is_own = false;
	for (unsigned i = 0; i < p->idle_count && !*is_own; i++) {
		at = i;
		*is_own = p->idle[i]->uid == uid;
	}
	if (*is_own || p->taken + p->idle_count > p->most) {
		at = *is_own ? at : 0; /* the one that is idle for the longest time */
		w = p->idle[at];
		memmove(&p->idle[at], &p->idle[at + 1], (--p->idle_count - at) * sizeof(*p->idle));
	}
	return w;
}

int pool_take_worker(struct script_pool *p, uint32_t uid, struct script_limits *limits, struct worker_process **out, bool *was_idle,
	struct buf *why)
{
	struct worker_process *w;
	int err = 0;

	mutex_lock(&p->lock);
	*limits = p->limits;
	w = p->idle_count ? take_idle(p, uid, was_idle) : NULL;
	*was_idle = w && *was_idle;
	mutex_unlock(&p->lock);
	if (w && (!*was_idle || !is_usable(w, limits))) {
		(void)process_end(w);
		w = NULL;
		*was_idle = false;
	}
	if (!w)
		err = process_start(limits->memory, uid, &w, why);
	if (!err)
		*out = w;
	return err;
}

void pool_return_worker(struct script_pool *p, struct worker_process *w)
{
	mutex_lock(&p->lock);
	if (p->idle_count < p->most) {
		p->idle[p->idle_count++] = w;
		w = NULL;
	}
	mutex_unlock(&p->lock);
	if (w)
		(void)process_end(w);
}
