/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a table: scans that return the cells of a plan, as SQL rows.
 *
 * A filter is one scan after another.  There are several if the plan has an IN of row keys, if
 * the keys of TEXT and of BLOB have different bounds, or if the rows are wanted in SQLite's
 * order.  Then a pattern selects the keys of each type in the server.
 *
 * In a table with one SQL row a row key, the cells of a row are collected until a cell of the
 * next row comes.
 */
#include "sql/internal.h"

#include <errno.h>
#include <stdlib.h>

SQLITE_EXTENSION_INIT3

/* One scan. */
struct pass {
	struct span rows; /* its bytes are those of cursor.rows */
	bool one_row;
	const char *pattern; /* or NULL */
};

/* The newest version of a declared column in the current row. */
struct found {
	bool present, whole; /* whole: its bytes are in collected */
	uint64_t size;
	int64_t ts;
	size_t at;
};

struct cursor {
	sqlite3_vtab_cursor base; /* first */
	struct range rows, qualifiers, families;
	struct pass *passes;
	unsigned pass_count, pass; /* the next pass */
	bool descending;

	struct tfs_scan_spec spec; /* what all passes share */
	const char **family_names; /* of the spec */
	char *pattern;             /* of qualifiers, of the spec */
	const struct tfs_schema *schema;
	enum value_type *types; /* of the declared columns */
	struct tfs_scan *scan;
	struct tfs_cell cell;
	bool has_cell, eof;
	uint16_t counter_family, other_family; /* the latest family of each kind that was looked up */

	sqlite3_str *collected; /* the row key, then values */
	size_t row_bytes;
	struct found *found;
};

static struct sql_table *table_of(const struct cursor *c)
{
	return (struct sql_table *)c->base.pVtab;
}

/* ---- what a filter made ---- */

static void reset(struct cursor *c)
{
	tfs_scan_free(c->scan);
	c->scan = NULL;
	if (c->schema)
		tfs_schema_put(c->schema);
	c->schema = NULL;
	range_free(&c->rows);
	range_free(&c->qualifiers);
	range_free(&c->families);
	sqlite3_free(c->passes);
	sqlite3_free(c->family_names);
	sqlite3_free(c->pattern);
	c->passes = NULL;
	c->family_names = NULL;
	c->pattern = NULL;
	c->pass_count = c->pass = 0;
	c->spec = (struct tfs_scan_spec){0};
	c->counter_family = c->other_family = 0;
	c->has_cell = c->eof = false;
}

int cursor_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **out)
{
	struct sql_table *t = (struct sql_table *)vtab;
	struct cursor *c;
	int rc = table_use(t);

	if (rc)
		return rc;
	c = sqlite3_malloc64(sizeof(*c));
	if (!c)
		return SQLITE_NOMEM;
	*c = (struct cursor){.base.pVtab = vtab};
	c->collected = sqlite3_str_new(NULL);
	c->found = sqlite3_malloc64((t->column_count + 1) * sizeof(*c->found));
	c->types = sqlite3_malloc64((t->column_count + 1) * sizeof(*c->types));
	*out = &c->base;
	if (c->found && c->types)
		return SQLITE_OK;
	(void)cursor_close(&c->base);
	return SQLITE_NOMEM;
}

int cursor_close(sqlite3_vtab_cursor *base)
{
	struct cursor *c = (struct cursor *)base;

	reset(c);
	sqlite3_free(sqlite3_str_finish(c->collected));
	sqlite3_free(c->found);
	sqlite3_free(c->types);
	sqlite3_free(c);
	return SQLITE_OK;
}

/* ---- from a plan to scans ---- */

static bool add_pass(struct cursor *c, const struct span *rows, const char *pattern)
{
	struct pass *more = sqlite3_realloc64(c->passes, (c->pass_count + 1) * sizeof(*more));

	if (!more)
		return false;
	c->passes = more;
	c->passes[c->pass_count++] = (struct pass){.rows = *rows, .one_row = span_is_point(rows), .pattern = pattern};
	return true;
}

