/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The set of served tablets: an array ordered by (table, end row), which threads
 * search under the server's lock.  A tablet is removed from the set when a split
 * or merge replaces it, when its table is dropped, and when the server closes.
 * The last served_put frees the tablet and waits for its background work.
 *
 * Two objects of one tablet would compact the same files.  So one thread at a time
 * loads tablets of a kind (load_begin).  A LOAD of users' tablets reads METADATA, so it
 * must not delay a LOAD of METADATA.  No tablet of a dropped table is inserted.
 *
 * A tablet that is not in the set yet would miss a schema that is set meanwhile.  So
 * only one thread at a time sets a schema, or makes tablets and inserts them
 * (set_begin).  It does not wait for a LOAD, which may replay a log for long.
 */
#include "engine/base/msg.h"
#include "engine/server/internal.h"

#include <errno.h>
#include <stdlib.h>

#define EVENT_BYTES 512u /* of the events of a tablet */

/* Compares the tablet with the position (table, last, end) in the set's order. */
static int served_cmp(const struct served_tablet *served, uint32_t table, bool last, struct tfs_bytes end)
{
	if (served->table != table)
		return served->table < table ? -1 : 1;
	if (served->last || last)
		return (int)served->last - (int)last;
	return bytes_cmp(buf_bytes(&served->end), end);
}

