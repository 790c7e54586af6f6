/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Merging iterators: a binary heap of the children that stand on a key, the
 * smallest on top.  A child at its end leaves the heap and costs nothing from
 * then on.
 *
 * Equal keys.  If another child stands on the same key as the top of the heap,
 * the two have been compared.  `equal_keys` is set if any comparison since the
 * last seek found equality; only then does a step look for further copies of
 * its key.
 *
 * A forward seek does not move children that already stand at or past the
 * target.  Live iterators skip by seeks, mostly past a few keys of a few
 * children, so this matters more than the heap.
 *
 * A clipped iterator returns the keys in [from, to): the range in which a
 * tablet may use an SSTable or memtable that it shares with others.  If the
 * child is past `to`, the clipped iterator is at its end, without error.
 */
#include "engine/cell/merge.h"

#include <errno.h>
#include <stdlib.h>

struct merge_iter {
	struct iter it;
	struct iter **children; /* all */
	struct iter **heap;     /* the children that stand on a key */
	unsigned count, live;
	bool equal_keys;
	bool positioned; /* the last seek succeeded, so a forward seek may start from here */
	struct buf last;
};

static void merge_fail(struct merge_iter *m, int err)
{
	m->it.valid = false;
	m->it.err = err;
	m->positioned = false;
}

static inline bool iter_before(struct merge_iter *m, const struct iter *a, const struct iter *b)
{
	int c = bytes_cmp(a->key, b->key);

	if (c == 0)
		m->equal_keys = true;
	return c < 0;
}

static void sift_down(struct merge_iter *m, unsigned at)
{
	struct iter *x = m->heap[at];

	for (;;) {
		unsigned kid = 2 * at + 1;

		if (kid >= m->live)
			break;
		if (kid + 1 < m->live && iter_before(m, m->heap[kid + 1], m->heap[kid]))
			kid++;
		if (!iter_before(m, m->heap[kid], x))
			break;
		m->heap[at] = m->heap[kid];
		at = kid;
	}
	m->heap[at] = x;
}

static inline void merge_show(struct merge_iter *m)
{
	m->it.valid = m->live > 0;
	if (m->it.valid) {
		m->it.key = m->heap[0]->key;
		m->it.size = m->heap[0]->size;
		m->it.value = m->heap[0]->value;
	}
}

/* Advances the top child; false after a failure. */
static bool step_top(struct merge_iter *m)
{
	struct iter *top = m->heap[0];

	iter_next(top);
	if (!top->valid) {
		if (top->err) {
			merge_fail(m, top->err);
			return false;
		}
		m->heap[0] = m->heap[--m->live];
	}
	if (m->live > 1)
		sift_down(m, 0);
	return true;
}

static void merge_next(struct iter *it)
{
	struct merge_iter *m = (struct merge_iter *)it;
	bool copies = m->equal_keys;
	int err = copies ? buf_set(&m->last, it->key.p, it->key.n) : 0;

	if (err) {
		merge_fail(m, err);
		return;
	}
	do {
		if (!step_top(m))
			return;
	} while (copies && m->live && bytes_eq(m->heap[0]->key, buf_bytes(&m->last)));
	merge_show(m);
}

static void merge_seek(struct iter *it, struct tfs_bytes target)
{
	struct merge_iter *m = (struct merge_iter *)it;
	/* A merge at its end has no key to compare with. */
	bool forward = m->positioned && it->valid && bytes_cmp(it->key, target) <= 0;

	m->live = 0;
	m->equal_keys = false;
	for (unsigned i = 0; i < m->count; i++) {
		struct iter *c = m->children[i];

		if (!forward || (c->valid && bytes_cmp(c->key, target) < 0))
			iter_seek(c, target);
		if (c->valid) {
			m->heap[m->live++] = c;
		} else if (c->err) {
			merge_fail(m, c->err);
			return;
		}
	}
	for (unsigned i = m->live / 2; i-- > 0;)
		sift_down(m, i);
	m->positioned = true;
	it->err = 0;
	merge_show(m);
}

