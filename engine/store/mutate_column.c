/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A mutation's copy of the columns it touches.
 *
 * A column is read once, from one snapshot of the row (the stripe keeps
 * other writers away), and holds the versions that the GC rules showed.  The
 * first version that they hid is remembered: whoever removes a version also
 * deletes, with one column-up-to-timestamp entry, everything from there
 * down, so that nothing hidden comes back (DESIGN 3.1).  Those entries stand
 * before all other cells of the mutation, so that what the mutation itself
 * puts at such a timestamp has the larger sequence number.
 */
#include "engine/store/mutate_impl.h"
#include "engine/store/tablet_column.h"

#include <errno.h>
#include <stdlib.h>

enum { FIRST_BUCKETS = 16 };

int
cell_push(struct cell_list *l, const struct batch_cell *c)
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

static bool
is_cleared(const struct mutation *m, uint16_t family)
{
	if (m->row_cleared)
		return true;
	for (unsigned i = 0; i < m->cleared_count; i++)
		if (m->cleared[i] == family)
			return true;
	return false;
}

static int
grow(struct mcolumn *c)
{
	unsigned cap = c->cap ? c->cap * 2 : 4;
	struct mversion *v = c->n < c->cap ? c->v : reallocarray(c->v, cap, sizeof *v);

	if (!v)
		return -ENOMEM;
	if (v != c->v || c->n >= c->cap)
		c->cap = cap;
	c->v = v;
	return 0;
}

static int
load(struct mutation *m, struct mcolumn *c, bool newest_only)
{
	const struct store_family *f = store_schema_family(m->snap.schema, c->family);
	struct colread r;
	struct colver ver;
	int err;

	err = colread_open(&r, m->snap.view, m->snap.seq, m->row, c->family, c->qualifier);
	if (err)
		return err;
	while ((err = colread_next(&r, &ver)) > 0) {
		if (f && gc_hides(f->rule, ver.index, ver.ts, m->now)) {
			c->hidden = true;
			c->hidden_ts = ver.ts;
			err = 0;
			break;
		}
		if ((err = grow(c)))
			break;
		c->v[c->n] = (struct mversion){ver.ts, ver.size, NULL};
		if (newest_only && !ver.large) {
			struct slice copy;

			if (!arena_dup(&m->arena, ver.value, &copy)) {
				err = -ENOMEM;
				break;
			}
			c->v[c->n].bytes = copy.p;
		}
		c->n++;
		if (newest_only)
			break;
	}
	if (f && f->rule)
		m->judged = true;
	colread_close(&r);
	return err;
}

static int
more_buckets(struct mutation *m)
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

int
mcolumn_touch(struct mutation *m, uint16_t family, struct slice qualifier, bool newest_only, struct mcolumn **out)
{
	uint64_t hash = hash64(qualifier, family);
	struct mcolumn *c;
	int err;

	if (m->bucket_count) {
		for (c = m->buckets[hash % m->bucket_count]; c; c = c->next) {
			if (c->hash == hash && c->family == family && slice_eq(c->qualifier, qualifier)) {
				*out = c;
				return 0;
			}
		}
	}
	if (m->column_count >= m->bucket_count && (err = more_buckets(m)))
		return err;
	c = calloc(1, sizeof *c);
	if (!c)
		return -ENOMEM;
	c->hash = hash;
	c->family = family;
	c->qualifier = qualifier;
	if (!is_cleared(m, family) && (err = load(m, c, newest_only))) {
		free(c->v);
		free(c);
		return err;
	}
	c->next = m->buckets[hash % m->bucket_count];
	m->buckets[hash % m->bucket_count] = c;
	m->column_count++;
	*out = c;
	return 0;
}

