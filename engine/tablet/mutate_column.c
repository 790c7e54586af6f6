/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The columns that a mutation reads and changes.
 *
 * A column is read from one snapshot of the row; the stripe excludes other
 * writers.  It is read only as far as operations need it: newest first, or one
 * version at its timestamp.  Timestamps and sizes are copied.  A value is read
 * when an operation needs its bytes.  So a check and a delete of one version of
 * thousands cost one seek, and a column may be larger than memory.
 *
 * An operation costs a few steps in a tree, however many operations precede it: one
 * user's mutation must not hold a row for long.  So a version that is deleted leaves
 * the tree, unless the versions at its timestamp have not been read yet.  And a
 * delete of a row or family gets a number, which a column compares when it is touched
 * next.
 *
 * An operation that removes a version must also delete the versions that the
 * GC rules hide.  Otherwise maxversions would show such a version in place of the
 * removed version.  One CELL_DELETE_COLUMN at the newest hidden version deletes all
 * of them.  To find it, maxversions requires reading that many versions; for maxage
 * one seek is enough.  These deletes precede all other cells of the mutation.  So a
 * cell that the mutation puts at such a timestamp has a larger sequence number and
 * stays visible.
 */
#include "engine/tablet/mutate_impl.h"

#include "engine/base/hash.h"

#include <errno.h>
#include <stdlib.h>

enum { FIRST_BUCKETS = 16 };

int cell_push(struct cell_list *l, const struct batch_cell *c)
{
	if (l->n == l->cap) {
		unsigned cap = l->cap ? l->cap * 2 : MUTATION_INLINE;
		struct batch_cell *v = l->fixed_;

		if (l->cap) {
			v = realloc(l->v == l->fixed_ ? NULL : l->v, cap * sizeof *v);
			if (!v)
				return -ENOMEM;
			if (l->v == l->fixed_)
				memcpy(v, l->fixed_, sizeof l->fixed_);
		}
		l->v = v;
		l->cap = cap;
	}
	l->v[l->n++] = *c;
	return 0;
}

int mutation_note_put(struct mutation *m, int64_t ts, size_t bytes)
{
	if (bytes > MUTATION_BYTES_MAX - m->written)
		return -E2BIG;
	m->written += bytes;
	if (!m->any_put || ts > m->newest_us)
		m->newest_us = ts;
	m->any_put = true;
	return 0;
}

/* Returns the number of the last delete that includes the family, or 0. */
static uint32_t last_clear(const struct mutation *m, uint16_t family)
{
	for (unsigned i = 0; i < m->cleared_count; i++)
		if (m->family_clears[i].family == family)
			return m->family_clears[i].number > m->row_clear ? m->family_clears[i].number : m->row_clear;
	return m->row_clear;
}

/* ---- versions ---- */

static int version_cmp(const struct mversion *a, const struct mversion *b)
{
	return (a->ts < b->ts) - (a->ts > b->ts);
}
RB_PROTOTYPE_STATIC(mversions, mversion, link, version_cmp);
RB_GENERATE_STATIC(mversions, mversion, link, version_cmp);

/* Returns true if all versions with timestamps >= ts have been read. */
static bool mcolumn_has_read(const struct mcolumn *c, int64_t ts)
{
	return c->whole || (c->read && c->at.ts <= ts);
}

static struct mversion *versions_find(struct mcolumn *c, int64_t ts)
{
	struct mversion key = {.ts = ts};

	return RB_FIND(mversions, &c->versions, &key);
}

/* Returns the first version below ts, or NULL. */
static struct mversion *versions_below(struct mcolumn *c, int64_t ts)
{
	struct mversion key = {.ts = ts};

	if (ts == INT64_MIN)
		return NULL;
	key.ts--;
	return RB_NFIND(mversions, &c->versions, &key);
}

