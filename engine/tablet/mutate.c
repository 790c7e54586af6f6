/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resolving operations into cells (mutate.h).
 *
 * A blind mutation reads nothing.  Blind are: puts at an explicit time; deletes
 * of rows, families and columns; deletes of versions in a family without a GC
 * rule; and puts at the newest time, if that is above every timestamp in the
 * row, for which the stripe has a bound.  Nearly every write is blind, and
 * shares its stripe.  All other mutations read columns (mutate_column.c), and
 * hold the stripe exclusively.
 *
 * Order: first the arguments of all operations are checked, then all checks
 * are evaluated, then the operations are executed one by one.  On error nothing
 * is applied.  If the mutation is resolved again, an operation uses the same
 * unique time again.
 *
 * Rejected: logging the operations and executing them at replay.  The log has
 * the resulting cells, so replay needs no old state.
 */
#include "engine/base/clock.h"
#include "engine/base/counter.h"
#include "engine/base/stop.h"
#include "engine/cell/merge.h"
#include "engine/cell/pattern.h"
#include "engine/tablet/mutate_impl.h"

#include <errno.h>
#include <stdlib.h>

/* Records that op i is the cause of err.  Returns err. */
static int mutation_failed_at(struct mutation *m, unsigned i, int err)
{
	m->failed = i + 1;
	return err;
}

int mutation_init(struct mutation *m, struct tablet *t, struct tfs_bytes row, const struct op *ops, unsigned count)
{
	uint64_t bytes = 0;
	int err;

	memset(m, 0, offsetof(struct mutation, pre));
	m->pre.n = m->pre.cap = m->cells.n = m->cells.cap = 0;
	memset(&m->results, 0, sizeof *m - offsetof(struct mutation, results));
	m->t = t;
	m->row = row;
	m->ops = ops;
	m->count = count;
	m->now = clock_now(t->env->clock);
	m->collect = clock_collect(t->env->clock);
	m->blind_us = INT64_MAX;
	snap_take(t, &m->snap);
	if (!row.n)
		return -EINVAL;
	if (count > MUTATION_OPS_MAX)
		return -E2BIG;
	if (!tablet_contains_row(t, row))
		return -TABLET_MOVED;
	for (unsigned i = 0; i < count; i++)
		if ((err = op_check(m->snap.schema, &ops[i], &bytes)))
			return mutation_failed_at(m, i, err);
	if (bytes > MUTATION_BYTES_MAX)
		return -E2BIG;
	m->results = &m->one_result;
	if (count > 1 && !(m->results = calloc(count, sizeof *m->results + sizeof *m->draws)))
		return -ENOMEM;
	m->draws = count > 1 ? (int64_t *)(m->results + count) : &m->one_draw;
	return 0;
}

static void cell_list_fini(struct cell_list *l)
{
	if (l->cap && l->v != l->fixed_)
		free(l->v);
}

void mutation_fini(struct mutation *m)
{
	mcolumn_reset(m);
	cell_list_fini(&m->pre);
	cell_list_fini(&m->cells);
	if (m->results != &m->one_result)
		free(m->results);
	arena_fini(&m->arena);
	snap_put(&m->snap);
}

/* Returns the next unique time of this mutation.  An op calls it at most once, so draws[] is large enough. */
static int64_t mutation_unique_time(struct mutation *m)
{
	if (m->draw_next == m->draw_count)
		m->draws[m->draw_count++] = clock_unique(m->t->env->clock);
	return m->draws[m->draw_next++];
}