static void merge_free(struct iter *it)
{
	struct merge_iter *m = (struct merge_iter *)it;

	for (unsigned i = 0; i < m->count; i++)
		iter_free(m->children[i]);
	buf_fini(&m->last);
	free(m);
}

static void merge_seek_before(struct iter *it, struct tfs_bytes target)
{
	struct merge_iter *m = (struct merge_iter *)it;

	merge_fail(m, 0);
	for (unsigned i = 0; i < m->count; i++) {
		struct iter *c = m->children[i];

		iter_seek_before(c, target);
		if (c->err) {
			merge_fail(m, c->err);
			return;
		}
		if (c->valid && (!it->valid || bytes_cmp(c->key, it->key) > 0)) {
			it->valid = true;
			it->key = c->key;
		}
	}
}

static int merge_load(struct iter *it, uint64_t offset, size_t n, struct tfs_bytes *out)
{
	return iter_load(((struct merge_iter *)it)->heap[0], offset, n, out);
}

static const struct iter_ops merge_ops = {merge_seek, merge_next, merge_free, merge_seek_before, merge_load};

int merge_iter_new(struct iter **children, unsigned count, int err, struct iter **out)
{
	struct merge_iter *m = NULL;

	if (!err && count == 1) {
		*out = children[0];
		return 0;
	}
	if (!err)
		m = calloc(1, sizeof(*m) + 2 * (size_t)count * sizeof(struct iter *));
	if (!m) {
		for (unsigned i = 0; i < count; i++)
			iter_free(children[i]);
		return err ? err : -ENOMEM;
	}
	m->it.ops = &merge_ops;
	m->count = count;
	m->children = (struct iter **)(void *)(m + 1);
	m->heap = m->children + count;
	if (count)
		memcpy(m->children, children, count * sizeof(struct iter *));
	*out = &m->it;
	return 0;
}

/* ---- clipped iterators ---- */

struct clip_iter {
	struct iter it;
	struct iter *child;
	struct tfs_bytes from, to; /* to.p is NULL if there is no end */
	uint8_t bytes[];
};

static inline void clip_show(struct clip_iter *c)
{
	struct iter *child = c->child;

	c->it.valid = child->valid && (!c->to.p || bytes_cmp(child->key, c->to) < 0);
	c->it.err = child->valid ? 0 : child->err;
	c->it.key = child->key;
	c->it.size = child->size;
	c->it.value = child->value;
}

static void clip_seek(struct iter *it, struct tfs_bytes target)
{
	struct clip_iter *c = (struct clip_iter *)it;

	if (bytes_cmp(target, c->from) < 0)
		target = c->from;
	if (c->to.p && bytes_cmp(target, c->to) >= 0) {
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

static void clip_seek_before(struct iter *it, struct tfs_bytes target)
{
	struct clip_iter *c = (struct clip_iter *)it;

	if (c->to.p && (!target.p || bytes_cmp(target, c->to) > 0))
		target = c->to;
	iter_seek_before(c->child, target);
	clip_show(c);
	it->valid = it->valid && bytes_cmp(it->key, c->from) >= 0;
}

static int clip_load(struct iter *it, uint64_t offset, size_t n, struct tfs_bytes *out)
{
	return iter_load(((struct clip_iter *)it)->child, offset, n, out);
}

static const struct iter_ops clip_ops = {clip_seek, clip_next, clip_free, clip_seek_before, clip_load};

int clip_iter_new(struct iter *child, struct tfs_bytes from, struct tfs_bytes to, struct iter **out)
{
	struct clip_iter *c = calloc(1, sizeof(*c) + from.n + to.n + 1);

	if (!c) {
		iter_free(child);
		return -ENOMEM;
	}
	c->it.ops = &clip_ops;
	c->child = child;
	c->from = tfs_bytes_of(c->bytes, from.n);
	if (from.n)
		memcpy(c->bytes, from.p, from.n);
	if (to.p) {
		c->to = tfs_bytes_of(c->bytes + from.n, to.n);
		if (to.n)
			memcpy(c->bytes + from.n, to.p, to.n);
	}
	*out = &c->it;
	return 0;
}
