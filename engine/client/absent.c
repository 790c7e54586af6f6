/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scans of the cells that one snapshot of a table has and an earlier or later
 * snapshot lacks.
 *
 * Both are read in the same order, and the cells are compared.  A look-up of one
 * row reads this row only.  Other scans read the rows in which the SSTables of the
 * two differ (changed_rows.h).
 *
 * Equal entries show equal cells only if the rules and names of families are equal, and
 * no rule depends on the time.  Otherwise all rows are compared.
 * So are the rows of a salted table, whose ranges in METADATA have salts in front.
 *
 * A cell whose sequence number and commit time are the same in both was not
 * written in between.  (Sequence numbers alone begin again when a table gets new
 * tablets.)  If two other cells have the same name, their values are compared,
 * so that a cell that was written again with the same value is no difference.
 *
 * Both sides are read on behalf of the user.  Bounds apply to both.  Blocks that
 * cannot be read are skipped in the scanned snapshot only: in the compared
 * snapshot they may contain any of the cells.
 *
 * Rejected: to return cells of the files that are not shared without a look into
 * the shared files.  Deletes, versions that a GC rule counts, and values that were
 * written again make such an answer wrong.
 */
#include "engine/base/scan.h"
#include "engine/client/cells.h"
#include "engine/client/changed_rows.h"

#include <errno.h>
#include <stdlib.h>

#define PIECE (64u << 10) /* large values are compared in pieces of this size */
#define STOP_CELLS 1000   /* cells that are compared between two calls of spec.stop */

struct side {
	struct tfs_table *table; /* counted; on behalf of the user */
	const struct schema *schema;
	const char **families; /* names, if the spec has families */
	unsigned family_count;
	struct cell_scan scan;
	struct tfs_cell cell;
	bool have, used; /* there is a cell; it was returned or compared */
};

struct absent_scan {
	struct side sides[2]; /* absent_from, and the scanned snapshot */
	struct tfs_scan_spec spec;
	struct buf from, to, qualifier_from, qualifier_to; /* memory of its bytes; to.p is NULL if there is no end */
	bool by_files, over;
	struct changed_rows rows; /* used if by_files is set */
	struct row_range range;   /* the rows that are read */
	bool reading, read;       /* read: the rest of the range does not matter */
	struct buf row;           /* the row of the last cell, and its family, or 0 */
	uint16_t family;
	unsigned compared;
	bool damaged;
	int failed;
};

/* ---- begin ---- */

/* Only bounds apply to a difference. */
static bool spec_valid(const struct tfs_scan_spec *p)
{
	return p->what <= TFS_SCAN_FAMILIES && !p->keys && !scan_has(p, ~(unsigned)(SCAN_RESULT | SCAN_BOUND | SCAN_OPERAND)) &&
		(!p->one_row || (p->row_from.n && p->row_from.n <= TFS_ROW_MAX));
}

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

/* The family of absent_from that is f, if it has the same name and the user may read it.  NULL: there is none. */
static const struct tfs_family *same_family(const struct side *other, const struct tfs_family *f)
{
	const struct tfs_schema *p = schema_public(other->schema);
	const struct tfs_user *user = table_user(other->table);

	for (unsigned i = 0; i < p->family_count; i++)
		if (p->families[i].id == f->id && strcmp(p->families[i].name, f->name) == 0)
			return !user || tfs_may(p, &p->families[i], user, TFS_MAY_READ) ? &p->families[i] : NULL;
	return NULL;
}

