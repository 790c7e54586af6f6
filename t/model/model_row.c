/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a mutation does to its row.
 *
 * Each column that an operation names is copied once, with every version
 * marked live or hidden as the GC rules say at the mutation's one "now";
 * operations work on the copies, in order; at the end, when nothing can fail
 * any more, the copies take the place of the columns.
 *
 * Where engine/tabletfs.h leaves a choice, the model has this:
 *
 *  1. "As it was before, in order": an operation sees the versions that were
 *     live before the mutation, without the versions that earlier operations of the
 *     mutation removed, and with the versions that they wrote.  The rules are not asked
 *     again between operations: a version written in this mutation counts as live in it
 *     even if the rules will hide it at once.  Checks are the exception: they see the row
 *     before the mutation, wherever they stand.
 *  2. "Newest version", "another version", "the version below" and "exists"
 *     always mean live versions.  A hidden version has no part in placing.
 *  3. An operation that can remove a version (delete, set_time or replace to
 *     another timestamp, drop_newer, the source of a move) also removes
 *     every version of that column that was hidden before the mutation.
 *     One written at such a timestamp earlier in the same mutation stays.
 *     Deleting an absent version does this too; a put does not.  Moving all
 *     versions of a column means the live ones.
 *  4. Order of judging: -ENOENT (dropped), then the arguments of all
 *     operations in order (-EINVAL; -EFBIG for a value given too large),
 *     -E2BIG (qualifiers and values given), then all checks (-ECANCELED),
 *     then each operation: its own error, -E2BIG once the values written
 *     (moved ones too) pass the limit together.  Nothing is applied then.
 *  5. A check is an operation with a result of its own, all zero.  Deletes
 *     have zeros too.  TFS_CHECK_VALUE ignores ts; so does TFS_CHECK_NEWEST_IS its
 *     ts.when.
 *  6. TFS_NEWEST without a time draws one unique time of the store's clock,
 *     also when newest + 1 is later.  A replacement, a given time and a move
 *     draw none.
 *  7. replace with place TFS_AT: the result is exactly there, and the version at
 *  replace_ts is removed if it is still the newest.  Otherwise
 *     replaced is false and the write is placed as if replace were not set.
 *  8. Move onto itself (column -> same column, version -> same version,
 *     newest version -> its own column): nothing happens; -EEXIST with
 *     noreplace.  -ENOENT is judged before -EEXIST.  A column moved to a version
 *     of itself keeps only that version.  In "newest there + 1" of version -> own
 *     column the moved version itself is not the newest.  "Existing column" means
 *     one with a live version.
 *  9. The result of a move is the newest version moved.  set_time to the
 *     time that it has succeeds and does nothing.
 * 10. Increment looks at the size of the value only, not at the family's
 *     type, and puts look at neither.
 * 11. An empty range writes nothing and extends nothing.
 * 12. A mutation without operations succeeds, on a legal row key.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "t/model/model_types.h"

struct work {
	struct tfs_table *table;
	struct mdl_row *before; /* NULL if there is no such row */
	struct tfs_bytes key;
	int64_t now;
	struct mdl_row touched; /* the copies */
	uint64_t written;       /* bytes of values */
};

/* The mutation's copy of a column, made at the first touch. */
static int touch(struct work *w, uint16_t family, struct tfs_bytes qualifier, struct mdl_column **out)
{
	size_t at, old;

	if (mdl_column_find(&w->touched, family, qualifier, &at)) {
		*out = w->touched.col[at];
		return 0;
	}
	struct mdl_column *c = mdl_column_new(family, qualifier);
	if (!c || mdl_reserve(&w->touched.col, &w->touched.capacity, w->touched.n + 1, sizeof(*w->touched.col)) < 0)
		goto no_memory;
	if (w->before && mdl_column_find(w->before, family, qualifier, &old)) {
		const struct mdl_column *b = w->before->col[old];
		size_t live = mdl_column_live(b, mdl_schema_gc(w->table->schema, family, NULL), w->now);
		if (mdl_reserve(&c->v, &c->capacity, b->n, sizeof(*c->v)) < 0)
			goto no_memory;
		for (; c->n < b->n; c->n++)
			c->v[c->n] = (struct mdl_version){b->v[c->n].ts, b->v[c->n].commit_us, b->v[c->n].sequence,
				mdl_blob_get(b->v[c->n].value), c->n < live};
	}
	memmove(w->touched.col + at + 1, w->touched.col + at, (w->touched.n - at) * sizeof(*w->touched.col));
	w->touched.col[at] = c;
	w->touched.n++;
	*out = c;
	return 0;
no_memory:
	mdl_column_free(c);
	return -ENOMEM;
}