static int resolve_blind_write(struct mutation *m, unsigned i, int64_t bound)
{
	const struct op *o = &m->ops[i];
	struct batch_cell cell = {CELL_VALUE, o->family, o->w.qualifier, o->value, o->w.place.us, false};
	int err;

	if (!op_is_whole(o) || o->w.replace || o->w.drop_newer)
		return MUTATION_MUST_READ;
	if (o->w.place.when == TFS_NEWEST && o->w.place.us == INT64_MIN)
		cell.ts = mutation_unique_time(m);
	if (o->w.place.when == TFS_NEWEST && (cell.ts <= bound || (m->any_put && cell.ts <= m->newest_us)))
		return MUTATION_MUST_READ;
	if (o->w.place.when == TFS_NEWEST && cell.ts < m->blind_us)
		m->blind_us = cell.ts;
	if ((err = mutation_note_put(m, cell.ts, o->value.n)))
		return err;
	m->results[i] = (struct tfs_result){.ts = cell.ts, .size = o->value.n};
	return cell_push(&m->cells, &cell);
}

int mutation_resolve_blind(struct mutation *m, int64_t bound)
{
	for (unsigned i = 0; i < m->count; i++) {
		const struct op *o = &m->ops[i];
		struct batch_cell cell = {CELL_DELETE_COLUMN, o->family, o->w.qualifier, {NULL, 0}, INT64_MAX, false};
		int err;

		if (o->w.replace && o->kind != OP_WRITE)
			return MUTATION_MUST_READ;
		switch (o->kind) {
		case OP_WRITE:
			err = resolve_blind_write(m, i, bound);
			break;
		case OP_DELETE_VERSION:
			if (store_schema_family(m->snap.schema, o->family)->rule)
				return MUTATION_MUST_READ; /* versions that the rule hides must be deleted, too */
			m->used_rules = true;              /* a newer schema may have a rule */
			cell.kind = CELL_DELETE_VERSION;
			cell.ts = o->w.place.us;
			err = cell_push(&m->cells, &cell);
			break;
		case OP_DELETE_COLUMN:
			err = cell_push(&m->cells, &cell);
			break;
		case OP_DELETE_FAMILY:
		case OP_DELETE_ROW:
			cell.kind = o->kind == OP_DELETE_ROW ? CELL_DELETE_ROW : CELL_DELETE_FAMILY;
			cell.family = o->kind == OP_DELETE_ROW ? 0 : o->family;
			cell.qualifier = tfs_bytes_of(NULL, 0);
			err = cell_push(&m->cells, &cell);
			break;
		case OP_SET_TIME:
		case OP_MOVE:
		case OP_INCREMENT:
		case OP_CHECK:
		default:
			return MUTATION_MUST_READ;
		}
		if (err)
			return err;
	}
	return 0;
}

/* Sets *ts to the larger of `floor` and the newest timestamp + 1.  -EOVERFLOW. */
static int mcolumn_above_newest(struct mutation *m, struct mcolumn *c, int64_t floor, int64_t *ts)
{
	struct mwalk w = {0};
	struct mversion *newest;
	int err = mcolumn_next_kept(m, c, &w, &newest);

	if (err)
		return err;
	*ts = floor;
	if (newest && newest->ts >= floor) {
		if (newest->ts == INT64_MAX)
			return -EOVERFLOW;
		*ts = newest->ts + 1;
	}
	return 0;
}

/* Sets *ts to the time at which a write puts its cell. */
static int mcolumn_place(struct mutation *m, struct mcolumn *c, struct tfs_ts where, int64_t *ts)
{
	if (where.when != TFS_NEWEST) {
		*ts = where.us;
		return 0;
	}
	return mcolumn_above_newest(m, c, where.us == INT64_MIN ? mutation_unique_time(m) : where.us, ts);
}

/* The timestamps of the newest version and of the next version, which may be doubtful, and the size of the newest version. */
struct newest {
	unsigned n; /* number of versions found */
	int64_t ts[2];
	uint64_t size;
};

static int mcolumn_newest_two(struct mutation *m, struct mcolumn *c, struct newest *out)
{
	struct mversion *v;
	struct mwalk w = {0};
	int err;

	out->n = 0;
	while (out->n < 2) {
		if ((err = out->n ? mcolumn_next_kept(m, c, &w, &v) : mcolumn_next(m, c, &w, &v)))
			return err;
		if (!v)
			break;
		if (out->n == 0)
			out->size = v->size;
		out->ts[out->n++] = v->ts;
	}
	return 0;
}

