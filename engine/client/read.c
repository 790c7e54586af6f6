/* SPDX-License-Identifier: Apache-2.0 */
/* Point reads and scans. */
#include "engine/client/cells.h"

#include "engine/base/name.h"
#include "engine/base/scan.h"
#include "engine/base/where.h"

#include <errno.h>
#include <stdlib.h>

/* Fills in the family's id (NULL: 0), checks the sizes of the keys, and sends the request. */
static int call_with_family(struct tfs_table *t, struct ts_request *q, const char *family, struct ts_answer *a)
{
	const struct schema *s = table_schema(t);
	const struct tfs_family *f = family ? tfs_schema_family(schema_public(s), family) : NULL;
	int err = -EINVAL;

	if (family && !f) {
		err = table_no_family(
			t, family); /* an answer that has a newer schema's generation makes the handle read that schema */
		schema_put(s);
		s = table_schema(t);
		f = tfs_schema_family(schema_public(s), family);
		if (err != -EINVAL || !f)
			goto out;
		reason_clear();
	}
	if (q->row.n == 0 || q->row.n > TFS_ROW_MAX || q->qualifier.n > TFS_QUALIFIER_MAX) {
		err = table_why(t, -EINVAL, ROW_LIMIT ", and a qualifier at most 16,384");
		goto out;
	}
	q->family = f ? f->id : 0;
	err = table_call(t, s, false, q, a);
	if (err == -EACCES)
		(void)table_why(t, err, "no permission to read %s%s", f ? "the family " : "it", f ? f->name : "");
out:
	schema_put(s);
	return err;
}

int tfs_stat(struct tfs_table *t, struct tfs_bytes row, const char *family, struct tfs_bytes qualifier, struct tfs_ts ts,
	struct tfs_info *info)
{
	size_t got;

	return tfs_read(t, row, family, qualifier, ts, 0, NULL, 0, &got, info);
}

/*
 * Reads the rest of a value of which a server elsewhere returned the first bytes
 * only.  `first` is the answer with these cells; sets *got to their number.
 * Returns 0, 1 if another write has replaced the value since then, or -errno.
 */
static int read_rest(struct tfs_table *t, struct ts_request *q, const char *family, const struct ts_answer *first, size_t *got)
{
	const struct ts_request whole = *q;
	uint64_t size = first->size > whole.offset ? first->size - whole.offset : 0;
	int err = 0;

	if (size > whole.length)
		size = whole.length;
	while (!err && *got < size) {
		struct ts_answer a = {0};

		q->ts = (struct tfs_ts){.us = first->ts};
		q->offset = whole.offset + *got;
		q->into = (uint8_t *)whole.into + *got;
		q->length = size - *got;
		err = call_with_family(t, q, family, &a);
		if (err == -ENOENT || (!err && (a.commit_us != first->commit_us || a.size != first->size)))
			err = 1;
		else if (!err && !a.got)
			err = -EBADMSG;
		if (!err)
			*got += a.got;
		ts_answer_fini(&a);
	}
	*q = whole;
	return err;
}

int tfs_read(struct tfs_table *t, struct tfs_bytes row, const char *family, struct tfs_bytes qualifier, struct tfs_ts ts,
	uint64_t offset, void *p, size_t n, size_t *got, struct tfs_info *info)
{
	reason_clear();
	struct ts_request q = {
		.method = TS_READ,
		.row = row,
		.qualifier = qualifier,
		.ts = ts,
		.offset = offset,
		.into = p,
		.length = n < TFS_VALUE_MAX ? n : TFS_VALUE_MAX, /* the longest value */
	};
	int err;

	if (!family || ts.when > TFS_NEWEST)
		return table_why(t, -EINVAL, "a family and a time are needed");
	do {
		struct ts_answer a = {0};
		size_t done;

		err = call_with_family(t, &q, family, &a);
		done = a.got;
		if (!err && done < q.length && offset + done < a.size)
			err = read_rest(t, &q, family, &a, &done);
		if (!err) {
			*got = done;
			if (info)
				*info = (struct tfs_info){
					.ts = a.ts, .size = a.size, .expires_us = a.expires_us, .commit_us = a.commit_us};
		}
		ts_answer_fini(&a);
	} while (err > 0);
	return err;
}