/* The families that each side reads. */
static int copy_families(struct absent_scan *s, const struct tfs_scan_spec *spec)
{
	struct side *sides = s->sides;

	for (unsigned i = 0; i < 2; i++) {
		sides[i].families = calloc(spec->family_count, sizeof(char *));
		if (!sides[i].families)
			return -ENOMEM;
	}
	for (unsigned i = 0; i < spec->family_count; i++) {
		const struct tfs_schema *p = schema_public(sides[1].schema);
		const struct tfs_family *f = spec->families[i] ? tfs_schema_family(p, spec->families[i]) : NULL, *other;

		if (!f)
			return table_no_family(sides[1].table, spec->families[i]);
		sides[1].families[sides[1].family_count++] = f->name;
		other = same_family(&sides[0], f);
		if (other)
			sides[0].families[sides[0].family_count++] = other->name;
	}
	return 0;
}

/* Copies the bytes of the spec. */
static int copy_bounds(struct absent_scan *s, const struct tfs_scan_spec *spec)
{
	int err = buf_append_bytes(&s->from, spec->row_from);

	if (!err && spec->row_from_after && !spec->one_row)
		err = buf_u8(&s->from, 0);
	if (!err && spec->row_to.p)
		err = tablet_end_copy(&s->to, spec->row_to);
	if (!err)
		err = buf_append_bytes(&s->qualifier_from, spec->qualifier_from);
	if (!err && spec->qualifier_to.p)
		err = tablet_end_copy(&s->qualifier_to, spec->qualifier_to);
	s->spec = *spec;
	s->spec.qualifier_from = buf_bytes(&s->qualifier_from);
	s->spec.qualifier_to = buf_bytes(&s->qualifier_to);
	return err;
}

static int open_sides(struct absent_scan *s, struct tfs_table *t, struct tfs_table *absent_from)
{
	int err = 0;

	if (table_user(t)) {
		err = tfs_table_as(absent_from, table_user(t), &s->sides[0].table);
	} else {
		s->sides[0].table = absent_from;
		table_get(absent_from);
	}
	s->sides[1].table = t;
	table_get(t);
	for (unsigned i = 0; i < 2 && !err; i++) {
		const struct tfs_schema *p;

		err = tfs_schema_get(s->sides[i].table, &p);
		if (!err)
			s->sides[i].schema = schema_of(p);
	}
	return err;
}

int absent_scan_new(struct tfs_table *t, const struct tfs_scan_spec *spec, struct absent_scan **out)
{
	struct absent_scan *s;
	const struct tfs_schema *p[2];
	int err;

	if (!spec_valid(spec) || spec->absent_from->store != t->store)
		return table_why(t, -EINVAL, "a difference has bounds and families only, and both sides are of one store");
	s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	err = open_sides(s, t, spec->absent_from);
	for (unsigned i = 0; i < 2 && !err; i++)
		p[i] = schema_public(s->sides[i].schema);
	if (!err && (!p[0]->snapshot_of || p[0]->snapshot_of != p[1]->snapshot_of))
		err = table_why(t, -EINVAL, "a difference is of two snapshots of one table");
	if (!err)
		err = copy_bounds(s, spec);
	if (!err && spec->families && spec->family_count)
		err = copy_families(s, spec);
	s->by_files = !err && !spec->one_row && same_rules(p[0], p[1]);
	if (s->by_files)
		err = changed_rows_init(&s->rows, t->store->o.tablets, (const uint32_t[2]){p[0]->tablets_id, p[1]->tablets_id},
			buf_bytes(&s->from), s->to.p ? buf_bytes(&s->to) : (struct tfs_bytes){NULL, 0});
	s->rows.stop = spec->stop;
	s->rows.stop_arg = spec->stop_arg;
	if (err)
		absent_scan_free(s);
	else
		*out = s;
	return err;
}

static void sides_end(struct absent_scan *s)
{
	for (unsigned i = 0; i < 2; i++) {
		cell_scan_fini(&s->sides[i].scan);
		s->sides[i].have = false;
	}
	s->reading = s->read = false;
}

