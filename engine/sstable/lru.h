/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two-level cache of the paper's section 6 under one bound: blocks as
 * LevelDB reads them, and single cells that point reads have found, the
 * paper's Scan Cache.  lru.c describes the eviction.
 *
 * No entry is ever invalidated, because a file never changes.  The entries of a
 * removed file are evicted first.
 *
 * Threads: all.  Ownership: find and add return an entry that stays valid until
 * lru_release.
 */
#ifndef TFS_SSTABLE_LRU_H
#define TFS_SSTABLE_LRU_H

#include "engine/base/bytes.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
	LRU_CELL_MAX = 16 << 10, /* key and value; a larger cell is a large part of its block */
};

struct lru;
struct lru_entry;
/* Frees a block; how was passed to lru_block_add. */
typedef void lru_drop_fn(struct tfs_bytes key, void *block, void (*how)(void));

int lru_new(size_t bytes, lru_drop_fn *drop, struct lru **out) TFS_MUST;
void lru_resize(struct lru *c, size_t bytes);
void lru_free(struct lru *c); /* after the release of all entries */
struct lru_stats {
	size_t block_bytes, cell_bytes;
	uint64_t cell_hits, block_hits, block_misses;
};
void lru_get_stats(struct lru *c, struct lru_stats *s);

/* A file: its number is part of its blocks' keys, and its cells point to it. */
struct lru_file;
int lru_file_new(struct lru *c, struct lru_file **out) TFS_MUST;
uint64_t lru_file_number(const struct lru_file *f);
/* The file was removed or will not be read again. */
void lru_file_free(struct lru_file *f);

/* ---- blocks ---- */
struct lru_entry *lru_block_find(struct lru *c, struct tfs_bytes key);
/* Takes the block, and replaces a block of the same key.  Returns NULL if out of memory; the block then stays the caller's. */
struct lru_entry *lru_block_add(struct lru *c, struct tfs_bytes key, void *block, size_t bytes, void (*how)(void));
void *lru_block(struct lru_entry *e);

/* ---- cells ---- */
/* Returns the cell that was added as the file's first one with this prefix; NULL if there is none. */
struct lru_entry *lru_cell_find(struct lru *c, struct lru_file *f, struct tfs_bytes prefix);
/*
 * Adds the first cell of the file whose key begins with the first prefix_bytes
 * of key.  evict: other cells may be evicted for it.  May do nothing.
 */
void lru_cell_add(struct lru *c, struct lru_file *f, size_t prefix_bytes, struct tfs_bytes key, struct tfs_bytes value, bool evict);
struct tfs_bytes lru_cell_key(const struct lru_entry *e);
struct tfs_bytes lru_cell_value(const struct lru_entry *e);

void lru_release(struct lru *c, struct lru_entry *e);

#ifdef __cplusplus
}
#endif
#endif
