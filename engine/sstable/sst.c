/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One SSTable: references, opening at first use, iterators.
 *
 * There are two counts.  refs keep the struct alive; pins keep the file open.
 * The last reference to a retired SSTable reports it to the owner of the cache.
 *
 * A seek in an open table increments pins, loads the table, takes an idle
 * iterator from one of four slots by an atomic exchange, seeks, stores the
 * iterator back and decrements pins.  It takes no lock and allocates nothing.
 * If the key is in the block of that iterator's last seek, it does not search
 * the block cache either.  Point reads try more before that (find.c).
 *
 * If several threads need a closed table, the first thread opens it, without a
 * lock, and the rest wait on `opened`.  A damaged file is not opened again, so
 * that it is read and logged once.  After any other failure the next reader
 * tries again.
 */
#include "engine/base/file.h"
#include "engine/base/msg.h"
#include "engine/sstable/cache.h"
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

enum {
	POOLED_VALUE_MAX = 192 << 10, /* the most bytes of values that an idle iterator keeps */
	SHORT_SHARE = 64,             /* a scan of less than this part of the block cache enters its units into it */
	STEPS_MIN = 64,               /* point reads in key order before blocks are read ahead of them */
};

/* ---- the object ---- */
static void sst_free(struct sst *s)
{
	cond_fini(&s->opened);
	mutex_fini(&s->lock);
	lru_file_free(s->file);
	free(s->path);
	free(s);
}

/*
 * A file has one object, even if several tablets use it.  So a file that the
 * children of a split share is cached once, and its last reader is known.
 */
int sst_new(struct sst_cache *c, const char *path, bool in_memory, struct sst **out)
{
	struct sst *s = calloc(1, sizeof(*s));
	int err = -ENOMEM;

	if (!s)
		return -ENOMEM;
	s->cache = c;
	s->in_memory = in_memory;
	mutex_init(&s->lock, RANK_SSTABLE);
	cond_init(&s->opened);
	atomic_store(&s->refs, 1);
	s->path = strdup(path);
	if (s->path && !lru_file_new(sst_lru(s), &s->file))
		err = cache_intern(c, s, out);
	if (err || *out != s)
		sst_free(s);
	return err;
}

void sst_expect_bytes(struct sst *s, uint64_t bytes)
{
	atomic_fetch_add(&s->cache->listed_bytes, bytes - atomic_exchange(&s->bytes, bytes));
}

void sst_put(struct sst *s)
{
	if (!s || atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1)
		return;
	assert(atomic_load(&s->pins) == 0);
	cache_unlist(s->cache, s);
	atomic_fetch_sub(&s->cache->listed_bytes, s->bytes);
	if (atomic_load(&s->retired) && s->cache->retired)
		s->cache->retired(s->cache->retired_arg, s->path);
	sst_free(s);
}

void sst_retire(struct sst *s)
{
	atomic_store(&s->retired, true);
}

void sst_share(struct sst *s, int by)
{
	atomic_fetch_add(&s->shares, (unsigned)by);
}

bool sst_shared(const struct sst *s)
{
	return atomic_load(&s->shares) > 1;
}

unsigned sst_shares(const struct sst *s)
{
	const unsigned n = atomic_load(&s->shares);

	return n ? n : 1;
}

const char *sst_path(const struct sst *s)
{
	return s->path;
}

/* ---- opening ---- */
/* The caller has incremented pins, so the table stays open. */
static int pin_slowly(struct sst *s, struct open_table **out)
{
	struct open_table *t;
	int err;

	mutex_lock(&s->lock);
	while (s->opening)
		cond_wait(&s->opened, &s->lock);
	t = atomic_load(&s->table);
	err = t ? 0 : s->damaged;
	s->opening = !t && !err;
	mutex_unlock(&s->lock);
	if (t)
		*out = t;
	if (t || err)
		return err;

	err = open_table_new(s, &t);
	if (!err)
		atomic_store(&t->last_use, atomic_fetch_add(&s->cache->tick, 1) + 1);
	mutex_lock(&s->lock);
	s->opening = false;
	if (!err)
		atomic_store(&s->table, t);
	else if (err == -EBADMSG)
		s->damaged = err;
	cond_broadcast(&s->opened);
	mutex_unlock(&s->lock);
	if (err)
		return err;
	cache_enter(s->cache, t);
	*out = t;
	return 0;
}

