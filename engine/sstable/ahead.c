/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading ahead.  Decompression is half of the time of a scan, and a scan reads
 * blocks in order, so another thread can do it in advance.
 *
 * A walk that has read three blocks in order gets a ring of buffers.  From
 * then on a worker reads and decompresses up to AHEAD blocks after the
 * iterator's.  Iterator and worker take blocks from the ring by
 * compare-and-set.  If no thread has begun the block that the iterator needs,
 * the iterator decompresses it.  If the worker has begun it, the iterator
 * decompresses a later block instead of waiting, because to wake a sleeping
 * thread takes as long as a block.  So the ring costs nothing on one processor,
 * and two processors share the work.
 *
 * States of a slot: FREE -> WANTED (the iterator sets the block) -> BUSY (a
 * thread reads it) -> READY or FAILED -> FREE.  Only the iterator frees slots.
 * It keeps the last two that it used, because LevelDB reads the previous block
 * while it requests the next.  The iterator reads the block of a failed slot
 * again and reports the error.
 *
 * If the blocks do not enter a cache, the iterator uses the ring's memory.  The
 * memory stays in the processor's cache; that halves the cost of a block.
 *
 * The rings of a cache are bounded together.  A walk without a ring reads its
 * blocks itself.  The worker is queued for START_AT blocks at once.
 *
 * Rejected: a thread per scan; io_uring, because decompression takes the time.
 */
#include "engine/sstable/ahead.h"
#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
	SLOTS = 10,
	AHEAD = 8,                   /* slots in addition to the two slots in use */
	RUN_MIN = 2,                 /* blocks in order before a walk reads ahead */
	START_AT = 2,                /* wanted blocks for which the worker is queued */
	BLOCK_BYTES_MAX = 512 << 10, /* larger ones are not read ahead */
	SPINS = 64,
};

enum slot_state { SLOT_FREE, SLOT_WANTED, SLOT_BUSY, SLOT_READY, SLOT_FAILED };

struct slot {
	_Atomic int state;
	_Atomic int64_t block;
	uint8_t *p;
};

struct ahead {
	struct task task; /* first */
	struct ahead_env *env;
	struct blockfile *file;
	size_t slot_bytes; /* the largest block that is read ahead */
	struct slot slot[SLOTS];
	struct slot *used[2]; /* the slots of the last two blocks returned, the last block first */
	int64_t next;         /* the first block not yet wanted */
	unsigned unstarted;   /* blocks wanted since the worker was queued */
	_Atomic bool waiting, closing;
	struct mutex lock;
	struct cond ready;
};

void ahead_env_init(struct ahead_env *e, size_t bytes_max)
{
	cpu_set_t cpus;

	*e = (struct ahead_env){.bytes_max = bytes_max};
	mutex_init(&e->lock, RANK_TABLE_CACHE);
	e->no_pool = sched_getaffinity(0, sizeof(cpus), &cpus) == 0 && CPU_COUNT(&cpus) < 2;
}

void ahead_env_resize(struct ahead_env *e, size_t bytes_max)
{
	mutex_lock(&e->lock);
	e->bytes_max = bytes_max;
	mutex_unlock(&e->lock);
}

void ahead_env_fini(struct ahead_env *e)
{
	if (e->pool)
		task_pool_free(e->pool);
	mutex_fini(&e->lock);
}

/* Reserves space for a ring.  Returns false if there is none. */
static bool env_reserve(struct ahead_env *e, size_t bytes, struct task_pool **pool)
{
	bool fits;

	mutex_lock(&e->lock);
	if (!e->pool && !e->no_pool && task_pool_new("ahead", 1, &e->pool)) {
		e->pool = NULL;
		e->no_pool = true;
	}
	fits = e->bytes + bytes <= e->bytes_max;
	if (fits)
		e->bytes += bytes;
	*pool = e->pool;
	mutex_unlock(&e->lock);
	return fits;
}

static void env_release(struct ahead_env *e, size_t bytes)
{
	mutex_lock(&e->lock);
	e->bytes -= bytes;
	mutex_unlock(&e->lock);
}

static size_t block_bytes(const struct blockfile *b, int64_t i)
{
	return bff_map_raw(blockfile_map(b), (size_t)i);
}

