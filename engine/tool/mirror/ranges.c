/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the ranges of rows in which two tables differ (ranges.h).
 *
 * The first table's servers divide it into parts of about 16 MiB.  For each part they return its last
 * row and the sums of its hashes, and the second table's servers return the sums for the same
 * rows.  If the sums differ, the part is divided into parts of 1 MiB, and these into parts of 128
 * KiB, about 1,000 small cells.  A part of this size that differs is returned, to be read cell by cell.
 *
 * The rest of a range is returned at once if several parts of it in a row differ, or if one of the tables has
 * many more cells there, because then the hashes of smaller parts would cost more than they save.
 *
 * The parts of a salted table are those of each range of the salt, and no ranges of rows.  So its first range only
 * proposes the rows at which the parts end.
 */
#include "engine/tool/mirror/ranges.h"

#include <errno.h>
#include <stdlib.h>

enum { LEVELS = 3, DIFFERING_MOST = 2 };
static const size_t part_bytes[LEVELS] = {16 << 20, 1 << 20, 128 << 10};

/* A range of rows that is being divided. */
struct level {
	struct buf from, to;   /* the rows of it that are not divided yet; to.n 0: to the last one */
	struct tfs_scan *ends; /* of the first table: its entries have the last rows of the parts */
	struct tfs_cell next;  /* the entry that was read ahead */
	bool has_next;
	size_t part_bytes;  /* the size of the parts */
	unsigned differing; /* how many parts up to here have differed in a row */
	bool is_done;       /* nothing is left of it */
};
/* Of a family in the present part: the cells of each table, and the difference of the sums. */
struct sum {
	uint64_t cells[2], low, high;
};
struct ranges {
	struct ranges_options o;
	struct level level[LEVELS];
	unsigned depth; /* how many levels are in use */
	struct sum *sums;
	uint64_t cells[2], bytes; /* of the present part; bytes: of the first table */
	struct buf from, to;      /* the present part */
	unsigned failed;
};

/* ---- sums ---- */

static int add_sums(struct ranges *r, unsigned k, const struct tfs_cell *c)
{
	struct sum *s = &r->sums[r->o.table[k].rank[c->family_id]];
	uint64_t low, high;

	if (c->value.n != 16)
		return -EBADMSG;
	high = load_be64(c->value.p);
	low = load_be64(c->value.p + 8);
	s->high += k ? -high : high;
	s->low += k ? -low : low;
	s->cells[k] += c->size;
	r->cells[k] += c->size;
	r->bytes += k ? 0 : c->sequence;
	return 0;
}

static bool sums_differ(const struct ranges *r)
{
	for (unsigned i = 0; i < r->o.count; i++) {
		const struct sum *s = &r->sums[i];

		if (s->low || s->high || s->cells[0] != s->cells[1])
			return true;
	}
	return false;
}

/* ---- scans ---- */

/* Opens a scan of all families of the table.  *out: NULL if it has none. */
static int scan_begin(struct ranges *r, unsigned k, struct tfs_scan_spec spec, struct tfs_scan **out)
{
	const struct ranges_table *t = &r->o.table[k];
	const char **families = calloc(t->schema->family_count + 1u, sizeof(*families));
	int err = families ? 0 : -ENOMEM;

	*out = NULL;
	for (unsigned i = 0; i < t->schema->family_count && !err; i++)
		families[i] = t->schema->families[i].name;
	spec.what = TFS_SCAN_HASHES;
	spec.families = families;
	spec.family_count = t->schema->family_count;
	spec.stop = r->o.stop;
	spec.stop_arg = r->o.arg;
	if (!err && spec.family_count)
		err = tfs_scan_new(t->t, &spec, out);
	if (err)
		r->failed = k;
	free(families);
	return err;
}

static int scan_next(struct ranges *r, unsigned k, struct tfs_scan *scan, struct tfs_cell *c)
{
	int n = scan ? tfs_scan_next(scan, c) : 0;

	if (n < 0)
		r->failed = k;
	return n;
}

/* Adds the sums of the present part of the table. */
static int add_part(struct ranges *r, unsigned k)
{
	const struct tfs_bytes none = {NULL, 0};
	const struct tfs_scan_spec spec = {
		.row_from = buf_bytes(&r->from), .row_to = r->to.n ? buf_bytes(&r->to) : none, .batch_bytes = SIZE_MAX};
	struct tfs_scan *scan;
	struct tfs_cell c;
	int n = scan_begin(r, k, spec, &scan);

	while (!n && (n = scan_next(r, k, scan, &c)) > 0)
		n = add_sums(r, k, &c);
	tfs_scan_free(scan);
	return n;
}

/* ---- parts ---- */

static bool is_salted(const struct ranges *r)
{
	return r->o.table[0].schema->salt_in_use > 1;
}

static int level_begin(struct ranges *r, struct tfs_bytes from, struct tfs_bytes to, size_t part)
{
	struct level *l = &r->level[r->depth];
	struct tfs_scan_spec spec = {.batch_bytes = part};

	if (buf_set(&l->from, from.p, from.n) || buf_set(&l->to, to.p, to.n))
		return -ENOMEM;
	l->has_next = l->is_done = false;
	l->part_bytes = part;
	l->differing = 0;
	spec.row_from = buf_bytes(&l->from);
	if (l->to.n)
		spec.row_to = buf_bytes(&l->to);
	if (is_salted(r)) {
		spec.batch_bytes /= (unsigned)r->o.table[0].schema->salt_in_use;
		spec.stored_to = TFS_S("\1");
	}
	r->depth++;
	return scan_begin(r, 0, spec, &l->ends);
}