int tfs_row_exists(struct tfs_table *t, struct tfs_bytes row, const char *family, bool *exists)
{
	reason_clear();
	struct ts_request q = {.method = TS_EXISTS, .row = row};
	struct ts_answer a = {0};
	int err = call_with_family(t, &q, family, &a);

	if (!err)
		*exists = a.exists;
	ts_answer_fini(&a);
	return err;
}

/* ---- scans ---- */

enum { RANGES_BEFORE_STOP = 64 };

/* Replaces the names of families by ids, in order, each once. */
static int spec_resolve_families(struct cell_scan *s, const struct tfs_scan_spec *in, struct scan_spec *out)
{
	const unsigned count = in->families ? in->family_count : 0;
	uint16_t *ids = count ? arena_alloc(&s->arena, count * sizeof(*ids)) : NULL;

	if (count && !ids)
		return -ENOMEM;
	out->family_ids = ids;
	out->pub.families = NULL;
	out->pub.family_count = 0;
	for (unsigned i = 0; i < count; i++) {
		const struct tfs_family *f = in->families[i] ? tfs_schema_family(schema_public(s->schema), in->families[i]) : NULL;
		unsigned at = out->pub.family_count;

		if (!f)
			return table_no_family(s->table, in->families[i]);
		for (; at > 0 && ids[at - 1] > f->id; at--)
			;
		if (at > 0 && ids[at - 1] == f->id)
			continue;
		memmove(ids + at + 1, ids + at, (out->pub.family_count++ - at) * sizeof(*ids));
		ids[at] = f->id;
	}
	return 0;
}

/* Adds the ids of the families in row_where, in the order of its terms. */
static int spec_resolve_where(struct cell_scan *s, struct scan_spec *out)
{
	struct where w = {0};
	const char *why;
	uint16_t *ids = NULL;
	int err = out->pub.row_where.p ? where_parse(out->pub.row_where, &w, &why) : 0;

	if (err == -EINVAL)
		(void)table_why(s->table, err, "where=: %s", why);

	if (!err && w.term_count)
		err = (ids = arena_alloc(&s->arena, w.term_count * sizeof(*ids))) ? 0 : -ENOMEM;
	for (unsigned i = 0; i < w.term_count && !err; i++) {
		const struct tfs_family *f = tfs_schema_family(schema_public(s->schema), w.terms[i].family);

		if (f)
			ids[i] = f->id;
		else
			err = table_no_family(s->table, w.terms[i].family);
	}
	out->where_ids = ids;
	out->where_count = w.term_count;
	where_fini(&w);
	return err;
}

/* The rows of a key.  *empty: there are none. */
static int key_range(struct cell_scan *s, const struct tfs_key *k, struct key_range *out, bool *empty)
{
	struct buf to = {0};
	int err;

	*empty = !k->is_prefix && (k->key.n == 0 || k->key.n > TFS_ROW_MAX);
	*out = (struct key_range){0};
	if (*empty)
		return 0;
	err = k->is_prefix ? key_after_prefix(k->key, &to) : buf_append_bytes(&to, k->key) || buf_u8(&to, 0) ? -ENOMEM : 0;
	if (!err && (!arena_dup(&s->arena, k->key, &out->from) || (to.n && !arena_dup(&s->arena, buf_bytes(&to), &out->to))))
		err = -ENOMEM;
	buf_fini(&to);
	return err;
}

static int range_order(const void *a, const void *b)
{
	return bytes_cmp(((const struct key_range *)a)->from, ((const struct key_range *)b)->from);
}

/* Narrows the range by the bounds of the spec.  Returns false if no row is left. */
static bool range_narrow(struct key_range *r, const struct tfs_scan_spec *p)
{
	const int order = bytes_cmp(p->row_from, r->from);

	if (order >= 0) {
		r->from = p->row_from;
		r->after = p->row_from_after;
	}
	if (p->row_to.p && (!r->to.p || bytes_cmp(p->row_to, r->to) < 0))
		r->to = p->row_to;
	return !r->to.p || bytes_cmp(r->from, r->to) < 0;
}