/* Inserts v, or replaces the version with its timestamp. */
static int versions_set(struct mutation *m, struct mcolumn *c, const struct mversion *v)
{
	struct mversion *at = versions_find(c, v->ts);

	if (at) {
		at->size = v->size;
		at->bytes = v->bytes;
		at->absent = v->absent;
		at->doubtful = v->doubtful;
		return 0;
	}
	at = arena_alloc(&m->arena, sizeof(*at));
	if (!at)
		return -ENOMEM;
	*at = *v;
	RB_INSERT(mversions, &c->versions, at);
	return 0;
}

/* Removes the timestamps without a version from `from`, which may be NULL, to ts. */
static void absent_remove(struct mcolumn *c, struct mversion *from, int64_t ts)
{
	struct mversion *next;

	for (struct mversion *v = from; v && v->ts >= ts; v = next) {
		next = RB_NEXT(mversions, &c->versions, v);
		if (v->absent)
			RB_REMOVE(mversions, &c->versions, v);
	}
}

/* ---- reading ---- */

/* Returns the family's rule.  Sets used_rules even if there is none, because a newer schema may have one. */
static const struct gc_rule *mcolumn_rule(struct mutation *m, const struct mcolumn *c)
{
	bool known;

	m->used_rules = true;
	return store_schema_rule(m->snap.schema, c->family, &known);
}

static int mcolumn_open_reader(struct mutation *m, const struct mcolumn *c, struct colread *r)
{
	return colread_open(r, m->snap.view, m->snap.seq, m->row, c->family, c->qualifier);
}

static void mcolumn_close_reader(struct mcolumn *c)
{
	if (c->open)
		colread_close(&c->reader);
	c->open = false;
}

/* Adds the version that was read after `above`, unless an operation has changed it. */
static int mcolumn_add_read(struct mutation *m, struct mcolumn *c, struct mversion *above, bool doubtful)
{
	const struct mversion v = {.ts = c->at.ts, .size = c->at.size, .doubtful = doubtful}, *changed = versions_find(c, v.ts);
	int err = changed ? 0 : versions_set(m, c, &v);

	if (err)
		return err;
	absent_remove(c, above, v.ts);
	c->read++;
	return 1;
}

/* Reads one more version that is visible or doubtful.  Returns 1, 0 at the end, -errno. */
static int mcolumn_load_next(struct mutation *m, struct mcolumn *c)
{
	const struct gc_rule *rule;
	struct mversion *unread;
	bool doubtful;
	int err;

	if (c->whole)
		return 0;
	rule = mcolumn_rule(m, c);
	if (!c->open) {
		if ((err = mcolumn_open_reader(m, c, &c->reader)))
			return err;
		c->open = true;
	}
	unread = c->read ? versions_below(c, c->at.ts) : RB_MIN(mversions, &c->versions);
	err = colread_next(&c->reader, &c->at);
	if (err < 0)
		return err;
	doubtful = err > 0 && gc_hides(rule, c->at.index, c->at.ts, m->now);
	if (err > 0 && (!doubtful || !gc_hides(rule, c->at.index, c->at.ts, m->collect)))
		return mcolumn_add_read(m, c, unread, doubtful);
	absent_remove(c, unread, INT64_MIN);
	if (err > 0) {
		c->hidden = true;
		c->hidden_ts = c->at.ts;
	}
	c->hidden_read = c->whole = true;
	mcolumn_close_reader(c);
	return 0;
}

/* Reads the first live version at or below ts.  Returns 1, 0 if there is none, -errno. */
static int mcolumn_seek(struct mutation *m, const struct mcolumn *c, int64_t ts, struct colver *ver)
{
	struct colread r;
	int err = mcolumn_open_reader(m, c, &r);

	if (err)
		return err;
	err = colread_skip_to(&r, ts);
	if (!err)
		err = colread_next(&r, ver);
	colread_close(&r);
	return err;
}

/*
 * Sets *ts to the latest time at which the rule hides a version, however many newer versions
 * there are.  Returns false if it hides no version.
 */
