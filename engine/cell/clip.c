/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An iterator clipped to the keys in [from, to): the range for which a
 * tablet may use an SSTable or memtable that it shares with others.
 *
 * If the child is past `to`, the clipped iterator is at its end, without error.
 */
#include "engine/cell/merge.h"

#include <errno.h>
#include <stdlib.h>

struct clip_iter {
	struct iter it;
	struct iter *child;
	struct slice from, to; /* to.p NULL: no end */
	uint8_t bytes[];
};

static inline void clip_show(struct clip_iter *c)
{
	struct iter *child = c->child;

	c->it.valid = child->valid && (!c->to.p || slice_cmp(child->key, c->to) < 0);
	c->it.err = child->valid ? 0 : child->err;
	c->it.key = child->key;
	c->it.value = child->value;
}

static void clip_seek(struct iter *it, struct slice target)
{
	struct clip_iter *c = (struct clip_iter *)it;

	if (slice_cmp(target, c->from) < 0)
		target = c->from;
	if (c->to.p && slice_cmp(target, c->to) >= 0) {
		/* the child need not seek: nothing in the range is at or above target */
		c->it.valid = false;
		c->it.err = 0;
		return;
	}
	iter_seek(c->child, target);
	clip_show(c);
}

static void clip_next(struct iter *it)
{
	struct clip_iter *c = (struct clip_iter *)it;

	iter_next(c->child);
	clip_show(c);
}

static void clip_free(struct iter *it)
{
	struct clip_iter *c = (struct clip_iter *)it;

	iter_free(c->child);
	free(c);
}

static const struct iter_ops clip_ops = {clip_seek, clip_next, clip_free};

int clip_iter_new(struct iter *child, struct slice from, struct slice to, struct iter **out)
{
	struct clip_iter *c = calloc(1, sizeof(*c) + from.n + to.n + 1);

	if (!c) {
		iter_free(child);
		return -ENOMEM;
	}
	c->it.ops = &clip_ops;
	c->child = child;
	c->from = slice_of(c->bytes, from.n);
	if (from.n)
		memcpy(c->bytes, from.p, from.n);
	if (to.p) {
		c->to = slice_of(c->bytes + from.n, to.n);
		if (to.n)
			memcpy(c->bytes + from.n, to.p, to.n);
	}
	*out = &c->it;
	return 0;
}