/*
 * Sets *out to the newest version, from which an operation makes the next.  -EBUSY: the
 * newest is a doubtful one, and the rule counts versions.  The next version would begin
 * with nothing and in the end remove the doubtful one.
 */
static int mcolumn_newest_base(struct mutation *m, struct mcolumn *c, struct mversion **out)
{
	const struct gc_rule *rule = store_schema_family(m->snap.schema, c->family)->rule;
	struct mwalk w = {0};
	int err = mcolumn_next_kept(m, c, &w, out);

	if (!err && *out && (*out)->doubtful)
		err = gc_has_versions(rule) ? -EBUSY : mcolumn_newest(m, c, out);
	return err;
}

/* Sets *base to the old bytes to which a write is applied.  -ENOENT, -EBUSY. */
static int mcolumn_base_bytes(struct mutation *m, struct mcolumn *c, const struct op *o, struct tfs_bytes *base)
{
	struct mversion *v = NULL;
	int err = 0;

	if (o->w.base == TFS_BASE_NEWEST)
		err = mcolumn_newest_base(m, c, &v);
	else if (o->w.base == TFS_BASE_VERSION)
		err = mcolumn_find(m, c, o->w.base_ts, &v);
	if (err)
		return err;
	if (o->w.base == TFS_BASE_VERSION && !v)
		return -ENOENT;
	return v ? mcolumn_bytes(m, c, v, base) : 0;
}

static int resolve_write(struct mutation *m, const struct op *o, struct tfs_result *res)
{
	struct tfs_bytes base = {NULL, 0}, value;
	struct newest newest = {0};
	struct mcolumn *c;
	bool replaced;
	int64_t ts;
	int err;

	if ((err = mcolumn_touch(m, o->family, o->w.qualifier, &c)) || (err = mcolumn_base_bytes(m, c, o, &base)) ||
		(err = op_value(m, o, base, &value)))
		return err;
	if (o->w.replace && (err = mcolumn_newest_two(m, c, &newest)))
		return err;
	replaced = newest.n && newest.ts[0] == o->w.replace_ts;
	if (replaced && o->w.place.when == TFS_NEWEST) {
		ts = o->w.place.us == INT64_MIN ? newest.ts[0] : o->w.place.us;
		if (newest.n > 1 && ts <= newest.ts[1])
			ts = newest.ts[1] + 1;
	} else if ((err = mcolumn_place(m, c, o->w.place, &ts))) {
		return err;
	}
	if (replaced && ts != o->w.replace_ts && (err = mcolumn_delete(m, c, o->w.replace_ts)))
		return err;
	if (o->w.drop_newer && (err = mcolumn_delete_newer(m, c, ts)))
		return err;
	*res = (struct tfs_result){.ts = ts, .size = value.n, .replaced = replaced};
	return mcolumn_put(m, c, ts, value);
}

static int resolve_set_time(struct mutation *m, const struct op *o, struct tfs_result *res)
{
	struct newest newest;
	struct mversion *v;
	struct mcolumn *c;
	struct tfs_bytes value;
	int err;

	if ((err = mcolumn_touch(m, o->family, o->w.qualifier, &c)) || (err = mcolumn_newest_two(m, c, &newest)))
		return err;
	if (!newest.n)
		return -ENOENT;
	if (newest.n > 1 && o->w.place.us <= newest.ts[1])
		return -EINVAL;
	*res = (struct tfs_result){.ts = o->w.place.us, .size = newest.size};
	if (newest.ts[0] == o->w.place.us)
		return 0;
	if ((err = mcolumn_newest(m, c, &v)) || (err = mcolumn_bytes(m, c, v, &value)) ||
		(err = mcolumn_delete(m, c, newest.ts[0])))
		return err;
	return mcolumn_put(m, c, o->w.place.us, value);
}