/* Makes ranges of the keys: in order, each row in one of them, within the bounds of the spec. */
static int spec_resolve_keys(struct cell_scan *s, const struct tfs_scan_spec *in, struct tfs_scan_spec *p)
{
	struct key_range *r = NULL;
	unsigned n = 0, to = 0;

	s->reverse = p->reverse;
	s->one_row = p->one_row;
	p->keys = NULL;
	p->key_count = 0;
	if (!in->keys)
		return 0;
	r = arena_alloc(&s->arena, (in->key_count + 1u) * sizeof(*r));
	if (!r)
		return -ENOMEM;
	for (unsigned i = 0; i < in->key_count; i++) {
		bool empty;
		int err = key_range(s, &in->keys[i], &r[n], &empty);

		if (err)
			return err;
		n += !empty;
	}
	qsort(r, n, sizeof(*r), range_order);
	for (unsigned i = 0; i < n; i++) {
		struct key_range *last = to ? &r[to - 1] : NULL;

		if (!last || (last->to.p && bytes_cmp(r[i].from, last->to) >= 0))
			r[to++] = r[i];
		else if (last->to.p && (!r[i].to.p || bytes_cmp(r[i].to, last->to) > 0))
			last->to = r[i].to;
	}
	for (unsigned i = 0; i < to; i++)
		if (in->one_row ? bytes_cmp(r[i].from, p->row_from) <= 0 && (!r[i].to.p || bytes_cmp(p->row_from, r[i].to) < 0)
				: range_narrow(&r[i], p))
			r[s->range_count++] = r[i];
	s->ranges = r;
	return 0;
}

void cell_scan_bound(struct cell_scan *s, unsigned i)
{
	struct tfs_scan_spec *p = &s->rows.spec.pub;

	p->row_from = s->ranges[i].from;
	p->row_from_after = s->ranges[i].after;
	p->row_to = s->ranges[i].to;
	p->one_row = false;
	p->reverse = s->reverse;
}

/* Begins the next range of keys.  Returns false if there is none. */
static bool scan_begin_range(struct cell_scan *s)
{
	struct tfs_scan_spec *p = &s->rows.spec.pub;

	if (s->range_at == s->range_count || (p->limit && s->rows.returned >= p->limit) ||
		(p->row_limit && s->rows.rows >= p->row_limit))
		return false;
	s->range_at++;
	if (s->one_row)
		return true; /* the row is one of the keys */
	cell_scan_bound(s, s->reverse ? s->range_count - s->range_at : s->range_at - 1);
	if (!p->row_from_after && p->row_to.p && p->row_to.n == p->row_from.n + 1 && p->row_to.p[p->row_from.n] == 0 &&
		bytes_has_prefix(p->row_to, p->row_from) && p->row_from.n) {
		p->one_row = true; /* then the filters of files are asked for it */
		p->row_to = (struct tfs_bytes){NULL, 0};
		p->reverse = false;
	}
	return true;
}

static int spec_resolve(struct cell_scan *s, const struct tfs_scan_spec *in, struct scan_spec *out)
{
	struct tfs_scan_spec *const p = &out->pub;
	int err;

	/* A bound may be longer than the longest key, and a range may be empty: such scans find nothing there. */
	if ((in->one_row && (in->row_from.n == 0 || in->row_from.n > TFS_ROW_MAX)) ||
		(in->after_cell && (!in->one_row || !in->families || in->family_count != 1 || in->qualifier_from_after)) ||
		(in->what > TFS_SCAN_FAMILIES && in->what != TFS_SCAN_HASHES) || (in->reverse && in->past_damage) ||
		!scan_hashes_valid(in))
		return table_why(
			s->table, -EINVAL, "members of the scan's spec exclude each other, or its row has no valid length");
	*out = (struct scan_spec){.pub = *in};
	p->reverse = in->reverse && !in->one_row;
	if (in->one_row)
		p->row_to = (struct tfs_bytes){NULL, 0};
	p->absent_from = NULL;
	err = scan_own_bytes(p, &s->arena);
	if (!err)
		err = spec_resolve_keys(s, in, p);
	if (!err)
		err = spec_resolve_families(s, in, out);
	return err ? err : spec_resolve_where(s, out);
}