static bool same_span(const struct span *a, const struct span *b)
{
	return a->after == b->after && bytes_compare(a->from, b->from) == 0 && !a->to.p == !b->to.p &&
		(!a->to.p || bytes_compare(a->to, b->to) == 0);
}

/* limited: a pass returns no key of another type. */
static bool add_passes(struct cursor *c, const struct plan *p, bool limited)
{
	const struct span *text = &c->rows.text, *blob = &c->rows.blob;
	bool good = true;

	if (c->rows.points) {
		for (unsigned i = 0; i < c->rows.point_count && good; i++) {
			const struct tfs_bytes key = c->rows.points[p->descending ? c->rows.point_count - 1 - i : i];

			good = key.n == 0 || add_pass(c, &(struct span){.from = key, .to = tfs_bytes_of(key.p, key.n + 1)}, NULL);
		}
		return good;
	}
	if (!text->empty && !blob->empty && !p->ordered && same_span(text, blob))
		return add_pass(c, text, NULL);
	if (text->empty || blob->empty) {
		const char *pattern = blob->empty ? value_text_pattern : value_blob_pattern;

		return (text->empty && blob->empty) || add_pass(c, blob->empty ? text : blob, limited ? pattern : NULL);
	}
	if (p->descending)
		return add_pass(c, blob, value_blob_pattern) && add_pass(c, text, value_text_pattern);
	return add_pass(c, text, value_text_pattern) && add_pass(c, blob, value_blob_pattern);
}

static bool add_family(struct cursor *c, const char *name)
{
	const char **more;

	for (unsigned i = 0; i < c->spec.family_count; i++)
		if (strcmp(c->family_names[i], name) == 0)
			return true;
	more = sqlite3_realloc64(c->family_names, (c->spec.family_count + 1) * sizeof(*more));
	if (!more)
		return false;
	c->family_names = more;
	c->family_names[c->spec.family_count++] = name;
	c->spec.families = more;
	return true;
}

/* The families that a condition names, as far as they exist. */
static bool spec_families(struct cursor *c, const struct plan *p, bool *none)
{
	bool named = false;

	for (unsigned i = 0; i < p->count; i++)
		named |= p->condition[i].column == COLUMN_FAMILY;
	if (!named || c->families.inexact)
		return true;
	for (unsigned i = 0; i < c->schema->family_count; i++) {
		const char *name = c->schema->families[i].name;

		if (range_contains_text(&c->families, tfs_str(name)) && !add_family(c, name))
			return false;
	}
	*none |= !c->spec.family_count;
	return true;
}

/* A pattern of the qualifiers of all declared columns.  Returns NULL if it would be too long, or without memory. */
static char *qualifiers_pattern(const struct sql_table *t)
{
	enum { PATTERN_BYTES_MAX = 8192 };
	sqlite3_str *s = sqlite3_str_new(NULL);

	for (unsigned i = 0; i < t->column_count && sqlite3_str_length(s) < PATTERN_BYTES_MAX; i++) {
		const struct tfs_bytes q = t->columns[i].qualifier;

		if (i)
			sqlite3_str_appendchar(s, 1, '|');
		for (size_t k = 0; k < q.n && sqlite3_str_length(s) < PATTERN_BYTES_MAX; k++)
			sqlite3_str_appendf(s, "\\x%02x", q.p[k]);
	}
	if (sqlite3_str_length(s) >= PATTERN_BYTES_MAX)
		sqlite3_str_reset(s);
	return sqlite3_str_finish(s);
}

/* Returns the number of columns that a scan of these families and qualifiers may return, of which t declares some. */
static unsigned product(const struct cursor *c)
{
	const struct sql_table *t = table_of(c);
	unsigned qualifiers = 0;

	for (unsigned i = 0; i < t->column_count; i++) {
		unsigned k = 0;

		while (k < i && bytes_compare(t->columns[k].qualifier, t->columns[i].qualifier) != 0)
			k++;
		qualifiers += k == i;
	}
	return qualifiers * c->spec.family_count;
}

