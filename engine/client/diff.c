/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The difference of two snapshots of a table.
 *
 * METADATA lists the SSTables of both, and the rows for which each tablet uses
 * them.  Where both use the same files for the same rows, they have the same
 * entries.  The other rows, those of files that only one of them uses there, are
 * read from both, in the same order, and the cells are compared.
 *
 * The same entries show the same cells only under the same rules and names of
 * families, and if no rule depends on the time.  Otherwise all rows are compared.
 * So are those of a salted table, whose ranges in METADATA have salts in front.
 *
 * A cell whose sequence number is the same in both has not been written in
 * between.  Of others with the same name the values are compared, so that a cell
 * that was written again with the same value is no difference.
 */
#include "engine/client/client.h"

#include <errno.h>
#include <stdlib.h>

#define PIECE (64u << 10) /* of large values that are compared */

/* ---- rows that only one of two lists of files covers ---- */

struct span { /* of rows; to.p NULL: no end */
	struct buf from, to;
};
struct spans {
	struct span *v;
	unsigned n;
};
struct diff_file {
	UT_hash_handle hh;
	struct {
		uint64_t incarnation, number;
		uint32_t table, zero;
	} key;
	struct spans rows[2]; /* in the order of rows: for which the first, and the second, use the file */
};

static void spans_fini(struct spans *s)
{
	for (unsigned i = 0; i < s->n; i++) {
		buf_fini(&s->v[i].from);
		buf_fini(&s->v[i].to);
	}
	free(s->v);
	*s = (struct spans){0};
}

/* Returns true if a is above b; NULL: no end. */
static bool end_above(struct slice a, struct slice b)
{
	return b.p && (!a.p || slice_cmp(a, b) > 0);
}

/* Appends [from, to), unless it is empty.  One that begins where the last one ends extends it. */
static int spans_add(struct spans *s, struct slice from, struct slice to)
{
	struct span *last = s->n ? &s->v[s->n - 1] : NULL;

	if (to.p && slice_cmp(from, to) >= 0)
		return 0;
	if (last && (!last->to.p || slice_cmp(buf_slice(&last->to), from) >= 0)) {
		if (!end_above(to, buf_slice(&last->to)))
			return 0;
		buf_fini(&last->to);
		return to.p ? tablet_end_copy(&last->to, to) : 0;
	}
	if (array_grow(&s->v, s->n, sizeof(*s->v)))
		return -ENOMEM;
	last = &s->v[s->n];
	*last = (struct span){0};
	s->n++;
	if (buf_append_slice(&last->from, from))
		return -ENOMEM;
	return to.p ? tablet_end_copy(&last->to, to) : 0;
}

/* Appends to out what a has and b has not. */
static int spans_subtract(const struct spans *a, const struct spans *b, struct spans *out)
{
	int err = 0;

	for (unsigned i = 0, k = 0; i < a->n && !err; i++) {
		struct slice from = buf_slice(&a->v[i].from), to = buf_slice(&a->v[i].to);
		bool rest = true;

		if (!a->v[i].to.p)
			to = (struct slice){NULL, 0};
		while (k < b->n && b->v[k].to.p && slice_cmp(buf_slice(&b->v[k].to), from) <= 0)
			k++;
		for (unsigned j = k; j < b->n && rest && !err; j++) {
			struct slice b_from = buf_slice(&b->v[j].from), b_to = buf_slice(&b->v[j].to);

			if (to.p && slice_cmp(b_from, to) >= 0)
				break;
			if (slice_cmp(b_from, from) > 0)
				err = spans_add(out, from, b_from);
			if (!b->v[j].to.p)
				rest = false;
			else if (slice_cmp(b_to, from) > 0)
				from = b_to;
		}
		if (rest && !err)
			err = spans_add(out, from, to);
	}
	return err;
}

static int span_order(const void *a, const void *b)
{
	return slice_cmp(buf_slice(&((const struct span *)a)->from), buf_slice(&((const struct span *)b)->from));
}

/* Sorts, and joins those that overlap. */
static int spans_join(struct spans *s)
{
	struct spans joined = {0};
	int err = 0;

	if (s->n)
		qsort(s->v, s->n, sizeof(*s->v), span_order);
	for (unsigned i = 0; i < s->n && !err; i++)
		err = spans_add(&joined, buf_slice(&s->v[i].from), s->v[i].to.p ? buf_slice(&s->v[i].to) : (struct slice){NULL, 0});
	spans_fini(s);
	*s = joined;
	return err;
}

struct gather {
	struct diff_file *files;
	unsigned side;
	struct buf begin; /* where the next tablet begins */
};

static struct diff_file *file_get(struct gather *g, const struct tablet_file *f)
{
	struct diff_file *d = calloc(1, sizeof(*d)), *found;

	if (!d)
		return NULL;
	d->key.incarnation = f->incarnation;
	d->key.number = f->number;
	d->key.table = f->table;
	HASH_FIND(hh, g->files, &d->key, sizeof(d->key), found);
	if (found) {
		free(d);
		return found;
	}
	HASH_ADD(hh, g->files, key, sizeof(d->key), d);
	if (!d->hh.tbl) {
		free(d);
		return NULL;
	}
	return d;
}