static int touch_named(struct work *w, const char *family, struct tfs_bytes qualifier, struct mdl_column **out)
{
	return touch(w, mdl_schema_family(w->table->schema, family)->id, qualifier, out);
}

/* The first live version from index i on; NULL if none. */
static const struct mdl_version *live_from(const struct mdl_column *c, size_t i)
{
	while (i < c->n && !c->v[i].live)
		i++;
	return i < c->n ? &c->v[i] : NULL;
}

static const struct mdl_version *newest(const struct mdl_column *c)
{
	return live_from(c, 0);
}

static const struct mdl_version *below(const struct mdl_column *c, const struct mdl_version *v)
{
	return live_from(c, (size_t)(v - c->v) + 1);
}

static const struct mdl_version *version_at(const struct mdl_column *c, int64_t ts)
{
	for (size_t i = 0; i < c->n; i++)
		if (c->v[i].ts == ts)
			return c->v[i].live ? &c->v[i] : NULL;
	return NULL;
}

static void purge(struct mdl_column *c)
{
	for (size_t i = c->n; i > 0; i--)
		if (!c->v[i - 1].live)
			mdl_column_remove(c, i - 1);
}

/* Removes a live version (or none) and everything hidden. */
static void delete_at(struct mdl_column *c, int64_t ts)
{
	const struct mdl_version *v = version_at(c, ts);

	if (v)
		mdl_column_remove(c, (size_t)(v - c->v));
	purge(c);
}

/* max(floor, newest + 1) */
static int above_newest(const struct mdl_column *c, int64_t floor, int64_t *ts)
{
	const struct mdl_version *v = newest(c);

	*ts = floor;
	if (v && v->ts >= floor) {
		if (v->ts == INT64_MAX)
			return -EOVERFLOW;
		*ts = v->ts + 1;
	}
	return 0;
}

static int place(struct work *w, const struct mdl_column *c, struct tfs_ts where, int64_t *ts)
{
	if (where.when == TFS_AT) {
		*ts = where.us;
		return 0;
	}
	int64_t assigned = where.us == TFS_NO_TIME ? mdl_unique(w->table->store) : where.us;
	return above_newest(c, assigned, ts);
}

/* Takes value, always. */
static int put(struct work *w, struct mdl_column *c, int64_t ts, struct mdl_blob *value, struct tfs_result *res)
{
	if (value->size > TFS_MUTATION_MAX - w->written) {
		mdl_blob_put(value);
		return -E2BIG;
	}
	w->written += value->size;
	res->ts = ts;
	res->size = value->size;
	return mdl_column_put(c, ts, w->now, value);
}

static int do_put(struct work *w, const struct mdl_op *op, struct tfs_result *res)
{
	struct mdl_column *c;
	int64_t ts;
	int r = touch_named(w, op->family, op->qualifier, &c);

	if (r == 0)
		r = place(w, c, op->ts, &ts);
	if (r < 0)
		return r;
	struct mdl_blob *value = mdl_blob_new(op->value.p, op->value.n);
	return value ? put(w, c, ts, value, res) : -ENOMEM;
}