/* Reads the slot's block unless another thread has begun.  Any thread. */
static bool slot_work(struct ahead *a, struct slot *s)
{
	int state = SLOT_WANTED, err;

	if (atomic_load_explicit(&s->state, memory_order_relaxed) != SLOT_WANTED ||
		!atomic_compare_exchange_strong(&s->state, &state, SLOT_BUSY))
		return false;
	err = blockfile_read(a->file, blockfile_map(a->file)->at[s->block].logical, block_bytes(a->file, s->block), s->p);
	atomic_store(&s->state, err ? SLOT_FAILED : SLOT_READY);
	if (atomic_load(&a->waiting)) {
		mutex_lock(&a->lock);
		cond_broadcast(&a->ready);
		mutex_unlock(&a->lock);
	}
	return true;
}

/* Returns the wanted slot of the lowest block, or NULL. */
static struct slot *first_wanted(struct ahead *a)
{
	struct slot *best = NULL;

	for (unsigned i = 0; i < SLOTS; i++) {
		struct slot *s = &a->slot[i];

		if (atomic_load(&s->state) == SLOT_WANTED && (!best || s->block < best->block))
			best = s;
	}
	return best;
}

/* The block of a slot may change before slot_work takes it; then only the order of work is wrong. */
static void ahead_run(struct task *t)
{
	struct ahead *a = (struct ahead *)t;
	struct slot *s;

	while (!atomic_load(&a->closing) && (s = first_wanted(a)))
		(void)slot_work(a, s);
}

static void ahead_free(struct ahead *a)
{
	if (!a)
		return;
	atomic_store(&a->closing, true);
	if (a->task.pool)
		task_cancel(&a->task);
	for (unsigned i = 0; i < SLOTS; i++)
		free(a->slot[i].p);
	env_release(a->env, SLOTS * a->slot_bytes);
	cond_fini(&a->ready);
	mutex_fini(&a->lock);
	free(a);
}

static struct ahead *ahead_new(struct ahead_env *e, struct blockfile *b)
{
	size_t each = blockfile_data_block_max(b);
	struct task_pool *pool;
	struct ahead *a;

	if (each > BLOCK_BYTES_MAX)
		each = BLOCK_BYTES_MAX;
	if (!env_reserve(e, SLOTS * each, &pool))
		return NULL;
	a = calloc(1, sizeof(*a));
	if (!a) {
		env_release(e, SLOTS * each);
		return NULL;
	}
	a->env = e;
	a->file = b;
	a->slot_bytes = each;
	mutex_init(&a->lock, RANK_SSTABLE);
	cond_init(&a->ready);
	if (pool)
		task_init(&a->task, pool, ahead_run);
	return a;
}

static struct slot *slot_of(struct ahead *a, int64_t block)
{
	for (unsigned i = 0; i < SLOTS; i++)
		if (atomic_load_explicit(&a->slot[i].state, memory_order_relaxed) != SLOT_FREE && a->slot[i].block == block)
			return &a->slot[i];
	return NULL;
}

/* Returns a free slot, now wanting the block; NULL if none is free or there is no memory. */
static struct slot *slot_want(struct ahead *a, int64_t block)
{
	size_t n = block_bytes(a->file, block);

	for (unsigned i = 0; i < SLOTS; i++) {
		struct slot *s = &a->slot[i];

		if (atomic_load_explicit(&s->state, memory_order_relaxed) != SLOT_FREE)
			continue;
		if (!s->p)
			s->p = malloc(a->slot_bytes);
		if (!s->p || n > a->slot_bytes)
			return NULL;
		s->block = block;
		atomic_store(&s->state, SLOT_WANTED);
		return s;
	}
	return NULL;
}

/* Frees the slots of blocks before the present block or too far after it.  Busy slots are freed by a later call. */
static void drop_old(struct ahead *a, int64_t block)
{
	for (unsigned i = 0; i < SLOTS; i++) {
		struct slot *s = &a->slot[i];
		int state = atomic_load(&s->state);

		if (state == SLOT_FREE || s == a->used[0] || s == a->used[1] || (s->block >= block && s->block <= block + AHEAD))
			continue;
		if (state == SLOT_WANTED) /* the worker may be taking it */
			(void)atomic_compare_exchange_strong(&s->state, &state, SLOT_FREE);
		else if (state != SLOT_BUSY)
			atomic_store(&s->state, SLOT_FREE);
	}
}

/*
 * Makes slots want the blocks after the present block, and queues the worker.  bytes: how many
 * bytes of these blocks the reader is expected to take; 0: unknown.
 */