/* The rows for which the tablet [begin, end) uses the file: the file's own, clipped by both ranges. */
static int gather_file(struct gather *g, const struct meta_tablet *m, const struct tablet_file *f)
{
	struct diff_file *d = file_get(g, f);
	struct slice from = buf_slice(&f->first), to;
	struct buf behind = {0}; /* the first row behind the last one */
	int err = d ? 0 : -ENOMEM;

	if (!err)
		err = buf_append_slice(&behind, buf_slice(&f->last));
	if (!err)
		err = buf_u8(&behind, 0);
	to = buf_slice(&behind);
	if (slice_cmp(buf_slice(&f->begin), from) > 0)
		from = buf_slice(&f->begin);
	if (slice_cmp(buf_slice(&g->begin), from) > 0)
		from = buf_slice(&g->begin);
	if (f->end.p && slice_cmp(buf_slice(&f->end), to) < 0)
		to = buf_slice(&f->end);
	if (!m->last && slice_cmp(buf_slice(&m->end), to) < 0)
		to = buf_slice(&m->end);
	if (!err)
		err = spans_add(&d->rows[g->side], from, to);
	buf_fini(&behind);
	return err;
}

static int gather_row(void *arg, struct slice row_key, struct meta_tablet *m)
{
	struct gather *g = arg;
	int err = 0;

	(void)row_key;
	for (unsigned i = 0; i < m->file_count && !err; i++)
		err = gather_file(g, m, &m->files[i]);
	if (!err && !m->last)
		err = buf_set(&g->begin, m->end.p, m->end.n);
	return err;
}

static void gather_fini(struct gather *g)
{
	struct diff_file *d, *tmp;

	HASH_ITER(hh, g->files, d, tmp)
	{
		HASH_DEL(g->files, d);
		spans_fini(&d->rows[0]);
		spans_fini(&d->rows[1]);
		free(d);
	}
	buf_fini(&g->begin);
}

/* Appends what a has and b has not to out, which is in no order. */
static int spans_append(struct spans *out, const struct spans *a, const struct spans *b)
{
	struct spans more = {0};
	int err = spans_subtract(a, b, &more);

	for (unsigned i = 0; i < more.n && !err; i++) {
		if (array_grow(&out->v, out->n, sizeof(*out->v))) {
			err = -ENOMEM;
		} else {
			out->v[out->n++] = more.v[i];
			more.v[i] = (struct span){0};
		}
	}
	spans_fini(&more);
	return err;
}

/* The rows in which the files differ. */
static int spans_gather(struct tfs_store *s, const uint32_t tablets[2], struct spans *out)
{
	struct gather g = {0};
	int err = 0;

	for (g.side = 0; g.side < 2 && !err; g.side++) {
		buf_reset(&g.begin);
		err = metadata_scan_table(s->o.tablets, tablets[g.side], gather_row, &g);
	}
	for (struct diff_file *d = g.files; d && !err; d = d->hh.next) {
		err = spans_append(out, &d->rows[0], &d->rows[1]);
		if (!err)
			err = spans_append(out, &d->rows[1], &d->rows[0]);
	}
	gather_fini(&g);
	return err ? err : spans_join(out);
}

/* ---- two streams of cells ---- */

struct tfs_diff {
	struct tfs_table *t[2];
	struct spans rows;
	unsigned at; /* the span that is read, or the next one */
	struct tfs_scan *scan[2];
	struct tfs_cell cell[2];
	bool have[2], used[2]; /* used: the cell was returned, or compared */
};

/* Returns true if the same entries show the same cells in both. */
static bool same_rules(const struct tfs_schema *a, const struct tfs_schema *b)
{
	if (a->salt_in_use || b->salt_in_use || a->family_count != b->family_count)
		return false;
	for (unsigned i = 0; i < a->family_count; i++) {
		const struct tfs_family *f = &a->families[i], *g = &b->families[i];

		if (f->id != g->id || strcmp(f->name, g->name) != 0 || strcmp(f->gc, g->gc) != 0 || strstr(f->gc, "maxage"))
			return false;
	}
	return true;
}

int tfs_diff_new(struct tfs_table *from, struct tfs_table *to, struct tfs_diff **out)
{
	const struct schema *schemas[2] = {table_schema(from), table_schema(to)};
	const struct tfs_schema *a = schema_public(schemas[0]), *b = schema_public(schemas[1]);
	struct tfs_diff *d = calloc(1, sizeof(*d));
	int err = d ? 0 : -ENOMEM;

	if (!err && (!a->snapshot_of || a->snapshot_of != b->snapshot_of || from->store != to->store))
		err = -EINVAL;
	if (!err && same_rules(a, b)) {
		err = spans_gather(from->store, (const uint32_t[2]){a->tablets_id, b->tablets_id}, &d->rows);
	} else if (!err) {
		err = spans_add(&d->rows, slice_of("", 0), (struct slice){NULL, 0});
	}
	schema_put(schemas[0]);
	schema_put(schemas[1]);
	if (err) {
		if (d)
			spans_fini(&d->rows);
		free(d);
		return err;
	}
	d->t[0] = from;
	d->t[1] = to;
	table_get(from);
	table_get(to);
	*out = d;
	return 0;
}