void absent_scan_free(struct absent_scan *s)
{
	if (!s)
		return;
	sides_end(s);
	for (unsigned i = 0; i < 2; i++) {
		if (s->sides[i].schema)
			schema_put(s->sides[i].schema);
		tfs_table_close(s->sides[i].table);
		free(s->sides[i].families);
	}
	changed_rows_fini(&s->rows);
	buf_fini(&s->from);
	buf_fini(&s->to);
	buf_fini(&s->qualifier_from);
	buf_fini(&s->qualifier_to);
	buf_fini(&s->row);
	free(s);
}

/* ---- rows ---- */

/* Begins to read the next rows in both.  Returns 1, 0 if there are none, -errno. */
static int begin_range(struct absent_scan *s)
{
	struct tfs_scan_spec spec = s->spec;
	int r = !s->over;

	if (s->by_files) {
		r = changed_rows_next(&s->rows, &s->range);
	} else {
		s->range = (struct row_range){.from = buf_bytes(&s->from), .to = buf_bytes(&s->to), .one = s->spec.one_row};
		s->over = true;
	}
	if (r <= 0)
		return r;
	spec.what = s->spec.what == TFS_SCAN_CELLS ? TFS_SCAN_CELLS : TFS_SCAN_KEYS;
	spec.row_from = s->range.from;
	spec.row_from_after = false;
	spec.row_to = s->range.to;
	spec.one_row = s->range.one;
	for (unsigned i = 0; i < 2; i++) {
		struct side *d = &s->sides[i];
		int err;

		spec.families = d->families;
		spec.family_count = d->family_count;
		spec.past_damage = i == 1 && s->spec.past_damage;
		d->used = true;
		if (d->families && !d->family_count)
			continue; /* the table has none of the families */
		err = cell_scan_init(&d->scan, d->table, &spec);
		if (err)
			return err;
	}
	s->reading = true;
	return 1;
}

/* ---- cells ---- */

/* Moves each side whose cell was used to its next cell. */
static int advance(struct absent_scan *s)
{
	for (unsigned i = 0; i < 2; i++) {
		struct side *d = &s->sides[i];
		int r = d->have;

		if (d->used)
			r = d->scan.table ? cell_scan_next(&d->scan, &d->cell) : 0;
		if (r == -EBADMSG && i == 1 && s->spec.past_damage) {
			s->damaged = true;
			r = 0;
		}
		if (r < 0)
			return r;
		d->have = r > 0;
		d->used = false;
	}
	return 0;
}

/* The order of names.  A family that was renamed is a different family. */
static int cells_compare(const struct tfs_cell *a, const struct tfs_cell *b)
{
	int c = bytes_cmp(a->row, b->row);

	if (!c)
		c = (a->family_id > b->family_id) - (a->family_id < b->family_id);
	if (!c)
		c = bytes_cmp(a->qualifier, b->qualifier);
	if (!c)
		c = (a->ts < b->ts) - (a->ts > b->ts);
	return c ? c : strcmp(a->family, b->family) ? -1 : 0;
}

/* Returns 1 if both values are the same, 0, -errno.  They have the same size. */
static int values_read_same(struct absent_scan *s, uint64_t size)
{
	uint8_t *p = malloc(2 * PIECE);
	int r = p ? 1 : -ENOMEM;

	for (uint64_t at = 0; r == 1 && at < size; at += PIECE) {
		size_t got[2] = {0};

		for (unsigned i = 0; i < 2 && r == 1; i++) {
			const struct tfs_cell *c = &s->sides[1].cell; /* the cell has the same name on both sides */
			int err = tfs_read(s->sides[i].table, c->row, c->family, c->qualifier, tfs_at(c->ts), at, p + i * PIECE,
				PIECE, &got[i], NULL);

			r = err ? err : 1;
		}
		if (r == 1)
			r = got[0] == got[1] && memcmp(p, p + PIECE, got[0]) == 0;
	}
	free(p);
	return r;
}

