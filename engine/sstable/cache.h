/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to engine/sstable: open SSTables, and the cache that bounds them.
 *
 * A table is used under a pin of its struct sst (sst_pin, sst_unpin); the
 * cache closes only tables without one.  Lock order: sst_cache.lock
 * (RANK_TABLE_CACHE), then sst.lock (RANK_SSTABLE).
 */
#ifndef TFS_SSTABLE_CACHE_H
#define TFS_SSTABLE_CACHE_H

#include "engine/base/hashtable.h"
#include "engine/base/mutex.h"
#include "engine/sstable/binding.h"
#include "engine/sstable/load.h"
#include "engine/sstable/sstable.h"
#include <stdatomic.h>

enum {
	TABLES_MAX = 500, /* descriptors */
	IDLE_CURSORS = 4, /* per table; each pins at most one block */
	IDLE_SHARE = 4,   /* all idle iterators pin at most 1/IDLE_SHARE of the cache */
};

struct sst_iter {
	struct ldb_cursor c; /* first */
	struct walk walk;
	struct value_window window;
	size_t found;    /* bytes of the prefix with which sst_find found this key; 0 if sst_find did not find it */
	struct sst *sst; /* a reference and a pin, while in use */
	struct open_table *table;
	bool pooled;
	unsigned steps; /* seeks in a row that were a step */
};

/* Everything that the cache frees when it closes a file. */
struct open_table {
	struct sst *sst; /* not a reference, because the sst owns the table */
	struct ldb_table *ldb;
	struct buf filter_bytes;
	struct bff_filters filters; /* points into filter_bytes */
	bool has_filters;
	size_t weight;
	size_t block_bytes;        /* the size of the largest data block, plus 1 */
	_Atomic uint64_t last_use; /* cache->tick at the last use */
	struct sst_iter *_Atomic idle[IDLE_CURSORS];
	LIST_ENTRY(open_table) listed; /* the cache's list; its lock */
};
LIST_HEAD(open_tables, open_table);

struct sst {
	/* fixed */
	struct sst_cache *cache;
	char *path;
	bool in_memory;
	_Atomic uint64_t bytes; /* the size that the file must have; 0: any */
	struct lru_file *file;  /* its blocks and cells in the cache */
	/* atomic */
	_Atomic unsigned refs;
	_Atomic bool retired;
	_Atomic unsigned shares; /* tablets that list it */
	_Atomic unsigned pins;
	/* Set under lock.  The cache clears it under lock and stores it back if pins is not 0. */
	struct open_table *_Atomic table;
	/* under lock */
	struct mutex lock;
	struct cond opened;
	bool opening;
	int damaged; /* -EBADMSG if the file cannot be opened, else 0 */
	/* under the cache's lock */
	UT_hash_handle hh; /* by path */
};

struct sst_cache {
	struct lru *blocks, *memory_blocks; /* caches of blocks and cells */
	_Atomic size_t block_bytes_max, memory_block_bytes_max, table_bytes_max;
	struct ahead_env ahead;
	_Atomic uint64_t tick; /* rises with each opening */
	_Atomic bool over;     /* a bound is exceeded; the next unpin trims */
	_Atomic uint64_t probes, probe_misses, table_opens, cell_misses;
	struct blockfile_counters counters;
	sst_retired_fn *retired;
	void *retired_arg;
	_Atomic uint64_t listed_bytes; /* the sum over all SSTables in `listed` */
	struct mutex lock;
	/* under lock */
	struct open_tables open; /* the last opened first */
	struct sst *listed;      /* all SSTables, by path; an SSTable whose last reference is being returned may still be listed */
	size_t table_bytes;
	_Atomic size_t tables; /* read by all */
};

static inline struct lru *sst_lru(const struct sst *s)
{
	return s->in_memory ? s->cache->memory_blocks : s->cache->blocks;
}

/* cache.c */
/* Lists a table that was just opened and is pinned.  Closes others if a bound is exceeded. */
void cache_enter(struct sst_cache *c, struct open_table *t);
/* Closes unpinned tables, least recently used first, until the bounds hold. */
void cache_trim(struct sst_cache *c);
/* *out: fresh, which is now listed, or a reference to the listed SSTable of the same path.  On error fresh is not listed. */
int cache_intern(struct sst_cache *c, struct sst *fresh, struct sst **out) TFS_MUST;
/* Called by the last put of s: removes it from the list and closes its table. */
void cache_unlist(struct sst_cache *c, struct sst *s);

/* open_table.c */
/* Opens the file of s.  -EBADMSG, -EIO if the file is missing. */
int open_table_new(struct sst *s, struct open_table **out) TFS_MUST;
void open_table_close(struct open_table *t); /* closes the table and its idle iterators; NULL is allowed */
void open_table_iter_free(struct sst_iter *it);

/* sst.c */
int sst_pin(struct sst *s, struct open_table **out) TFS_MUST;
void sst_unpin(struct sst *s);
/* Takes the caller's pin; *out is a struct ldb_cursor too. */
int sst_iter_take(struct sst *s, struct open_table *t, bool pooled, struct iter **out) TFS_MUST;

#endif
