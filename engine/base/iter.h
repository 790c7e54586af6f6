/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Iterators over (key, value) pairs in bytewise key order: the interface of
 * memtables, SSTables and merges of several iterators.
 *
 * An iterator starts unpositioned.  key and value are borrowed and valid
 * until the next seek, next or free.  If valid is false, err is 0 at the end
 * or the failure (-EBADMSG damage, -EIO, -ENOMEM).  After a failure only seek
 * and free are allowed.
 * Threads: one thread at a time.
 */
#ifndef TFS_BASE_ITER_H
#define TFS_BASE_ITER_H

#include "engine/base/bytes.h"

struct iter;
struct iter_ops {
	void (*seek)(struct iter *it, struct tfs_bytes target); /* first key >= target */
	void (*next)(struct iter *it);                          /* only when valid */
	void (*free)(struct iter *it);
	void (*seek_before)(struct iter *it, struct tfs_bytes target); /* iter_seek_before; NULL: not supported */
};
struct iter {
	const struct iter_ops *ops;
	struct tfs_bytes key, value;
	bool valid;
	int err;
};
static inline void iter_seek(struct iter *it, struct tfs_bytes target)
{
	it->ops->seek(it, target);
}
static inline void iter_next(struct iter *it)
{
	it->ops->next(it);
}
/* To the last key < target; target.p NULL: to the last key.  The value is not set.  Before iter_next the caller must seek. */
static inline void iter_seek_before(struct iter *it, struct tfs_bytes target)
{
	it->ops->seek_before(it, target);
}
static inline void iter_free(struct iter *it)
{
	if (it)
		it->ops->free(it);
}

#endif
