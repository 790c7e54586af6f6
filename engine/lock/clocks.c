/* SPDX-License-Identifier: Apache-2.0 */
/* The clocks of a cluster's servers (clocks.h). */
#include "engine/lock/clocks.h"
#include "engine/base/msg.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SERVERS "servers"

struct beat {
	int64_t offset_us, stamp_us;
	bool self;
};
struct beats {
	struct lock_service *locks;
	const char *self;
	struct beat *v;
	unsigned count;
};

int lock_clocks_encode(struct tfs_bytes address, int64_t now_us, struct buf *out)
{
	return buf_printf(out, "%.*s %lld", (int)address.n, (const char *)address.p, (long long)now_us);
}

/* The second word of a heartbeat. */
static bool decode(struct tfs_bytes contents, int64_t *now_us)
{
	const uint8_t *blank = contents.n ? memchr(contents.p, ' ', contents.n) : NULL;
	char text[24] = "", *end;
	size_t n = blank ? (size_t)(contents.p + contents.n - blank - 1) : 0;

	if (!n || n >= sizeof(text))
		return false;
	memcpy(text, blank + 1, n);
	*now_us = strtoll(text, &end, 10);
	return !*end;
}

static int read_beat(void *arg, const char *name)
{
	struct beats *x = arg;
	struct lock_stat stat = {0};
	struct buf b = {0};
	char file[40];
	int64_t now_us;
	int err;

	snprintf(file, sizeof(file), SERVERS "/%s", name);
	err = x->locks->ops->get(x->locks, file, &b, &stat);
	if (!err && decode(buf_bytes(&b), &now_us)) {
		if (array_grow(&x->v, x->count, sizeof(*x->v)))
			err = -ENOMEM;
		else
			x->v[x->count++] =
				(struct beat){now_us - stat.mtime_us, stat.mtime_us, x->self && strcmp(x->self, file) == 0};
	}
	buf_fini(&b);
	return err == -ENOENT ? 0 : err;
}

static int compare(const void *a, const void *b)
{
	const int64_t x = ((const struct beat *)a)->offset_us, y = ((const struct beat *)b)->offset_us;

	return x < y ? -1 : x > y;
}

/* Removes the heartbeats that do not count.  If their number is even then, removes the caller's own, too. */
static void choose(struct beats *x, int64_t now_us, uint64_t late_us, int64_t own_us)
{
	unsigned count = 0;

	for (unsigned i = 0; i < x->count; i++)
		if ((uint64_t)llabs(now_us - x->v[i].stamp_us) <= late_us || x->v[i].self)
			x->v[count++] = x->v[i];
	x->count = count;
	count = 0;
	for (unsigned i = 0; i < x->count; i++) {
		if (x->v[i].self)
			x->v[i].offset_us = own_us;
		if (!x->v[i].self || x->count % 2)
			x->v[count++] = x->v[i];
	}
	x->count = count;
}

int lock_clocks_read(
	struct lock_service *locks, const char *self, int64_t own_us, int64_t now_us, uint64_t late_us, struct lock_clocks *out)
{
	struct beats x = {.locks = locks, .self = self};
	struct lock_clocks found = {0};
	int err = locks->ops->list(locks, SERVERS, read_beat, &x);

	err = err == -ENOENT ? 0 : err;
	for (unsigned i = 0; i < x.count; i++) {
		found.others |= !x.v[i].self;
		if (x.v[i].stamp_us > found.newest_us)
			found.newest_us = x.v[i].stamp_us;
	}
	choose(&x, now_us ? now_us : found.newest_us, late_us, own_us);
	for (unsigned i = 0; i < x.count; i++)
		found.count += !x.v[i].self;
	if (!err && x.count) {
		qsort(x.v, x.count, sizeof(*x.v), compare);
		found.median_us = x.v[x.count / 2].offset_us;
	}
	free(x.v);
	if (!err)
		*out = found;
	return err;
}

void lock_follow_look(struct lock_follow *f, struct lock_service *locks, uint64_t late_us, struct clock *clock)
{
	const int64_t before_us = clock_system(NULL), was_us = f->add_us;
	int64_t common_us, after_us, add_us = 0;
	struct lock_clocks c;

	/* A heartbeat that was seen before has some unknown age. */
	if (lock_clocks_read(locks, NULL, 0, 0, late_us, &c) || !c.count || c.newest_us == f->newest_us)
		return;
	f->newest_us = c.newest_us;
	common_us = c.newest_us + c.median_us;
	after_us = clock_system(NULL);
	if (common_us < before_us - LOCK_CLOCK_OFF_US)
		add_us = common_us - before_us;
	else if (common_us > after_us + LOCK_CLOCK_OFF_US)
		add_us = common_us - after_us;
	if (add_us && llabs(add_us - was_us) > LOCK_CLOCK_OFF_US)
		msg_warning("the clock of this master alone is %lld ms %s the servers': theirs counts", llabs(add_us) / 1000,
			add_us < 0 ? "ahead of" : "behind");
	else if (!add_us && was_us)
		msg_notice("the clock is right again");
	if (!add_us || llabs(add_us - was_us) > LOCK_CLOCK_OFF_US / 2)
		f->add_us = add_us;
	clock_set_limit(clock, common_us + LOCK_CLOCK_OFF_US);
}

int64_t lock_follow_time(void *arg)
{
	return clock_system(NULL) + ((struct lock_follow *)arg)->add_us;
}
