/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Iterators over (key, value) pairs in bytewise key order: the interface of
 * memtables, SSTables and merges of several iterators.
 *
 * An iterator starts unpositioned.  key is borrowed and valid until the next seek,
 * next or free.  The value is read by iter_load, because most readers need its size
 * only and an SSTable keeps it apart.  If valid is false, err is 0 at the end
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
	/* does iter_load for a value that is not at hand; n > 0.  NULL if each value is at hand */
	int (*load)(struct iter *it, uint64_t offset, size_t n, struct tfs_bytes *out);
};
struct iter {
	const struct iter_ops *ops;
	struct tfs_bytes key;
	uint64_t size;        /* the size of the value */
	const uint8_t *value; /* the value if it is at hand, else NULL; for iter_load */
	bool valid;
	int err;
};
enum {
	ITER_PIECE_BYTES = 64 << 10
}; /* the most bytes that iter_read loads at once; an SSTable cuts large values at multiples of this number */

static inline void iter_seek(struct iter *it, struct tfs_bytes target)
{
	it->ops->seek(it, target);
}
static inline void iter_next(struct iter *it)
{
	it->ops->next(it);
}
/* Moves to the last key < target, or to the last key if target.p is NULL. The value is not set.  Before iter_next the caller must seek. */
static inline void iter_seek_before(struct iter *it, struct tfs_bytes target)
{
	it->ops->seek_before(it, target);
}
static inline void iter_free(struct iter *it)
{
	if (it)
		it->ops->free(it);
}

/*
 * *out: n bytes of the value from offset on, which must be inside it.  They are borrowed
 * until the next load, seek, next or free.  The iterator stays where it is, also after an
 * error (-EBADMSG, -EIO, -ENOMEM), and another value can be read.
 */
static inline int iter_load(struct iter *it, uint64_t offset, size_t n, struct tfs_bytes *out)
{
	if (n && !it->value)
		return it->ops->load(it, offset, n, out);
	*out = tfs_bytes_of(n ? it->value + offset : NULL, n);
	return 0;
}
/* Loads the whole value. */
static inline int iter_value(struct iter *it, struct tfs_bytes *out)
{
	return iter_load(it, 0, (size_t)it->size, out);
}
/* Copies n bytes of the value from offset on, which must be inside it. */
static inline int iter_read(struct iter *it, uint64_t offset, size_t n, void *dst)
{
	struct tfs_bytes piece;
	uint8_t *to = (uint8_t *)dst;
	size_t take;
	int err;

	for (; n; n -= take, offset += take, to += take) {
		take = (size_t)(ITER_PIECE_BYTES - offset % ITER_PIECE_BYTES);
		take = take < n ? take : n;
		err = iter_load(it, offset, take, &piece);
		if (err)
			return err;
		memcpy(to, piece.p, take);
	}
	return 0;
}

#endif