/* -EBUSY: `to` has a doubtful version at the time of one of these versions. */
static int resolve_move_all(struct mutation *m, struct mcolumn *from, struct mcolumn *to, struct tfs_result *res)
{
	struct mversion *v, *there;
	struct mwalk w = {0};
	struct tfs_bytes value;
	bool first = true;
	int err;

	while (!(err = mcolumn_next_kept(m, from, &w, &v)) && v) {
		if (first && !v->doubtful) {
			*res = (struct tfs_result){.ts = v->ts, .size = v->size};
			first = false;
		}
		if ((err = mcolumn_find_kept(m, to, v->ts, &there)))
			return err;
		if (there)
			return -EBUSY;
		if (v->size > MUTATION_BYTES_MAX - m->written)
			return -E2BIG;
		if ((err = mcolumn_bytes(m, from, v, &value)) || (err = mcolumn_put_as(m, to, v->ts, value, v->doubtful)))
			return err;
	}
	return err ? err : mcolumn_delete_all(m, from);
}

static int resolve_move(struct mutation *m, const struct op *o, struct tfs_result *res)
{
	bool whole = o->w.place.when == TFS_NEWEST, onto_column = o->to.when == TFS_NEWEST;
	struct mversion *v, *there = NULL;
	struct mcolumn *from, *to;
	struct tfs_bytes value;
	int64_t ts = o->to.us, from_ts;
	int err;

	if ((err = mcolumn_touch(m, o->family, o->w.qualifier, &from)) ||
		(err = mcolumn_touch(m, o->to_family, o->to_qualifier, &to)) ||
		(err = whole ? mcolumn_newest(m, from, &v) : mcolumn_find(m, from, o->w.place.us, &v)))
		return err;
	if (!v)
		return -ENOENT;
	from_ts = v->ts;
	*res = (struct tfs_result){.ts = from_ts, .size = v->size};
	if (onto_column)
		err = whole ? mcolumn_newest_base(m, to, &there) : mcolumn_newest(m, to, &there);
	else if (o->noreplace)
		err = mcolumn_find_kept(m, to, ts, &there);
	if (err)
		return err;
	if (o->noreplace && there)
		return -EEXIST;
	if (from == to && (onto_column ? there && there->ts == from_ts : !whole && ts == from_ts))
		return 0;
	if (whole && onto_column && !there)
		return resolve_move_all(m, from, to, res);
	if (onto_column && (err = mcolumn_above_newest(m, to, from_ts, &ts)))
		return err;
	if ((err = mcolumn_find(m, from, from_ts, &v)) || (err = v ? mcolumn_bytes(m, from, v, &value) : -EBADMSG))
		return err;
	err = whole ? mcolumn_delete_all(m, from) : mcolumn_delete(m, from, from_ts);
	if (err)
		return err;
	res->ts = ts;
	return mcolumn_put(m, to, ts, value);
}

static int resolve_increment(struct mutation *m, const struct op *o, struct tfs_result *res)
{
	struct mversion *newest;
	struct mcolumn *c;
	struct tfs_bytes value;
	int64_t sum = 0, ts;
	size_t size;
	char *text;
	int err;

	if ((err = mcolumn_touch(m, o->family, o->w.qualifier, &c)) || (err = mcolumn_newest_base(m, c, &newest)))
		return err;
	if (newest) {
		if (newest->size > COUNTER_INPUT_MAX)
			return -EINVAL;
		if ((err = mcolumn_bytes(m, c, newest, &value)) || (err = counter_parse(value, &sum)))
			return err;
	}
	if (__builtin_add_overflow(sum, o->by, &sum))
		return -EOVERFLOW;
	if ((err = mcolumn_place(m, c, TFS_AUTO, &ts)))
		return err;
	text = arena_alloc(&m->arena, COUNTER_TEXT_MAX);
	if (!text)
		return -ENOMEM;
	size = counter_text(sum, text);
	*res = (struct tfs_result){.ts = ts, .size = size, .counter = sum};
	return mcolumn_put(m, c, ts, tfs_bytes_of(text, size));
}

