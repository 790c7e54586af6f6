/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cache of blocks and cells (lru.h).  Blocks and cells have one bound, in
 * 16 shards. A shard has a hash table and a queue for each of the two kinds.
 *
 * A queue is in order of arrival with a second chance: an entry that was found
 * since its arrival, or is in use, moves to the back instead of being evicted.
 * A hit sets a flag in the entry.  A new place in a list would touch the
 * entry's neighbours, each a cache miss with a million cells.
 *
 * Eviction between the kinds.  A block of small values serves reads of its
 * neighbourhood for a short time.  A cell is 60 times smaller and serves the same read
 * at any later time.  So blocks are evicted first, down to a third of the bound: random
 * reads of a table larger than the cache leave it full of the cells that were
 * read, not of their neighbours.  A block of keys serves a hundred cells of 1000 bytes,
 * so the third holds the keys of a table five times as large as the cache.  A cell expires if it was not found while WAIT
 * times the bound was read in blocks; that is about the ratio of their sizes,
 * so both kinds wait in proportion to what they save.  The cells of a removed
 * file expire at once.  Expired cells are evicted before blocks.
 *
 * A cell is stored with the whole key found and the length of the prefix that
 * was searched for.  Memtables and GC rules are applied by the caller.
 *
 * Rejected: LevelDB's LRU cache, which has one kind of entry and three cache
 * misses per hit; a separate bound for cells, because none is right for tables
 * that are only scanned.
 */
#include "engine/sstable/lru.h"

#include "engine/base/hash.h"
#include "engine/base/mutex.h"

#include <bsd/sys/queue.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

enum {
	SHARD_BITS = 4,
	SHARDS = 1 << SHARD_BITS,
	BUCKETS_MIN = 16,
	BLOCK_SHARE = 3, /* a third of the bound is reserved for blocks */
	CELL_SHARE = 8,  /* a larger cell is not added */
	WAIT = 64,
	LOOK = 8,          /* cells examined in search of an expired one */
	MALLOC_BYTES = 16, /* malloc's, for each block of memory */
};

enum kind { BLOCK, CELL, KINDS };

struct lru_file {
	_Atomic unsigned refs; /* references of the owner and of each cell */
	_Atomic bool removed;
	uint64_t number;
};

struct lru_entry {
	struct lru_entry *chain; /* bucket, or the list of entries to release */
	TAILQ_ENTRY(lru_entry) in_queue;
	uint32_t hash;
	_Atomic uint32_t refs;            /* users, and 1 while it is in the table */
	uint32_t key_bytes, prefix_bytes; /* the prefix of a block is its key */
	uint32_t charge;
	uint32_t seen; /* the shard's clock at the last hit of a cell */
	uint8_t kind;
	bool found; /* since it was added or moved to the back */
	union {
		struct {
			void *p;
			void (*how)(void);
		} block;
		struct {
			struct lru_file *file;
			size_t value_bytes;
		} cell;
	};
	uint8_t bytes[]; /* the key; then the value of a cell */
};

/* The entries of one kind: by hash, and by arrival. */
struct entries {
	struct lru_entry **bucket;
	size_t buckets;
	TAILQ_HEAD(, lru_entry) queue; /* the oldest first */
	size_t bytes, n;
};

struct shard {
	struct mutex lock;
	struct entries of[KINDS];
	size_t bytes_max;
	uint64_t read_bytes; /* bytes of the blocks that were added */
	uint64_t hits[KINDS], misses[KINDS];
} __attribute__((aligned(64)));

struct lru {
	struct shard shard[SHARDS];
	lru_drop_fn *drop;
	_Atomic uint64_t next_file;
};

/* ---- files ---- */
int lru_file_new(struct lru *c, struct lru_file **out)
{
	struct lru_file *f = malloc(sizeof(*f));

	if (!f)
		return -ENOMEM;
	atomic_init(&f->refs, 1);
	atomic_init(&f->removed, false);
	f->number = atomic_fetch_add_explicit(&c->next_file, 1, memory_order_relaxed);
	*out = f;
	return 0;
}

uint64_t lru_file_number(const struct lru_file *f)
{
	return f->number;
}