static bool rule_hides_up_to(const struct gc_rule *rule, int64_t now, int64_t *ts)
{
	int64_t lo = INT64_MIN, hi = INT64_MAX;

	if (!gc_hides(rule, UINT64_MAX, lo, now))
		return false;
	while (lo < hi) {
		int64_t mid = (int64_t)((uint64_t)lo + ((uint64_t)hi - (uint64_t)lo) / 2 + 1);

		if (gc_hides(rule, UINT64_MAX, mid, now))
			lo = mid;
		else
			hi = mid - 1;
	}
	*ts = lo;
	return true;
}

/* Finds the newest version that the rule hides at m->collect. */
static int mcolumn_find_hidden(struct mutation *m, struct mcolumn *c)
{
	const struct gc_rule *rule = mcolumn_rule(m, c);
	struct colver ver;
	int64_t ts;
	int err;

	if (c->hidden_read)
		return 0;
	if (!rule || !rule_hides_up_to(rule, m->collect, &ts)) {
		c->hidden_read = true;
		return 0;
	}
	while (!c->hidden_read) {
		bool beyond = !c->read || c->at.ts > ts;

		/*
		 * In this case the next version at or below ts is hidden, and
		 * versions above it need not be counted.
		 */
		if (beyond && gc_hides(rule, c->read, ts, m->collect) && gc_max_versions(rule) == UINT64_MAX) {
			err = mcolumn_seek(m, c, ts, &ver);
			if (err < 0)
				return err;
			c->hidden_read = true;
			c->hidden = err > 0;
			c->hidden_ts = err > 0 ? ver.ts : 0;
		} else if ((err = mcolumn_load_next(m, c)) < 0) {
			return err;
		}
	}
	return 0;
}

/* ---- columns ---- */

static int mutation_grow_buckets(struct mutation *m)
{
	unsigned count = m->bucket_count ? m->bucket_count * 4 : FIRST_BUCKETS;
	struct mcolumn **b = calloc(count, sizeof(struct mcolumn *));

	if (!b)
		return -ENOMEM;
	for (unsigned i = 0; i < m->bucket_count; i++) {
		for (struct mcolumn *c = m->buckets[i], *next; c; c = next) {
			next = c->next;
			c->next = b[c->hash % count];
			b[c->hash % count] = c;
		}
	}
	free(m->buckets);
	m->buckets = b;
	m->bucket_count = count;
	return 0;
}

/* Removes all versions. */
static void mcolumn_clear(struct mcolumn *c)
{
	mcolumn_close_reader(c);
	RB_INIT(&c->versions);
	c->read = 0;
	c->whole = c->hidden_read = true;
	c->hidden = false;
}

int mcolumn_touch(struct mutation *m, uint16_t family, struct tfs_bytes qualifier, struct mcolumn **out)
{
	const uint32_t clear = m->clears ? last_clear(m, family) : 0;
	uint64_t hash = hash_private(family, qualifier);
	struct mcolumn *c;
	int err;

	if (m->bucket_count) {
		for (c = m->buckets[hash % m->bucket_count]; c; c = c->next) {
			if (c->hash == hash && c->family == family && bytes_eq(c->qualifier, qualifier)) {
				if (c->clears_seen < clear)
					mcolumn_clear(c);
				c->clears_seen = clear;
				*out = c;
				return 0;
			}
		}
	}
	if (m->column_count >= m->bucket_count && (err = mutation_grow_buckets(m)))
		return err;
	c = calloc(1, sizeof *c);
	if (!c)
		return -ENOMEM;
	c->hash = hash;
	c->family = family;
	c->qualifier = qualifier;
	c->whole = c->hidden_read = clear > 0;
	c->clears_seen = clear;
	c->next = m->buckets[hash % m->bucket_count];
	m->buckets[hash % m->bucket_count] = c;
	m->column_count++;
	*out = c;
	return 0;
}