static int values_same(struct absent_scan *s)
{
	const struct tfs_cell *a = &s->sides[0].cell, *b = &s->sides[1].cell;

	if (s->spec.absent_names || (a->sequence == b->sequence && a->commit_us == b->commit_us))
		return 1;
	if (a->size != b->size)
		return 0;
	if (!a->value.p || !b->value.p)
		return a->size ? values_read_same(s, a->size) : 1;
	return memcmp(a->value.p, b->value.p, a->size) == 0;
}

/*
 * The cell of a family that was made anew, or took another family's name, has a
 * different id in each snapshot.  Returns 1 if the compared snapshot has a cell
 * of the same name and value nevertheless, 0, -errno.
 */
static int same_by_name(struct absent_scan *s)
{
	const struct side *other = &s->sides[0];
	const struct tfs_cell *c = &s->sides[1].cell;
	const struct tfs_family *f = tfs_schema_family(schema_public(other->schema), c->family);
	struct tfs_info info;
	int err;

	if (!f || f->id == c->family_id)
		return 0;
	err = tfs_stat(other->table, c->row, c->family, c->qualifier, tfs_at(c->ts), &info);
	if (err)
		return err == -ENOENT || err == -EACCES ? 0 : err;
	if (s->spec.absent_names || (info.size == 0 && c->size == 0))
		return 1;
	return info.size == c->size ? values_read_same(s, c->size) : 0;
}

/* Finds the next cell of the range that is absent from the compared snapshot.  Returns 1, 0 at the end of the range, -errno. */
static int next_absent(struct absent_scan *s)
{
	struct side *other = &s->sides[0], *own = &s->sides[1];

	for (;; s->compared++) {
		int r = advance(s), c;

		if (r || !own->have)
			return r;
		if (s->compared >= STOP_CELLS && s->spec.stop) {
			s->compared = 0;
			if (s->spec.stop(s->spec.stop_arg))
				return -EINTR;
		}
		c = other->have ? cells_compare(&other->cell, &own->cell) : 1;
		r = c ? 0 : values_same(s);
		if (r < 0)
			return r;
		other->used = c <= 0;
		own->used = c >= 0;
		if (c > 0)
			r = same_by_name(s);
		if (r < 0)
			return r;
		if (c >= 0 && !r)
			return 1;
	}
}

/* Returns 1 if the entry for the cell is new, and *out is it; 0 if its row or family was returned; -errno. */
static int entry_of(struct absent_scan *s, const struct tfs_cell *c, struct tfs_cell *out)
{
	const bool rows = s->spec.what == TFS_SCAN_ROWS;
	int err;

	if (s->spec.what == TFS_SCAN_CELLS || s->spec.what == TFS_SCAN_KEYS) {
		*out = *c;
		return 1;
	}
	if (s->family && bytes_eq(buf_bytes(&s->row), c->row) && (rows || s->family == c->family_id))
		return 0;
	err = buf_set(&s->row, c->row.p, c->row.n);
	if (err)
		return err;
	s->family = c->family_id;
	*out = (struct tfs_cell){.row = c->row, .expires_us = INT64_MAX, .unsure = c->unsure};
	if (!rows) {
		out->family = c->family;
		out->family_id = c->family_id;
	}
	return 1;
}

static int scan_next(struct absent_scan *s, struct tfs_cell *cell)
{
	for (;;) {
		int r, entry = 0;

		if (s->read)
			sides_end(s);
		r = s->reading ? 1 : begin_range(s);
		if (r <= 0)
			return r ? r : s->damaged ? -EBADMSG : 0;
		while (!entry && (r = next_absent(s)) > 0)
			entry = entry_of(s, &s->sides[1].cell, cell);
		if (entry || r < 0) {
			s->read = entry && s->range.one && s->spec.what == TFS_SCAN_ROWS;
			return entry ? entry : r;
		}
		sides_end(s);
	}
}

int absent_scan_next(struct absent_scan *s, struct tfs_cell *cell)
{
	int r = s->failed ? s->failed : scan_next(s, cell);

	if (r < 0 && r != -EINTR)
		s->failed = r;
	return r;
}
