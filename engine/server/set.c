/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The set of tablets served: an array ordered by (table, end row), looked up
 * by binary search under the server's lock.  A tablet leaves the set when its
 * table is dropped or the server ends; it is freed by whoever gives back the
 * last reference, which waits for its background work.  Two objects of one
 * tablet would compact the same files: loading is serialised (load_begin),
 * and a table that has gone meanwhile gets no tablet.
 */
#include "engine/base/msg.h"
#include "engine/server/internal.h"

#include <errno.h>
#include <stdlib.h>

/* Where h stands against the position (table, last, end). */
static int held_cmp(const struct held *h, uint32_t table, bool last, struct slice end)
{
	if (h->table != table)
		return h->table < table ? -1 : 1;
	if (h->last || last)
		return (int)h->last - (int)last;
	return slice_cmp(buf_slice(&h->end), end);
}

/* The first of the set that is not below (table, last, end). */
static unsigned held_lower(struct server *s, uint32_t table, bool last, struct slice end)
{
	unsigned lo = 0, hi = s->set_count;

	while (lo < hi) {
		unsigned mid = lo + (hi - lo) / 2;

		if (held_cmp(s->set[mid], table, last, end) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

int held_find_loaded(struct server *s, uint32_t table, struct slice row, struct held **out)
{
	struct held *h = NULL;
	unsigned i;

	mutex_lock(&s->lock);
	i = held_lower(s, table, false, row);
	/* A tablet's end is exclusive: one that ends exactly at row does not hold it. */
	if (i < s->set_count && s->set[i]->table == table && !s->set[i]->last && slice_eq(buf_slice(&s->set[i]->end), row))
		i++;
	if (i < s->set_count && s->set[i]->table == table) {
		h = s->set[i];
		atomic_fetch_add_explicit(&h->refs, 1, memory_order_relaxed);
	}
	mutex_unlock(&s->lock);
	if (!h)
		return -EREMCHG;
	*out = h;
	return 0;
}

void load_begin(struct server *s)
{
	mutex_lock(&s->lock);
	while (s->loading)
		cond_wait(&s->changed, &s->lock);
	s->loading = true;
	mutex_unlock(&s->lock);
}

void load_end(struct server *s)
{
	mutex_lock(&s->lock);
	s->loading = false;
	cond_broadcast(&s->changed);
	mutex_unlock(&s->lock);
}

int held_list(struct server *s, uint32_t table, struct held ***out, unsigned *count)
{
	struct held **list;
	unsigned n = 0;

	mutex_lock(&s->lock);
	list = calloc(s->set_count ? s->set_count : 1, sizeof(*list));
	if (list) {
		for (unsigned i = 0; i < s->set_count; i++) {
			if (table && s->set[i]->table != table)
				continue;
			atomic_fetch_add(&s->set[i]->refs, 1);
			list[n++] = s->set[i];
		}
	}
	mutex_unlock(&s->lock);
	if (!list)
		return -ENOMEM;
	*out = list;
	*count = n;
	return 0;
}

void held_put(struct held *h)
{
	if (atomic_fetch_sub(&h->refs, 1) != 1)
		return;
	if (atomic_load(&h->dropped))
		listed_remove(h->server, &h->row);
	tablet_free(h->tablet);
	known_put(h->server, h->known); /* with the last of a table that has gone its files go */
	meta_tablet_fini(&h->row);
	buf_fini(&h->split_doubt);
	buf_fini(&h->end);
	free(h);
}

void held_abandon(struct held *h)
{
	if (!h)
		return;
	listed_remove(h->server, &h->row);
	held_put(h);
}

static int reserve_locked(struct server *s, unsigned more)
{
	unsigned cap = s->set_cap ? s->set_cap : 16;
	struct held **set;

	while (cap < s->set_count + more)
		cap *= 2;
	if (cap == s->set_cap)
		return 0;
	set = realloc(s->set, cap * sizeof(struct held *));
	if (!set)
		return -ENOMEM;
	s->set = set;
	s->set_cap = cap;
	return 0;
}

int set_reserve(struct server *s, unsigned more)
{
	int err;

	mutex_lock(&s->lock);
	s->set_spare = more;
	err = reserve_locked(s, more);
	mutex_unlock(&s->lock);
	return err;
}

static void insert_locked(struct server *s, struct held *h)
{
	unsigned i = held_lower(s, h->table, h->last, buf_slice(&h->end));

	memmove(s->set + i + 1, s->set + i, (s->set_count - i) * sizeof(struct held *));
	s->set[i] = h;
	s->set_count++;
}

static bool remove_locked(struct server *s, const struct held *h)
{
	unsigned i = held_lower(s, h->table, h->last, buf_slice(&h->end));

	if (i == s->set_count || s->set[i] != h)
		return false;
	memmove(s->set + i, s->set + i + 1, (s->set_count - i - 1) * sizeof(struct held *));
	s->set_count--;
	return true;
}

void set_replace(struct server *s, struct held *const *old, unsigned old_count, struct held *const *with, unsigned count)
{
	bool there = false;

	mutex_lock(&s->lock);
	for (unsigned i = 0; i < old_count; i++)
		there |= remove_locked(s, old[i]);
	for (unsigned i = 0; i < count; i++) {
		if (there) {
			insert_locked(s, with[i]);
			atomic_fetch_add(&with[i]->refs, 1);
		} else {
			atomic_store(&with[i]->dropped, true);
		}
	}
	s->set_spare = 0;
	mutex_unlock(&s->lock);
	for (unsigned i = 0; i < old_count && there; i++)
		held_put(old[i]);
}

int set_insert(struct server *s, struct held *h)
{
	unsigned i;
	int err = 0;

	mutex_lock(&s->lock);
	if (h->known && h->known->gone) {
		err = -EIDRM;
		goto out;
	}
	err = reserve_locked(s, s->set_spare + 1);
	if (err)
		goto out;
	i = held_lower(s, h->table, h->last, buf_slice(&h->end));
	if (i < s->set_count && held_cmp(s->set[i], h->table, h->last, buf_slice(&h->end)) == 0) {
		err = -EEXIST;
		goto out;
	}
	insert_locked(s, h);
out:
	mutex_unlock(&s->lock);
	return err;
}

/* Takes tablets out of the set (table 0: all of this kind and above) and gives back the set's references. */
static void set_remove(struct server *s, uint32_t table, enum kind least, bool dropped)
{
	for (;;) {
		struct held *h = NULL;

		mutex_lock(&s->lock);
		for (unsigned i = s->set_count; i-- > 0;) {
			if (table ? s->set[i]->table != table : s->set[i]->kind < least)
				continue;
			h = s->set[i];
			atomic_store(&h->dropped, dropped);
			memmove(s->set + i, s->set + i + 1, (s->set_count - i - 1) * sizeof(struct held *));
			s->set_count--;
			break;
		}
		mutex_unlock(&s->lock);
		if (!h)
			return;
		held_put(h);
	}
}

void held_drop_table(struct server *s, uint32_t table)
{
	set_remove(s, table, KIND_USER, true);
}

void held_drop_all(struct server *s)
{
	/* User tablets first: ending their work may still write METADATA, and that the root. */
	set_remove(s, 0, KIND_USER, false);
	set_remove(s, 0, KIND_META, false);
	set_remove(s, 0, KIND_ROOT, false);
	free(s->set);
	s->set = NULL;
	s->set_cap = 0;
}

int server_tables_bytes(struct server *s, uint64_t *bytes)
{
	struct tablet_stats st;
	struct held **list;
	uint64_t sum = 0;
	unsigned count;
	int err = held_list(s, 0, &list, &count);

	if (err)
		return err;
	for (unsigned i = 0; i < count; i++) {
		tablet_get_stats(list[i]->tablet, &st);
		sum += st.disk_bytes;
		held_put(list[i]);
	}
	free(list);
	*bytes = sum;
	return 0;
}