int mcolumn_next_kept(struct mutation *m, struct mcolumn *c, struct mwalk *w, struct mversion **out)
{
	for (;;) {
		struct mversion *v = w->begun ? versions_below(c, w->last) : RB_MIN(mversions, &c->versions);
		int err;

		if (v && mcolumn_has_read(c, v->ts)) { /* all versions at v->ts and above have been read, so v is not absent */
			*w = (struct mwalk){true, v->ts};
			*out = v;
			return 0;
		}
		if (c->whole) {
			*out = NULL;
			return 0;
		}
		if ((err = mcolumn_load_next(m, c)) < 0)
			return err;
	}
}

int mcolumn_next(struct mutation *m, struct mcolumn *c, struct mwalk *w, struct mversion **out)
{
	int err;

	do
		err = mcolumn_next_kept(m, c, w, out);
	while (!err && *out && (*out)->doubtful);
	return err;
}

int mcolumn_newest(struct mutation *m, struct mcolumn *c, struct mversion **out)
{
	struct mwalk w = {0};

	return mcolumn_next(m, c, &w, out);
}

/* Looks ts up without reading.  Returns false if reading is necessary; else sets *out as mcolumn_find_kept does. */
static bool mcolumn_cached(struct mcolumn *c, int64_t ts, struct mversion **out)
{
	struct mversion *v = versions_find(c, ts);

	*out = v && !v->absent ? v : NULL;
	return v || mcolumn_has_read(c, ts);
}

int mcolumn_find_kept(struct mutation *m, struct mcolumn *c, int64_t ts, struct mversion **out)
{
	const struct gc_rule *rule = mcolumn_rule(m, c);
	struct mversion v = {.ts = ts};
	struct colver ver;
	int err;

	while (!mcolumn_cached(c, ts, out)) {
		if (gc_expires(rule, 0, ts) != gc_expires(rule, UINT64_MAX, ts)) { /* the rule counts the versions above */
			if ((err = mcolumn_load_next(m, c)) < 0)
				return err;
			continue;
		}
		v.doubtful = gc_hides(rule, 0, ts, m->now);
		err = v.doubtful && gc_hides(rule, 0, ts, m->collect) ? 0 : mcolumn_seek(m, c, ts, &ver);
		if (err < 0)
			return err;
		v.absent = !err || ver.ts != ts;
		v.size = v.absent ? 0 : ver.size;
		if ((err = versions_set(m, c, &v)))
			return err;
	}
	return 0;
}

int mcolumn_find(struct mutation *m, struct mcolumn *c, int64_t ts, struct mversion **out)
{
	int err = mcolumn_find_kept(m, c, ts, out);

	if (!err && *out && (*out)->doubtful)
		*out = NULL;
	return err;
}

int mcolumn_bytes(struct mutation *m, struct mcolumn *c, struct mversion *v, struct tfs_bytes *out)
{
	struct colread r;
	struct colver ver;
	uint8_t *p;
	size_t got = 0;
	int err;

	if (v->bytes || !v->size) {
		*out = tfs_bytes_of(v->bytes, v->size);
		return 0;
	}
	p = arena_alloc(&m->arena, v->size);
	if (!p)
		return -ENOMEM;
	if (c->open && c->read && v->ts == c->at.ts) {
		err = colread_bytes(&c->reader, 0, p, v->size, &got);
	} else {
		if ((err = mcolumn_open_reader(m, c, &r)))
			return err;
		err = colread_skip_to(&r, v->ts);
		if (!err)
			err = colread_next(&r, &ver);
		if (err > 0)
			err = ver.ts == v->ts && ver.size == v->size ? colread_bytes(&r, 0, p, v->size, &got) : -EBADMSG;
		else if (!err)
			err = -EBADMSG;
		colread_close(&r);
	}
	if (err)
		return err;
	v->bytes = p;
	*out = tfs_bytes_of(p, v->size);
	return 0;
}

