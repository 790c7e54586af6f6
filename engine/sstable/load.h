/* SPDX-License-Identifier: Apache-2.0 */
/* Loading values from their units.  A window belongs to one iterator. */
#ifndef TFS_SSTABLE_LOAD_H
#define TFS_SSTABLE_LOAD_H

#include "engine/sstable/blockfile.h"
#include "engine/sstable/lru.h"
#include "engine/sstable/value.h"

#ifdef __cplusplus
extern "C" {
#endif

struct value_window {
	struct blockfile_window units;
	struct buf large; /* a value of several units */
	/* The cache of units of an in-memory group; NULL for other groups, whose units are not cached. */
	struct lru *cache;
	uint64_t file;          /* the file's number in the cache */
	struct lru_entry *held; /* the unit of the last value */
};
void value_window_fini(struct value_window *w);
/* Releases the unit that it holds in the cache. */
void value_window_release(struct value_window *w);
/* *out: n > 0 bytes of the value, not an inline one, borrowed until the next call.  Errors: blockfile_read's. */
int value_load(struct blockfile *b, struct value_window *w, const struct value_ref *v, uint64_t offset, size_t n,
	struct tfs_bytes *out) TFS_MUST;

#ifdef __cplusplus
}
#endif
#endif