static int do_write(struct work *w, const struct mdl_op *op, struct tfs_result *res)
{
	const struct tfs_write *wr = &op->write;
	struct mdl_column *c;
	struct mdl_blob *value = NULL;
	const struct mdl_version *base = NULL;
	int64_t ts;
	int r = touch_named(w, op->family, op->qualifier, &c);

	if (r < 0)
		return r;
	if (wr->base == TFS_BASE_NEWEST)
		base = newest(c);
	if (wr->base == TFS_BASE_VERSION) {
		base = version_at(c, wr->base_ts);
		if (!base)
			return -ENOENT;
	}
	r = mdl_value_build(base ? base->value : NULL, wr, &value);
	if (r < 0)
		return r;

	const struct mdl_version *top = newest(c);
	bool replaced = wr->replace && top && top->ts == wr->replace_ts;
	if (replaced && wr->place.when == TFS_NEWEST) {
		const struct mdl_version *under = below(c, top);
		ts = wr->place.us == TFS_NO_TIME ? top->ts : wr->place.us;
		if (under && ts <= under->ts)
			ts = under->ts + 1;
	} else {
		r = place(w, c, wr->place, &ts);
	}
	if (r < 0) {
		mdl_blob_put(value);
		return r;
	}
	if (replaced && ts != wr->replace_ts)
		delete_at(c, wr->replace_ts);
	if (wr->drop_newer) {
		purge(c);
		while (c->n > 0 && c->v[0].ts > ts)
			mdl_column_remove(c, 0);
	}
	r = put(w, c, ts, value, res);
	res->replaced = replaced;
	return r;
}

/* family 0 stands for the whole row */
static int do_delete_many(struct work *w, uint16_t family)
{
	struct mdl_column *c;
	int r = 0;

	for (size_t i = 0; r == 0 && w->before && i < w->before->n; i++) {
		const struct mdl_column *b = w->before->col[i];
		if (family == 0 || b->family == family)
			r = touch(w, b->family, mdl_blob_bytes(b->qualifier), &c);
	}
	for (size_t i = 0; r == 0 && i < w->touched.n; i++)
		if (family == 0 || w->touched.col[i]->family == family)
			mdl_column_clear(w->touched.col[i]);
	return r;
}

static int do_set_time(struct work *w, const struct mdl_op *op, struct tfs_result *res)
{
	struct mdl_column *c;
	int r = touch_named(w, op->family, op->qualifier, &c);

	if (r < 0)
		return r;
	const struct mdl_version *top = newest(c);
	if (!top)
		return -ENOENT;
	const struct mdl_version *under = below(c, top);
	if (under && op->number <= under->ts)
		return -EINVAL;
	if (top->ts == op->number) {
		res->ts = top->ts;
		res->size = top->value->size;
		return 0;
	}
	struct mdl_blob *value = mdl_blob_get(top->value);
	delete_at(c, top->ts);
	return put(w, c, op->number, value, res);
}

static int move_all(struct work *w, struct mdl_column *from, struct mdl_column *to, struct tfs_result *res)
{
	struct tfs_result each;

	for (size_t i = 0; i < from->n; i++) {
		if (!from->v[i].live)
			continue;
		int r = put(w, to, from->v[i].ts, mdl_blob_get(from->v[i].value), &each);
		if (r < 0)
			return r;
	}
	const struct mdl_version *top = newest(from);
	if (!top)
		return -ENOENT;
	res->ts = top->ts;
	res->size = top->value->size;
	mdl_column_clear(from);
	return 0;
}