/* Returns the index of the first tablet at or above that position; with `past`, of the first above it. */
static unsigned served_bound(struct server *s, uint32_t table, bool last, struct tfs_bytes end, bool past)
{
	unsigned lo = 0, hi = s->set_count;

	while (lo < hi) {
		unsigned mid = lo + (hi - lo) / 2;

		if (served_cmp(s->set[mid], table, last, end) < past)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static int find(struct server *s, uint32_t table, struct tfs_bytes row, bool any, struct served_tablet **out)
{
	struct served_tablet *served = NULL;
	unsigned i;

	mutex_lock(&s->lock);
	i = served_bound(s, table, false, row, true); /* an end is exclusive */
	/* The set has no other tablet for the row; so a row below this one's belongs to another server. */
	if (i < s->set_count && s->set[i]->table == table && (any || !atomic_load(&s->set[i]->loading)) &&
		bytes_cmp(row, tablet_begin(s->set[i]->tablet)) >= 0) {
		served = s->set[i];
		atomic_fetch_add_explicit(&served->refs, 1, memory_order_relaxed);
	}
	mutex_unlock(&s->lock);
	if (!served)
		return -TABLET_MOVED;
	*out = served;
	return 0;
}

int served_find_loaded(struct server *s, uint32_t table, struct tfs_bytes row, struct served_tablet **out)
{
	return find(s, table, row, false, out);
}

int served_find_any(struct server *s, uint32_t table, struct tfs_bytes row, struct served_tablet **out)
{
	return find(s, table, row, true, out);
}

int served_find_end(struct server *s, uint32_t table, struct tfs_bytes end, struct served_tablet **out)
{
	int err = -TABLET_MOVED;
	unsigned i;

	mutex_lock(&s->lock);
	i = served_bound(s, table, !end.p, end, false);
	if (i < s->set_count && served_cmp(s->set[i], table, !end.p, end) == 0) {
		*out = s->set[i];
		atomic_fetch_add(&s->set[i]->refs, 1);
		err = 0;
	}
	mutex_unlock(&s->lock);
	return err;
}

void set_unloading(struct server *s, const struct ts_assigned *t)
{
	mutex_lock(&s->lock);
	s->unloading = t;
	mutex_unlock(&s->lock);
}

static void turn_begin(struct server *s, bool *taken)
{
	mutex_lock(&s->lock);
	while (*taken)
		cond_wait(&s->changed, &s->lock);
	*taken = true;
	mutex_unlock(&s->lock);
}

static void turn_end(struct server *s, bool *taken)
{
	mutex_lock(&s->lock);
	*taken = false;
	cond_broadcast(&s->changed);
	mutex_unlock(&s->lock);
}

void load_begin(struct server *s, enum kind kind)
{
	turn_begin(s, &s->loading[kind]);
}

void load_end(struct server *s, enum kind kind)
{
	turn_end(s, &s->loading[kind]);
}

void set_begin(struct server *s)
{
	turn_begin(s, &s->setting);
}

void set_end(struct server *s)
{
	turn_end(s, &s->setting);
}

static int list(struct server *s, uint32_t table, bool any, struct served_tablet ***out, unsigned *count)
{
	struct served_tablet **v;
	unsigned n = 0;

	mutex_lock(&s->lock);
	v = calloc(s->set_count ? s->set_count : 1, sizeof(*v));
	if (v) {
		for (unsigned i = 0; i < s->set_count; i++) {
			if ((table && s->set[i]->table != table) || (!any && atomic_load(&s->set[i]->loading)))
				continue;
			atomic_fetch_add(&s->set[i]->refs, 1);
			v[n++] = s->set[i];
		}
	}
	mutex_unlock(&s->lock);
	if (!v)
		return -ENOMEM;
	*out = v;
	*count = n;
	return 0;
}

int served_list(struct server *s, uint32_t table, struct served_tablet ***out, unsigned *count)
{
	return list(s, table, false, out, count);
}

int served_list_any(struct server *s, uint32_t table, struct served_tablet ***out, unsigned *count)
{
	return list(s, table, true, out, count);
}

void served_event(struct served_tablet *served, const char *text)
{
	struct server *s = served->server;
	struct buf *b = &served->events, line = {0};
	const uint8_t *cut;
	int err = buf_printf(&line, "%lld %s\n", (long long)(clock_now(s->clock) / 1000000), text);

	mutex_lock(&s->lock);
	/* A split reports its event, and the edit that tidies the upper part has the same one. */
	if (!err && (b->n < line.n || memcmp(b->p + b->n - line.n, line.p, line.n) != 0) &&
		buf_append_bytes(b, buf_bytes(&line)) == 0) {
		/* The first line that leaves at most EVENT_BYTES. */
		cut = b->n > EVENT_BYTES ? memchr(b->p + b->n - EVENT_BYTES - 1, '\n', EVENT_BYTES) : NULL;
		if (cut) {
			b->n -= (size_t)(cut + 1 - b->p);
			memmove(b->p, cut + 1, b->n);
		}
	}
	mutex_unlock(&s->lock);
	buf_fini(&line);
}

void served_put(struct served_tablet *served)
{
	if (!served || atomic_fetch_sub(&served->refs, 1) != 1)
		return;
	if (atomic_load(&served->dropped))
		tablet_retire_files(served->tablet);
	tablet_free(served->tablet);
	user_table_put(served->server, served->user_table);
	meta_tablet_fini(&served->row);
	buf_fini(&served->unknown_split);
	buf_fini(&served->events);
	buf_fini(&served->end);
	free(served);
}

void served_list_put(struct served_tablet **list, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		served_put(list[i]);
	free(list);
}

/* Makes the array large enough for `more` more tablets. */
static int set_grow_locked(struct server *s, unsigned more)
{
	unsigned cap = s->set_cap ? s->set_cap : 16;
	struct served_tablet **set;

	while (cap < s->set_count + more)
		cap *= 2;
	if (cap == s->set_cap)
		return 0;
	set = realloc(s->set, cap * sizeof(struct served_tablet *));
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
	err = set_grow_locked(s, more);
	mutex_unlock(&s->lock);
	return err;
}

static void insert_locked(struct server *s, struct served_tablet *served)
{
	unsigned i = served_bound(s, served->table, served->last, buf_bytes(&served->end), false);

	memmove(s->set + i + 1, s->set + i, (s->set_count - i) * sizeof(struct served_tablet *));
	s->set[i] = served;
	s->set_count++;
}

static bool remove_locked(struct server *s, const struct served_tablet *served)
{
	unsigned i = served_bound(s, served->table, served->last, buf_bytes(&served->end), false);

	if (i == s->set_count || s->set[i] != served)
		return false;
	memmove(s->set + i, s->set + i + 1, (s->set_count - i - 1) * sizeof(struct served_tablet *));
	s->set_count--;
	return true;
}

void set_replace(
	struct server *s, struct served_tablet *const *old, unsigned old_count, struct served_tablet *const *with, unsigned count)
{
	bool found = false;

	mutex_lock(&s->lock);
	for (unsigned i = 0; i < old_count; i++)
		found |= remove_locked(s, old[i]);
	for (unsigned i = 0; i < count; i++) {
		if (found) {
			insert_locked(s, with[i]);
			atomic_fetch_add(&with[i]->refs, 1);
		} else {
			atomic_store(&with[i]->dropped, true);
		}
	}
	s->set_spare = 0;
	mutex_unlock(&s->lock);
	for (unsigned i = 0; i < old_count && found; i++)
		served_put(old[i]);
}

/* Returns true if a tablet of the set has rows of this one, which would be inserted at i. */
static bool overlaps_locked(const struct server *s, const struct served_tablet *served, unsigned i)
{
	const struct tfs_bytes begin = tablet_begin(served->tablet);

	if (i < s->set_count && s->set[i]->table == served->table &&
		(served->last || bytes_cmp(tablet_begin(s->set[i]->tablet), buf_bytes(&served->end)) < 0))
		return true;
	return i > 0 && s->set[i - 1]->table == served->table && bytes_cmp(buf_bytes(&s->set[i - 1]->end), begin) > 0;
}

int set_insert(struct server *s, struct served_tablet *served)
{
	unsigned i;
	int err = 0;

	mutex_lock(&s->lock);
	if (served->user_table && served->user_table->dropped) {
		err = -TABLE_DROPPED;
		goto out;
	}
	if (s->unloading && served_cmp(served, s->unloading->table, !s->unloading->end.p, s->unloading->end) == 0) {
		err = -EAGAIN; /* the row may have been read before UNLOAD changed it */
		goto out;
	}
	err = set_grow_locked(s, s->set_spare + 1);
	if (err)
		goto out;
	i = served_bound(s, served->table, served->last, buf_bytes(&served->end), false);
	if (overlaps_locked(s, served, i)) {
		err = -EEXIST;
		goto out;
	}
	insert_locked(s, served);
out:
	mutex_unlock(&s->lock);
	return err;
}

/*
 * Removes tablets from the set and drops the set's references: the tablets of a
 * table, or (table 0) those of a kind from `least` on.  One by one, because
 * served_put may wait and must not be called under the lock.
 */
static void set_remove(struct server *s, uint32_t table, enum kind least, bool dropped)
{
	for (;;) {
		struct served_tablet *served = NULL;

		mutex_lock(&s->lock);
		for (unsigned i = s->set_count; i-- > 0 && !served;)
			if (table ? s->set[i]->table == table : s->set[i]->kind >= least)
				served = s->set[i];
		if (served) {
			atomic_store(&served->dropped, dropped);
			(void)remove_locked(s, served);
		}
		mutex_unlock(&s->lock);
		if (!served)
			return;
		served_put(served);
	}
}

void served_drop_table(struct server *s, uint32_t table)
{
	set_remove(s, table, KIND_USER, true);
}

void served_drop_users(struct server *s)
{
	set_remove(s, 0, KIND_USER, false);
}

void served_drop_all(struct server *s)
{
	/* In this order, because freeing a user tablet may write METADATA, and freeing a tablet of METADATA may write the root tablet. */
	set_remove(s, 0, KIND_USER, false);
	set_remove(s, 0, KIND_META, false);
	set_remove(s, 0, KIND_ROOT, false);
	free(s->set);
	s->set = NULL;
	s->set_cap = 0;
}

int served_sum(struct server *s, struct served_sums *out)
{
	struct served_sums sums = {0};
	struct served_tablet **list;
	struct tablet_stats st;
	int err = served_list(s, 0, &list, &sums.tablets);

	if (err)
		return err;
	for (unsigned i = 0; i < sums.tablets; i++) {
		tablet_get_stats(list[i]->tablet, &st);
		sums.memory_bytes += st.memory_bytes;
		if (list[i]->kind != KIND_USER || list[i]->user_table->frozen)
			continue;
		sums.user_files += st.files;
		sums.user_tablets++;
		sums.behind += st.behind;
	}
	served_list_put(list, sums.tablets);
	sums.disk_bytes = sst_cache_file_bytes(s->cache);
	*out = sums;
	return 0;
}