static void file_put(struct lru_file *f)
{
	if (atomic_fetch_sub_explicit(&f->refs, 1, memory_order_acq_rel) == 1)
		free(f);
}

void lru_file_free(struct lru_file *f)
{
	if (!f)
		return;
	atomic_store_explicit(&f->removed, true, memory_order_relaxed);
	file_put(f);
}

/* ---- entries ---- */
void lru_release(struct lru *c, struct lru_entry *e)
{
	if (!e || atomic_fetch_sub_explicit(&e->refs, 1, memory_order_acq_rel) != 1)
		return;
	if (e->kind == BLOCK)
		c->drop(tfs_bytes_of(e->bytes, e->key_bytes), e->block.p, e->block.how);
	else
		file_put(e->cell.file);
	free(e);
}

static void release_list(struct lru *c, struct lru_entry *dead)
{
	while (dead) {
		struct lru_entry *e = dead;

		dead = e->chain;
		lru_release(c, e);
	}
}

static struct shard *shard_of(struct lru *c, uint64_t hash)
{
	return &c->shard[hash >> (64 - SHARD_BITS)];
}

/* file: the file of a cell; NULL for a block. */
static uint64_t hash_of(const struct lru_file *file, struct tfs_bytes prefix)
{
	return hash_private(file ? file->number + 1 : 0, prefix);
}

/* ---- a shard, under its lock ---- */
static uint32_t clock_of(const struct shard *s)
{
	return (uint32_t)(s->read_bytes >> 16);
}

static size_t shard_bytes(const struct shard *s)
{
	return s->of[BLOCK].bytes + s->of[CELL].bytes;
}

static void queue_push(struct entries *q, struct lru_entry *e)
{
	TAILQ_INSERT_TAIL(&q->queue, e, in_queue);
	q->bytes += e->charge;
	q->n++;
}

static void queue_remove(struct entries *q, struct lru_entry *e)
{
	TAILQ_REMOVE(&q->queue, e, in_queue);
	q->bytes -= e->charge;
	q->n--;
}

static struct lru_entry **bucket_of(const struct entries *q, uint32_t hash)
{
	return &q->bucket[hash & (q->buckets - 1)];
}

/* Adds buckets.  Without memory for them the chains become longer. */
static void entries_grow(struct entries *q)
{
	size_t n = q->buckets * 2, before = q->buckets;
	struct lru_entry **bucket = calloc(n, sizeof(struct lru_entry *)), **old = q->bucket, *e;

	if (!bucket)
		return;
	q->bucket = bucket;
	q->buckets = n;
	for (size_t i = 0; i < before; i++)
		while ((e = old[i])) {
			old[i] = e->chain;
			e->chain = *bucket_of(q, e->hash);
			*bucket_of(q, e->hash) = e;
		}
	free(old);
}

static void shard_enter(struct shard *s, struct lru_entry *e)
{
	struct entries *q = &s->of[e->kind];
	struct lru_entry **b;

	if (q->n >= q->buckets)
		entries_grow(q);
	b = bucket_of(q, e->hash);
	e->chain = *b;
	*b = e;
	queue_push(q, e);
}

/* Moves the entry from the table to the list of entries that the caller releases after unlocking. */
static void take_out(struct shard *s, struct lru_entry *e, struct lru_entry **dead)
{
	struct entries *q = &s->of[e->kind];
	struct lru_entry **p = bucket_of(q, e->hash);

	while (*p != e)
		p = &(*p)->chain;
	*p = e->chain;
	queue_remove(q, e);
	e->chain = *dead;
	*dead = e;
}

/* Returns the entry of a queue to evict next, or NULL if all of the entries that it looks at are in use. */
static struct lru_entry *entries_victim(struct entries *q, size_t tries)
{
	for (struct lru_entry *e; q->n && tries > 0; tries--) {
		e = TAILQ_FIRST(&q->queue);

		if (!e->found && atomic_load_explicit(&e->refs, memory_order_relaxed) == 1)
			return e;
		e->found = false;
		queue_remove(q, e);
		queue_push(q, e);
	}
	return NULL;
}

static bool is_expired(const struct shard *s, const struct lru_entry *cell)
{
	return atomic_load_explicit(&cell->cell.file->removed, memory_order_relaxed) ||
		(uint64_t)(clock_of(s) - cell->seen) << 16 > WAIT * s->bytes_max;
}