int mcolumn_put_as(struct mutation *m, struct mcolumn *c, int64_t ts, struct tfs_bytes value, bool doubtful)
{
	struct batch_cell cell = {CELL_VALUE, c->family, c->qualifier, value, ts, false};
	struct mversion v = {.ts = ts, .size = value.n, .bytes = value.p, .doubtful = doubtful};
	int err;

	if ((err = mutation_note_put(m, ts, value.n)) || (err = versions_set(m, c, &v)))
		return err;
	return cell_push(&m->cells, &cell);
}

int mcolumn_put(struct mutation *m, struct mcolumn *c, int64_t ts, struct tfs_bytes value)
{
	return mcolumn_put_as(m, c, ts, value, false);
}

/* Deletes the versions that the rules hid before the mutation. */
static int mcolumn_purge(struct mutation *m, struct mcolumn *c)
{
	struct batch_cell cell = {CELL_DELETE_COLUMN, c->family, c->qualifier, {NULL, 0}, 0, true};
	int err = c->purged ? 0 : mcolumn_find_hidden(m, c);

	if (err || c->purged || !c->hidden)
		return err;
	cell.ts = c->hidden_ts;
	err = cell_push(&m->pre, &cell);
	c->purged = !err;
	return err;
}

static int mcolumn_delete_version(struct mutation *m, struct mcolumn *c, int64_t ts)
{
	struct batch_cell cell = {CELL_DELETE_VERSION, c->family, c->qualifier, {NULL, 0}, ts, false};
	struct mversion v = {.ts = ts, .absent = true}, *known = versions_find(c, ts);
	int err = 0;

	if (!mcolumn_has_read(c, ts))
		err = versions_set(m, c, &v);
	else if (known)
		RB_REMOVE(mversions, &c->versions, known);
	return err ? err : cell_push(&m->cells, &cell);
}

int mcolumn_delete(struct mutation *m, struct mcolumn *c, int64_t ts)
{
	struct mversion *v;
	int err;

	/* To find out whether the version exists, it may have to be read.  A delete without reading is cheaper. */
	if ((!mcolumn_cached(c, ts, &v) || v) && (err = mcolumn_delete_version(m, c, ts)))
		return err;
	return mcolumn_purge(m, c);
}

int mcolumn_delete_newer(struct mutation *m, struct mcolumn *c, int64_t ts)
{
	struct mwalk w = {0};
	struct mversion *v;
	int err = mcolumn_purge(m, c);

	while (!err && !(err = mcolumn_next(m, c, &w, &v)) && v && v->ts > ts)
		err = mcolumn_delete_version(m, c, v->ts);
	return err;
}

int mcolumn_delete_all(struct mutation *m, struct mcolumn *c)
{
	struct batch_cell cell = {CELL_DELETE_COLUMN, c->family, c->qualifier, {NULL, 0}, INT64_MAX, false};
	int err = cell_push(&m->cells, &cell);

	if (!err)
		mcolumn_clear(c);
	return err;
}

int mcolumn_clear_family(struct mutation *m, uint16_t family)
{
	unsigned i = 0;

	m->clears++;
	if (family == 0) {
		m->row_clear = m->clears;
		return 0;
	}
	while (i < m->cleared_count && m->family_clears[i].family != family)
		i++;
	if (i == m->cleared_count) {
		int err = array_grow(&m->family_clears, i, sizeof(*m->family_clears));

		if (err)
			return err;
		m->cleared_count++;
	}
	m->family_clears[i] = (struct family_clear){family, m->clears};
	return 0;
}

void mcolumn_reset(struct mutation *m)
{
	for (unsigned i = 0; i < m->bucket_count; i++) {
		for (struct mcolumn *c = m->buckets[i], *next; c; c = next) {
			next = c->next;
			mcolumn_close_reader(c);
			free(c);
		}
	}
	free(m->buckets);
	free(m->family_clears);
	m->buckets = NULL;
	m->family_clears = NULL;
	m->clears = m->row_clear = 0;
	m->bucket_count = m->column_count = m->cleared_count = 0;
	m->used_rules = m->any_put = false;
	m->written = 0;
	m->draw_next = 0;
	m->pre.n = m->cells.n = 0;
}