int sst_pin(struct sst *s, struct open_table **out)
{
	struct open_table *t;
	uint64_t tick;
	int err;

	atomic_fetch_add(&s->pins, 1);
	t = atomic_load(&s->table);
	if (!t) {
		err = pin_slowly(s, out);
		if (err)
			sst_unpin(s);
		return err;
	}
	tick = atomic_load_explicit(&s->cache->tick, memory_order_relaxed);
	if (atomic_load_explicit(&t->last_use, memory_order_relaxed) != tick)
		atomic_store_explicit(&t->last_use, tick, memory_order_relaxed);
	*out = t;
	return 0;
}

void sst_unpin(struct sst *s)
{
	struct sst_cache *c = s->cache;

	if (atomic_fetch_sub(&s->pins, 1) == 1 && atomic_load_explicit(&c->over, memory_order_relaxed))
		cache_trim(c);
}

/* ---- iterators ---- */
/* The slot that a thread tries first.  Two threads that read in key order would otherwise move each other's iterators. */
static unsigned own_slot(void)
{
	static _Atomic unsigned threads;
	static __thread unsigned slot; /* plus 1; 0: none yet */

	if (!slot)
		slot = atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed) % IDLE_CURSORS + 1;
	return slot - 1;
}

/* Returns how many idle iterators a table may have.  The cache cannot evict the blocks that they pin. */
static size_t idle_max(const struct sst *s, const struct open_table *t)
{
	const struct sst_cache *c = s->cache;
	size_t bytes = (s->in_memory ? c->memory_block_bytes_max : c->block_bytes_max) / IDLE_SHARE;
	size_t count = bytes / (t->block_bytes * (atomic_load_explicit(&c->tables, memory_order_relaxed) + 1));

	return count < IDLE_CURSORS ? count : IDLE_CURSORS;
}

/* Blocks are copied into the block cache unless the file is larger than half of the cache. */
static void walk_from(struct sst_iter *it)
{
	const struct sst *s = it->sst;
	struct blockfile *b = ldb_table_file(it->table->ldb);

	walk_init(&it->walk, &s->cache->ahead, b, s->in_memory || blockfile_trailer(b)->raw_bytes <= s->cache->block_bytes_max / 2);
	it->c.walk = &it->walk;
}

/*
 * Called before the iterator becomes idle.  Point reads in key order are a
 * walk too, and their iterator keeps its walk.  Returns false if the iterator
 * must be freed: its walk's buffers are not kept, and its block may be one.
 */
static bool note_steps(struct sst_iter *it)
{
	if (it->c.rising && ++it->steps >= STEPS_MIN) {
		if (!it->c.walk)
			walk_from(it);
		return walk_may_idle(&it->walk);
	}
	if (!it->c.rising)
		it->steps = 0;
	it->c.walk = NULL;
	return !it->walk.ahead;
}

static void sst_iter_free(struct iter *iter)
{
	struct sst_iter *it = (struct sst_iter *)iter;
	struct sst *s = it->sst;
	struct open_table *t = it->table;
	bool keep = it->pooled && it->c.ldb && note_steps(it);

	value_window_release(&it->window);
	if (keep && it->window.units.raw.cap + it->window.units.ahead.cap + it->window.large.cap > POOLED_VALUE_MAX)
		value_window_fini(&it->window);

	for (size_t i = 0, n = keep ? idle_max(s, t) : 0, first = own_slot(); i < n; i++) {
		struct sst_iter *_Atomic *slot = &t->idle[(first + i) % n];
		struct sst_iter *none = NULL;

		if (atomic_load_explicit(slot, memory_order_relaxed) == NULL && atomic_compare_exchange_strong(slot, &none, it)) {
			it = NULL;
			break;
		}
	}
	if (it)
		open_table_iter_free(it);
	sst_unpin(s);
	sst_put(s);
}

static void sst_iter_seek(struct iter *iter, struct tfs_bytes target)
{
	((struct sst_iter *)iter)->found = 0;
	ldb_cursor_seek(iter, target);
}

static void sst_iter_next(struct iter *iter)
{
	((struct sst_iter *)iter)->found = 0;
	ldb_cursor_next(iter);
}

/* A value that a point read has found and loads as a whole enters the cell cache. */
static int sst_iter_load(struct iter *iter, uint64_t offset, size_t n, struct tfs_bytes *out)
{
	struct sst_iter *it = (struct sst_iter *)iter;
	struct sst *s = it->sst;
	int err = value_load(ldb_table_file(it->table->ldb), &it->window, &it->c.value, offset, n, out);

	if (!err && it->found && n == iter->size) {
		lru_cell_add(sst_lru(s), s->file, it->found, iter->key, *out, true);
		it->found = 0;
	}
	return err;
}