/* The families and qualifiers of the declared columns.  *exact: the scan returns cells of no other column. */
static bool spec_columns(struct cursor *c, bool *none, bool *exact)
{
	const struct sql_table *t = table_of(c);
	struct tfs_bytes least = t->columns[0].qualifier, greatest = least;

	c->spec.versions = 1;
	for (unsigned i = 0; i < t->column_count; i++) {
		const struct sql_column *column = &t->columns[i];
		const struct tfs_family *f = tfs_schema_family(c->schema, column->family);

		c->types[i] = f && f->type == TFS_TYPE_COUNTER && column->type == VALUE_ANY ? VALUE_INTEGER : column->type;
		if (f && !add_family(c, f->name))
			return false;
		if (bytes_compare(column->qualifier, least) < 0)
			least = column->qualifier;
		if (bytes_compare(column->qualifier, greatest) > 0)
			greatest = column->qualifier;
	}
	*none |= !c->spec.family_count;
	c->spec.qualifier_from = least;
	c->spec.qualifier_to = tfs_bytes_of(greatest.p, greatest.n + 1); /* bytes_copy() has put a NUL there */
	*exact = product(c) == t->column_count;
	if (bytes_compare(least, greatest) == 0)
		return true;
	c->pattern = qualifiers_pattern(t);
	if (c->pattern)
		c->spec.qualifier_regex = tfs_str(c->pattern);
	*exact &= c->pattern != NULL;
	return true;
}

/* The qualifiers and times of cells. */
static void spec_cells(struct cursor *c, const struct times *times, bool *none, bool *exact)
{
	const struct span q = range_hull(&c->qualifiers);

	*none |= q.empty || times->empty;
	c->spec.qualifier_from = q.from;
	c->spec.qualifier_from_after = q.after;
	c->spec.qualifier_to = q.to;
	c->spec.has_times = times->bounded;
	c->spec.since = times->since;
	c->spec.until = times->until;
	*exact = !times->inexact && !c->families.inexact && !c->qualifiers.inexact &&
		(range_is_all(&c->qualifiers) || span_is_point(&q));
}

/* The values after those of the conditions. */
static uint64_t limit_of(const struct plan *p, int argc, sqlite3_value **argv)
{
	const int n = (int)p->count;
	int64_t limit = p->limit && n < argc ? sqlite3_value_int64(argv[n]) : 0;
	int64_t offset = p->offset && n + 1 < argc ? sqlite3_value_int64(argv[n + 1]) : 0;

	if (limit <= 0 || offset > INT64_MAX - limit)
		return 0;
	return (uint64_t)limit + (offset > 0 ? (uint64_t)offset : 0);
}

static void read_conditions(struct cursor *c, const struct plan *p, sqlite3_value **argv, struct times *times)
{
	for (unsigned i = 0; i < p->count; i++) {
		const struct plan_condition *k = &p->condition[i];

		if (k->column == COLUMN_TIMESTAMP)
			times_add(times, k, argv[i]);
		else
			range_add(k->column == COLUMN_ROW            ? &c->rows
					: k->column == COLUMN_FAMILY ? &c->families
								     : &c->qualifiers,
				k, argv[i]);
	}
}

static int prepare(struct cursor *c, const struct plan *p, int argc, sqlite3_value **argv)
{
	struct sql_table *t = table_of(c);
	struct times times = {.since = INT64_MIN, .until = INT64_MAX};
	bool none = false, exact = true, good = true;
	int err;

	err = tfs_schema_get(t->table, &c->schema);
	if (err) {
		c->schema = NULL;
		return table_fail(t, err, "the schema cannot be read");
	}
	read_conditions(c, p, argv, &times);
	c->spec.what = p->keys ? TFS_SCAN_KEYS : TFS_SCAN_CELLS;
	c->spec.reverse = p->descending;
	if (table_has_cells(t)) {
		spec_cells(c, &times, &none, &exact);
		good = spec_families(c, p, &none);
	} else {
		good = spec_columns(c, &none, &exact);
	}
	exact &= !c->rows.inexact;
	if (exact && table_has_cells(t))
		c->spec.limit = limit_of(p, argc, argv);
	else if (exact)
		c->spec.row_limit = limit_of(p, argc, argv);
	if (good && !none)
		good = add_passes(c, p, c->spec.limit || c->spec.row_limit);
	return good && !c->rows.no_memory && !c->qualifiers.no_memory && !c->families.no_memory ? SQLITE_OK : SQLITE_NOMEM;
}