static void want_more(struct ahead *a, int64_t block, uint64_t bytes)
{
	const struct bff_place *at = blockfile_map(a->file)->at;
	int64_t end = (int64_t)blockfile_data_blocks(a->file);

	if (!a->task.pool)
		return;
	if (a->next <= block || a->next > block + AHEAD + 1) /* the walk has jumped */
		a->next = block + 1;
	for (; a->next < end && a->next <= block + AHEAD && block_bytes(a->file, a->next) <= BLOCK_BYTES_MAX; a->next++) {
		if (bytes && at[a->next].logical - at[block + 1].logical >= bytes)
			break;
		if (slot_of(a, a->next))
			continue;
		if (!slot_want(a, a->next))
			break;
		a->unstarted++;
	}
	if (a->unstarted >= START_AT) {
		a->unstarted = 0;
		task_queue(&a->task);
	}
}

/* Between two loads of a variable that another processor changes. */
static inline void cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

/* Reads later blocks until the slot is not busy. */
static void slot_await(struct ahead *a, struct slot *s)
{
	struct slot *other;

	for (unsigned spin = 0; atomic_load(&s->state) == SLOT_BUSY; spin++) {
		other = first_wanted(a);
		if (other) {
			(void)slot_work(a, other);
			continue;
		}
		if (spin < SPINS) {
			for (unsigned i = 0; i < SPINS && atomic_load_explicit(&s->state, memory_order_relaxed) == SLOT_BUSY; i++)
				cpu_relax();
			continue;
		}
		mutex_lock(&a->lock);
		atomic_store(&a->waiting, true);
		while (atomic_load(&s->state) == SLOT_BUSY)
			cond_wait(&a->ready, &a->lock);
		atomic_store(&a->waiting, false);
		mutex_unlock(&a->lock);
	}
}

static int ahead_read(struct walk *w, int64_t block, size_t n, void *dst, const void **at)
{
	struct ahead *a = w->ahead;
	struct slot *s = slot_of(a, block);
	int err = 0;

	if (!s)
		s = slot_want(a, block);
	if (s) {
		(void)slot_work(a, s);
		slot_await(a, s);
	}
	if (s && atomic_load(&s->state) == SLOT_READY) {
		a->used[1] = a->used[0];
		a->used[0] = s;
		*at = s->p;
		if (w->fill) {
			memcpy(dst, s->p, n);
			*at = dst;
		}
	} else {
		err = blockfile_read(a->file, blockfile_map(a->file)->at[block].logical, n, dst);
		*at = dst;
	}
	drop_old(a, block + 1);
	/* Two blocks less: the first and the last of a scan are not read as a whole. */
	want_more(a, block, w->expected > 2 * n ? w->expected - 2 * n : w->expected ? 1 : 0);
	return err;
}

void walk_init(struct walk *w, struct ahead_env *env, struct blockfile *file, bool fill)
{
	*w = (struct walk){.env = env, .file = file, .fill = fill, .last = -2};
}

void walk_fini(struct walk *w)
{
	ahead_free(w->ahead);
	w->ahead = NULL;
}

bool walk_may_idle(struct walk *w)
{
	struct ahead_env *e = w->env;
	bool fits;

	if (!w->ahead)
		return true;
	mutex_lock(&e->lock);
	fits = e->bytes <= e->bytes_max / 2;
	mutex_unlock(&e->lock);
	return fits && w->last + 1 < (int64_t)blockfile_data_blocks(w->file);
}

int walk_read(struct walk *w, uint64_t logical, size_t n, void *dst, const void **at)
{
	const struct bff_map *m = blockfile_map(w->file);
	int64_t i = bff_map_find(m, logical);

	if (i >= 0 && (m->at[i].logical != logical || block_bytes(w->file, i) != n))
		i = -1; /* blockfile_read reports the error */
	w->run = i >= 0 && i == w->last + 1 ? w->run + 1 : 0;
	w->last = i;
	w->expected = w->expected > n ? w->expected - n : 0;
	if (w->run >= RUN_MIN && !w->ahead && !w->refused && !(w->expected && w->expected < START_AT * n)) {
		w->ahead = ahead_new(w->env, w->file);
		w->refused = !w->ahead;
	}
	if (w->ahead && w->run >= RUN_MIN && n <= BLOCK_BYTES_MAX)
		return ahead_read(w, i, n, dst, at);
	*at = dst;
	return blockfile_read(w->file, logical, n, dst);
}
