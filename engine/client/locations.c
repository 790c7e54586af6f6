/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cache of locations: one array of entries, sorted by (table, end row),
 * under one lock.  In addition each thread has copies of the few entries that
 * it used last.
 *
 * A point read takes a microsecond, and most of a client's reads are for the
 * same tablet as the read before.  So the usual lookup must not access memory
 * that other threads write.  It compares the epoch of a copy with the cache's
 * epoch, and the row with the copy's two bounds.  A change of the array that
 * may invalidate a copy sets a new epoch, under the lock.  One counter supplies
 * the epochs of all caches of the process.  So a copy never matches another
 * cache, not even if that has the address of a freed one.
 *
 * Rejected: counted references to entries.  Each read would then write to
 * shared memory twice.
 *
 * Rejected: keeping entries disjoint.  The begin row in METADATA is a hint that
 * may be too low, so only the end of an entry is exact, and a lookup uses the
 * lowest end above the row.  An entry that a merge made wrong is dropped when
 * a server refuses it.
 */
#include "engine/client/locations.h"
#include "engine/base/mutex.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

struct entry {
	uint32_t table;
	bool last;
	uint64_t used;               /* the tick of its last use; uses of copies do not count */
	struct tfs_bytes begin, end; /* their memory is bytes[] */
	struct tablet_service *service;
	uint64_t assignment;
	uint8_t bytes[];
};

/* Every successful lookup counts a hit.  With several counters, threads rarely write to the same cache line. */
#define STRIPES 16
struct stripe {
	_Alignas(64) _Atomic uint64_t n;
};

struct locations {
	struct stripe hits[STRIPES];
	_Alignas(64) _Atomic uint64_t epoch; /* changed under lock */
	struct mutex lock;
	struct entry **v; /* guarded by lock, as the next members */
	size_t count;
	size_t bytes, bytes_max;
	uint64_t tick; /* increases with each use */
};

/* ---- a thread's copies ---- */

#define COPIES 4u
#define COPY_KEY_MAX 96u
struct copy {
	uint64_t epoch; /* 0: empty */
	struct tablet_service *service;
	uint64_t assignment;
	uint32_t table;
	bool last;
	uint8_t begin_n, end_n;
	uint8_t begin[COPY_KEY_MAX], end[COPY_KEY_MAX];
};
static __thread struct copy copies[COPIES];
static __thread unsigned stripe; /* 0 if there is none yet */
static _Atomic uint64_t epochs;
static _Atomic unsigned stripes;

static bool copy_contains(const struct copy *c, struct tfs_bytes row)
{
	return bytes_cmp(row, tfs_bytes_of(c->begin, c->begin_n)) >= 0 &&
		(c->last || bytes_cmp(row, tfs_bytes_of(c->end, c->end_n)) < 0);
}

static void copy_set(struct copy *c, uint64_t epoch, const struct entry *e, struct tfs_bytes begin)
{
	c->epoch = 0;
	if (begin.n > COPY_KEY_MAX || e->end.n > COPY_KEY_MAX)
		return;
	c->service = e->service;
	c->assignment = e->assignment;
	c->table = e->table;
	c->last = e->last;
	c->begin_n = (uint8_t)begin.n;
	c->end_n = (uint8_t)e->end.n;
	if (begin.n)
		memcpy(c->begin, begin.p, begin.n);
	if (e->end.n)
		memcpy(c->end, e->end.p, e->end.n);
	c->epoch = epoch;
}

static void count_hit(struct locations *l)
{
	if (!stripe)
		stripe = atomic_fetch_add_explicit(&stripes, 1, memory_order_relaxed) % STRIPES + 1;
	atomic_fetch_add_explicit(&l->hits[stripe - 1].n, 1, memory_order_relaxed);
}

static void epoch_advance_locked(struct locations *l)
{
	mutex_assert_held(&l->lock);
	atomic_store_explicit(&l->epoch, atomic_fetch_add(&epochs, 1) + 1, memory_order_release);
}

