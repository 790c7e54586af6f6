/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the room: SSTables that are open, and the cache that bounds them.
 *
 * A table is used under a pin of its struct sst (sst_pin, sst_unpin); the
 * cache closes only tables without one.  Lock order: sst_cache.lock
 * (RANK_TABLE_CACHE), then sst.lock (RANK_SSTABLE).
 */
#ifndef TFS_SSTABLE_CACHE_H
#define TFS_SSTABLE_CACHE_H

#include "engine/base/mutex.h"
#include "engine/sstable/binding.h"
#include "engine/sstable/sstable.h"
#include <stdatomic.h>

#define HASH_NONFATAL_OOM 1 /* or it would end the process: what could not be added has no hh.tbl */
#include <uthash.h>

enum {
	TABLES_MAX = 500, /* descriptors */
	IDLE_CURSORS = 4, /* per table; each pins at most one block */
	IDLE_SHARE = 4,   /* they all together about a quarter of the cache */
};

struct sst_iter;

/* Everything that is gone when the cache closes a file. */
struct open_table {
	struct sst *sst; /* not a reference: the sst owns the table */
	struct ldb_table *ldb;
	struct buf filter_bytes;
	struct bff_filters filters; /* points into filter_bytes */
	bool has_filters;
	size_t weight;
	size_t block_bytes;        /* of the largest data block, and 1 */
	_Atomic uint64_t last_use; /* cache->tick then */
	struct sst_iter *_Atomic idle[IDLE_CURSORS];
	struct open_table *prev, *next; /* the cache's list; its lock */
};

struct sst {
	/* fixed */
	struct sst_cache *cache;
	char *path;
	bool in_memory;
	_Atomic uint64_t bytes; /* its size is known to be this; 0: is not known */
	struct lru_file *file;  /* its blocks and cells in the cache */
	/* atomic */
	_Atomic unsigned refs;
	_Atomic bool doomed;
	_Atomic unsigned pins;
	/* Set under lock; cleared by the cache under lock, and put back there if pins then is not 0. */
	struct open_table *_Atomic table;
	/* under lock */
	struct mutex lock;
	struct cond opened;
	bool opening;
	int damaged; /* 0 or -EBADMSG, for good: the file cannot be opened */
	/* under the cache's lock */
	UT_hash_handle hh; /* by path */
};

struct sst_cache {
	struct lru *blocks, *memory_blocks; /* and cells */
	size_t block_bytes_max, memory_block_bytes_max, table_bytes_max;
	struct ahead_env ahead;
	_Atomic uint64_t tick; /* rises with each opening */
	_Atomic bool over;     /* past a bound, waiting for pins to go */
	_Atomic uint64_t probes, probe_misses, table_opens, cell_misses;
	struct blockfile_counters counters;
	struct mutex lock;
	/* under lock */
	struct open_table *head;
	struct sst *known; /* all there are; one that nobody refers to any more may still be among them */
	size_t table_bytes;
	_Atomic size_t tables; /* read by all */
};

static inline struct lru *sst_lru(const struct sst *s)
{
	return s->in_memory ? s->cache->memory_blocks : s->cache->blocks;
}

/* cache.c */
/* Enters a freshly opened (and pinned) table, then closes others beyond the bounds. */
void cache_enter(struct sst_cache *c, struct open_table *t);
/* Closes least recently used, unpinned tables until within bounds or none is left. */
void cache_trim(struct sst_cache *c);
/* *s, fresh, takes its place among those known, or is freed for the one of its path that is there.  On error it is freed. */
int cache_intern(struct sst_cache *c, struct sst **s) TFS_MUST;
/* For the last put of s: it is known no more; its table, if open, leaves the list and is closed. */
void cache_forget(struct sst_cache *c, struct sst *s);

/* sst.c */
void open_table_close(struct open_table *t);
void sst_free(struct sst *s); /* one that was never shared, or is known no more */
int sst_pin(struct sst *s, struct open_table **out) TFS_MUST;
void sst_unpin(struct sst *s);
/* Takes over a pin; *out is a struct ldb_cursor too. */
int sst_iter_take(struct sst *s, struct open_table *t, bool pooled, struct iter **out) TFS_MUST;

#endif