/* The first version at or below ts. */
static unsigned
lower(const struct mcolumn *c, int64_t ts)
{
	unsigned lo = 0, hi = c->n;

	while (lo < hi) {
		unsigned mid = lo + (hi - lo) / 2;

		if (c->v[mid].ts > ts)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

unsigned
mcolumn_find(const struct mcolumn *c, int64_t ts)
{
	unsigned i = lower(c, ts);

	return i < c->n && c->v[i].ts == ts ? i : c->n;
}

int
mcolumn_bytes(struct mutation *m, struct mcolumn *c, unsigned i, struct slice *out)
{
	struct mversion *v = &c->v[i];
	struct colread r;
	struct colver ver;
	uint8_t *p;
	size_t got = 0;
	int err;

	if (v->bytes || !v->size) {
		*out = slice_of(v->bytes, v->size);
		return 0;
	}
	p = arena_alloc(&m->arena, v->size);
	if (!p)
		return -ENOMEM;
	err = colread_open(&r, m->snap.view, m->snap.seq, m->row, c->family, c->qualifier);
	if (err)
		return err;
	if (!r.tombstones)
		colread_skip_to(&r, v->ts);
	while ((err = colread_next(&r, &ver)) > 0 && ver.ts > v->ts)
		;
	if (err > 0)
		err = ver.ts == v->ts && ver.size == v->size ? colread_bytes(&r, &ver, 0, p, v->size, &got) : -EBADMSG;
	else if (!err)
		err = -EBADMSG;
	colread_close(&r);
	if (err)
		return err;
	v->bytes = p;
	*out = slice_of(p, v->size);
	return 0;
}

int
mcolumn_put(struct mutation *m, struct mcolumn *c, int64_t ts, struct slice value)
{
	struct batch_cell cell = {CELL_VALUE, c->family, c->qualifier, value, ts};
	static const uint8_t nothing[1];
	unsigned i = lower(c, ts);
	int err;

	if (value.n > MUTATION_BYTES_MAX - m->written)
		return -E2BIG;
	if (i == c->n || c->v[i].ts != ts) {
		if ((err = grow(c)))
			return err;
		memmove(c->v + i + 1, c->v + i, (c->n - i) * sizeof *c->v);
		c->n++;
	}
	c->v[i] = (struct mversion){ts, value.n, value.n ? value.p : nothing};
	m->written += value.n;
	if (!m->any_put || ts > m->newest_us)
		m->newest_us = ts;
	m->any_put = true;
	return cell_push(&m->cells, &cell);
}

int
mcolumn_purge(struct mutation *m, struct mcolumn *c)
{
	struct batch_cell cell = {CELL_DELETE_COLUMN, c->family, c->qualifier, {NULL, 0}, c->hidden_ts};
	int err;

	if (!c->hidden || c->purged)
		return 0;
	err = cell_push(&m->pre, &cell);
	if (!err)
		c->purged = true;
	return err;
}

int
mcolumn_delete(struct mutation *m, struct mcolumn *c, unsigned i)
{
	int err = 0;

	if (i < c->n) {
		struct batch_cell cell = {CELL_DELETE_VERSION, c->family, c->qualifier, {NULL, 0}, c->v[i].ts};

		err = cell_push(&m->cells, &cell);
		if (err)
			return err;
		memmove(c->v + i, c->v + i + 1, (c->n - i - 1) * sizeof *c->v);
		c->n--;
	}
	return mcolumn_purge(m, c);
}

int
mcolumn_delete_all(struct mutation *m, struct mcolumn *c)
{
	struct batch_cell cell = {CELL_DELETE_COLUMN, c->family, c->qualifier, {NULL, 0}, INT64_MAX};
	int err = cell_push(&m->cells, &cell);

	if (err)
		return err;
	c->n = 0;
	c->hidden = false;
	return 0;
}

int
mcolumn_clear_family(struct mutation *m, uint16_t family)
{
	for (unsigned i = 0; i < m->bucket_count; i++) {
		for (struct mcolumn *c = m->buckets[i]; c; c = c->next) {
			if (family == 0 || c->family == family) {
				c->n = 0;
				c->hidden = false;
			}
		}
	}
	if (family == 0) {
		m->row_cleared = true;
	} else if (!is_cleared(m, family)) {
		uint16_t *v = realloc(m->cleared, (m->cleared_count + 1u) * sizeof *v);

		if (!v)
			return -ENOMEM;
		m->cleared = v;
		v[m->cleared_count++] = family;
	}
	return 0;
}

void
mcolumn_reset(struct mutation *m)
{
	for (unsigned i = 0; i < m->bucket_count; i++) {
		for (struct mcolumn *c = m->buckets[i], *next; c; c = next) {
			next = c->next;
			free(c->v);
			free(c);
		}
	}
	free(m->buckets);
	free(m->cleared);
	m->buckets = NULL;
	m->cleared = NULL;
	m->bucket_count = m->column_count = m->cleared_count = 0;
	m->row_cleared = m->judged = m->any_put = false;
	m->written = 0;
	m->draw_next = 0;
	m->pre.n = m->cells.n = 0;
}
