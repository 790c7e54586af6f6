/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two-level cache of the paper's section 6 under one bound: blocks as
 * LevelDB reads them, and single cells that point reads have found, which is
 * the paper's Scan Cache (lru.c says who makes room for whom).
 *
 * Nothing here has to be invalidated: blocks and cells belong to a file that
 * never changes.  What a file that has gone leaves is the first to make room.
 *
 * Threads: all.  Ownership: find and add return an entry that the caller
 * holds until lru_release; what it names lives as long.
 */
#ifndef TFS_SSTABLE_LRU_H
#define TFS_SSTABLE_LRU_H

#include "engine/base/bytes.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
	LRU_CELL_MAX = 16 << 10, /* key and value; a larger cell is a good part of its block */
};

struct lru;
struct lru_entry;
/* Frees a block; how is what lru_block_add was given. */
typedef void lru_drop_fn(struct slice key, void *block, void (*how)(void));

int lru_new(size_t bytes, lru_drop_fn *drop, struct lru **out) TFS_MUST;
void lru_free(struct lru *c); /* nothing may be held */
struct lru_stats {
	size_t block_bytes, cell_bytes;
	uint64_t cell_hits, block_hits, block_misses;
};
void lru_get_stats(struct lru *c, struct lru_stats *s);

/* A file's number for its blocks, and the name of its cells. */
struct lru_file;
int lru_file_new(struct lru *c, struct lru_file **out) TFS_MUST;
uint64_t lru_file_number(const struct lru_file *f);
/* The file has gone, or will not be read again. */
void lru_file_free(struct lru_file *f);

/* ---- blocks ---- */
struct lru_entry *lru_block_find(struct lru *c, struct slice key);
/* Takes the block; NULL: no memory, it stays the caller's.  A block of the same key is replaced. */
struct lru_entry *lru_block_add(struct lru *c, struct slice key, void *block, size_t bytes, void (*how)(void));
void *lru_block(struct lru_entry *e);

/* ---- cells ---- */
/* The cell that was remembered as the file's first one with this prefix; NULL: none. */
struct lru_entry *lru_cell_find(struct lru *c, struct lru_file *f, struct slice prefix);
/*
 * Remembers that key, which begins with prefix_bytes of the prefix asked for,
 * is the first such one.  evict: other cells may have to go for it.  Best effort.
 */
void lru_cell_add(struct lru *c, struct lru_file *f, size_t prefix_bytes, struct slice key, struct slice value, bool evict);
struct slice lru_cell_key(const struct lru_entry *e);
struct slice lru_cell_value(const struct lru_entry *e);

void lru_release(struct lru *c, struct lru_entry *e);

#ifdef __cplusplus
}
#endif
#endif
