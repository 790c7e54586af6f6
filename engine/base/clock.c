/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store's clock, under one short lock.
 *
 * Each reading of the system's clock compares its advance since the previous
 * reading with the advance of CLOCK_BOOTTIME, which cannot be set and which
 * runs while the machine sleeps.  A difference of more than a minute is a jump
 * and restarts the day of steadiness.  The permitted distance from the mark
 * grows by the time between two readings, because an idle store reads rarely.
 *
 * At the end of the number range unique times stop; they do not wrap.
 */
#include "engine/base/clock.h"

#include "engine/base/mutex.h"

#include <stdlib.h>
#include <time.h>

#define JUMP_US INT64_C(60000000)
#define SET_BACK_US INT64_C(1000000)

struct clock {
	struct mutex lock; /* guards all below */
	int64_t mark_us, gap_us, limit_us;
	int64_t now_us, boot_us;      /* at the last reading */
	int64_t steady_us;            /* boot_us at the last jump or the first reading */
	int64_t unique_us, commit_us; /* the last results of clock_unique and clock_commit */
	bool was_read, trusted;
	clock_source *source;
	void *arg;
};

static int64_t time_of(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

int64_t clock_system(void *arg)
{
	(void)arg;
	return time_of(CLOCK_REALTIME);
}

int64_t clock_boottime(void *arg)
{
	(void)arg;
	return time_of(CLOCK_BOOTTIME);
}

struct clock *clock_new(clock_source *now_us, void *arg)
{
	struct clock *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	mutex_init(&c->lock, RANK_CLOCK);
	c->mark_us = c->unique_us = c->commit_us = INT64_MIN;
	c->gap_us = CLOCK_GAP_US;
	c->limit_us = INT64_MAX;
	c->source = now_us ? now_us : clock_system;
	c->arg = arg;
	return c;
}

void clock_free(struct clock *c)
{
	if (!c)
		return;
	mutex_fini(&c->lock);
	free(c);
}

/* a - b, at most INT64_MAX; a >= b. */
static int64_t time_distance(int64_t a, int64_t b)
{
	int64_t d;

	return __builtin_sub_overflow(a, b, &d) ? INT64_MAX : d;
}

static int64_t time_between(int64_t a, int64_t b)
{
	return a > b ? time_distance(a, b) : time_distance(b, a);
}

static int64_t earlier(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static void clock_trust(struct clock *c)
{
	c->mark_us = earlier(c->now_us, c->limit_us);
	c->trusted = true;
}

static void read_system(struct clock *c)
{
	int64_t now = c->source(c->arg), boot = clock_boottime(NULL);
	int64_t passed = c->was_read ? boot - c->boot_us : 0;

	if (!c->was_read || time_between(now, c->now_us) > passed + JUMP_US || (now < c->now_us && c->now_us - now > JUMP_US))
		c->steady_us = boot;
	c->was_read = true;
	c->now_us = now;
	c->boot_us = boot;
	if (c->mark_us == INT64_MIN || boot - c->steady_us >= CLOCK_STEADY_US) {
		clock_trust(c);
		return;
	}
	c->trusted = time_between(now, c->mark_us) <= c->gap_us + passed;
	if (c->trusted && earlier(now, c->limit_us) > c->mark_us)
		c->mark_us = earlier(now, c->limit_us);
}

static int64_t time_above(int64_t now, int64_t last)
{
	return now > last ? now : last < INT64_MAX ? last + 1 : last;
}

int64_t clock_unique(struct clock *c)
{
	int64_t us;

	mutex_lock(&c->lock);
	read_system(c);
	if (c->now_us < c->unique_us && time_distance(c->unique_us, c->now_us) > SET_BACK_US)
		c->unique_us = c->now_us - 1;
	us = c->unique_us = time_above(c->now_us, c->unique_us);
	mutex_unlock(&c->lock);
	return us;
}

int64_t clock_commit(struct clock *c)
{
	int64_t us;

	mutex_lock(&c->lock);
	read_system(c);
	us = c->commit_us = time_above(c->now_us, c->commit_us);
	mutex_unlock(&c->lock);
	return us;
}

void clock_raise_commit(struct clock *c, int64_t above_us)
{
	mutex_lock(&c->lock);
	if (above_us > c->commit_us)
		c->commit_us = above_us;
	mutex_unlock(&c->lock);
}

void clock_set_mark(struct clock *c, int64_t mark_us, int64_t gap_us)
{
	mutex_lock(&c->lock);
	c->mark_us = mark_us;
	c->gap_us = gap_us ? gap_us : CLOCK_GAP_US;
	c->was_read = false;
	read_system(c);
	mutex_unlock(&c->lock);
}

void clock_set_limit(struct clock *c, int64_t limit_us)
{
	mutex_lock(&c->lock);
	c->limit_us = limit_us;
	mutex_unlock(&c->lock);
}

void clock_raise_mark(struct clock *c, int64_t mark_us)
{
	mutex_lock(&c->lock);
	if (mark_us > c->mark_us)
		c->mark_us = mark_us;
	mutex_unlock(&c->lock);
}

void clock_confirm(struct clock *c)
{
	mutex_lock(&c->lock);
	read_system(c);
	clock_trust(c);
	mutex_unlock(&c->lock);
}

void clock_get_state(struct clock *c, struct clock_state *out)
{
	mutex_lock(&c->lock);
	read_system(c);
	*out = (struct clock_state){c->now_us, c->mark_us, c->trusted, 0};
	if (!c->trusted)
		out->left_us = CLOCK_STEADY_US - (c->boot_us - c->steady_us);
	mutex_unlock(&c->lock);
}

int64_t clock_now(struct clock *c)
{
	struct clock_state s;

	clock_get_state(c, &s);
	return s.now_us;
}

int64_t clock_limited(struct clock *c)
{
	int64_t us;

	mutex_lock(&c->lock);
	read_system(c);
	us = earlier(c->now_us, c->limit_us);
	mutex_unlock(&c->lock);
	return us;
}

int64_t clock_collect(struct clock *c)
{
	int64_t us;

	mutex_lock(&c->lock);
	read_system(c);
	us = earlier(earlier(c->now_us, c->mark_us), c->limit_us);
	mutex_unlock(&c->lock);
	return us;
}

uint64_t monotonic_us(void)
{
	return (uint64_t)time_of(CLOCK_MONOTONIC);
}

uint64_t worked_us(void)
{
	return (uint64_t)time_of(CLOCK_THREAD_CPUTIME_ID);
}