/* ---- the array ---- */

/* Returns the index of the first entry at or above (table, last, end); with `past`, of the first above it. */
static size_t entries_bound(const struct locations *l, uint32_t table, bool last, struct tfs_bytes end, bool past)
{
	size_t lo = 0, hi = l->count;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		const struct entry *e = l->v[mid];
		int c;

		if (e->table != table)
			c = e->table < table ? -1 : 1;
		else if (e->last || last)
			c = (int)e->last - (int)last;
		else
			c = bytes_cmp(e->end, end);
		if (c < 0 || (past && c == 0))
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* Returns the entry that contains row: the first one of the table whose end is above row.  NULL: none. */
static struct entry *entry_of_row(struct locations *l, uint32_t table, struct tfs_bytes row, size_t *at)
{
	size_t i = entries_bound(l, table, false, row, true);

	if (i == l->count || l->v[i]->table != table || bytes_cmp(row, l->v[i]->begin) < 0)
		return NULL;
	*at = i;
	return l->v[i];
}

static size_t entry_size(const struct entry *e)
{
	return sizeof(*e) + e->begin.n + e->end.n + sizeof(struct entry *);
}

static void entries_remove(struct locations *l, size_t i)
{
	l->bytes -= entry_size(l->v[i]);
	free(l->v[i]);
	memmove(l->v + i, l->v + i + 1, (l->count - i - 1) * sizeof(struct entry *));
	l->count--;
}

/* Drops entries that were last used longer ago than the average, until seven eighths of the limit remain. */
static void entries_shrink(struct locations *l)
{
	const size_t goal = l->bytes_max / 8 * 7;

	while (l->bytes > goal && l->count > 1) {
		size_t left = 0;
		uint64_t age = 0;

		for (size_t i = 0; i < l->count; i++)
			age += (l->tick - l->v[i]->used) / l->count;
		for (size_t i = 0; i < l->count; i++) {
			struct entry *e = l->v[i];

			/* All ticks differ, so each round finds an entry older than the average. */
			if (l->bytes > goal && l->tick - e->used > age) {
				l->bytes -= entry_size(e);
				free(e);
			} else {
				l->v[left++] = e;
			}
		}
		l->count = left;
	}
	if (l->bytes > l->bytes_max)
		entries_remove(l, 0); /* the only entry, with very long rows */
}

struct tablet_service *locations_find(struct locations *l, uint32_t table, struct tfs_bytes row, uint64_t *assignment)
{
	struct copy *c = &copies[table % COPIES];
	struct tablet_service *service = NULL;
	struct entry *e;
	size_t i;

	if (c->epoch == atomic_load_explicit(&l->epoch, memory_order_acquire) && c->table == table && copy_contains(c, row)) {
		count_hit(l);
		if (assignment)
			*assignment = c->assignment;
		return c->service;
	}
	mutex_lock(&l->lock);
	e = entry_of_row(l, table, row, &i);
	if (e) {
		struct tfs_bytes begin = e->begin;

		/*
		 * A copy cannot compare its row with other entries.  So its
		 * begin is at or above the end of the entry before.
		 */
		if (i && l->v[i - 1]->table == table && bytes_cmp(l->v[i - 1]->end, begin) > 0)
			begin = l->v[i - 1]->end;
		copy_set(c, atomic_load_explicit(&l->epoch, memory_order_relaxed), e, begin);
		e->used = ++l->tick;
		service = e->service;
		if (assignment)
			*assignment = e->assignment;
	}
	mutex_unlock(&l->lock);
	if (service)
		count_hit(l);
	return service;
}

static struct entry *entry_new(
	uint32_t table, struct tfs_bytes begin, struct tfs_bytes end, struct tablet_service *service, uint64_t assignment)
{
	struct entry *e = malloc(sizeof(*e) + begin.n + end.n);

	if (!e)
		return NULL;
	*e = (struct entry){.table = table, .last = !end.p, .service = service, .assignment = assignment};
	e->begin = tfs_bytes_of(e->bytes, begin.n);
	e->end = tfs_bytes_of(e->bytes + begin.n, end.n);
	if (begin.n)
		memcpy(e->bytes, begin.p, begin.n);
	if (end.n)
		memcpy(e->bytes + begin.n, end.p, end.n);
	return e;
}

void locations_put(struct locations *l, uint32_t table, struct tfs_bytes begin, struct tfs_bytes end,
	struct tablet_service *service, uint64_t assignment)
{
	struct entry *e = entry_new(table, begin, end, service, assignment);
	size_t i;

	if (!e)
		return;
	mutex_lock(&l->lock);
	i = entries_bound(l, table, e->last, e->end, false);
	if (i < l->count && l->v[i]->table == table && l->v[i]->last == e->last && (e->last || bytes_eq(l->v[i]->end, e->end))) {
		entries_remove(l, i);
	} else if (array_grow(&l->v, l->count, sizeof(struct entry *))) {
		free(e);
		goto out;
	}
	memmove(l->v + i + 1, l->v + i, (l->count - i) * sizeof(struct entry *));
	l->v[i] = e;
	l->count++;
	l->bytes += entry_size(e);
	e->used = ++l->tick;
	if (l->bytes > l->bytes_max)
		entries_shrink(l);
	epoch_advance_locked(l);
out:
	mutex_unlock(&l->lock);
}

void locations_forget(struct locations *l, uint32_t table, struct tfs_bytes row, const struct tablet_service *service)
{
	struct entry *e;
	size_t i;

	mutex_lock(&l->lock);
	e = entry_of_row(l, table, row, &i);
	if (e && e->service == service)
		entries_remove(l, i);
	epoch_advance_locked(l);
	mutex_unlock(&l->lock);
}

int locations_end(struct locations *l, uint32_t table, struct tfs_bytes row, struct buf *end, bool *last)
{
	const struct entry *e;
	int err = -ENOENT;
	size_t i;

	mutex_lock(&l->lock);
	e = entry_of_row(l, table, row, &i);
	if (e) {
		*last = e->last;
		err = buf_append_bytes(end, e->end);
	}
	mutex_unlock(&l->lock);
	return err;
}

uint32_t locations_rows(struct locations *l, uint32_t table, const struct row_mutation *rows, uint32_t count)
{
	struct buf end = {0};
	bool last = false;
	uint32_t n = 1;

	if (count > 1 && locations_end(l, table, rows[0].row, &end, &last))
		n = count;
	while (n < count && (last || bytes_cmp(rows[n].row, buf_bytes(&end)) < 0))
		n++;
	buf_fini(&end);
	return n;
}

void locations_get_stats(struct locations *l, struct locations_stats *out)
{
	*out = (struct locations_stats){0};
	for (unsigned i = 0; i < STRIPES; i++)
		out->hits += atomic_load_explicit(&l->hits[i].n, memory_order_relaxed);
	mutex_lock(&l->lock);
	out->entries = l->count;
	out->bytes = l->bytes;
	mutex_unlock(&l->lock);
}

int locations_new(size_t bytes_max, struct locations **out)
{
	struct locations *l = aligned_alloc(64, sizeof(*l));

	if (!l)
		return -ENOMEM;
	memset(l, 0, sizeof(*l));
	l->bytes_max = bytes_max;
	mutex_init(&l->lock, RANK_LOCATIONS);
	atomic_init(&l->epoch, atomic_fetch_add(&epochs, 1) + 1);
	*out = l;
	return 0;
}

void locations_free(struct locations *l)
{
	if (!l)
		return;
	for (size_t i = 0; i < l->count; i++)
		free(l->v[i]);
	free(l->v);
	mutex_fini(&l->lock);
	free(l);
}
