/* SPDX-License-Identifier: Apache-2.0 */
/* Compares the cells of two tables (diff.h). */
#include "engine/tool/mirror/diff.h"
#include "engine/tool/mirror/ranges.h"

#include <errno.h>
#include <stdlib.h>

enum { PIECE_BYTES = 1 << 20, IDS = UINT16_MAX + 1 };

struct side {
	struct tfs_table *t;
	const struct tfs_schema *schema;
	struct tfs_scan *scan;
	struct tfs_cell cell;
	bool any, taken; /* cell is set; and was returned */
	uint16_t *rank;  /* by the id of a family */
};
struct diff {
	struct diff_options o;
	struct side side[2];
	const char **names; /* of families, in the order of ranks */
	unsigned count;
	bool by_family; /* one pass for each family, else one for all */
	unsigned pass;
	struct buf from, to; /* the rows that are read; to.n 0: to the last one */
	bool from_after;
	struct ranges *ranges; /* NULL: all rows are read */
	unsigned failed;       /* the side of an error */
	uint8_t *pieces[2];    /* of large values */
};

/* ---- the order of families ---- */

static bool has_name(const struct diff *d, const char *name)
{
	for (unsigned i = 0; i < d->count; i++)
		if (strcmp(d->names[i], name) == 0)
			return true;
	return false;
}

static void add_name(struct diff *d, const char *name)
{
	if (!has_name(d, name))
		d->names[d->count++] = name;
}

/* Returns true if the families that both have are in one order in both. */
static bool one_order(const struct tfs_schema *a, const struct tfs_schema *b)
{
	unsigned at = 0;

	for (unsigned i = 0; i < a->family_count; i++) {
		unsigned j = at;

		if (!tfs_schema_family(b, a->families[i].name))
			continue;
		while (j < b->family_count && strcmp(b->families[j].name, a->families[i].name) != 0)
			j++;
		if (j == b->family_count)
			return false;
		at = j + 1;
	}
	return true;
}

/* Makes one list of the names in which the families of each table are in the order of their ids, if there is one. */
static int order_families(struct diff *d)
{
	const struct tfs_schema *a = d->side[0].schema, *b = d->side[1].schema;
	unsigned next = 0;

	d->names = calloc(a->family_count + b->family_count + 1u, sizeof(*d->names));
	if (!d->names)
		return -ENOMEM;
	d->by_family = !one_order(a, b);
	for (unsigned i = 0; i < a->family_count; i++) {
		const bool both = tfs_schema_family(b, a->families[i].name) != NULL;

		for (; both && !d->by_family && !d->o.only_families_of_a &&
			strcmp(b->families[next].name, a->families[i].name) != 0;
			next++)
			add_name(d, b->families[next].name);
		add_name(d, a->families[i].name);
		next += both && !d->by_family && !d->o.only_families_of_a;
	}
	for (unsigned i = 0; i < b->family_count && !d->o.only_families_of_a; i++)
		add_name(d, b->families[i].name);
	for (unsigned k = 0; k < 2; k++) {
		d->side[k].rank = calloc(IDS, sizeof(*d->side[k].rank));
		if (!d->side[k].rank)
			return -ENOMEM;
		for (unsigned i = 0; i < d->count; i++) {
			const struct tfs_family *f = tfs_schema_family(d->side[k].schema, d->names[i]);

			if (f)
				d->side[k].rank[f->id] = (uint16_t)i;
		}
	}
	return 0;
}

/* ---- passes ---- */

static int begin_side(struct diff *d, struct side *s)
{
	struct tfs_scan_spec spec = {.what = TFS_SCAN_CELLS, .stop = d->o.stop, .stop_arg = d->o.arg};
	const char **wanted = calloc(d->count + 1u, sizeof(*wanted));
	int err = wanted ? 0 : -ENOMEM;

	tfs_scan_free(s->scan);
	s->scan = NULL;
	s->any = false;
	s->taken = true;
	for (unsigned i = 0; i < d->count && !err; i++)
		if ((!d->by_family || i == d->pass) && tfs_schema_family(s->schema, d->names[i]))
			wanted[spec.family_count++] = d->names[i];
	spec.families = wanted;
	spec.row_from = buf_bytes(&d->from);
	spec.row_from_after = d->from_after;
	if (d->to.n)
		spec.row_to = buf_bytes(&d->to);
	if (!err && spec.family_count)
		err = tfs_scan_new(s->t, &spec, &s->scan);
	free(wanted);
	return err;
}

