/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store's clock: one mark, the greatest time told so far, under one
 * short lock.  A time that is unique lies above the mark, so it differs from
 * every time told before, unique or not.  At the end of the number range the
 * clock stands still rather than wrap.
 */
#include "engine/base/clock.h"

#include "engine/base/mutex.h"

#include <stdlib.h>
#include <time.h>

struct clock {
	struct mutex lock; /* guards all below */
	int64_t mark_us, commit_us;
	int64_t (*now_us)(void *arg); /* NULL: the system's */
	void *arg;
};

struct clock *clock_new(void)
{
	struct clock *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	mutex_init(&c->lock, RANK_CLOCK);
	c->mark_us = c->commit_us = INT64_MIN;
	return c;
}

void clock_free(struct clock *c)
{
	if (!c)
		return;
	mutex_fini(&c->lock);
	free(c);
}

static int64_t now_locked(struct clock *c)
{
	struct timespec ts;

	if (c->now_us)
		return c->now_us(c->arg);
	clock_gettime(CLOCK_REALTIME, &ts);
	return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

int64_t clock_now(struct clock *c)
{
	int64_t now;

	mutex_lock(&c->lock);
	now = now_locked(c);
	if (now > c->mark_us)
		c->mark_us = now;
	now = c->mark_us;
	mutex_unlock(&c->lock);
	return now;
}

int64_t clock_unique(struct clock *c)
{
	int64_t now;

	mutex_lock(&c->lock);
	now = now_locked(c);
	if (now > c->mark_us)
		c->mark_us = now;
	else if (c->mark_us < INT64_MAX)
		c->mark_us++;
	now = c->mark_us;
	mutex_unlock(&c->lock);
	return now;
}

int64_t clock_commit(struct clock *c)
{
	int64_t now;

	mutex_lock(&c->lock);
	now = now_locked(c);
	if (now <= c->commit_us && c->commit_us < INT64_MAX)
		now = c->commit_us + 1;
	c->commit_us = now;
	mutex_unlock(&c->lock);
	return now;
}

void clock_at_least(struct clock *c, int64_t us)
{
	mutex_lock(&c->lock);
	if (us > c->mark_us)
		c->mark_us = us;
	mutex_unlock(&c->lock);
}

void clock_set_for_test(struct clock *c, int64_t (*now_us)(void *arg), void *arg)
{
	mutex_lock(&c->lock);
	c->now_us = now_us;
	c->arg = arg;
	mutex_unlock(&c->lock);
}

uint64_t monotonic_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}
