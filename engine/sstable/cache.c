/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The caches of one server: for blocks and cells lru.c's, and here the open
 * tables, bounded in bytes (index, filters, block map) and descriptors.
 *
 * Reads must not meet on a lock for a table that is open, so using one takes
 * no part in any list: it counts pins on the sst and notes the cache's tick
 * in the table.  The tick rises with each opening, so among tables the order
 * of use is known as exactly as evictions need it.  Whoever wants to close a
 * table takes it out of its sst first and looks at the pins then; a reader
 * counts itself first and looks for the table then.  One of the two sees the
 * other (all four accesses are sequentially consistent): either the closer
 * puts the table back, or the reader finds none and opens it again.
 *
 * When all tables are pinned the bounds are exceeded rather than readers
 * refused; `over` then makes the next unpin trim.
 *
 * Decided against: a list in order of use (a lock shared by all reads), and
 * closing tables under their iterators (descriptors would stay in use all
 * the same).
 */
#include "engine/sstable/cache.h"
#include <errno.h>
#include <stdlib.h>

enum {
	AHEAD_SHARE = 8, /* of the block cache's size, on top of it, for what scans read ahead */
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

void sst_cache_get_stats(const struct sst_cache *c, struct sst_cache_stats *s)
{
	struct sst_cache *m = (struct sst_cache *)c; /* to lock */
	struct lru_stats blocks, memory;

	lru_get_stats(c->blocks, &blocks);
	lru_get_stats(c->memory_blocks, &memory);
	*s = (struct sst_cache_stats){
		.block_bytes = blocks.block_bytes + memory.block_bytes,
		.cell_bytes = blocks.cell_bytes + memory.cell_bytes,
		.cell_hits = blocks.cell_hits + memory.cell_hits,
		.cell_misses = atomic_load_explicit(&m->cell_misses, memory_order_relaxed),
		.block_hits = blocks.block_hits + memory.block_hits,
		.block_misses = blocks.block_misses + memory.block_misses,
		.block_bytes_max = c->block_bytes_max,
		.memory_bytes = memory.block_bytes + memory.cell_bytes,
		.table_bytes_max = c->table_bytes_max,
		.blocks_read = __atomic_load_n(&c->counters.blocks_read, __ATOMIC_RELAXED),
		.bytes_read = __atomic_load_n(&c->counters.bytes_read, __ATOMIC_RELAXED),
		.table_opens = atomic_load_explicit(&m->table_opens, memory_order_relaxed),
		.probes = atomic_load_explicit(&m->probes, memory_order_relaxed),
		.probe_misses = atomic_load_explicit(&m->probe_misses, memory_order_relaxed),
	};
	mutex_lock(&m->lock);
	s->table_bytes = m->table_bytes;
	s->tables_open = m->tables;
	mutex_unlock(&m->lock);
}

static void list_add_locked(struct sst_cache *c, struct open_table *t)
{
	t->prev = NULL;
	t->next = c->head;
	if (c->head)
		c->head->prev = t;
	c->head = t;
	c->tables++;
	c->table_bytes += t->weight;
}

static void list_remove_locked(struct sst_cache *c, struct open_table *t)
{
	if (t->prev)
		t->prev->next = t->next;
	else
		c->head = t->next;
	if (t->next)
		t->next->prev = t->prev;
	c->tables--;
	c->table_bytes -= t->weight;
}

/* True when t left its sst: no reader has it or will get it. */
static bool detach_locked(struct open_table *t)
{
	struct sst *s = t->sst;
	bool gone;

	mutex_lock(&s->lock);
	atomic_store(&s->table, NULL);
	gone = atomic_load(&s->pins) == 0;
	if (!gone)
		atomic_store(&s->table, t);
	mutex_unlock(&s->lock);
	return gone;
}

static struct open_table *oldest_unpinned_locked(struct sst_cache *c)
{
	struct open_table *best = NULL;
	uint64_t best_use = UINT64_MAX;

	for (struct open_table *t = c->head; t; t = t->next) {
		uint64_t use = atomic_load_explicit(&t->last_use, memory_order_relaxed);

		/* <=: of equals the one opened first, which is nearer the end. */
		if (use <= best_use && atomic_load_explicit(&t->sst->pins, memory_order_relaxed) == 0) {
			best = t;
			best_use = use;
		}
	}
	return best;
}

void cache_trim(struct sst_cache *c)
{
	struct open_table *victims = NULL, *t;

	mutex_lock(&c->lock);
	while (c->tables > TABLES_MAX || c->table_bytes > c->table_bytes_max) {
		t = oldest_unpinned_locked(c);
		if (!t)
			break;
		if (!detach_locked(t))
			continue; /* pinned just now: the next search passes over it */
		list_remove_locked(c, t);
		t->next = victims;
		victims = t;
	}
	atomic_store(&c->over, c->tables > TABLES_MAX || c->table_bytes > c->table_bytes_max);
	mutex_unlock(&c->lock);
	while ((t = victims)) {
		victims = t->next;
		open_table_close(t);
	}
}

void cache_enter(struct sst_cache *c, struct open_table *t)
{
	bool over;

	mutex_lock(&c->lock);
	list_add_locked(c, t);
	over = c->tables > TABLES_MAX || c->table_bytes > c->table_bytes_max;
	mutex_unlock(&c->lock);
	if (over)
		cache_trim(c);
}

/* A reference to one that still has any: the last one's put is not to be undone. */
static bool get_alive(struct sst *s)
{
	unsigned refs = atomic_load(&s->refs);

	while (refs && !atomic_compare_exchange_weak(&s->refs, &refs, refs + 1))
		;
	return refs != 0;
}

int cache_intern(struct sst_cache *c, struct sst **s)
{
	struct sst *fresh = *s, *there;
	const size_t n = strlen(fresh->path);
	int err = 0;

	mutex_lock(&c->lock);
	HASH_FIND(hh, c->known, fresh->path, n, there);
	if (there && get_alive(there)) {
		*s = there;
	} else {
		if (there)
			HASH_DEL(c->known, there);
		fresh->hh.tbl = NULL;
		HASH_ADD_KEYPTR(hh, c->known, fresh->path, n, fresh);
		err = fresh->hh.tbl ? 0 : -ENOMEM;
		if (there)
			there->hh.tbl = NULL;
		there = NULL;
	}
	mutex_unlock(&c->lock);
	if (there || err)
		sst_free(fresh);
	return err;
}

bool sst_in_use(struct sst_cache *c, const char *path)
{
	struct sst *s;

	mutex_lock(&c->lock);
	HASH_FIND(hh, c->known, path, strlen(path), s);
	mutex_unlock(&c->lock);
	return s != NULL;
}

void cache_forget(struct sst_cache *c, struct sst *s)
{
	struct open_table *t;

	mutex_lock(&c->lock);
	if (s->hh.tbl)
		HASH_DEL(c->known, s);
	t = atomic_load(&s->table);
	if (t)
		list_remove_locked(c, t);
	mutex_unlock(&c->lock);
	if (t)
		open_table_close(t);
}
