/* SPDX-License-Identifier: Apache-2.0 */
/* Implements cells_model.h. */
#include "t/unit/cells_model.h"
#include "t/lib/xorshift.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

uint64_t rng;

uint32_t rnd(uint32_t n)
{
	return (uint32_t)((xorshift(&rng) >> 16) % n);
}

const struct tfs_bytes rows[ROWS] = {LIT(""), LIT("a"), LIT("a\0"), LIT("a\0\xff"), LIT("a\x01"), LIT("b\0c"), LIT("\xff\xff")};
const struct tfs_bytes qualifiers[QUALIFIERS] = {LIT(""), LIT("\0"), LIT("\0\0"), LIT("\x01"), LIT("q"), LIT("q\0z"), LIT("\xff")};
const uint16_t family_ids[FAMILIES] = {1, 2, 7, 65535};

uint8_t byte_at(uint64_t seq, uint64_t i)
{
	return (uint8_t)(seq * 31 + i * 7 + (i >> 8) * 3);
}

void put(struct memtable *m, const struct cellkey *k, struct tfs_bytes value)
{
	struct buf key = {0};
	struct memnode *n;

	assert_int_equal(cellkey_append(&key, k), 0);
	assert_int_equal(memtable_prepare(m, buf_bytes(&key), value, &n), 0);
	memtable_insert(m, n, false);
	buf_fini(&key);
}

void store(struct model *md, int child, const struct entry *e)
{
	struct cellkey k = {.row = rows[e->row],
		.qualifier = qualifiers[e->qualifier],
		.family = family_ids[e->family],
		.kind = e->kind,
		.ts = e->ts,
		.seq = e->seq,
		.commit = COMMIT_OF(e->seq)};
	static uint8_t bytes[4 * TFS_INLINE_MAX];

	for (uint64_t i = 0; i < e->size; i++)
		bytes[i] = byte_at(e->seq, i);
	put(md->m[child], &k, tfs_bytes_of(bytes, e->size));
}

/* Whether the child's clip lets the entry through. */
static bool shows(const struct model *md, int child, const struct entry *e)
{
	return !md->clipped[child] || (e->row >= md->clip_from[child] && e->row < md->clip_to[child]);
}

void model_make(struct model *md, bool with_large)
{
	int n = 1 + (int)rnd(rnd(4) ? 60 : MAX_ENTRIES);
	static const int64_t odd_ts[] = {INT64_MIN, INT64_MAX, -1, 0};

	memset(md, 0, sizeof(*md));
	md->children = 1 + (int)rnd(MAX_CHILDREN);
	for (int i = 0; i < md->children; i++) {
		assert_int_equal(memtable_new(&md->m[i]), 0);
		md->clipped[i] = rnd(4) == 0;
		md->clip_from[i] = (int)rnd(ROWS);
		md->clip_to[i] = md->clip_from[i] + (int)rnd(ROWS + 1 - (uint32_t)md->clip_from[i]);
	}
	for (int i = 0; i < FAMILIES; i++) {
		struct model_rule *r = &md->rules[i];
		char text[80];

		r->known = rnd(8) != 0;
		r->versions = rnd(2) ? 1 + rnd(4) : 0;
		r->age = rnd(3) == 0 ? 1 + (int)rnd(10) : 0;
		r->both = r->versions && r->age && rnd(2);
		if (r->versions && r->age)
			snprintf(text, sizeof(text), "maxversions=%d %s maxage=%dus", (int)r->versions, r->both ? "and" : "or",
				(int)r->age);
		else if (r->versions)
			snprintf(text, sizeof(text), "maxversions=%d", (int)r->versions);
		else if (r->age)
			snprintf(text, sizeof(text), "maxage=%dus", (int)r->age);
		else
			text[0] = 0;
		assert_int_equal(gc_parse(text, &r->rule, NULL), 0);
	}
	/* few places are hot, so that versions and deletes meet */
	for (int i = 0; i < n; i++) {
		struct entry e = {.row = (int)rnd(rnd(2) ? 2 : ROWS),
			.family = (int)rnd(rnd(2) ? 2 : FAMILIES),
			.qualifier = (int)rnd(rnd(2) ? 2 : QUALIFIERS),
			.seq = (uint64_t)i + 1};
		uint32_t dice = rnd(100);
		int child = (int)rnd((uint32_t)md->children);
		bool seen;

		e.ts = rnd(12) ? 1 + (int64_t)rnd(12) : odd_ts[rnd(4)];
		if (dice < 3)
			e.kind = CELL_DELETE_ROW;
		else if (dice < 7)
			e.kind = CELL_DELETE_FAMILY;
		else if (dice < 17)
			e.kind = CELL_DELETE_COLUMN;
		else if (dice < 27)
			e.kind = CELL_DELETE_VERSION;
		else
			e.kind = CELL_VALUE;
		if (dice >= 27 && dice < 30 && with_large)
			e.size = TFS_INLINE_MAX + 1 + rnd(2 * TFS_INLINE_MAX);
		else if (e.kind == CELL_VALUE)
			e.size = rnd(4) ? rnd(40) : rnd(rnd(8) ? 500 : 6000);
		seen = shows(md, child, &e);
		store(md, child, &e);
		/* a delete of a row is written to several groups */
		for (int c = 0; e.kind == CELL_DELETE_ROW && c < md->children; c++) {
			if (c != child && rnd(2)) {
				store(md, c, &e);
				seen |= shows(md, c, &e);
			}
		}
		if (seen)
			md->e[md->count++] = e;
	}
}