static void make_room(struct shard *s, struct lru_entry **dead)
{
	struct entries *blocks = &s->of[BLOCK], *cells = &s->of[CELL];

	while (shard_bytes(s) > s->bytes_max) {
		bool block = blocks->bytes > s->bytes_max / BLOCK_SHARE;
		struct lru_entry *e = entries_victim(cells, block ? LOOK : 2 * cells->n);

		if (!e || (block && !is_expired(s, e)))
			e = entries_victim(blocks, 2 * blocks->n);
		if (!e)
			e = entries_victim(cells, 2 * cells->n);
		if (!e)
			return; /* all entries are in use, so the bound is exceeded */
		take_out(s, e, dead);
	}
}

static struct lru_entry *entry_locked(struct shard *s, uint64_t hash, const struct lru_file *file, struct tfs_bytes prefix)
{
	struct lru_entry *e = *bucket_of(&s->of[file ? CELL : BLOCK], (uint32_t)hash);

	while (e &&
		!(e->hash == (uint32_t)hash && (!file || e->cell.file == file) &&
			bytes_eq(tfs_bytes_of(e->bytes, e->prefix_bytes), prefix)))
		e = e->chain;
	return e;
}

static struct lru_entry *entry_find(struct lru *c, const struct lru_file *file, struct tfs_bytes prefix)
{
	uint64_t hash = hash_of(file, prefix);
	struct shard *s = shard_of(c, hash);
	enum kind kind = file ? CELL : BLOCK;
	struct lru_entry *e;

	mutex_lock(&s->lock);
	e = entry_locked(s, hash, file, prefix);
	if (e) {
		atomic_fetch_add_explicit(&e->refs, 1, memory_order_relaxed);
		e->found = true;
		e->seen = clock_of(s);
		s->hits[kind]++;
	} else {
		s->misses[kind]++;
	}
	mutex_unlock(&s->lock);
	return e;
}

/* ---- blocks ---- */
struct lru_entry *lru_block_find(struct lru *c, struct tfs_bytes key)
{
	return entry_find(c, NULL, key);
}

struct lru_entry *lru_block_add(struct lru *c, struct tfs_bytes key, void *block, size_t bytes, void (*how)(void))
{
	uint64_t hash = hash_of(NULL, key);
	struct shard *s = shard_of(c, hash);
	struct lru_entry *e = malloc(sizeof(*e) + key.n), *old, *dead = NULL;

	if (!e)
		return NULL;
	*e = (struct lru_entry){
		.hash = (uint32_t)hash,
		.refs = 2,
		.key_bytes = (uint32_t)key.n,
		.prefix_bytes = (uint32_t)key.n,
		.charge = (uint32_t)(bytes + sizeof(*e) + key.n + 2 * MALLOC_BYTES),
		.kind = BLOCK,
		.block = {block, how},
	};
	memcpy(e->bytes, key.p, key.n);
	mutex_lock(&s->lock);
	s->read_bytes += bytes;
	old = entry_locked(s, hash, NULL, key);
	if (old)
		take_out(s, old, &dead);
	shard_enter(s, e);
	make_room(s, &dead);
	mutex_unlock(&s->lock);
	release_list(c, dead);
	return e;
}

void *lru_block(struct lru_entry *e)
{
	return e->block.p;
}

/* ---- cells ---- */
struct lru_entry *lru_cell_find(struct lru *c, struct lru_file *f, struct tfs_bytes prefix)
{
	return entry_find(c, f, prefix);
}

