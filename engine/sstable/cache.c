/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The caches of one server.  Blocks and cells are in lru.c.  This file bounds
 * the open tables, in bytes (index, filters, block map) and in descriptors.
 *
 * Readers of an open table must not share a lock, so a use changes no list:
 * the reader increments pins of the SSTable and stores the cache's tick in the
 * table.  The tick rises with each opening; that orders the uses as exactly
 * as eviction needs.  To close a table, a thread first removes it from its
 * SSTable and then loads pins.  A reader first increments pins and then loads
 * the table.  All four accesses are sequentially consistent, so either the
 * closer stores the table back, or the reader finds none and opens it again.
 *
 * If all tables are pinned, the bounds are exceeded and no reader is refused.
 * `over` then makes the next unpin trim.
 *
 * Rejected: a list in order of use, because all reads would share its lock;
 * closing tables under their iterators, because the descriptors stay in use.
 */
#include "engine/sstable/cache.h"
#include <errno.h>
#include <stdlib.h>

enum {
	AHEAD_SHARE = 8, /* blocks read ahead may use this fraction of the block cache's size, in addition to it */
};

int sst_cache_new(size_t block_bytes, size_t table_bytes, struct sst_cache **out)
{
	struct sst_cache *c = calloc(1, sizeof(*c));
	int err;

	if (!c)
		return -ENOMEM;
	mutex_init(&c->lock, RANK_TABLE_CACHE);
	c->block_bytes_max = block_bytes;
	c->memory_block_bytes_max = block_bytes / 4;
	c->table_bytes_max = table_bytes;
	ahead_env_init(&c->ahead, block_bytes / AHEAD_SHARE);
	err = lru_new(block_bytes, ldb_block_drop, &c->blocks);
	if (!err)
		err = lru_new(c->memory_block_bytes_max, ldb_block_drop, &c->memory_blocks);
	if (err) {
		sst_cache_free(c);
		return err;
	}
	*out = c;
	return 0;
}

void sst_cache_on_retired(struct sst_cache *c, sst_retired_fn *fn, void *arg)
{
	c->retired = fn;
	c->retired_arg = arg;
}

uint64_t sst_cache_file_bytes(const struct sst_cache *c)
{
	return c->listed_bytes;
}

void sst_cache_resize(struct sst_cache *c, size_t block_bytes, size_t table_bytes)
{
	c->block_bytes_max = block_bytes;
	c->memory_block_bytes_max = block_bytes / 4;
	c->table_bytes_max = table_bytes;
	ahead_env_resize(&c->ahead, block_bytes / AHEAD_SHARE);
	lru_resize(c->blocks, block_bytes);
	lru_resize(c->memory_blocks, block_bytes / 4);
	cache_trim(c);
}

void sst_cache_free(struct sst_cache *c)
{
	if (!c)
		return;
	ahead_env_fini(&c->ahead);
	lru_free(c->blocks);
	lru_free(c->memory_blocks);
	mutex_fini(&c->lock);
	free(c);
}

void sst_cache_get_stats(struct sst_cache *c, struct sst_cache_stats *s)
{
	struct lru_stats blocks, memory;

	lru_get_stats(c->blocks, &blocks);
	lru_get_stats(c->memory_blocks, &memory);
	*s = (struct sst_cache_stats){
		.block_bytes = blocks.block_bytes + memory.block_bytes,
		.cell_bytes = blocks.cell_bytes + memory.cell_bytes,
		.cell_hits = blocks.cell_hits + memory.cell_hits,
		.cell_misses = atomic_load_explicit(&c->cell_misses, memory_order_relaxed),
		.block_hits = blocks.block_hits + memory.block_hits,
		.block_misses = blocks.block_misses + memory.block_misses,
		.block_bytes_max = c->block_bytes_max,
		.memory_bytes = memory.block_bytes + memory.cell_bytes,
		.table_bytes_max = c->table_bytes_max,
		.blocks_read = __atomic_load_n(&c->counters.blocks_read, __ATOMIC_RELAXED),
		.bytes_read = __atomic_load_n(&c->counters.bytes_read, __ATOMIC_RELAXED),
		.table_opens = atomic_load_explicit(&c->table_opens, memory_order_relaxed),
		.probes = atomic_load_explicit(&c->probes, memory_order_relaxed),
		.probe_misses = atomic_load_explicit(&c->probe_misses, memory_order_relaxed),
	};
	mutex_lock(&c->lock);
	s->table_bytes = c->table_bytes;
	s->tables_open = c->tables;
	mutex_unlock(&c->lock);
}

