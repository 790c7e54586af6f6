/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ordered iterators over (key, value) pairs in bytewise key order: what a
 * memtable, an SSTable and a merge of several have in common.
 *
 * An iterator starts unpositioned.  key and value are borrowed and valid
 * until the next seek, next or free.  When valid is false, err tells the end
 * (0) from a failure (-EBADMSG damage, -EIO, -ENOMEM); after a failure only
 * another seek or free is allowed.
 * Threads: one thread at a time.
 */
#ifndef TFS_BASE_ITER_H
#define TFS_BASE_ITER_H

#include "engine/base/bytes.h"

struct iter;
struct iter_ops {
	void (*seek)(struct iter *it, struct slice target); /* first key >= target */
	void (*next)(struct iter *it);                      /* only when valid */
	void (*free)(struct iter *it);
};
struct iter {
	const struct iter_ops *ops;
	struct slice key, value;
	bool valid;
	int err;
};
static inline void iter_seek(struct iter *it, struct slice target)
{
	it->ops->seek(it, target);
}
static inline void iter_next(struct iter *it)
{
	it->ops->next(it);
}
static inline void iter_free(struct iter *it)
{
	if (it)
		it->ops->free(it);
}

#endif
