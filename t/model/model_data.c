/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows, columns and versions as sorted arrays, and the counted bytes in
 * them.  A table's rows hold what has been written and not deleted; a
 * delete is physical.  What the GC rules hide stays until a delete in its
 * column, tfs_compact or the end takes it, and is skipped when reading.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "t/model/model_types.h"

struct mdl_blob *mdl_blob_new(const void *p, size_t n)
{
	struct mdl_blob *b = calloc(1, sizeof(*b) + n + 1);

	if (!b)
		return NULL;
	b->refs = 1;
	b->size = n;
	if (p && n > 0)
		memcpy(b->data, p, n);
	return b;
}

struct mdl_blob *mdl_blob_get(struct mdl_blob *b)
{
	b->refs++;
	return b;
}

void mdl_blob_put(struct mdl_blob *b)
{
	if (b && --b->refs == 0)
		free(b);
}

int mdl_compare(struct tfs_bytes a, struct tfs_bytes b)
{
	size_t n = a.n < b.n ? a.n : b.n;
	int c = n > 0 ? memcmp(a.p, b.p, n) : 0;

	if (c != 0)
		return c;
	return (a.n > b.n) - (a.n < b.n);
}

int mdl_reserve(void *p, size_t *capacity, size_t want, size_t item_bytes)
{
	size_t n = *capacity ? *capacity : 4;
	void *old, *grown;

	if (want <= *capacity)
		return 0;
	while (n < want)
		n *= 2;
	memcpy(&old, p, sizeof(old));
	grown = reallocarray(old, n, item_bytes);
	if (!grown)
		return -ENOMEM;
	memcpy(p, &grown, sizeof(grown));
	*capacity = n;
	return 0;
}

bool mdl_row_find(const struct tfs_table *t, struct tfs_bytes key, size_t *at)
{
	size_t low = 0, high = t->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		int c = mdl_compare(mdl_blob_bytes(t->row[mid]->key), key);
		if (c == 0) {
			*at = mid;
			return true;
		}
		if (c < 0)
			low = mid + 1;
		else
			high = mid;
	}
	*at = low;
	return false;
}

bool mdl_column_find(const struct mdl_row *r, uint16_t family, struct tfs_bytes qualifier, size_t *at)
{
	size_t low = 0, high = r->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		const struct mdl_column *col = r->col[mid];
		int c = (col->family > family) - (col->family < family);
		if (c == 0)
			c = mdl_compare(mdl_blob_bytes(col->qualifier), qualifier);
		if (c == 0) {
			*at = mid;
			return true;
		}
		if (c < 0)
			low = mid + 1;
		else
			high = mid;
	}
	*at = low;
	return false;
}

struct mdl_column *mdl_column_new(uint16_t family, struct tfs_bytes qualifier)
{
	struct mdl_column *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->family = family;
	c->qualifier = mdl_blob_new(qualifier.p, qualifier.n);
	if (!c->qualifier) {
		free(c);
		return NULL;
	}
	return c;
}

void mdl_column_clear(struct mdl_column *c)
{
	for (size_t i = 0; i < c->n; i++)
		mdl_blob_put(c->v[i].value);
	c->n = 0;
}

void mdl_column_free(struct mdl_column *c)
{
	if (!c)
		return;
	mdl_column_clear(c);
	mdl_blob_put(c->qualifier);
	free(c->v);
	free(c);
}

static uint64_t last_sequence; /* the last sequence of all rows */

int mdl_column_put(struct mdl_column *c, int64_t ts, int64_t commit_us, struct mdl_blob *value)
{
	size_t i = 0;

	while (i < c->n && c->v[i].ts > ts)
		i++;
	if (i < c->n && c->v[i].ts == ts) {
		mdl_blob_put(c->v[i].value);
	} else {
		if (mdl_reserve(&c->v, &c->capacity, c->n + 1, sizeof(*c->v)) < 0) {
			mdl_blob_put(value);
			return -ENOMEM;
		}
		memmove(c->v + i + 1, c->v + i, (c->n - i) * sizeof(*c->v));
		c->n++;
	}
	c->v[i] = (struct mdl_version){ts, commit_us, ++last_sequence, value, true};
	return 0;
}

void mdl_column_remove(struct mdl_column *c, size_t i)
{
	mdl_blob_put(c->v[i].value);
	memmove(c->v + i, c->v + i + 1, (c->n - i - 1) * sizeof(*c->v));
	c->n--;
}

