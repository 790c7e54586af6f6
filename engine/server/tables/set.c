/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The set of served tablets: an array ordered by (table, end row), which threads
 * search under its lock.  A tablet is removed from the set when a split
 * or merge replaces it, when its table is dropped, and when the server closes.
 * The last served_put frees the tablet and waits for its background work.
 *
 * Two objects of one tablet would compact the same files.  So one thread at a time
 * loads tablets of a kind (load_begin).  A LOAD of users' tablets reads METADATA, so it
 * must not delay a LOAD of METADATA.  No tablet of a dropped table is inserted.
 *
 * A tablet that is not in the set yet would miss a schema that is set then.  So only
 * one thread at a time sets a schema, or makes tablets and inserts them (set_begin).
 * It does not wait for a LOAD, which may replay a log for long.
 */
#include "engine/server/tables/set.h"
#include "engine/base/clock.h"

#include <errno.h>
#include <stdlib.h>

#define EVENT_BYTES 512u /* the most bytes of the events of a tablet */
#define RATE_US UINT64_C(60000000)

struct set {
	struct mutex lock;                   /* guards the next members */
	struct cond turn;                    /* the end of a turn: loading or setting has become false */
	bool loading[KINDS];                 /* a thread is between load_begin and load_end */
	bool setting;                        /* a thread is between set_begin and set_end */
	const struct ts_assigned *unloading; /* set_unloading */
	struct served_tablet **v;            /* by table, then end */
	unsigned count, cap, spare;          /* spare: places that set_reserve has reserved */
};

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
static unsigned served_bound(struct set *set, uint32_t table, bool last, struct tfs_bytes end, bool past)
{
	unsigned lo = 0, hi = set->count;

	while (lo < hi) {
		unsigned mid = lo + (hi - lo) / 2;

		if (served_cmp(set->v[mid], table, last, end) < past)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static int find(struct server *s, uint32_t table, struct tfs_bytes row, bool any, struct served_tablet **out)
{
	struct set *set = s->set;
	struct served_tablet *served = NULL;
	unsigned i;

	mutex_lock(&set->lock);
	i = served_bound(set, table, false, row, true); /* an end is exclusive */
	/* The set has no other tablet for the row; so a row below its begin belongs to another server. */
	if (i < set->count && set->v[i]->table == table && (any || !atomic_load(&set->v[i]->loading)) &&
		bytes_cmp(row, tablet_begin(set->v[i]->tablet)) >= 0) {
		served = set->v[i];
		atomic_fetch_add_explicit(&served->refs, 1, memory_order_relaxed);
	}
	mutex_unlock(&set->lock);
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
	struct set *set = s->set;
	int err = -TABLET_MOVED;
	unsigned i;

	mutex_lock(&set->lock);
	i = served_bound(set, table, !end.p, end, false);
	if (i < set->count && served_cmp(set->v[i], table, !end.p, end) == 0) {
		*out = set->v[i];
		atomic_fetch_add(&set->v[i]->refs, 1);
		err = 0;
	}
	mutex_unlock(&set->lock);
	return err;
}

void set_unloading(struct server *s, const struct ts_assigned *t)
{
	mutex_lock(&s->set->lock);
	s->set->unloading = t;
	mutex_unlock(&s->set->lock);
}

static void turn_begin(struct set *set, bool *taken)
{
	mutex_lock(&set->lock);
	while (*taken)
		cond_wait(&set->turn, &set->lock);
	*taken = true;
	mutex_unlock(&set->lock);
}

static void turn_end(struct set *set, bool *taken)
{
	mutex_lock(&set->lock);
	*taken = false;
	cond_broadcast(&set->turn);
	mutex_unlock(&set->lock);
}

void load_begin(struct server *s, enum kind kind)
{
	turn_begin(s->set, &s->set->loading[kind]);
}

void load_end(struct server *s, enum kind kind)
{
	turn_end(s->set, &s->set->loading[kind]);
}

void set_begin(struct server *s)
{
	turn_begin(s->set, &s->set->setting);
}

void set_end(struct server *s)
{
	turn_end(s->set, &s->set->setting);
}

static int list(struct server *s, uint32_t table, bool any, struct served_tablet ***out, unsigned *count)
{
	struct set *set = s->set;
	struct served_tablet **v;
	unsigned n = 0;

	mutex_lock(&set->lock);
	v = calloc(set->count ? set->count : 1, sizeof(*v));
	if (v) {
		for (unsigned i = 0; i < set->count; i++) {
			if ((table && set->v[i]->table != table) || (!any && atomic_load(&set->v[i]->loading)))
				continue;
			atomic_fetch_add(&set->v[i]->refs, 1);
			v[n++] = set->v[i];
		}
	}
	mutex_unlock(&set->lock);
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
	struct buf *b = &served->events, line = {0};
	const uint8_t *cut;
	int err = buf_printf(&line, "%lld %s\n", (long long)(clock_now(served->server->o.clock) / 1000000), text);

	mutex_lock(&served->server->set->lock);
	/* A split reports its event, and the edit that tidies the upper tablet reports it again. */
	if (!err && (b->n < line.n || memcmp(b->p + b->n - line.n, line.p, line.n) != 0) &&
		buf_append_bytes(b, buf_bytes(&line)) == 0) {
		/* The first line that leaves at most EVENT_BYTES. */
		cut = b->n > EVENT_BYTES ? memchr(b->p + b->n - EVENT_BYTES - 1, '\n', EVENT_BYTES) : NULL;
		if (cut) {
			b->n -= (size_t)(cut + 1 - b->p);
			memmove(b->p, cut + 1, b->n);
		}
	}
	mutex_unlock(&served->server->set->lock);
	buf_fini(&line);
}

bool served_events(struct served_tablet *served, struct arena *a, struct tfs_bytes *out)
{
	bool ok;

	mutex_lock(&served->server->set->lock);
	ok = arena_dup(a, buf_bytes(&served->events), out);
	mutex_unlock(&served->server->set->lock);
	return ok;
}

/* Half of an average is of the last minute or longer, a quarter of the time before, and so on. */
struct tablet_rate served_rate(struct served_tablet *served)
{
	const uint64_t now = monotonic_us(), reads = served->reads, writes = served->writes;
	struct tablet_rate *r = &served->rate, result;
	uint64_t since;

	mutex_lock(&served->server->set->lock);
	since = now - (r->at_us ? r->at_us : served->made_us);
	if (since >= RATE_US) {
		r->reads_second = (r->reads_second + (reads - r->reads) * 1000000 / since) / 2;
		r->writes_second = (r->writes_second + (writes - r->writes) * 1000000 / since) / 2;
		r->reads = reads;
		r->writes = writes;
		r->at_us = now;
	}
	result = *r;
	mutex_unlock(&served->server->set->lock);
	return result;
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
static int set_grow_locked(struct set *set, unsigned more)
{
	unsigned cap = set->cap ? set->cap : 16;
	struct served_tablet **v;

	while (cap < set->count + more)
		cap *= 2;
	if (cap == set->cap)
		return 0;
	v = realloc(set->v, cap * sizeof(struct served_tablet *));
	if (!v)
		return -ENOMEM;
	set->v = v;
	set->cap = cap;
	return 0;
}

int set_reserve(struct server *s, unsigned more)
{
	struct set *set = s->set;
	int err;

	mutex_lock(&set->lock);
	set->spare = more;
	err = set_grow_locked(set, more);
	mutex_unlock(&set->lock);
	return err;
}

static void insert_locked(struct set *set, struct served_tablet *served)
{
	unsigned i = served_bound(set, served->table, served->last, buf_bytes(&served->end), false);

	memmove(set->v + i + 1, set->v + i, (set->count - i) * sizeof(struct served_tablet *));
	set->v[i] = served;
	set->count++;
}

static bool remove_locked(struct set *set, const struct served_tablet *served)
{
	unsigned i = served_bound(set, served->table, served->last, buf_bytes(&served->end), false);

	if (i == set->count || set->v[i] != served)
		return false;
	memmove(set->v + i, set->v + i + 1, (set->count - i - 1) * sizeof(struct served_tablet *));
	set->count--;
	return true;
}

void set_replace(
	struct server *s, struct served_tablet *const *old, unsigned old_count, struct served_tablet *const *with, unsigned count)
{
	struct set *set = s->set;
	bool found = false;

	mutex_lock(&set->lock);
	for (unsigned i = 0; i < old_count; i++)
		found |= remove_locked(set, old[i]);
	for (unsigned i = 0; i < count; i++) {
		if (found) {
			insert_locked(set, with[i]);
			atomic_fetch_add(&with[i]->refs, 1);
		} else {
			atomic_store(&with[i]->dropped, true);
		}
	}
	set->spare = 0;
	mutex_unlock(&set->lock);
	for (unsigned i = 0; i < old_count && found; i++)
		served_put(old[i]);
}

/* Returns true if a tablet of the set has rows of this tablet, which would be inserted at i. */
static bool overlaps_locked(const struct set *set, const struct served_tablet *served, unsigned i)
{
	const struct tfs_bytes begin = tablet_begin(served->tablet);

	if (i < set->count && set->v[i]->table == served->table &&
		(served->last || bytes_cmp(tablet_begin(set->v[i]->tablet), buf_bytes(&served->end)) < 0))
		return true;
	return i > 0 && set->v[i - 1]->table == served->table && bytes_cmp(buf_bytes(&set->v[i - 1]->end), begin) > 0;
}

int set_insert(struct server *s, struct served_tablet *served)
{
	struct set *set = s->set;
	unsigned i;
	int err = 0;

	mutex_lock(&set->lock);
	/*
	 * A table is marked as dropped before its tablets are removed.  So this thread sees the
	 * mark, or the tablet is removed with the table's other tablets.
	 */
	if (served->user_table && user_table_dropped(served->user_table)) {
		err = -TABLE_DROPPED;
		goto out;
	}
	if (set->unloading && served_cmp(served, set->unloading->table, !set->unloading->end.p, set->unloading->end) == 0) {
		err = -EAGAIN; /* the row may have been read before UNLOAD changed it */
		goto out;
	}
	err = set_grow_locked(set, set->spare + 1);
	if (err)
		goto out;
	i = served_bound(set, served->table, served->last, buf_bytes(&served->end), false);
	if (overlaps_locked(set, served, i)) {
		err = -EEXIST;
		goto out;
	}
	insert_locked(set, served);
out:
	mutex_unlock(&set->lock);
	return err;
}

/*
 * Removes tablets from the set and drops the set's references: the tablets of a
 * table, or (table 0) all tablets of a kind from `least` on.  Removes them one
 * by one, because served_put may wait and must not be called under the lock.
 */
static void set_remove(struct server *s, uint32_t table, enum kind least, bool dropped)
{
	struct set *set = s->set;

	for (;;) {
		struct served_tablet *served = NULL;

		mutex_lock(&set->lock);
		for (unsigned i = set->count; i-- > 0 && !served;)
			if (table ? set->v[i]->table == table : set->v[i]->kind >= least)
				served = set->v[i];
		if (served) {
			atomic_store(&served->dropped, dropped);
			(void)remove_locked(set, served);
		}
		mutex_unlock(&set->lock);
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
}

int served_sum(struct server *s, struct served_sums *out)
{
	struct served_sums sums = {0};
	struct served_tablet **list;
	struct tablet_stats st;
	uint64_t used = 0;
	int err = served_list(s, 0, &list, &sums.tablets);

	if (err)
		return err;
	for (unsigned i = 0; i < sums.tablets; i++) {
		tablet_get_stats(list[i]->tablet, &st);
		sums.memory_bytes += st.memory_bytes + st.changes_memory_bytes;
		if (list[i]->kind != KIND_USER || !list[i]->user_table->frozen)
			used += st.disk_bytes + st.changes_disk_bytes;
		if (list[i]->kind != KIND_USER || list[i]->user_table->frozen)
			continue;
		sums.user_files += st.files;
		sums.user_tablets++;
		sums.behind += st.behind;
	}
	served_list_put(list, sums.tablets);
	sums.disk_bytes = sst_cache_file_bytes(s->cache);
	sums.pinned_bytes = sums.disk_bytes > used ? sums.disk_bytes - used : 0;
	*out = sums;
	return 0;
}

static int begin(struct server *s, struct task_pool *pool)
{
	mutex_init(&s->set->lock, RANK_SERVER);
	cond_init(&s->set->turn);
	return 0;
}

static void end(struct server *s)
{
	free(s->set->v);
	cond_fini(&s->set->turn);
	mutex_fini(&s->set->lock);
}

const struct server_part set_part = {offsetof(struct server, set), sizeof(struct set), begin, NULL, end};
