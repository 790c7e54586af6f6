/* SPDX-License-Identifier: Apache-2.0 */
/* Point reads and scans. */
#include "engine/client/cells.h"

#include <errno.h>
#include <stdlib.h>

/* Fills in the family's id (NULL: 0), checks the sizes of the keys, and sends the request. */
static int call_with_family(struct tfs_table *t, struct ts_request *q, const char *family, struct ts_answer *a)
{
	const struct schema *s = table_schema(t);
	const struct tfs_family *f = family ? tfs_schema_family(schema_public(s), family) : NULL;
	int err = -EINVAL;

	if (family && !f) {
		err = table_no_family(t); /* an answer that has a newer schema's generation makes the handle read that schema */
		schema_put(s);
		s = table_schema(t);
		f = tfs_schema_family(schema_public(s), family);
		if (err != -EINVAL || !f)
			goto out;
	}
	if (q->row.n == 0 || q->row.n > TFS_ROW_MAX || q->qualifier.n > TFS_QUALIFIER_MAX)
		goto out;
	q->family = f ? f->id : 0;
	err = table_call_row(t, s, q, a);
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
 * only.  first: the answer with those; *got: their number.  Returns 0, 1 if
 * another write has replaced the value meanwhile, or -errno.
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

		q->ts = (struct op_time){.us = first->ts};
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
	struct ts_request q = {
		.method = TS_READ,
		.row = slice_of_bytes(row),
		.qualifier = slice_of_bytes(qualifier),
		.ts = time_of(ts),
		.offset = offset,
		.into = p,
		.length = n < TFS_VALUE_MAX ? n : TFS_VALUE_MAX, /* the longest value */
	};
	int err;

	if (!family)
		return -EINVAL;
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
				*info = (struct tfs_info){a.ts, a.size, a.expires_us, a.commit_us};
		}
		ts_answer_fini(&a);
	} while (err > 0);
	return err;
}

int tfs_row_exists(struct tfs_table *t, struct tfs_bytes row, const char *family, bool *exists)
{
	struct ts_request q = {.method = TS_EXISTS, .row = slice_of_bytes(row)};
	struct ts_answer a = {0};
	int err = call_with_family(t, &q, family, &a);

	if (!err)
		*exists = a.exists;
	ts_answer_fini(&a);
	return err;
}

/* ---- scans ---- */
static int spec_copy_bytes(struct arena *a, struct tfs_bytes in, struct slice *out)
{
	*out = (struct slice){NULL, 0};
	if (!in.data)
		return 0;
	if (in.size == 0) {
		*out = slice_of("", 0); /* NULL would mean: no bound */
		return 0;
	}
	return arena_dup(a, slice_of_bytes(in), out) ? 0 : -ENOMEM;
}