void mdl_row_free(struct mdl_row *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < r->n; i++)
		mdl_column_free(r->col[i]);
	free(r->col);
	mdl_blob_put(r->key);
	free(r);
}

size_t mdl_column_live(const struct mdl_column *c, const struct mdl_gc *gc, int64_t now)
{
	size_t i = 0;

	while (i < c->n && mdl_gc_expiry(gc, i, c->v[i].ts) > now)
		i++;
	return i;
}

int mdl_row_install(struct tfs_table *t, struct mdl_row *before, struct tfs_bytes key, struct mdl_row *touched)
{
	struct mdl_row *row = before;
	size_t at, i;
	int r = 0;

	if (!row) {
		row = calloc(1, sizeof(*row));
		if (!row)
			return -ENOMEM;
		row->key = mdl_blob_new(key.p, key.n);
		r = row->key ? mdl_reserve(&t->row, &t->capacity, t->n + 1, sizeof(*t->row)) : -ENOMEM;
	}
	if (r == 0)
		r = mdl_reserve(&row->col, &row->capacity, row->n + touched->n, sizeof(*row->col));
	if (r < 0) {
		if (!before)
			mdl_row_free(row);
		return r;
	}
	for (i = 0; i < touched->n; i++) {
		struct mdl_column *c = touched->col[i];
		bool old = mdl_column_find(row, c->family, mdl_blob_bytes(c->qualifier), &at);
		if (old)
			mdl_column_free(row->col[at]);
		else
			memmove(row->col + at + 1, row->col + at, (row->n++ - at) * sizeof(*row->col));
		row->col[at] = c;
	}
	touched->n = 0;
	size_t kept = 0;
	for (i = 0; i < row->n; i++) {
		if (row->col[i]->n > 0)
			row->col[kept++] = row->col[i];
		else
			mdl_column_free(row->col[i]);
	}
	row->n = kept;
	bool found = mdl_row_find(t, key, &at);
	if (kept > 0 && !found) {
		memmove(t->row + at + 1, t->row + at, (t->n++ - at) * sizeof(*t->row));
		t->row[at] = row;
	} else if (kept == 0) {
		mdl_row_free(row);
		if (found)
			memmove(t->row + at, t->row + at + 1, (--t->n - at) * sizeof(*t->row));
	}
	return 0;
}

bool mdl_table_has_cells(struct tfs_table *t, uint16_t family_id, bool any_family)
{
	int64_t now = mdl_table_now(t);

	for (size_t i = 0; i < t->n; i++)
		for (size_t j = 0; j < t->row[i]->n; j++) {
			const struct mdl_column *c = t->row[i]->col[j];
			if (!any_family && c->family != family_id)
				continue;
			if (mdl_column_live(c, mdl_schema_gc(t->schema, c->family, NULL), now) > 0)
				return true;
		}
	return false;
}

/* Drops columns without versions and rows without columns. */
static void squeeze(struct tfs_table *t)
{
	size_t rows = 0;

	for (size_t i = 0; i < t->n; i++) {
		struct mdl_row *r = t->row[i];
		size_t columns = 0;
		for (size_t j = 0; j < r->n; j++) {
			if (r->col[j]->n > 0)
				r->col[columns++] = r->col[j];
			else
				mdl_column_free(r->col[j]);
		}
		r->n = columns;
		if (columns > 0)
			t->row[rows++] = r;
		else
			mdl_row_free(r);
	}
	t->n = rows;
}

void mdl_table_drop_family(struct tfs_table *t, uint16_t family_id)
{
	for (size_t i = 0; i < t->n; i++)
		for (size_t j = 0; j < t->row[i]->n; j++)
			if (t->row[i]->col[j]->family == family_id)
				mdl_column_clear(t->row[i]->col[j]);
	squeeze(t);
}

void mdl_table_collect(struct tfs_table *t)
{
	int64_t now = mdl_table_now(t);

	for (size_t i = 0; i < t->n; i++)
		for (size_t j = 0; j < t->row[i]->n; j++) {
			struct mdl_column *c = t->row[i]->col[j];
			size_t live = mdl_column_live(c, mdl_schema_gc(t->schema, c->family, NULL), now);
			while (c->n > live)
				mdl_column_remove(c, c->n - 1);
		}
	squeeze(t);
}