static int do_move(struct work *w, const struct mdl_op *op, struct tfs_result *res)
{
	struct mdl_column *from, *to;
	int64_t ts;
	bool whole = op->ts.when == TFS_NEWEST, onto_column = op->to.when == TFS_NEWEST;
	int r = touch_named(w, op->family, op->qualifier, &from);

	if (r == 0)
		r = touch_named(w, op->to_family, op->to_qualifier, &to);
	if (r < 0)
		return r;
	const struct mdl_version *v = whole ? newest(from) : version_at(from, op->ts.us);
	if (!v)
		return -ENOENT;
	if (op->noreplace && (onto_column ? newest(to) : version_at(to, op->to.us)))
		return -EEXIST;
	if (from == to && ((onto_column && (whole || v == newest(from))) || (!onto_column && !whole && op->to.us == v->ts))) {
		res->ts = v->ts;
		res->size = v->value->size;
		return 0;
	}
	if (whole && onto_column && !newest(to))
		return move_all(w, from, to, res);

	ts = op->to.us;
	if (onto_column)
		r = above_newest(to, v->ts, &ts);
	if (r < 0)
		return r;
	struct mdl_blob *value = mdl_blob_get(v->value);
	if (whole)
		mdl_column_clear(from);
	else
		delete_at(from, v->ts);
	return put(w, to, ts, value, res);
}

/* A decimal number of 64 bits with blanks around it; no "+", at most 4096 bytes. */
static bool read_number(const char *p, size_t n, int64_t *out)
{
	char text[4097], *end;

	if (n > 4096 || memchr(p, '+', n) || memchr(p, 0, n))
		return false;
	memcpy(text, p, n);
	text[n] = 0;
	errno = 0;
	*out = strtoll(text, &end, 10);
	if (errno || end == text)
		return false;
	return end[strspn(end, " \t\n\v\f\r")] == 0;
}

static int do_increment(struct work *w, const struct mdl_op *op, struct tfs_result *res)
{
	struct mdl_column *c;
	int64_t ts, sum, now = 0;
	char text[32];
	int r = touch_named(w, op->family, op->qualifier, &c);

	if (r < 0)
		return r;
	const struct mdl_version *v = newest(c);
	if (v && !read_number((const char *)v->value->data, v->value->size, &now))
		return -EINVAL;
	if (__builtin_add_overflow(now, op->number, &sum))
		return -EOVERFLOW;
	snprintf(text, sizeof(text), "%" PRId64, sum);
	r = place(w, c, TFS_AUTO, &ts);
	if (r < 0)
		return r;
	struct mdl_blob *value = mdl_blob_new(text, strlen(text));
	if (!value)
		return -ENOMEM;
	res->counter = sum;
	return put(w, c, ts, value, res);
}

static int do_check_family(struct work *w, const struct mdl_op *op)
{
	const uint16_t family = mdl_schema_family(w->table->schema, op->family)->id;
	uint64_t sum = 0;

	for (size_t i = 0; w->before && i < w->before->n; i++) {
		const struct mdl_column *c = w->before->col[i];
		size_t live = c->family == family ? mdl_column_live(c, mdl_schema_gc(w->table->schema, family, NULL), w->now) : 0;

		for (size_t k = 0; k < live; k++)
			sum += mdl_fingerprint(family, mdl_blob_bytes(c->qualifier), c->v[k].ts, c->v[k].sequence);
	}
	return sum == (uint64_t)op->number ? 0 : -ECANCELED;
}

static int do_check(struct work *w, const struct mdl_op *op)
{
	struct mdl_column *c;
	bool holds = false;
	int r;

	if (op->check == TFS_CHECK_FAMILY)
		return do_check_family(w, op);
	r = touch_named(w, op->family, op->qualifier, &c);
	if (r < 0)
		return r;
	const struct mdl_version *top = newest(c);
	const struct mdl_version *v = op->ts.when == TFS_NEWEST ? top : version_at(c, op->ts.us);
	switch (op->check) {
	case TFS_CHECK_EXISTS:
		holds = v;
		break;
	case TFS_CHECK_ABSENT:
		holds = !v;
		break;
	case TFS_CHECK_NEWEST_IS:
		holds = top && top->ts == op->ts.us;
		break;
	case TFS_CHECK_VALUE:
		holds = top && mdl_compare(mdl_blob_bytes(top->value), op->value) == 0;
		break;
	case TFS_CHECK_MATCH:
		holds = top && mdl_matches(op->value, mdl_blob_bytes(top->value));
		break;
	case TFS_CHECK_FAMILY: /* above */
		break;
	}
	return holds ? 0 : -ECANCELED;
}