static int spec_convert(struct cell_scan *s, const struct tfs_scan_spec *in, struct scan_spec *out)
{
	static const struct scan_spec none;
	uint16_t *ids = NULL;
	unsigned count = 0;
	int err;

	_Static_assert((int)TFS_SCAN_CELLS == SCAN_CELLS && (int)TFS_SCAN_KEYS == SCAN_KEYS && (int)TFS_SCAN_ROWS == SCAN_ROWS &&
			(int)TFS_SCAN_FAMILIES == SCAN_FAMILIES,
		"kinds of scans are the same in both");
	/* A bound may be longer than the longest key, and a range may be empty: such scans find nothing there. */
	if ((in->one_row && (in->row_from.size == 0 || in->row_from.size > TFS_ROW_MAX)) ||
		(in->after_cell && (!in->one_row || !in->families || in->family_count != 1 || in->qualifier_from_after)) ||
		in->what > TFS_SCAN_FAMILIES || (in->reverse && in->past_damage))
		return -EINVAL;
	*out = none;
	err = spec_copy_bytes(&s->arena, in->row_from, &out->row_from);
	if (!err && !in->one_row)
		err = spec_copy_bytes(&s->arena, in->row_to, &out->row_to);
	if (!err)
		err = spec_copy_bytes(&s->arena, in->qualifier_from, &out->qualifier_from);
	if (!err)
		err = spec_copy_bytes(&s->arena, in->qualifier_to, &out->qualifier_to);
	if (!err)
		err = spec_copy_bytes(&s->arena, in->row_regex, &out->row_regex);
	if (!err)
		err = spec_copy_bytes(&s->arena, in->qualifier_regex, &out->qualifier_regex);
	if (!err)
		err = spec_copy_bytes(&s->arena, in->value_regex, &out->value_regex);
	if (!err)
		err = spec_copy_bytes(&s->arena, in->value_is, &out->value_is);
	if (err)
		return err;
	if (in->families && in->family_count) {
		ids = arena_alloc(&s->arena, in->family_count * sizeof(*ids));
		if (!ids)
			return -ENOMEM;
	}
	for (unsigned i = 0; ids && i < in->family_count; i++) {
		bool named = false;
		const struct tfs_family *f = in->families[i] ? tfs_schema_family(schema_public(s->schema), in->families[i]) : NULL;
		unsigned at = count;

		if (!f)
			return table_no_family(s->table);
		/* The server expects the families in order, each once. */
		for (unsigned k = 0; k < count; k++)
			named = named || ids[k] == f->id;
		if (named)
			continue;
		for (; at > 0 && ids[at - 1] > f->id; at--)
			ids[at] = ids[at - 1];
		ids[at] = f->id;
		count++;
	}
	out->what = (enum scan_what)in->what;
	out->row_from_after = in->row_from_after;
	out->reverse = in->reverse && !in->one_row;
	out->one_row = in->one_row;
	out->families = ids;
	out->family_count = count;
	out->after_cell = in->after_cell;
	out->after_ts = in->after_ts;
	out->has_times = in->has_times;
	out->since = in->since;
	out->until = in->until;
	out->versions = in->versions;
	out->limit = in->limit;
	out->qualifier_from_after = in->qualifier_from_after;
	out->has_changed = in->has_changed;
	out->changed_since = in->changed_since;
	out->column_limit = in->column_limit;
	out->row_limit = in->row_limit;
	out->batch_bytes = in->batch_bytes;
	out->past_damage = in->past_damage;
	return 0;
}

int cell_scan_init(struct cell_scan *s, struct tfs_table *t, const struct tfs_scan_spec *spec)
{
	struct scan_spec converted;
	int err;

	*s = (struct cell_scan){.table = t};
	table_get(t);
	s->schema = table_schema(t);
	err = spec_convert(s, spec, &converted);
	if (err) {
		cell_scan_fini(s);
		return err;
	}
	salt_scan_init(&s->rows, t, s->schema, &converted);
	s->rows.stop = spec->stop;
	s->rows.stop_arg = spec->stop_arg;
	return 0;
}

static const struct tfs_family *scan_family(struct cell_scan *s, uint16_t id)
{
	const struct tfs_schema *p = schema_public(s->schema);

	if (s->last && s->last->id == id)
		return s->last;
	for (unsigned i = 0; i < p->family_count; i++)
		if (p->families[i].id == id)
			return s->last = &p->families[i];
	return NULL;
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

int cell_scan_next(struct cell_scan *s, struct tfs_cell *cell)
{
	const bool rows = s->rows.spec.what == SCAN_ROWS;

	for (;;) {
		const struct scan_cell *c;
		const struct tfs_family *f = NULL;
		struct slice row;
		bool unsure;
		int n = salt_scan_next(&s->rows, &c, &row, &unsure);

		if (n == -EIDRM) {
			n = scan_follow_salt(s);
			if (n == 0)
				continue;
		}
		if (n == 0 && salt_scan_damaged(&s->rows))
			return -EBADMSG;
		if (n <= 0)
			return n;
		if (!rows) {
			f = scan_family(s, c->family);
			if (!f) {
				/* The family may be newer than the scan's schema, and than the client's. */
				n = table_catch_up(s->table, salt_scan_generation(&s->rows));
				if (n < 0)
					return n;
				scan_refresh_schema(s);
				f = scan_family(s, c->family);
			}
			if (!f)
				continue; /* the family was dropped */
		}
		*cell = (struct tfs_cell){
			.row = bytes_of_slice(row),
			.qualifier = bytes_of_slice(c->qualifier),
			.family = f ? f->name : NULL,
			.family_id = f ? f->id : 0,
			.ts = c->ts,
			.size = c->size,
			.value = bytes_of_slice(c->value),
			.expires_us = c->expires_us,
			.commit_us = c->commit_us,
			.sequence = c->seq,
			.unsure = unsure,
		};
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