static const struct iter_ops sst_iter_ops = {sst_iter_seek, sst_iter_next, sst_iter_free, ldb_cursor_seek_before, sst_iter_load};

static struct sst_iter *take_idle(struct open_table *t)
{
	unsigned first = own_slot();

	for (unsigned i = 0; i < IDLE_CURSORS; i++) {
		struct sst_iter *_Atomic *slot = &t->idle[(first + i) % IDLE_CURSORS];
		struct sst_iter *it;

		if (atomic_load_explicit(slot, memory_order_relaxed) == NULL)
			continue;
		it = atomic_exchange(slot, NULL);
		if (it)
			return it;
	}
	return NULL;
}

int sst_iter_take(struct sst *s, struct open_table *t, bool pooled, struct iter **out)
{
	struct sst_iter *it = pooled ? take_idle(t) : NULL;

	if (!it) {
		it = calloc(1, sizeof(*it));
		if (!it) {
			sst_unpin(s);
			return -ENOMEM;
		}
		it->c.it.ops = &sst_iter_ops;
		it->c.table = t->ldb;
		it->c.fill_cache = pooled;
		it->table = t;
		it->pooled = pooled;
	}
	atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
	it->sst = s;
	it->found = 0;
	it->window.cache = s->in_memory && pooled ? sst_lru(s) : NULL;
	it->window.file = lru_file_number(s->file);
	it->c.it.valid = false;
	it->c.it.err = 0;
	it->walk.expected = 0;
	*out = &it->c.it;
	return 0;
}

static int iter_new(struct sst *s, bool pooled, struct iter **out)
{
	struct open_table *t;
	int err = sst_pin(s, &t);

	return err ? err : sst_iter_take(s, t, pooled, out);
}

int sst_iter_new(struct sst *s, struct iter **out)
{
	return iter_new(s, true, out);
}

int sst_walk_new(struct sst *s, struct iter **out)
{
	int err = iter_new(s, true, out);

	if (!err && !((struct sst_iter *)*out)->c.walk)
		walk_from((struct sst_iter *)*out);
	return err;
}

void sst_iter_expect(struct iter *it, uint64_t bytes)
{
	struct sst_iter *s = (struct sst_iter *)it;

	struct blockfile *b = ldb_table_file(s->table->ldb);
	const double blocks = (double)blockfile_trailer(b)->raw_bytes, units = (double)blockfile_map(b)->unit_bytes;

	if (s->pooled && bytes < s->sst->cache->block_bytes_max / SHORT_SHARE)
		s->window.cache = sst_lru(s->sst);
	s->walk.expected = (uint64_t)((double)bytes * blocks / (blocks + units)) + 2 * s->table->block_bytes;
}

int sst_scan_new(struct sst *s, struct iter **out)
{
	return iter_new(s, false, out);
}

/* ---- properties ---- */
/* Reads the file of a closed table without opening the table: a count of all tables would close the tables in use. */
int sst_properties(struct sst *s, struct buf *out)
{
	struct buf bytes = {0};
	struct open_table *t;
	int err;

	atomic_fetch_add(&s->pins, 1);
	t = atomic_load(&s->table);
	if (t)
		err = blockfile_section(ldb_table_file(t->ldb), BFF_PROPERTIES, &bytes);
	else
		err = blockfile_peek(s->path, s->bytes, &s->cache->counters, BFF_PROPERTIES, &bytes);
	sst_unpin(s);
	if (err) {
		buf_fini(&bytes);
		return err == -ENOENT ? -EIO : err; /* the file is missing, not the cell */
	}
	buf_fini(out);
	*out = bytes;
	return 0;
}

int sst_layout(struct sst *s, struct sst_layout *l)
{
	struct open_table *t;
	struct blockfile *b;
	const struct bff_trailer *tr;
	int err = sst_pin(s, &t);

	if (err)
		return err;
	b = ldb_table_file(t->ldb);
	tr = blockfile_trailer(b);
	*l = (struct sst_layout){
		.file_bytes = blockfile_file_bytes(b),
		.raw_bytes = tr->raw_bytes + blockfile_map(b)->unit_bytes,
		.blocks = tr->blocks,
		.units = blockfile_map(b)->units,
		.filter_bytes = tr->section[BFF_FILTERS].bytes,
		.filter_partitions = tr->partitions,
		.map_bytes = tr->section[BFF_MAP].bytes,
		.codec = tr->codec,
	};
	sst_unpin(s);
	return 0;
}
