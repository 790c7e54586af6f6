/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An iterator over an SSTable that goes on behind what cannot be read, and
 * notes that it has: for listings, which are to show all that can be read.
 *
 * What was passed over may have held deletes of what comes behind, so who
 * uses this tells cells that come after a gap from those before it.
 */
#include "engine/tablet/view.h"

#include <errno.h>
#include <stdlib.h>

struct past_iter {
	struct iter it;
	struct iter *child;
	struct sst *sst;
	int *passed;
	struct buf last; /* the key it stands on, or was sought */
};

/* Takes over where the child stands or, when it failed at or behind `last`, at the first key behind that. */
static void settle(struct past_iter *p)
{
	int err = 0;

	while (!p->child->valid && is_damage(p->child->err)) {
		*p->passed = p->child->err;
		err = sst_key_behind(p->sst, buf_slice(&p->last), &p->last);
		if (err)
			break;
		iter_seek(p->child, buf_slice(&p->last));
	}
	p->it.valid = p->child->valid;
	p->it.err = p->child->valid || err == -ENOENT ? 0 : err ? err : p->child->err;
	p->it.key = p->child->key;
	p->it.value = p->child->value;
	if (p->it.valid && buf_set(&p->last, p->it.key.p, p->it.key.n)) {
		p->it.valid = false;
		p->it.err = -ENOMEM;
	}
}

static void past_seek(struct iter *it, struct slice target)
{
	struct past_iter *p = (struct past_iter *)it;
	int err = buf_set(&p->last, target.p, target.n);

	if (err) {
		p->it.valid = false;
		p->it.err = err;
		return;
	}
	iter_seek(p->child, target);
	settle(p);
}

static void past_next(struct iter *it)
{
	struct past_iter *p = (struct past_iter *)it;

	iter_next(p->child);
	settle(p);
}

static void past_free(struct iter *it)
{
	struct past_iter *p = (struct past_iter *)it;

	iter_free(p->child);
	buf_fini(&p->last);
	free(p);
}

static const struct iter_ops past_ops = {past_seek, past_next, past_free};

int skip_damage_iter_new(struct iter *child, struct sst *sst, int *passed, struct iter **out)
{
	struct past_iter *p = calloc(1, sizeof *p);

	if (!p) {
		iter_free(child);
		return -ENOMEM;
	}
	p->it.ops = &past_ops;
	p->child = child;
	p->sst = sst;
	p->passed = passed;
	*out = &p->it;
	return 0;
}