static void scans_end(struct tfs_diff *d)
{
	for (unsigned i = 0; i < 2; i++) {
		tfs_scan_free(d->scan[i]);
		d->scan[i] = NULL;
		d->have[i] = false;
	}
}

void tfs_diff_free(struct tfs_diff *d)
{
	if (!d)
		return;
	scans_end(d);
	tfs_table_close(d->t[0]);
	tfs_table_close(d->t[1]);
	spans_fini(&d->rows);
	free(d);
}

static int scans_begin(struct tfs_diff *d)
{
	const struct span *rows = &d->rows.v[d->at];
	struct tfs_scan_spec spec = {.what = TFS_SCAN_CELLS, .row_from = bytes_of_slice(buf_slice(&rows->from))};
	int err = 0;

	if (rows->to.p)
		spec.row_to = bytes_of_slice(buf_slice(&rows->to));
	for (unsigned i = 0; i < 2 && !err; i++) {
		err = tfs_scan_new(d->t[i], &spec, &d->scan[i]);
		d->used[i] = true;
	}
	return err;
}

/* Replaces the cells that were used by the next ones. */
static int scans_advance(struct tfs_diff *d)
{
	for (unsigned i = 0; i < 2; i++) {
		int r = d->used[i] ? tfs_scan_next(d->scan[i], &d->cell[i]) : d->have[i];

		if (r < 0)
			return r;
		d->have[i] = r > 0;
		d->used[i] = false;
	}
	return 0;
}

/* The order of names.  A family that was renamed is another one: its cells are in `from` and then in `to`. */
static int cells_compare(const struct tfs_cell *a, const struct tfs_cell *b)
{
	int c = slice_cmp(slice_of_bytes(a->row), slice_of_bytes(b->row));

	if (!c)
		c = (a->family_id > b->family_id) - (a->family_id < b->family_id);
	if (!c)
		c = slice_cmp(slice_of_bytes(a->qualifier), slice_of_bytes(b->qualifier));
	if (!c)
		c = (a->ts < b->ts) - (a->ts > b->ts);
	return c ? c : strcmp(a->family, b->family) ? -1 : 0;
}

/* Returns 1 if both have the same value, 0, -errno. */
static int large_same(struct tfs_diff *d)
{
	uint8_t *p = malloc(2 * PIECE);
	int r = p ? 1 : -ENOMEM;

	for (uint64_t at = 0; r == 1 && at < d->cell[0].size; at += PIECE) {
		size_t got[2] = {0};

		for (unsigned i = 0; i < 2 && r == 1; i++) {
			const struct tfs_cell *c = &d->cell[i];
			int err = tfs_read(
				d->t[i], c->row, c->family, c->qualifier, tfs_at(c->ts), at, p + i * PIECE, PIECE, &got[i], NULL);

			r = err ? err : 1;
		}
		if (r == 1)
			r = got[0] == got[1] && memcmp(p, p + PIECE, got[0]) == 0;
	}
	free(p);
	return r;
}

static int cells_same(struct tfs_diff *d)
{
	const struct tfs_cell *a = &d->cell[0], *b = &d->cell[1];

	if (a->sequence == b->sequence)
		return 1;
	if (a->size != b->size)
		return 0;
	if (!a->value.data || !b->value.data)
		return a->size ? large_same(d) : 1;
	return memcmp(a->value.data, b->value.data, a->size) == 0;
}

/* Returns 1 and a difference, 0 at the end of the rows that the scans read, -errno. */
static int scans_next(struct tfs_diff *d, bool *deleted, struct tfs_cell *cell)
{
	for (;;) {
		int r = scans_advance(d), c;

		if (r || (!d->have[0] && !d->have[1]))
			return r;
		c = !d->have[1] ? -1 : !d->have[0] ? 1 : cells_compare(&d->cell[0], &d->cell[1]);
		d->used[0] = c <= 0;
		d->used[1] = c >= 0;
		r = c ? 0 : cells_same(d);
		if (r < 0)
			return r;
		if (r)
			continue;
		*deleted = c < 0;
		*cell = d->cell[c < 0 ? 0 : 1];
		return 1;
	}
}

int tfs_diff_next(struct tfs_diff *d, bool *deleted, struct tfs_cell *cell)
{
	int r = 0;

	while (!r && d->at < d->rows.n) {
		if (!d->scan[0] || !d->scan[1])
			r = scans_begin(d);
		if (!r)
			r = scans_next(d, deleted, cell);
		if (!r) {
			scans_end(d);
			d->at++;
		}
	}
	return r;
}