/* ---- cells ---- */

static int start_pass(struct cursor *c)
{
	struct sql_table *t = table_of(c);
	const struct pass *p = &c->passes[c->pass++];
	struct tfs_scan_spec spec = c->spec;
	int err;

	spec.row_from = p->rows.from;
	spec.row_from_after = p->rows.after;
	spec.one_row = p->one_row;
	if (!p->one_row)
		spec.row_to = p->rows.to;
	if (p->pattern)
		spec.row_regex = tfs_str(p->pattern);
	err = tfs_scan_new(t->table, &spec, &c->scan);
	if (!err)
		return SQLITE_OK;
	c->scan = NULL;
	return table_fail(t, err, "a scan");
}

/* Sets cell, or has_cell to false at the end. */
static int next_cell(struct cursor *c)
{
	int n = 0, rc;

	for (;;) {
		if (!c->scan) {
			c->has_cell = c->pass < c->pass_count;
			if (!c->has_cell)
				return SQLITE_OK;
			rc = start_pass(c);
			if (rc)
				return rc;
		}
		n = tfs_scan_next(c->scan, &c->cell);
		if (n > 0)
			return SQLITE_OK;
		if (n == -EINTR)
			continue;
		tfs_scan_free(c->scan);
		c->scan = NULL;
		if (n < 0) {
			c->has_cell = false;
			return table_fail(table_of(c), n, "a scan");
		}
	}
}

/* ---- rows ---- */

static void collect(struct cursor *c, unsigned column)
{
	struct found *f = &c->found[column];

	*f = (struct found){.present = true,
		.whole = c->cell.value.p || !c->cell.size,
		.size = c->cell.size,
		.ts = c->cell.ts,
		.at = (size_t)sqlite3_str_length(c->collected)};
	if (c->cell.value.n)
		sqlite3_str_append(c->collected, (const char *)c->cell.value.p, (int)c->cell.value.n);
}

/* Returns true if the cell is of the row that is collected. */
static bool same_row(const struct cursor *c)
{
	const struct tfs_bytes row = tfs_bytes_of(sqlite3_str_value(c->collected), c->row_bytes);

	return c->has_cell && bytes_compare(row, c->cell.row) == 0;
}

static int next_row(struct cursor *c)
{
	struct sql_table *t = table_of(c);
	bool any = false;
	int rc = SQLITE_OK;

	while (c->has_cell && !any && !rc) {
		sqlite3_str_reset(c->collected);
		sqlite3_str_append(c->collected, (const char *)c->cell.row.p, (int)c->cell.row.n);
		c->row_bytes = c->cell.row.n;
		memset(c->found, 0, (t->column_count + 1) * sizeof(*c->found));
		while (!rc && same_row(c)) {
			unsigned column = columns_find(t, c->cell.family, c->cell.qualifier);

			if (column < t->column_count)
				collect(c, column);
			any |= column < t->column_count;
			rc = sqlite3_str_errcode(c->collected);
			if (!rc)
				rc = next_cell(c);
		}
	}
	c->eof = !any;
	return rc;
}

int cursor_filter(sqlite3_vtab_cursor *base, int number, const char *text, int argc, sqlite3_value **argv)
{
	struct cursor *c = (struct cursor *)base;
	struct plan p;
	int rc;

	reset(c);
	plan_parse(text, &p);
	rc = prepare(c, &p, argc, argv);
	if (!rc)
		rc = next_cell(c);
	return rc || table_has_cells(table_of(c)) ? rc : next_row(c);
}

int cursor_next(sqlite3_vtab_cursor *base)
{
	struct cursor *c = (struct cursor *)base;

	return table_has_cells(table_of(c)) ? next_cell(c) : next_row(c);
}

int cursor_eof(sqlite3_vtab_cursor *base)
{
	const struct cursor *c = (const struct cursor *)base;

	return table_has_cells(table_of(c)) ? !c->has_cell : c->eof;
}

