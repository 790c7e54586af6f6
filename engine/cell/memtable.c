/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memtable: a skip list (p = 1/4, at most 12 levels) over two lock-free
 * bump arenas, one for nodes with their keys, one for values, so that the
 * search walks dense memory.
 *
 * Concurrency.  One thread inserts at a time and nothing is removed.  A node
 * is complete, its own links included, before a release store makes it
 * reachable, lowest level first.  Readers load links with acquire, so they see
 * either the old list or the whole new node.  Nodes live as long as the
 * memtable.  memtable_prepare only allocates memory, from an arena whose blocks
 * are filled by an atomic add and replaced by a compare-and-swap.  A thread
 * that loses the race to replace a block frees its own.
 *
 * Speed.  A node's links lie below its address and its key right above, so a
 * comparison mostly needs one cache line.  While a node is compared, the node
 * that a search on the next level compares is prefetched.  The
 * inserter remembers the splice of its last insert: keys that rise into the
 * same gap (sequential writes, the cells of a row) need no search.  A memtable
 * that has grown gets huge pages, each of which the kernel zeroes and maps once
 * instead of 512 times.
 *
 * Rejected: caching key prefixes in the links (rows share prefixes,
 * so it helped little), one list per locality group (a row mutation would
 * not become visible at once).
 */
#include "engine/cell/memtable.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

enum {
	MAX_HEIGHT = 12,
	FIRST_BLOCK_BYTES = 4 * 1024,
	LAST_BLOCK_BYTES = 1024 * 1024,
	HUGE_BLOCK_BYTES = 2 * 1024 * 1024, /* a huge page */
	HUGE_AFTER_BYTES = 4 * 1024 * 1024, /* an arena of this size grows by huge blocks */
	INLINE_VALUE_BYTES = 32,            /* values up to this are stored after the key */
};

/* ---- arena ---- */
struct block {
	struct block *older;
	size_t size;
	_Atomic size_t used; /* exceeds size if the block is full */
	_Alignas(16) uint8_t bytes[];
};

struct bump {
	struct block *_Atomic current;
	struct block *_Atomic large; /* one allocation each */
	_Atomic size_t held;
};

static struct block *block_new(size_t size)
{
	struct block *b = malloc(sizeof(*b) + size);

	if (b) {
		b->older = NULL;
		b->size = size;
		atomic_init(&b->used, 0);
	}
	return b;
}

/* Mapped, because malloc would reuse its memory for small blocks.  Without huge pages it is ordinary memory. */
static struct block *block_new_huge(void)
{
	uint8_t *p = mmap(NULL, 2 * HUGE_BLOCK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *at;
	struct block *b;

	if (p == MAP_FAILED)
		return NULL;
	at = p + (-(uintptr_t)p & (HUGE_BLOCK_BYTES - 1));
	if (at != p)
		(void)!munmap(p, (size_t)(at - p));
	(void)!munmap(at + HUGE_BLOCK_BYTES, (size_t)(p + HUGE_BLOCK_BYTES - at));
	(void)!madvise(at, HUGE_BLOCK_BYTES, MADV_HUGEPAGE);
	b = (struct block *)(void *)at;
	b->older = NULL;
	b->size = HUGE_BLOCK_BYTES - sizeof(*b);
	atomic_init(&b->used, 0);
	return b;
}

static void block_free(struct block *b)
{
	if (b->size == HUGE_BLOCK_BYTES - sizeof(*b))
		(void)!munmap(b, HUGE_BLOCK_BYTES);
	else
		free(b);
}

static void blocks_free(struct block *b)
{
	while (b) {
		struct block *older = b->older;

		block_free(b);
		b = older;
	}
}

static void *bump_large(struct bump *a, size_t n)
{
	struct block *b = block_new(n);

	if (!b)
		return NULL;
	b->older = atomic_load_explicit(&a->large, memory_order_relaxed);
	while (!atomic_compare_exchange_weak_explicit(&a->large, &b->older, b, memory_order_release, memory_order_relaxed))
		;
	atomic_fetch_add_explicit(&a->held, sizeof(*b) + n, memory_order_relaxed);
	return b->bytes;
}

/* Returns 8-aligned memory, freed with the arena; NULL if out of memory. */
static void *bump_alloc(struct bump *a, size_t n)
{
	n = (n + 7) & ~(size_t)7;
	for (;;) {
		struct block *b = atomic_load_explicit(&a->current, memory_order_acquire), *fresh;
		size_t size = FIRST_BLOCK_BYTES;

		if (b) {
			size_t at = n <= b->size ? atomic_fetch_add_explicit(&b->used, n, memory_order_relaxed) : b->size;

			if (at <= b->size && n <= b->size - at)
				return b->bytes + at;
			size = b->size * 2 < LAST_BLOCK_BYTES ? b->size * 2 : LAST_BLOCK_BYTES;
		}
		if (n > size / 4)
			return bump_large(a, n);
		fresh = atomic_load_explicit(&a->held, memory_order_relaxed) < HUGE_AFTER_BYTES ? block_new(size)
												: block_new_huge();
		if (!fresh)
			return NULL;
		fresh->older = b;
		atomic_init(&fresh->used, n);
		if (atomic_compare_exchange_strong_explicit(&a->current, &b, fresh, memory_order_acq_rel, memory_order_relaxed)) {
			atomic_fetch_add_explicit(&a->held, sizeof(*fresh) + fresh->size, memory_order_relaxed);
			return fresh->bytes;
		}
		block_free(fresh);
	}
}

static void bump_fini(struct bump *a)
{
	blocks_free(atomic_load(&a->current));
	blocks_free(atomic_load(&a->large));
}

/* ---- nodes ---- */
struct memnode {
	/* Links lie below: level i at ((link *)node)[-1 - i]. */
	const uint8_t *value;
	uint32_t key_bytes, value_bytes;
	uint8_t height;
	uint8_t key[];
};
typedef struct memnode *_Atomic link;

static inline link *node_link(const struct memnode *n, int level)
{
	return (link *)(uintptr_t)n - 1 - level;
}

static inline struct memnode *node_next(const struct memnode *n, int level)
{
	return atomic_load_explicit(node_link(n, level), memory_order_acquire);
}

static inline struct tfs_bytes node_key(const struct memnode *n)
{
	return tfs_bytes_of(n->key, n->key_bytes);
}

struct memtable {
	_Atomic unsigned refs;
	_Atomic int height;
	_Atomic uint64_t count;
	_Atomic uint64_t draws; /* counts draws; a node's height is derived from it */
	struct bump nodes, values;
	struct memnode *head;
	/* The inserter's: per level the last node at or before the last insert. */
	struct memnode *splice[MAX_HEIGHT];
	struct memnode *last;
};

static struct memnode *node_alloc(struct memtable *m, int height, size_t tail)
{
	uint8_t *p = bump_alloc(&m->nodes, (size_t)height * sizeof(link) + sizeof(struct memnode) + tail);
	struct memnode *n;