void model_free(struct model *md)
{
	for (int i = 0; i < md->children; i++)
		memtable_put(md->m[i]);
	for (int i = 0; i < FAMILIES; i++)
		gc_free(md->rules[i].rule);
}

const struct gc_rule *model_rule(const void *arg, uint16_t family, bool *known)
{
	const struct model *md = arg;

	for (int i = 0; i < FAMILIES; i++) {
		if (family_ids[i] == family) {
			*known = md->rules[i].known;
			return *known ? md->rules[i].rule : NULL;
		}
	}
	*known = false;
	return NULL;
}

static bool entry_live(const struct model *md, const struct entry *e, uint64_t seq)
{
	if (e->kind != CELL_VALUE || e->seq > seq || !md->rules[e->family].known)
		return false;
	for (int i = 0; i < md->count; i++) {
		const struct entry *d = &md->e[i];
		bool column = d->family == e->family && d->qualifier == e->qualifier;

		if (d->row != e->row || d->seq > seq || d->seq <= e->seq)
			continue;
		if (d->kind == CELL_DELETE_ROW || (d->kind == CELL_DELETE_FAMILY && d->family == e->family))
			return false;
		if (column && d->kind == CELL_DELETE_COLUMN && d->ts >= e->ts)
			return false;
		if (column && d->ts == e->ts && (d->kind == CELL_DELETE_VERSION || d->kind == CELL_VALUE))
			return false;
	}
	return true;
}

static int by_key(const void *pa, const void *pb)
{
	const struct expect *a = pa, *b = pb;

	if (a->row != b->row)
		return a->row < b->row ? -1 : 1;
	if (a->family != b->family)
		return a->family < b->family ? -1 : 1;
	if (a->qualifier != b->qualifier)
		return a->qualifier < b->qualifier ? -1 : 1;
	return (a->ts < b->ts) - (a->ts > b->ts);
}

static bool age_hides(const struct model_rule *r, int64_t ts, int64_t now)
{
	return r->age && ts <= INT64_MAX - r->age && ts + r->age <= now;
}

int expected(const struct model *md, const struct live_options *o, struct expect *out)
{
	static struct expect live[MAX_CELLS];
	const struct scan_spec *s = o->spec;
	int n = 0, count = 0;
	uint64_t index = 0, shown = 0;

	for (int i = 0; i < md->count; i++) {
		const struct entry *e = &md->e[i];

		if (entry_live(md, e, o->seq))
			live[n++] = (struct expect){.row = e->row,
				.family = e->family,
				.qualifier = e->qualifier,
				.ts = e->ts,
				.size = e->size,
				.seq = e->seq};
	}
	qsort(live, (size_t)n, sizeof(*live), by_key);
	for (int i = 0; i < n; i++) {
		struct expect *e = &live[i];
		const struct model_rule *r = &md->rules[e->family];
		struct tfs_bytes row = rows[e->row], q = qualifiers[e->qualifier];
		bool by_versions, by_age, in = s->family_ids == NULL;

		if (i == 0 || e->row != e[-1].row || e->family != e[-1].family || e->qualifier != e[-1].qualifier)
			index = shown = 0;
		by_versions = r->versions && index >= r->versions;
		by_age = age_hides(r, e->ts, o->now);
		index++;
		if (r->both ? by_versions && by_age : by_versions || by_age)
			continue;
		e->expires = r->age && e->ts <= INT64_MAX - r->age ? e->ts + r->age : INT64_MAX;
		if (r->both && !by_versions)
			e->expires = INT64_MAX;
		for (uint32_t f = 0; s->family_ids && f < s->pub.family_count; f++)
			in |= s->family_ids[f] == family_ids[e->family];
		if (!in || bytes_cmp(row, o->row_begin) < 0 || (o->row_end.p && bytes_cmp(row, o->row_end) >= 0))
			continue;
		if (s->pub.one_row ? !bytes_eq(row, s->pub.row_from)
				   : (bytes_cmp(row, s->pub.row_from) < 0 ||
					     (s->pub.row_from_after && bytes_eq(row, s->pub.row_from))))
			continue;
		if (s->pub.row_to.p && bytes_cmp(row, s->pub.row_to) >= 0)
			continue;
		if (bytes_cmp(q, s->pub.qualifier_from) < 0 || (s->pub.qualifier_to.p && bytes_cmp(q, s->pub.qualifier_to) >= 0))
			continue;
		if (s->pub.has_times && (e->ts < s->pub.since || e->ts >= s->pub.until))
			continue;
		if (s->pub.versions && shown >= s->pub.versions)
			continue;
		shown++;
		if (s->pub.after_cell && bytes_eq(q, s->pub.qualifier_from) && e->ts >= s->pub.after_ts)
			continue;
		if (count && s->pub.what == TFS_SCAN_ROWS && out[count - 1].row == e->row)
			continue;
		if (count && s->pub.what == TFS_SCAN_FAMILIES && out[count - 1].row == e->row && out[count - 1].family == e->family)
			continue;
		out[count++] = *e;
	}
	return count;
}

