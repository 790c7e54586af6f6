/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading ahead: half of what a scan of compressed blocks costs is taking
 * them apart, and the next ones are known.
 *
 * A walk that has read three blocks in a row gets a ring of buffers.  From
 * then on a worker reads and decompresses up to AHEAD blocks behind the one
 * the iterator stands in.  Iterator and worker take blocks from the same
 * ring by compare-and-set: when the block that is wanted is in work, the
 * iterator decompresses a later one rather than sleep (waking a thread costs
 * as much as a block), and when nobody has begun it, that very one.  So one
 * processor alone loses nothing, and two share the work whatever the reader
 * does between two blocks.
 *
 * A slot goes FREE -> WANTED (by the iterator, which fills in what) -> BUSY
 * (by whom takes it) -> READY or FAILED -> FREE.  The iterator alone frees
 * slots: LevelDB looks at the block it leaves while it asks for the next, so
 * the last two handed out are kept.  A failed slot is read again by the
 * iterator itself: errors are met where they are reported.
 *
 * Without a cache to fill, the ring's memory is what the iterator reads, and
 * it stays in the processor's own cache: half the cost of a new buffer for
 * each block.
 *
 * All rings of a cache together are bounded; a walk that gets none goes on
 * without.  The worker is started for a quarter of a ring, not for one block.
 *
 * Decided against: a thread per scan, and io_uring (decompression is what takes time).
 */
#include "engine/sstable/ahead.h"
#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
	SLOTS = 10,
	AHEAD = 8,                   /* besides the two that are held */
	RUN_MIN = 2,                 /* blocks in a row before a walk is one */
	START_AT = 2,                /* wanted ones that are worth a worker's start */
	BLOCK_BYTES_MAX = 512 << 10, /* larger ones are read when they are met */
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
	size_t bytes;      /* taken of env's */
	size_t slot_bytes; /* the largest block that is read ahead */
	struct slot slot[SLOTS];
	struct slot *held[2]; /* handed out: the last, and the one before */
	int64_t next;         /* the first block not yet wanted */
	unsigned unstarted;   /* wanted since the worker was last called */
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

void ahead_env_fini(struct ahead_env *e)
{
	if (e->pool)
		task_pool_free(e->pool);
	mutex_fini(&e->lock);
}

/* Room for a ring, and a pool; false: none. */
static bool env_take(struct ahead_env *e, size_t bytes, struct task_pool **pool)
{
	bool room;

	mutex_lock(&e->lock);
	if (!e->pool && !e->no_pool && task_pool_new("ahead", 1, &e->pool)) {
		e->pool = NULL;
		e->no_pool = true;
	}
	room = e->bytes + bytes <= e->bytes_max;
	if (room)
		e->bytes += bytes;
	*pool = e->pool;
	mutex_unlock(&e->lock);
	return room;
}

static void env_give(struct ahead_env *e, size_t bytes)
{
	mutex_lock(&e->lock);
	e->bytes -= bytes;
	mutex_unlock(&e->lock);
}

static size_t block_bytes(const struct blockfile *b, int64_t i)
{
	const struct bff_map *m = blockfile_map(b);

	return (size_t)(m->at[i + 1].logical - m->at[i].logical);
}

/* Does the slot's work if it is still to be done; any thread. */
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

/* The wanted slot of the lowest block, or NULL. */
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

/* What a wanted slot wants may change between look and take: a wrong order, nothing worse. */
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
	env_give(a->env, a->bytes);
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
	if (!env_take(e, SLOTS * each, &pool))
		return NULL;
	a = calloc(1, sizeof(*a));
	if (!a) {
		env_give(e, SLOTS * each);
		return NULL;
	}
	a->env = e;
	a->file = b;
	a->bytes = SLOTS * each;
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

/* A free slot made to want the block; NULL: none free, or no memory. */
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

/* Frees what lies before the block or was passed over; what is in work is left for the next time. */
static void drop_old(struct ahead *a, int64_t block)
{
	for (unsigned i = 0; i < SLOTS; i++) {
		struct slot *s = &a->slot[i];
		int state = atomic_load(&s->state);

		if (state == SLOT_FREE || s == a->held[0] || s == a->held[1] || (s->block >= block && s->block <= block + AHEAD))
			continue;
		if (state == SLOT_WANTED) /* the worker may be taking it */
			(void)atomic_compare_exchange_strong(&s->state, &state, SLOT_FREE);
		else if (state != SLOT_BUSY)
			atomic_store(&s->state, SLOT_FREE);
	}
}

/* Wants what comes after the block, and calls the worker when it is worth it. */
static void want_more(struct ahead *a, int64_t block)
{
	int64_t end = (int64_t)blockfile_data_blocks(a->file);

	if (!a->task.pool)
		return;
	if (a->next <= block || a->next > block + AHEAD + 1) /* the walk has jumped */
		a->next = block + 1;
	for (; a->next < end && a->next <= block + AHEAD && block_bytes(a->file, a->next) <= BLOCK_BYTES_MAX; a->next++) {
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

/* Between two looks at what another processor changes. */
static inline void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

/* Until the slot, which another has in work, is done: works on later ones meanwhile. */
static void await(struct ahead *a, struct slot *s)
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
				relax();
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
		await(a, s);
	}
	if (s && atomic_load(&s->state) == SLOT_READY) {
		a->held[1] = a->held[0];
		a->held[0] = s;
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
	want_more(a, block);
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

bool walk_may_rest(struct walk *w)
{
	struct ahead_env *e = w->env;
	bool room;

	if (!w->ahead)
		return true;
	mutex_lock(&e->lock);
	room = e->bytes <= e->bytes_max / 2;
	mutex_unlock(&e->lock);
	return room && w->last + 1 < (int64_t)blockfile_data_blocks(w->file);
}

int walk_read(struct walk *w, uint64_t logical, size_t n, void *dst, const void **at)
{
	const struct bff_map *m = blockfile_map(w->file);
	int64_t i = bff_map_find(m, logical);

	if (i >= 0 && (m->at[i].logical != logical || block_bytes(w->file, i) != n))
		i = -1; /* blockfile_read says what is wrong */
	w->run = i >= 0 && i == w->last + 1 ? w->run + 1 : 0;
	w->last = i;
	if (w->run >= RUN_MIN && !w->ahead && !w->refused) {
		w->ahead = ahead_new(w->env, w->file);
		w->refused = !w->ahead;
	}
	if (w->ahead && w->run >= RUN_MIN && n <= BLOCK_BYTES_MAX)
		return ahead_read(w, i, n, dst, at);
	*at = dst;
	return blockfile_read(w->file, logical, n, dst);
}