static int begin_pass(struct diff *d)
{
	int err = begin_side(d, &d->side[0]);

	d->failed = !err;
	return err ? err : begin_side(d, &d->side[1]);
}

/* Begins to look for ranges that differ.  diff_next reads the cells of each, and begins with the first one. */
static int begin_ranges(struct diff *d, struct diff **out)
{
	struct ranges_options o = {.names = d->names, .count = d->count, .stop = d->o.stop, .arg = d->o.arg};
	int err;

	for (unsigned k = 0; k < 2; k++)
		o.table[k] = (struct ranges_table){d->side[k].t, d->side[k].schema, d->side[k].rank};
	d->pass = d->count;
	err = ranges_new(&o, &d->ranges);
	if (err)
		diff_free(d);
	else
		*out = d;
	return err;
}

int diff_new(const struct diff_options *o, struct diff **out)
{
	struct diff *d = calloc(1, sizeof(*d));
	int err = d ? buf_set(&d->from, o->after_row.p, o->after_row.n) : -ENOMEM;

	if (!d)
		return err;
	d->o = *o;
	d->side[0].t = o->a;
	d->side[1].t = o->b;
	for (unsigned k = 0; k < 2 && !err; k++)
		err = tfs_schema_get(d->side[k].t, &d->side[k].schema);
	if (!err)
		err = order_families(d);
	if (!err && o->hashes)
		return begin_ranges(d, out);
	if (!err && d->by_family) {
		while (d->pass < d->count && strcmp(d->names[d->pass], o->after_family) != 0)
			d->pass++;
		if (d->pass == d->count) { /* no walk continues */
			d->pass = 0;
			buf_reset(&d->from);
		}
	} else if (!err && *o->after_family) {
		buf_reset(&d->from);
	}
	d->from_after = d->from.n > 0;
	if (!err)
		err = begin_pass(d);
	if (err)
		diff_free(d);
	else
		*out = d;
	return err;
}

/* ---- cells ---- */

static int fill_side(struct diff *d, unsigned k)
{
	struct side *s = &d->side[k];
	int r;

	if (!s->taken || !s->scan)
		return 0;
	r = tfs_scan_next(s->scan, &s->cell);
	if (r < 0) {
		d->failed = k;
		return r;
	}
	s->any = r > 0;
	s->taken = false;
	if (!r) {
		tfs_scan_free(s->scan);
		s->scan = NULL;
	}
	return 0;
}

static int cell_order(const struct diff *d)
{
	const struct tfs_cell *a = &d->side[0].cell, *b = &d->side[1].cell;
	int c = bytes_cmp(a->row, b->row);

	if (!c)
		c = d->side[0].rank[a->family_id] - d->side[1].rank[b->family_id];
	if (!c)
		c = bytes_cmp(a->qualifier, b->qualifier);
	return c ? c : (a->ts < b->ts) - (a->ts > b->ts);
}