/* Checks that the family's live cells have the fingerprint o->ts.us. */
static int resolve_check_family(struct mutation *m, const struct op *o)
{
	uint64_t sum;
	int err;

	m->used_rules = true;
	err = tablet_fingerprint(m->t, &m->snap, m->row, o->family, m->now, &sum);
	if (err)
		return err;
	return sum == (uint64_t)o->w.place.us ? 0 : -ECANCELED;
}

/* Compiling a pattern takes time, too, and is an error if it is not valid, whether or not the cell exists. */
static int resolve_check_match(struct mutation *m, const struct op *o)
{
	uint64_t start = monotonic_us();
	struct pattern *pattern;
	struct mversion *v;
	struct mcolumn *c;
	struct tfs_bytes value;
	int r;

	if (m->match_us > MUTATION_MATCH_US)
		return -ETIME;
	r = pattern_new(o->value, &pattern);
	m->match_us += monotonic_us() - start;
	if (r)
		return r;
	if ((r = mcolumn_touch(m, o->family, o->w.qualifier, &c)) || (r = mcolumn_newest(m, c, &v)) ||
		(v && (r = mcolumn_bytes(m, c, v, &value))))
		goto out;
	start = monotonic_us();
	r = v ? pattern_match(pattern, value, "the check of a value") : 0;
	m->match_us += monotonic_us() - start;
	r = r > 0 ? 0 : r < 0 ? r : -ECANCELED;
out:
	pattern_free(pattern);
	return r;
}

static int resolve_check(struct mutation *m, const struct op *o)
{
	bool at_version = (o->check == TFS_CHECK_EXISTS || o->check == TFS_CHECK_ABSENT) && o->w.place.when != TFS_NEWEST;
	struct mversion *v;
	struct mcolumn *c;
	struct tfs_bytes value;
	bool holds = false;
	int err;

	if (o->check == TFS_CHECK_FAMILY)
		return resolve_check_family(m, o);
	if (o->check == TFS_CHECK_MATCH)
		return resolve_check_match(m, o);
	if ((err = mcolumn_touch(m, o->family, o->w.qualifier, &c)) ||
		(err = at_version ? mcolumn_find(m, c, o->w.place.us, &v) : mcolumn_newest(m, c, &v)))
		return err;
	switch (o->check) {
	case TFS_CHECK_EXISTS:
		holds = v != NULL;
		break;
	case TFS_CHECK_ABSENT:
		holds = v == NULL;
		break;
	case TFS_CHECK_NEWEST_IS:
		holds = v && v->ts == o->w.place.us;
		break;
	case TFS_CHECK_VALUE:
		if (!v || v->size != o->value.n)
			break;
		if ((err = mcolumn_bytes(m, c, v, &value)))
			return err;
		holds = bytes_eq(value, o->value);
		break;
	case TFS_CHECK_MATCH:
	case TFS_CHECK_FAMILY:
		break;
	}
	return holds ? 0 : -ECANCELED;
}

/* ---- deletes ---- */

/* A version that a delete does not remove. */
struct kept {
	struct mcolumn *column;
	int64_t ts;
	struct tfs_bytes value;
};
struct kept_list {
	struct mutation *m;
	struct kept *v;
	unsigned n;
};

static int keep_version(struct kept_list *l, struct mcolumn *c, struct mversion *v)
{
	struct tfs_bytes value;
	int err = v->size > MUTATION_BYTES_MAX - l->m->written ? -E2BIG : mcolumn_bytes(l->m, c, v, &value);

	if (!err)
		err = array_grow(&l->v, l->n, sizeof *l->v);
	if (!err)
		l->v[l->n++] = (struct kept){c, v->ts, value};
	return err;
}

static int keep_cell(void *arg, const struct live_cell *cell)
{
	struct kept_list *l = arg;
	struct tfs_bytes qualifier;
	struct mversion *v;
	struct mcolumn *c;
	int err = arena_dup(&l->m->arena, cell->qualifier, &qualifier) ? mcolumn_touch(l->m, cell->family, qualifier, &c) : -ENOMEM;

	if (!err)
		err = mcolumn_find_kept(l->m, c, cell->ts, &v);
	return err || !v || !v->doubtful ? err : keep_version(l, c, v);
}