static void level_end(struct ranges *r)
{
	struct level *l = &r->level[--r->depth];

	tfs_scan_free(l->ends);
	l->ends = NULL;
}

/* Makes the next entry l->next.  *more is set to false at the end. */
static int read_ahead(struct ranges *r, struct level *l)
{
	int n = l->has_next ? 1 : scan_next(r, 0, l->ends, &l->next);

	l->has_next = n > 0;
	return n < 0 ? n : 0;
}

/*
 * Sets r->to to the end of the level's next part: the least key above the part's last row.  Adds up the
 * sums of the first table, unless it is salted.
 */
static int first_of_part(struct ranges *r, struct level *l)
{
	int err = read_ahead(r, l);
	bool any = false;

	buf_reset(&r->to);
	while (!err && l->has_next && (!any || bytes_eq(l->next.row, tfs_bytes_of(r->to.p, r->to.n - 1)))) {
		if (!any && (buf_set(&r->to, l->next.row.p, l->next.row.n) || buf_u8(&r->to, 0)))
			return -ENOMEM;
		any = true;
		if (!is_salted(r))
			err = add_sums(r, 0, &l->next);
		l->has_next = false;
		if (!err)
			err = read_ahead(r, l);
	}
	if (!err && !l->has_next && buf_set(&r->to, l->to.p, l->to.n)) /* the last part has the rest */
		err = -ENOMEM;
	return err;
}

/* Adds up the hashes of the next part of the level. */
static int part_next(struct ranges *r, struct level *l)
{
	int err;

	memset(r->sums, 0, (r->o.count + 1u) * sizeof(*r->sums));
	r->cells[0] = r->cells[1] = r->bytes = 0;
	if (buf_set(&r->from, l->from.p, l->from.n))
		return -ENOMEM;
	err = first_of_part(r, l);
	if (!err && is_salted(r))
		err = add_part(r, 0);
	return err ? err : add_part(r, 1);
}

/* Returns the size of the parts into which the present part of the level is divided, or 0 if it is to be read. */
static size_t smaller_parts(const struct ranges *r, const struct level *l)
{
	const uint64_t weight = r->cells[0] * sizeof(struct tfs_cell) + r->bytes;

	if (r->cells[0] / 2 > r->cells[1] || r->cells[1] / 2 > r->cells[0])
		return 0; /* most cells are in one table only */
	for (unsigned i = 0; i < LEVELS; i++)
		if (part_bytes[i] < l->part_bytes && part_bytes[i] < weight)
			return part_bytes[i];
	return 0;
}

/* Hashes the next part of the level.  *smaller is the size of the parts into which it is to be divided, or 0. */
static int level_next(struct ranges *r, struct level *l, struct ranges_part *part, size_t *smaller)
{
	int err = part_next(r, l);

	if (err)
		return err;
	*part = (struct ranges_part){.differs = sums_differ(r), .cells = r->cells[0], .bytes = r->bytes};
	l->differing = part->differs ? l->differing + 1 : 0;
	*smaller = part->differs ? smaller_parts(r, l) : 0;
	if (r->depth > 1 && l->differing > DIFFERING_MOST) {
		*smaller = 0;
		if (buf_set(&r->to, l->to.p, l->to.n))
			return -ENOMEM;
	}
	part->from = buf_bytes(&r->from);
	part->to = buf_bytes(&r->to);
	l->is_done = bytes_eq(part->to, buf_bytes(&l->to));
	return buf_set(&l->from, r->to.p, r->to.n);
}

int ranges_next(struct ranges *r, struct ranges_part *out)
{
	while (r->depth) {
		struct level *l = &r->level[r->depth - 1];
		size_t smaller = 0;
		int err;

		if (l->is_done) {
			level_end(r);
			continue;
		}
		err = level_next(r, l, out, &smaller);
		if (!err && !smaller)
			return 1;
		if (!err)
			err = level_begin(r, out->from, out->to, smaller);
		if (err)
			return err;
	}
	return 0;
}

int ranges_new(const struct ranges_options *o, struct ranges **out)
{
	const struct tfs_bytes none = {NULL, 0};
	struct ranges *r = calloc(1, sizeof(*r));
	int err = r ? 0 : -ENOMEM;

	if (!r)
		return err;
	r->o = *o;
	r->sums = calloc(o->count + 1u, sizeof(*r->sums));
	err = r->sums ? level_begin(r, none, none, part_bytes[0]) : -ENOMEM;
	if (err)
		ranges_free(r);
	else
		*out = r;
	return err;
}

unsigned ranges_failed(const struct ranges *r)
{
	return r->failed;
}

void ranges_free(struct ranges *r)
{
	if (!r)
		return;
	for (unsigned i = 0; i < LEVELS; i++) {
		tfs_scan_free(r->level[i].ends);
		buf_fini(&r->level[i].from);
		buf_fini(&r->level[i].to);
	}
	buf_fini(&r->from);
	buf_fini(&r->to);
	free(r->sums);
	free(r);
}