/* Sets *kind for two cells of one size, whose values are too large for scans.  A cell that is gone meanwhile is none. */
static int compare_large(struct diff *d, enum diff_kind *kind)
{
	uint64_t at = 0;
	size_t got[2];
	int err = 0;

	*kind = DIFF_SAME;
	for (unsigned k = 0; k < 2; k++)
		if (!d->pieces[k] && !(d->pieces[k] = malloc(PIECE_BYTES)))
			return -ENOMEM;
	while (at < d->side[0].cell.size && *kind == DIFF_SAME) {
		for (unsigned k = 0; k < 2; k++) {
			const struct side *s = &d->side[k];

			err = tfs_read(s->t, s->cell.row, s->cell.family, s->cell.qualifier, tfs_at(s->cell.ts), at, d->pieces[k],
				PIECE_BYTES, &got[k], NULL);
			if (err == -ENOENT)
				*kind = k ? DIFF_ONLY_A : DIFF_ONLY_B;
			d->failed = k;
			if (err)
				return err == -ENOENT ? 0 : err;
		}
		if (got[0] != got[1] || !got[0] || memcmp(d->pieces[0], d->pieces[1], got[0]) != 0)
			*kind = DIFF_VALUE;
		at += got[0];
	}
	return 0;
}

static int compare_cells(struct diff *d, enum diff_kind *kind)
{
	const struct tfs_cell *a = &d->side[0].cell, *b = &d->side[1].cell;

	if (a->size != b->size)
		*kind = DIFF_VALUE;
	else if (a->value.p && b->value.p)
		*kind = bytes_eq(a->value, b->value) ? DIFF_SAME : DIFF_VALUE;
	else if (!a->size)
		*kind = DIFF_SAME;
	else
		return compare_large(d, kind);
	return 0;
}

/* Begins the first pass of the next range that differs.  Returns 1 if it has, 2 if *out is a range that is equal, 0 at the end, -errno. */
static int next_range(struct diff *d, struct diff_cell *out)
{
	struct ranges_part part;
	int n = ranges_next(d->ranges, &part);

	d->pass = d->count;
	if (n < 0)
		d->failed = ranges_failed(d->ranges);
	if (n <= 0)
		return n;
	if (!part.differs) {
		*out = (struct diff_cell){.kind = DIFF_EQUAL_RANGE, .cells = part.cells, .bytes = part.bytes, .pass = ""};
		return 2;
	}
	d->pass = 0;
	if (buf_set(&d->from, part.from.p, part.from.n) || buf_set(&d->to, part.to.p, part.to.n))
		return -ENOMEM;
	n = begin_pass(d);
	return n ? n : 1;
}

/* Returns as next_range. */
static int next_pass(struct diff *d, struct diff_cell *out)
{
	int err;

	if (!d->by_family || d->pass + 1 >= d->count)
		return d->ranges ? next_range(d, out) : 0;
	d->pass++;
	if (!d->ranges)
		buf_reset(&d->from);
	d->from_after = false;
	err = begin_pass(d);
	return err ? err : 1;
}

int diff_next(struct diff *d, struct diff_cell *out)
{
	struct side *a = &d->side[0], *b = &d->side[1];
	int err, order;

	for (;;) {
		err = fill_side(d, 0);
		if (!err)
			err = fill_side(d, 1);
		if (err)
			return err;
		if (a->any || b->any)
			break;
		err = next_pass(d, out);
		if (err != 1)
			return err > 0 ? 1 : err;
	}
	order = !b->any ? -1 : !a->any ? 1 : cell_order(d);
	out->kind = order < 0 ? DIFF_ONLY_A : DIFF_ONLY_B;
	if (!order && (err = compare_cells(d, &out->kind)))
		return err;
	out->a = order <= 0 && out->kind != DIFF_ONLY_B ? &a->cell : NULL;
	out->b = order >= 0 && out->kind != DIFF_ONLY_A ? &b->cell : NULL;
	out->pass = d->by_family ? d->names[d->pass] : "";
	if (order <= 0)
		a->taken = true, a->any = false;
	if (order >= 0)
		b->taken = true, b->any = false;
	return 1;
}

unsigned diff_failed(const struct diff *d)
{
	return d->failed;
}

void diff_free(struct diff *d)
{
	for (unsigned k = 0; k < 2; k++) {
		tfs_scan_free(d->side[k].scan);
		tfs_schema_put(d->side[k].schema);
		free(d->side[k].rank);
		free(d->pieces[k]);
	}
	free(d->names);
	ranges_free(d->ranges);
	buf_fini(&d->from);
	buf_fini(&d->to);
	free(d);
}