/* ---- columns ---- */

/* A value that the scan did not return: it is large. */
static int read_value(struct cursor *c, sqlite3_context *ctx, const struct tfs_cell *cell, enum value_type type)
{
	struct sql_table *t = table_of(c);
	uint8_t *p = sqlite3_malloc64(cell->size + 1);
	size_t got = 0;
	int err = p ? tfs_read(t->table, cell->row, cell->family, cell->qualifier, tfs_at(cell->ts), 0, p, cell->size, &got, NULL)
		    : -ENOMEM;

	if (!err)
		value_result(ctx, tfs_bytes_of(p, got), type);
	sqlite3_free(p);
	if (err == -ENOENT) /* deleted meanwhile: it is NULL, as a missing cell */
		return SQLITE_OK;
	return err ? table_fail(t, err, "a value of %s", cell->family) : SQLITE_OK;
}

static enum value_type cell_type(struct cursor *c)
{
	const uint16_t id = c->cell.family_id;
	const struct tfs_family *f;

	if (id == c->counter_family || id == c->other_family)
		return id == c->counter_family ? VALUE_INTEGER : VALUE_ANY;
	f = tfs_schema_family(c->schema, c->cell.family);
	if (f && f->type == TFS_TYPE_COUNTER)
		c->counter_family = id;
	else
		c->other_family = id;
	return f && f->type == TFS_TYPE_COUNTER ? VALUE_INTEGER : VALUE_ANY;
}

static int cell_column(struct cursor *c, sqlite3_context *ctx, int column)
{
	struct tfs_bytes id;

	switch (column) {
	case COLUMN_ROW:
		value_result(ctx, c->cell.row, VALUE_ANY);
		return SQLITE_OK;
	case COLUMN_FAMILY:
		value_result(ctx, tfs_str(c->cell.family), VALUE_ANY);
		return SQLITE_OK;
	case COLUMN_QUALIFIER:
		value_result(ctx, c->cell.qualifier, VALUE_ANY);
		return SQLITE_OK;
	case COLUMN_TIMESTAMP:
		sqlite3_result_int64(ctx, c->cell.ts);
		return SQLITE_OK;
	case COLUMN_VALUE:
		if (!c->cell.value.p && c->cell.size)
			return read_value(c, ctx, &c->cell, cell_type(c));
		value_result(ctx, c->cell.value, cell_type(c));
		return SQLITE_OK;
	default:
		id = cell_id_make(&c->cell);
		if (!id.p)
			return SQLITE_NOMEM;
		sqlite3_result_blob64(ctx, id.p, id.n, sqlite3_free);
		return SQLITE_OK;
	}
}

int cursor_column(sqlite3_vtab_cursor *base, sqlite3_context *ctx, int column)
{
	struct cursor *c = (struct cursor *)base;
	const struct sql_table *t = table_of(c);
	const struct sql_column *declared;
	const struct found *f;
	const char *collected;

	if (column != (table_has_cells(t) ? COLUMN_CELL : COLUMN_ROW) && sqlite3_vtab_nochange(ctx))
		return SQLITE_OK; /* UPDATE does not set this column */
	if (table_has_cells(t))
		return cell_column(c, ctx, column);
	collected = sqlite3_str_value(c->collected);
	if (column == COLUMN_ROW) {
		value_result(ctx, tfs_bytes_of(collected, c->row_bytes), VALUE_ANY);
		return SQLITE_OK;
	}
	declared = &t->columns[column - COLUMN_FAMILY];
	f = &c->found[column - COLUMN_FAMILY];
	if (!f->present)
		return SQLITE_OK;
	if (f->whole) {
		value_result(ctx, tfs_bytes_of(collected + f->at, f->size), c->types[column - COLUMN_FAMILY]);
		return SQLITE_OK;
	}
	return read_value(c, ctx,
		&(struct tfs_cell){.row = tfs_bytes_of(collected, c->row_bytes),
			.family = declared->family,
			.qualifier = declared->qualifier,
			.ts = f->ts,
			.size = f->size},
		c->types[column - COLUMN_FAMILY]);
}