void lru_cell_add(struct lru *c, struct lru_file *f, size_t prefix_bytes, struct tfs_bytes key, struct tfs_bytes value, bool evict)
{
	struct tfs_bytes prefix = tfs_bytes_of(key.p, prefix_bytes);
	uint64_t hash = hash_of(f, prefix);
	struct shard *s = shard_of(c, hash);
	size_t bytes = sizeof(struct lru_entry) + key.n + value.n;
	struct lru_entry *e, *dead = NULL;
	bool want;

	if (value.n > LRU_CELL_MAX || key.n > LRU_CELL_MAX - value.n)
		return;
	mutex_lock(&s->lock);
	want = bytes + MALLOC_BYTES <= s->bytes_max / CELL_SHARE &&
		(evict || shard_bytes(s) + bytes + MALLOC_BYTES <= s->bytes_max);
	mutex_unlock(&s->lock);
	e = want ? malloc(bytes) : NULL;
	if (!e)
		return;
	*e = (struct lru_entry){
		.hash = (uint32_t)hash,
		.refs = 1,
		.key_bytes = (uint32_t)key.n,
		.prefix_bytes = (uint32_t)prefix_bytes,
		.charge = (uint32_t)(bytes + MALLOC_BYTES),
		.kind = CELL,
		.cell = {f, value.n},
	};
	memcpy(e->bytes, key.p, key.n);
	if (value.n)
		memcpy(e->bytes + key.n, value.p, value.n);
	atomic_fetch_add_explicit(&f->refs, 1, memory_order_relaxed);
	mutex_lock(&s->lock);
	if (entry_locked(s, hash, f, prefix)) { /* another thread has added it since the search */
		dead = e;
	} else {
		e->seen = clock_of(s);
		shard_enter(s, e);
		make_room(s, &dead);
	}
	mutex_unlock(&s->lock);
	release_list(c, dead);
}

struct tfs_bytes lru_cell_key(const struct lru_entry *e)
{
	return tfs_bytes_of(e->bytes, e->key_bytes);
}

struct tfs_bytes lru_cell_value(const struct lru_entry *e)
{
	return tfs_bytes_of(e->bytes + e->key_bytes, e->cell.value_bytes);
}

/* ---- the cache ---- */
void lru_resize(struct lru *c, size_t bytes)
{
	for (unsigned i = 0; i < SHARDS; i++) {
		struct shard *s = &c->shard[i];
		struct lru_entry *dead = NULL;

		mutex_lock(&s->lock);
		s->bytes_max = (bytes + SHARDS - 1) / SHARDS;
		make_room(s, &dead);
		mutex_unlock(&s->lock);
		release_list(c, dead);
	}
}

int lru_new(size_t bytes, lru_drop_fn *drop, struct lru **out)
{
	struct lru *c = aligned_alloc(64, sizeof(*c));

	if (!c)
		return -ENOMEM;
	memset(c, 0, sizeof(*c));
	c->drop = drop;
	atomic_init(&c->next_file, 1);
	for (unsigned i = 0; i < SHARDS; i++) {
		struct shard *s = &c->shard[i];

		mutex_init(&s->lock, RANK_SSTABLE);
		s->bytes_max = (bytes + SHARDS - 1) / SHARDS;
	}
	for (unsigned i = 0; i < SHARDS * KINDS; i++) {
		struct entries *q = &c->shard[i / KINDS].of[i % KINDS];

		q->bucket = calloc(BUCKETS_MIN, sizeof(struct lru_entry *));
		q->buckets = BUCKETS_MIN;
		TAILQ_INIT(&q->queue);
		if (!q->bucket) {
			lru_free(c);
			return -ENOMEM;
		}
	}
	*out = c;
	return 0;
}

void lru_free(struct lru *c)
{
	if (!c)
		return;
	for (unsigned i = 0; i < SHARDS; i++) {
		struct shard *s = &c->shard[i];
		struct lru_entry *e;

		for (unsigned k = 0; k < KINDS; k++) {
			while ((e = TAILQ_FIRST(&s->of[k].queue))) {
				queue_remove(&s->of[k], e);
				lru_release(c, e);
			}
			free(s->of[k].bucket);
		}
		mutex_fini(&s->lock);
	}
	free(c);
}

void lru_get_stats(struct lru *c, struct lru_stats *st)
{
	*st = (struct lru_stats){0};
	for (unsigned i = 0; i < SHARDS; i++) {
		struct shard *s = &c->shard[i];

		mutex_lock(&s->lock);
		st->block_bytes += s->of[BLOCK].bytes;
		st->cell_bytes += s->of[CELL].bytes;
		st->cell_hits += s->hits[CELL];
		st->block_hits += s->hits[BLOCK];
		st->block_misses += s->misses[BLOCK];
		mutex_unlock(&s->lock);
	}
}