/*
 * A delete with o->replace removes the versions that a reader sees.  The delete
 * on disk covers all versions, so it is followed by puts of the doubtful ones.
 */
static int resolve_delete(struct mutation *m, const struct op *o)
{
	struct batch_cell cell = {CELL_DELETE_ROW, 0, {NULL, 0}, {NULL, 0}, INT64_MAX, false};
	struct kept_list l = {.m = m};
	struct mcolumn *c = NULL;
	struct mwalk w = {0};
	struct mversion *v;
	int err = o->kind == OP_DELETE_COLUMN ? mcolumn_touch(m, o->family, o->w.qualifier, &c) : 0;

	if (o->kind == OP_DELETE_FAMILY) {
		cell.kind = CELL_DELETE_FAMILY;
		cell.family = o->family;
	}
	if (!err && o->w.replace && m->collect < m->now) {
		m->used_rules = true;
		if (!c)
			err = tablet_doubtful(m->t, &m->snap, m->row, cell.family, m->now, m->collect, keep_cell, &l);
		while (c && !err && !(err = mcolumn_next_kept(m, c, &w, &v)) && v)
			err = v->doubtful ? keep_version(&l, c, v) : 0;
	}
	if (!err && c)
		err = mcolumn_delete_all(m, c);
	else if (!err && !(err = cell_push(&m->cells, &cell)))
		err = mcolumn_clear_family(m, cell.family);
	for (unsigned i = 0; i < l.n && !err; i++) { /* the column notices the delete when it is touched */
		err = mcolumn_touch(m, l.v[i].column->family, l.v[i].column->qualifier, &c);
		if (!err)
			err = mcolumn_put_as(m, c, l.v[i].ts, l.v[i].value, true);
	}
	free(l.v);
	return err;
}

static int resolve_op(struct mutation *m, const struct op *o, struct tfs_result *res)
{
	struct mcolumn *c;
	int err;

	switch (o->kind) {
	case OP_WRITE:
		return resolve_write(m, o, res);
	case OP_DELETE_VERSION:
		err = mcolumn_touch(m, o->family, o->w.qualifier, &c);
		return err ? err : mcolumn_delete(m, c, o->w.place.us);
	case OP_DELETE_COLUMN:
	case OP_DELETE_FAMILY:
	case OP_DELETE_ROW:
		return resolve_delete(m, o);
	case OP_SET_TIME:
		return resolve_set_time(m, o, res);
	case OP_MOVE:
		return resolve_move(m, o, res);
	case OP_INCREMENT:
		return resolve_increment(m, o, res);
	case OP_CHECK:
		return 0;
	}
	return -EINVAL;
}

/* Asks once for several operations.  A mutation of METADATA that a user's mutation causes has fewer operations, so it does not stop. */
static bool mutation_stops(unsigned i)
{
	return i % 64 == 63 && stop_asked();
}

int mutation_resolve_reading(struct mutation *m)
{
	int err;

	m->blind_us = INT64_MAX;
	mcolumn_reset(m);
	snap_put(&m->snap);
	snap_take(m->t, &m->snap);
	memset(m->results, 0, m->count * sizeof *m->results);
	for (unsigned i = 0; i < m->count; i++) { /* the schema may have changed since mutation_init */
		uint64_t bytes = 0;

		if (mutation_stops(i))
			return -EINTR;
		if ((err = op_check(m->snap.schema, &m->ops[i], &bytes)))
			return mutation_failed_at(m, i, err);
	}
	for (unsigned i = 0; i < m->count; i++) {
		if (mutation_stops(i))
			return -EINTR;
		if (m->ops[i].kind == OP_CHECK && (err = resolve_check(m, &m->ops[i])))
			return mutation_failed_at(m, i, err);
	}
	for (unsigned i = 0; i < m->count; i++) {
		if (mutation_stops(i))
			return -EINTR;
		if ((err = resolve_op(m, &m->ops[i], &m->results[i])))
			return mutation_failed_at(m, i, err);
	}
	return 0;
}