static int do_op(struct work *w, const struct mdl_op *op, struct tfs_result *res)
{
	struct mdl_column *c;
	int r;

	switch (op->kind) {
	case MDL_PUT:
		return do_put(w, op, res);
	case MDL_WRITE:
		return do_write(w, op, res);
	case MDL_DELETE_VERSION:
	case MDL_DELETE_COLUMN:
		r = touch_named(w, op->family, op->qualifier, &c);
		if (r == 0 && op->kind == MDL_DELETE_VERSION)
			delete_at(c, op->number);
		else if (r == 0)
			mdl_column_clear(c);
		return r;
	case MDL_DELETE_FAMILY:
		return do_delete_many(w, mdl_schema_family(w->table->schema, op->family)->id);
	case MDL_DELETE_ROW:
		return do_delete_many(w, 0);
	case MDL_SET_TIME:
		return do_set_time(w, op, res);
	case MDL_MOVE:
		return do_move(w, op, res);
	case MDL_INCREMENT:
		return do_increment(w, op, res);
	case MDL_CHECK:
		return 0;
	}
	return -EINVAL;
}

static bool deletes(const struct mdl_op *op)
{
	return op->kind == MDL_DELETE_VERSION || op->kind == MDL_DELETE_COLUMN || op->kind == MDL_DELETE_FAMILY ||
		op->kind == MDL_DELETE_ROW;
}

int mdl_apply_locked(const struct tfs_mutation *m, struct tfs_result *results)
{
	struct work w = {.table = m->table, .key = m->row};
	struct tfs_result *res = NULL;
	uint64_t bytes = 0;
	size_t at, failed = 0; /* the operation that is the cause of r, from 1 */
	int r = 0;

	if (results && m->n > 0)
		memset(results, 0, m->n * sizeof(*results));

	if (m->table->dropped)
		return -ENOENT;
	if (m->row.n == 0 || m->row.n > TFS_ROW_MAX)
		return -EINVAL;
	for (size_t i = 0; r == 0 && i < m->n; i++) {
		r = mdl_op_check(&m->op[i], m->table->schema, &bytes);
		failed = i + 1;
	}
	if (r < 0) {
		if (results)
			results[failed - 1].failed = true;
		return r;
	}
	if (m->table->schema->pub.readonly)
		return -EROFS;
	for (size_t i = 0; m->table->schema->pub.protect == TFS_PROTECT_DATA && i < m->n; i++)
		if (deletes(&m->op[i])) {
			if (results)
				results[i].failed = true;
			return -EPERM;
		}
	if (bytes > TFS_MUTATION_MAX)
		return -E2BIG;

	w.now = mdl_now(m->table->store);
	if (mdl_row_find(m->table, m->row, &at))
		w.before = m->table->row[at];
	res = calloc(m->n + 1, sizeof(*res));
	if (!res)
		return -ENOMEM;
	for (size_t i = 0; r == 0 && i < m->n; i++)
		if (m->op[i].kind == MDL_CHECK) {
			r = do_check(&w, &m->op[i]);
			failed = i + 1;
		}
	for (size_t i = 0; r == 0 && i < m->n; i++) {
		r = do_op(&w, &m->op[i], &res[i]);
		failed = i + 1;
	}
	if (r < 0 && results)
		results[failed - 1].failed = true;
	if (r == 0)
		r = mdl_row_install(w.table, w.before, w.key, &w.touched);
	if (r == 0) {
		m->table->store->commits++;
		if (results && m->n > 0)
			memcpy(results, res, m->n * sizeof(*res));
	}
	for (size_t i = 0; i < w.touched.n; i++)
		mdl_column_free(w.touched.col[i]);
	free(w.touched.col);
	free(res);
	return r;
}
