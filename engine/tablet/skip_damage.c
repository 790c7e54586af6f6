/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An iterator over an SSTable that skips unreadable blocks.  Listings use it,
 * because they must show everything that can be read.  A value that cannot be read
 * counts as a skipped block, so the listing ends with an error.
 *
 * A skipped block may have had deletes of cells that the iterator returns
 * later.  So it reports that it has skipped a block, and the listing is marked
 * as damaged.
 */
#include "engine/tablet/view.h"

#include <stdlib.h>

struct skip_iter {
	struct iter it;
	struct iter *child;
	struct sst *sst;
	int *skipped;
	struct buf last; /* the current key, or the last target */
};

/*
 * Copies the position of the child.  If the child failed, first seeks it to the
 * first key of the next readable block.
 */
static void skip_iter_update(struct skip_iter *p)
{
	int err = 0;

	while (!p->child->valid && is_damage(p->child->err)) {
		*p->skipped = p->child->err;
		err = sst_key_behind(p->sst, buf_bytes(&p->last), &p->last);
		if (err)
			break;
		iter_seek(p->child, buf_bytes(&p->last));
	}
	p->it.valid = p->child->valid;
	p->it.err = p->child->valid || err == -ENOENT ? 0 : err ? err : p->child->err;
	p->it.key = p->child->key;
	p->it.size = p->child->size;
	p->it.value = p->child->value;
	if (p->it.valid && buf_set(&p->last, p->it.key.p, p->it.key.n)) {
		p->it.valid = false;
		p->it.err = -ENOMEM;
	}
}

static void skip_iter_seek(struct iter *it, struct tfs_bytes target)
{
	struct skip_iter *p = (struct skip_iter *)it;
	int err = buf_set(&p->last, target.p, target.n);

	if (err) {
		p->it.valid = false;
		p->it.err = err;
		return;
	}
	iter_seek(p->child, target);
	skip_iter_update(p);
}

static void skip_iter_next(struct iter *it)
{
	struct skip_iter *p = (struct skip_iter *)it;

	iter_next(p->child);
	skip_iter_update(p);
}

static void skip_iter_free(struct iter *it)
{
	struct skip_iter *p = (struct skip_iter *)it;

	iter_free(p->child);
	buf_fini(&p->last);
	free(p);
}

static int skip_iter_load(struct iter *it, uint64_t offset, size_t n, struct tfs_bytes *out)
{
	struct skip_iter *p = (struct skip_iter *)it;
	int err = iter_load(p->child, offset, n, out);

	if (is_damage(err))
		*p->skipped = err;
	return err;
}

static const struct iter_ops skip_iter_ops = {skip_iter_seek, skip_iter_next, skip_iter_free, NULL, skip_iter_load};

int skip_damage_iter_new(struct iter *child, struct sst *sst, int *skipped, struct iter **out)
{
	struct skip_iter *p = calloc(1, sizeof *p);

	if (!p) {
		iter_free(child);
		return -ENOMEM;
	}
	p->it.ops = &skip_iter_ops;
	p->child = child;
	p->sst = sst;
	p->skipped = skipped;
	*out = &p->it;
	return 0;
}