	if (!p)
		return NULL;
	n = (struct memnode *)(void *)(p + (size_t)height * sizeof(link));
	n->height = (uint8_t)height;
	return n;
}

int memtable_new(struct memtable **out)
{
	struct memtable *m = calloc(1, sizeof(*m));

	if (!m)
		return -ENOMEM;
	atomic_init(&m->refs, 1);
	atomic_init(&m->height, 1);
	m->head = node_alloc(m, MAX_HEIGHT, 0);
	if (!m->head) {
		free(m);
		return -ENOMEM;
	}
	for (int i = 0; i < MAX_HEIGHT; i++) {
		atomic_init(node_link(m->head, i), NULL);
		m->splice[i] = m->head;
	}
	*out = m;
	return 0;
}

void memtable_put(struct memtable *m)
{
	if (!m || atomic_fetch_sub_explicit(&m->refs, 1, memory_order_acq_rel) != 1)
		return;
	bump_fini(&m->nodes);
	bump_fini(&m->values);
	free(m);
}

size_t memtable_bytes(const struct memtable *m)
{
	return sizeof(*m) + atomic_load_explicit(&m->nodes.held, memory_order_relaxed) +
		atomic_load_explicit(&m->values.held, memory_order_relaxed);
}

uint64_t memtable_count(const struct memtable *m)
{
	return atomic_load_explicit(&m->count, memory_order_relaxed);
}

static int draw_height(struct memtable *m)
{
	/* splitmix64 of a counter, which is the only shared state */
	uint64_t z = atomic_fetch_add_explicit(&m->draws, 1, memory_order_relaxed) * UINT64_C(0x9E3779B97F4A7C15);
	int h = 1;

	z += (uintptr_t)m;
	z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
	z ^= z >> 31;
	while (h < MAX_HEIGHT && (z & 3) == 0) {
		h++;
		z >>= 2;
	}
	return h;
}

int memtable_prepare(struct memtable *m, struct tfs_bytes key, struct tfs_bytes value, struct memnode **out)
{
	bool inlined = value.n <= INLINE_VALUE_BYTES;
	struct memnode *n;
	uint8_t *v;

	if (key.n > UINT32_MAX / 2 || value.n > UINT32_MAX / 2)
		return -EINVAL;
	n = node_alloc(m, draw_height(m), key.n + (inlined ? value.n : 0));
	if (!n)
		return -ENOMEM;
	v = inlined ? n->key + key.n : bump_alloc(&m->values, value.n);
	if (!v)
		return -ENOMEM;
	if (key.n)
		memcpy(n->key, key.p, key.n);
	if (value.n)
		memcpy(v, value.p, value.n);
	n->value = v;
	n->key_bytes = (uint32_t)key.n;
	n->value_bytes = (uint32_t)value.n;
	*out = n;
	return 0;
}

/*
 * Searches from x, which is before key at `level`.  Returns the first node at
 * or after key, or NULL.  splice, unless NULL: per level the last node before key.
 */
static inline struct memnode *memtable_search(struct memnode *x, int level, struct tfs_bytes key, struct memnode **splice)
{
	struct memnode *not_before = NULL;

	for (;;) {
		struct memnode *next = node_next(x, level);

		if (level > 0)
			__builtin_prefetch(node_next(x, level - 1));
		if (next && next != not_before) {
			__builtin_prefetch(node_next(next, level));
			if (bytes_cmp(node_key(next), key) < 0) {
				x = next;
				continue;
			}
		}
		not_before = next;
		if (splice)
			splice[level] = x;
		if (level-- == 0)
			return next;
	}
}

/* Finds the splice for a key above the last inserted key: climbs from the last splice as far as needed, then descends. */
static void memtable_search_near(struct memtable *m, struct tfs_bytes key, int height)
{
	int level = 1;

	for (; level < height; level++) {
		struct memnode *next = node_next(m->splice[level], level);

		if (!next || bytes_cmp(node_key(next), key) >= 0)
			break;
	}
	(void)memtable_search(m->splice[level - 1], level - 1, key, m->splice);
}

void memtable_insert(struct memtable *m, struct memnode *n, bool near)
{
	int height = atomic_load_explicit(&m->height, memory_order_relaxed);
	struct tfs_bytes key = node_key(n);
	struct memnode *after = m->last ? node_next(m->last, 0) : NULL;

	/*
	 * Between the last insert and the next key, the splice is still valid:
	 * on every level the next node lies past this gap.
	 */
	if (!m->last || bytes_cmp(node_key(m->last), key) >= 0)
		(void)memtable_search(m->head, height - 1, key, m->splice);
	else if (after && bytes_cmp(node_key(after), key) <= 0) {
		if (near)
			memtable_search_near(m, key, height);
		else
			(void)memtable_search(m->head, height - 1, key, m->splice);
	}
	if (n->height > height) {
		/* levels above are empty: their splice is still the head */
		atomic_store_explicit(&m->height, n->height, memory_order_relaxed);
	}
	for (int i = 0; i < n->height; i++)
		atomic_store_explicit(node_link(n, i), node_next(m->splice[i], i), memory_order_relaxed);
	for (int i = 0; i < n->height; i++) {
		atomic_store_explicit(node_link(m->splice[i], i), n, memory_order_release);
		m->splice[i] = n;
	}
	m->last = n;
	atomic_fetch_add_explicit(&m->count, 1, memory_order_relaxed);
}

/* ---- iterator ---- */
static inline void mem_iter_show(struct mem_iter *mi)
{
	struct memnode *n = mi->at;

	mi->it.valid = n != NULL;
	if (!n)
		return;
	mi->it.key = node_key(n);
	mi->it.size = n->value_bytes;
	mi->it.value = n->value;
	__builtin_prefetch(node_next(n, 0));
}

static void mem_iter_seek(struct iter *it, struct tfs_bytes target)
{
	struct mem_iter *mi = (struct mem_iter *)it;

	mi->at = memtable_search(mi->m->head, atomic_load_explicit(&mi->m->height, memory_order_relaxed) - 1, target, NULL);
	mem_iter_show(mi);
}

static void mem_iter_next(struct iter *it)
{
	struct mem_iter *mi = (struct mem_iter *)it;

	mi->at = node_next(mi->at, 0);
	mem_iter_show(mi);
}

static void mem_iter_free(struct iter *it)
{
	struct mem_iter *mi = (struct mem_iter *)it;

	memtable_put(mi->m);
	free(mi);
}

static void mem_iter_seek_before(struct iter *it, struct tfs_bytes target)
{
	struct mem_iter *mi = (struct mem_iter *)it;
	struct memnode *x = mi->m->head, *next;

	for (int level = atomic_load_explicit(&mi->m->height, memory_order_relaxed) - 1; level >= 0; level--)
		while ((next = node_next(x, level)) != NULL && (!target.p || bytes_cmp(node_key(next), target) < 0))
			x = next;
	mi->at = x == mi->m->head ? NULL : x;
	mem_iter_show(mi);
}

static void mem_iter_keep(struct iter *it)
{
}

void memtable_iter_init(struct mem_iter *mi, struct memtable *m)
{
	static const struct iter_ops ops = {mem_iter_seek, mem_iter_next, mem_iter_keep, mem_iter_seek_before};

	mi->it = (struct iter){.ops = &ops};
	mi->m = m;
}

int memtable_iter_new(struct memtable *m, struct iter **out)
{
	static const struct iter_ops ops = {mem_iter_seek, mem_iter_next, mem_iter_free, mem_iter_seek_before};
	struct mem_iter *mi = malloc(sizeof(*mi));

	if (!mi)
		return -ENOMEM;
	memtable_iter_init(mi, m);
	mi->it.ops = &ops;
	atomic_fetch_add_explicit(&m->refs, 1, memory_order_relaxed);
	*out = &mi->it;
	return 0;
}