int cell_scan_init(struct cell_scan *s, struct tfs_table *t, const struct tfs_scan_spec *spec)
{
	struct scan_spec resolved;
	int err;

	*s = (struct cell_scan){.table = t};
	table_get(t);
	s->schema = table_schema(t);
	err = spec_resolve(s, spec, &resolved);
	if (err) {
		cell_scan_fini(s);
		return err;
	}
	salt_scan_init(&s->rows, t, s->schema, &resolved);
	if (s->ranges)
		(void)scan_begin_range(s);
	return 0;
}

static const struct tfs_family *scan_family(struct cell_scan *s, uint16_t id)
{
	const struct tfs_schema *p = schema_public(s->schema);

	if (!s->last || s->last->id != id)
		s->last = schema_family_by_id(p, id);
	return s->last;
}

static void scan_refresh_schema(struct cell_scan *s)
{
	schema_put(s->schema);
	s->schema = table_schema(s->table);
	s->last = NULL;
}

/*
 * The scan's tablets were dropped.  If a new salt caused this, continues with
 * the new tablets.  -ENOENT: the table was dropped.
 */
static int scan_follow_salt(struct cell_scan *s)
{
	const struct schema *now = table_new_tablets(s->table, s->rows.table);

	if (!now)
		return -ENOENT;
	schema_put(s->schema);
	s->schema = now;
	s->last = NULL;
	salt_scan_again(&s->rows, now);
	return 0;
}

/* The present range has ended.  Returns 1 if another one has begun, 0 if there is none, -EINTR. */
static int scan_next_range(struct cell_scan *s)
{
	const struct tfs_scan_spec *p = &s->rows.spec.pub;

	s->damaged = s->damaged || salt_scan_damaged(&s->rows);
	if (!scan_begin_range(s))
		return 0;
	salt_scan_restart(&s->rows);
	return ++s->empty % RANGES_BEFORE_STOP == 0 && p->stop && p->stop(p->stop_arg) ? -EINTR : 1;
}

int cell_scan_next(struct cell_scan *s, struct tfs_cell *cell)
{
	const bool rows = s->rows.spec.pub.what == TFS_SCAN_ROWS;

	for (;;) {
		const struct tfs_cell *c;
		const struct tfs_family *f = NULL;
		struct tfs_bytes row;
		bool unsure;
		int n = s->ranges && !s->range_count ? 0 : salt_scan_next(&s->rows, &c, &row, &unsure);

		if (n == -TABLE_DROPPED) {
			n = scan_follow_salt(s);
			if (n == 0)
				continue;
		}
		if (n == 0 && s->range_at) {
			n = scan_next_range(s);
			if (n > 0)
				continue;
		}
		if (n == 0 && (s->damaged || salt_scan_damaged(&s->rows)))
			return table_why(s->table, -EBADMSG, "blocks that cannot be read were skipped");
		if (n <= 0)
			return user_errno(n);
		if (!rows) {
			f = scan_family(s, c->family_id);
			if (!f) {
				/* The family may be newer than the scan's schema, and than the client's. */
				n = table_catch_up(s->table, salt_scan_generation(&s->rows));
				if (n < 0)
					return n;
				scan_refresh_schema(s);
				f = scan_family(s, c->family_id);
			}
			if (!f)
				continue; /* the family was dropped */
		}
		s->empty = 0;
		*cell = *c;
		cell->row = row;
		cell->family = f ? f->name : NULL;
		cell->unsure = unsure;
		return 1;
	}
}

void cell_scan_fini(struct cell_scan *s)
{
	if (!s->table)
		return;
	salt_scan_fini(&s->rows);
	arena_fini(&s->arena);
	schema_put(s->schema);
	tfs_table_close(s->table);
	*s = (struct cell_scan){0};
}