static void list_remove_locked(struct sst_cache *c, struct open_table *t)
{
	LIST_REMOVE(t, listed);
	c->tables--;
	c->table_bytes -= t->weight;
}

/* Returns true if t was removed from its SSTable: no reader has t or will get it. */
static bool detach_locked(struct open_table *t)
{
	struct sst *s = t->sst;
	bool unused;

	mutex_lock(&s->lock);
	atomic_store(&s->table, NULL);
	unused = atomic_load(&s->pins) == 0;
	if (!unused)
		atomic_store(&s->table, t);
	mutex_unlock(&s->lock);
	return unused;
}

static struct open_table *oldest_unpinned_locked(struct sst_cache *c)
{
	struct open_table *t, *best = NULL;
	uint64_t best_use = UINT64_MAX;

	LIST_FOREACH (t, &c->open, listed) {
		uint64_t use = atomic_load_explicit(&t->last_use, memory_order_relaxed);

		/* Uses <= because among equals the table opened first, which is nearer to the end, is closed. */
		if (use <= best_use && atomic_load_explicit(&t->sst->pins, memory_order_relaxed) == 0) {
			best = t;
			best_use = use;
		}
	}
	return best;
}

static bool is_over_locked(const struct sst_cache *c)
{
	return c->tables > TABLES_MAX || c->table_bytes > c->table_bytes_max;
}

void cache_trim(struct sst_cache *c)
{
	struct open_tables victims = LIST_HEAD_INITIALIZER(victims);
	struct open_table *t;

	mutex_lock(&c->lock);
	while (is_over_locked(c)) {
		t = oldest_unpinned_locked(c);
		if (!t)
			break;
		if (!detach_locked(t))
			continue; /* it was pinned since then; the next search skips it */
		list_remove_locked(c, t);
		LIST_INSERT_HEAD(&victims, t, listed);
	}
	atomic_store(&c->over, is_over_locked(c));
	mutex_unlock(&c->lock);
	while ((t = LIST_FIRST(&victims))) {
		LIST_REMOVE(t, listed);
		open_table_close(t);
	}
}

void cache_enter(struct sst_cache *c, struct open_table *t)
{
	mutex_lock(&c->lock);
	LIST_INSERT_HEAD(&c->open, t, listed);
	c->tables++;
	c->table_bytes += t->weight;
	mutex_unlock(&c->lock);
	cache_trim(c);
}

/* Takes a reference, unless the last reference has been returned. */
static bool get_alive(struct sst *s)
{
	unsigned refs = atomic_load(&s->refs);

	while (refs && !atomic_compare_exchange_weak(&s->refs, &refs, refs + 1))
		;
	return refs != 0;
}

int cache_intern(struct sst_cache *c, struct sst *fresh, struct sst **out)
{
	const size_t n = strlen(fresh->path);
	struct sst *listed;
	int err = 0;

	mutex_lock(&c->lock);
	HASH_FIND(hh, c->listed, fresh->path, n, listed);
	if (listed && get_alive(listed)) {
		*out = listed;
	} else {
		if (listed)
			HASH_DEL(c->listed, listed);
		fresh->hh.tbl = NULL;
		HASH_ADD_KEYPTR(hh, c->listed, fresh->path, n, fresh);
		err = fresh->hh.tbl ? 0 : -ENOMEM;
		if (listed)
			listed->hh.tbl = NULL;
		if (!err)
			*out = fresh;
	}
	mutex_unlock(&c->lock);
	return err;
}

bool sst_in_use(struct sst_cache *c, const char *path)
{
	struct sst *s;

	mutex_lock(&c->lock);
	HASH_FIND(hh, c->listed, path, strlen(path), s);
	mutex_unlock(&c->lock);
	return s != NULL;
}

void cache_unlist(struct sst_cache *c, struct sst *s)
{
	struct open_table *t;

	mutex_lock(&c->lock);
	if (s->hh.tbl)
		HASH_DEL(c->listed, s);
	t = atomic_load(&s->table);
	if (t)
		list_remove_locked(c, t);
	mutex_unlock(&c->lock);
	if (t)
		open_table_close(t);
}