int open_merge(const struct model *md, struct iter **out)
{
	struct iter *its[MAX_CHILDREN];
	int err;

	for (int i = 0; i < md->children; i++) {
		err = memtable_iter_new(md->m[i], &its[i]);
		if (!err && md->clipped[i]) {
			struct buf from = {0}, to = {0};

			err = cellkey_row_prefix(&from, rows[md->clip_from[i]]);
			if (!err && md->clip_to[i] < ROWS)
				err = cellkey_row_prefix(&to, rows[md->clip_to[i]]);
			if (!err)
				err = clip_iter_new(its[i], buf_bytes(&from), buf_bytes(&to), &its[i]);
			else
				iter_free(its[i]);
			buf_fini(&from);
			buf_fini(&to);
		}
		if (err) {
			while (i-- > 0)
				iter_free(its[i]);
			return err;
		}
	}
	return merge_iter_new(its, (unsigned)md->children, 0, out);
}

/* As a filter answers: yes for each that exists, and sometimes for others. */
static bool model_column_deletes(const void *arg, struct tfs_bytes row, uint16_t family, struct tfs_bytes qualifier)
{
	const struct model *md = arg;

	for (int i = 0; i < md->count; i++) {
		const struct entry *e = &md->e[i];

		if (e->kind == CELL_DELETE_COLUMN && bytes_eq(rows[e->row], row) && family_ids[e->family] == family &&
			bytes_eq(qualifiers[e->qualifier], qualifier))
			return true;
	}
	return rnd(8) == 0;
}

void random_spec(struct scan_spec *s, struct live_options *o, const struct model *md, uint16_t *families)
{
	*s = (struct scan_spec){.pub.what = (enum tfs_scan_what)rnd(4)};
	*o = (struct live_options){
		.rules = {model_rule, md}, .seq = rnd(2) ? UINT64_MAX : rnd(MAX_ENTRIES), .now = rnd(20), .spec = s};
	if (rnd(3)) {
		o->column_deletes = model_column_deletes;
		o->deletes_arg = md;
	}
	if (rnd(4) == 0)
		o->row_begin = rows[rnd(ROWS)];
	if (rnd(4) == 0)
		o->row_end = rows[rnd(ROWS)];
	if (rnd(2))
		s->pub.row_from = rows[rnd(ROWS)];
	if (s->pub.row_from.n && rnd(3) == 0)
		s->pub.one_row = true;
	else
		s->pub.row_from_after = rnd(3) == 0;
	if (rnd(4) == 0)
		s->pub.row_to = rows[rnd(ROWS)];
	if (rnd(2)) {
		s->family_ids = families;
		s->pub.family_count = rnd(3);
		for (uint32_t i = 0; i < s->pub.family_count; i++)
			families[i] = rnd(10) ? family_ids[rnd(FAMILIES)] : (uint16_t)rnd(9);
	}
	if (rnd(3) == 0)
		s->pub.qualifier_from = qualifiers[rnd(QUALIFIERS)];
	if (rnd(3) == 0)
		s->pub.qualifier_to = qualifiers[rnd(QUALIFIERS)];
	if (rnd(4) == 0) { /* continues with a column at a version, as a directory listing does */
		s->pub.one_row = true;
		s->pub.row_from_after = false;
		s->pub.row_from = rows[rnd(2)];
		s->family_ids = families;
		s->pub.family_count = 1;
		families[0] = family_ids[rnd(2)];
		s->pub.qualifier_from = qualifiers[rnd(2)];
		s->pub.after_cell = true;
		s->pub.after_ts = (int64_t)rnd(14);
	}
	if (rnd(4) == 0) {
		s->pub.has_times = true;
		s->pub.since = (int64_t)rnd(10) - 1;
		s->pub.until = s->pub.since + (int64_t)rnd(8);
	}
	s->pub.versions = rnd(2) ? rnd(4) : 0;
	s->pub.limit = rnd(3) ? 0 : rnd(20);
	s->pub.batch_bytes = rnd(2) ? 1 + rnd(2000) : 0;
}
