/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides by the newest versions of some columns which rows a scan returns (row_where.h).
 *
 * The iterator of these columns is behind the scan, or stands on the first cell of a later row.  Rows
 * that the scan does not have are passed by a few steps and then a seek.
 *
 * Rejected: a scan of each row by itself, as scripts have.  Opening the iterators of a tablet costs more than the step to the
 * next row, and the condition could be of a later instant than the cells.
 */
#include "engine/cell/row_where.h"

#include "engine/base/where.h"

#include <errno.h>
#include <stdlib.h>

enum { STEPS_BEFORE_SEEK = 6 };

struct row_where {
	struct arena arena;
	struct where where;
	const uint16_t *ids; /* the family of each term */
	bool *holds;         /* each term, for the present row */
	struct scan_spec spec;
	struct buf qualifier_to;
	struct live *live;
	struct live_cell cell; /* the iterator's, if has_cell */
	bool has_cell, at_end;
};

/* Adds the term's family to the spec, in order and once, and widens the bounds of qualifiers. */
static int add_term(struct row_where *w, unsigned term, uint16_t *families)
{
	struct tfs_scan_spec *p = &w->spec.pub;
	const struct tfs_bytes qualifier = w->where.terms[term].qualifier;
	const struct buf *to = &w->qualifier_to;
	uint32_t at = p->family_count;

	for (; at > 0 && families[at - 1] > w->ids[term]; at--)
		;
	if (at == 0 || families[at - 1] != w->ids[term]) {
		memmove(families + at + 1, families + at, (p->family_count++ - at) * sizeof(*families));
		families[at] = w->ids[term];
	}
	if (term == 0 || bytes_cmp(qualifier, p->qualifier_from) < 0)
		p->qualifier_from = qualifier;
	if (to->n && bytes_cmp(qualifier, tfs_bytes_of(to->p, to->n - 1)) <= 0)
		return 0;
	return buf_set(&w->qualifier_to, qualifier.p, qualifier.n) || buf_u8(&w->qualifier_to, 0) ? -ENOMEM : 0;
}

static int make(struct row_where *w, const struct scan_spec *spec)
{
	struct tfs_bytes ids = tfs_bytes_of(spec->where_ids, spec->where_count * sizeof(*spec->where_ids));
	uint16_t *families;
	const char *why;
	int err = where_parse(spec->pub.row_where, &w->where, &why);

	if (err || w->where.term_count != spec->where_count)
		return err ? err : -EINVAL;
	families = arena_alloc(&w->arena, ids.n);
	w->holds = arena_alloc(&w->arena, w->where.term_count * sizeof(*w->holds));
	if (!families || !w->holds || !arena_dup(&w->arena, ids, &ids))
		return -ENOMEM;
	w->ids = (const uint16_t *)(const void *)ids.p;
	w->spec.family_ids = families;
	w->spec.pub.what = TFS_SCAN_KEYS;
	w->spec.pub.versions = 1;
	for (unsigned i = 0; i < w->where.term_count && !err; i++)
		err = add_term(w, i, families);
	w->spec.pub.qualifier_to = buf_bytes(&w->qualifier_to);
	return err;
}

int row_where_new(const struct scan_spec *spec, struct row_where **out)
{
	struct row_where *w;
	int err;

	*out = NULL;
	if (!spec->pub.row_where.p)
		return 0;
	w = calloc(1, sizeof(*w));
	if (!w)
		return -ENOMEM;
	err = make(w, spec);
	if (err)
		row_where_free(w);
	else
		*out = w;
	return err;
}

void row_where_free(struct row_where *w)
{
	if (!w)
		return;
	row_where_end(w);
	where_fini(&w->where);
	buf_fini(&w->qualifier_to);
	arena_fini(&w->arena);
	free(w);
}

const struct scan_spec *row_where_spec(struct row_where *w, const struct scan_spec *rest)
{
	w->spec.pub.row_from = rest->pub.row_from;
	w->spec.pub.row_from_after = rest->pub.row_from_after;
	w->spec.pub.row_to = rest->pub.row_to;
	w->spec.pub.one_row = rest->pub.one_row;
	w->spec.pub.reverse = rest->pub.reverse;
	w->spec.pub.past_damage = rest->pub.past_damage;
	w->spec.files = rest->files;
	w->spec.kept = rest->kept;
	return &w->spec;
}

void row_where_begin(struct row_where *w, struct live *live)
{
	w->live = live;
	w->has_cell = w->at_end = false;
}

void row_where_end(struct row_where *w)
{
	if (!w)
		return;
	live_free(w->live);
	w->live = NULL;
}

/* Decides the terms on the column of the present cell. */
static int use_cell(struct row_where *w)
{
	struct tfs_bytes value = {NULL, 0};
	bool has_value = false;

	for (unsigned i = 0; i < w->where.term_count; i++) {
		const struct where_term *t = &w->where.terms[i];

		if (w->ids[i] != w->cell.family || !bytes_eq(t->qualifier, w->cell.qualifier))
			continue;
		if (t->test != WHERE_HAS && !has_value) {
			int err = live_value(w->live, 0, (size_t)w->cell.size, &value);

			if (err)
				return err;
			has_value = true;
		}
		w->holds[i] = where_term_holds(t, value);
	}
	return 0;
}

/* Makes the next cell the present one. */
static int next_cell(struct row_where *w)
{
	int r = LIVE_NONE_YET;

	while (r == LIVE_NONE_YET)
		r = live_next(w->live, &w->cell);
	w->has_cell = r > 0;
	w->at_end = r == 0;
	return r < 0 ? r : 0;
}

int row_where_admits(struct row_where *w, struct tfs_bytes row)
{
	unsigned passed = 0;

	memset(w->holds, 0, w->where.term_count * sizeof(*w->holds));
	for (;;) {
		int order, err = w->has_cell || w->at_end ? 0 : next_cell(w);

		if (err)
			return err;
		order = w->at_end ? 1 : bytes_cmp(w->cell.row, row);
		if (!w->at_end && w->spec.pub.reverse)
			order = -order;
		if (order > 0)
			return where_holds(&w->where, w->holds);
		w->has_cell = false;
		if (order == 0)
			err = use_cell(w);
		else if (++passed == STEPS_BEFORE_SEEK)
			err = live_seek_row(w->live, row);
		if (err)
			return err;
	}
}
