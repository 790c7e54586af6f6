/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations into cells (mutate.h).
 *
 * Two ways.  The light one reads nothing: puts at a given time, deletes that
 * need not know what they delete, and puts through the plain name whose time
 * is above every timestamp that the row can hold (the stripe keeps a bound).
 * That is nearly every write, and its stripe is shared.  All else takes the
 * heavy way over the columns (mutate_column.c), the stripe held alone.
 *
 * Order of judging: arguments of all operations, then all checks, then each
 * operation.  Nothing is applied on any error.  A unique time of the clock is
 * drawn once for an operation, however often the mutation is resolved.
 *
 * Decided against: logging operations and judging them at replay.  The log
 * holds resulting cells (DESIGN 3.1), so replay needs no old state.
 */
#include "engine/base/counter.h"
#include "engine/tablet/mutate_impl.h"

#include <errno.h>
#include <stdlib.h>

int mutation_init(struct mutation *m, struct tablet *t, struct slice row, const struct op *ops, unsigned count)
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
	snap_take(t, &m->snap);
	if (!row.n)
		return -EINVAL;
	if (!tablet_holds_row(t, row))
		return -EREMCHG;
	for (unsigned i = 0; i < count; i++)
		if ((err = op_check(m->snap.schema, &ops[i], &bytes)))
			return err;
	if (bytes > MUTATION_BYTES_MAX)
		return -E2BIG;
	m->results = count <= 1 ? &m->one_result : calloc(count, sizeof *m->results);
	return m->results ? 0 : -ENOMEM;
}

static void list_fini(struct cell_list *l)
{
	if (l->cap && l->v != l->fixed_)
		free(l->v);
}

void mutation_fini(struct mutation *m)
{
	mcolumn_reset(m);
	list_fini(&m->pre);
	list_fini(&m->cells);
	if (m->results != &m->one_result)
		free(m->results);
	free(m->draws);
	arena_fini(&m->arena);
	snap_put(&m->snap);
}

static int draw(struct mutation *m, int64_t *us)
{
	if (m->draw_next == m->draw_count) {
		if (m->draw_count == m->draw_cap) {
			unsigned cap = m->draw_cap ? m->draw_cap * 2 : 4;
			int64_t *v = reallocarray(m->draws, cap, sizeof *v);

			if (!v)
				return -ENOMEM;
			m->draws = v;
			m->draw_cap = cap;
		}
		m->draws[m->draw_count++] = clock_unique(m->t->env->clock);
	}
	*us = m->draws[m->draw_next++];
	return 0;
}

static int light_write(struct mutation *m, unsigned i, int64_t bound)
{
	const struct op *o = &m->ops[i];
	struct batch_cell cell = {CELL_VALUE, o->family, o->qualifier, o->value, o->ts.us};
	int err;

	if (!op_is_whole(o) || o->replace || o->drop_newer)
		return 1;
	if (o->ts.newest) {
		if (o->ts.us == INT64_MIN && m->count == 1)
			cell.ts = clock_unique(m->t->env->clock);
		else if (o->ts.us == INT64_MIN && (err = draw(m, &cell.ts)))
			return err;
		if (cell.ts <= bound || (m->any_put && cell.ts <= m->newest_us)) {
			if (o->ts.us == INT64_MIN && m->count == 1) { /* keep it for the heavy way */
				m->draws = malloc(sizeof *m->draws);
				if (!m->draws)
					return -ENOMEM;
				m->draws[0] = cell.ts;
				m->draw_count = m->draw_cap = 1;
			}
			return 1;
		}
	}
	if (o->value.n > MUTATION_BYTES_MAX - m->written)
		return -E2BIG;
	m->written += o->value.n;
	if (!m->any_put || cell.ts > m->newest_us)
		m->newest_us = cell.ts;
	m->any_put = true;
	m->results[i] = (struct op_result){.ts = cell.ts, .size = o->value.n};
	return cell_push(&m->cells, &cell);
}

int mutation_light(struct mutation *m, int64_t bound)
{
	for (unsigned i = 0; i < m->count; i++) {
		const struct op *o = &m->ops[i];
		struct batch_cell cell = {CELL_DELETE_COLUMN, o->family, o->qualifier, {NULL, 0}, INT64_MAX};
		int err;

		switch (o->kind) {
		case OP_WRITE:
			err = light_write(m, i, bound);
			break;
		case OP_DELETE_VERSION:
			if (store_schema_family(m->snap.schema, o->family)->rule)
				return 1; /* what is hidden must go too */
			m->judged = true;
			cell.kind = CELL_DELETE_VERSION;
			cell.ts = o->ts.us;
			err = cell_push(&m->cells, &cell);
			break;
		case OP_DELETE_COLUMN:
			err = cell_push(&m->cells, &cell);
			break;
		case OP_DELETE_FAMILY:
		case OP_DELETE_ROW:
			cell.kind = o->kind == OP_DELETE_ROW ? CELL_DELETE_ROW : CELL_DELETE_FAMILY;
			cell.family = o->kind == OP_DELETE_ROW ? 0 : o->family;
			cell.qualifier = slice_of(NULL, 0);
			err = cell_push(&m->cells, &cell);
			break;
		case OP_SET_TIME:
		case OP_MOVE:
		case OP_INCREMENT:
		case OP_CHECK:
		case OP_KINDS:
		default:
			return 1;
		}
		if (err)
			return err;
	}
	return 0;
}

/* max(floor, newest + 1) */
static int above_newest(struct mutation *m, struct mcolumn *c, int64_t floor, int64_t *ts)
{
	struct mversion *newest;
	int err = mcolumn_newest(m, c, &newest);

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

static int place(struct mutation *m, struct mcolumn *c, struct op_time where, int64_t *ts)
{
	int64_t floor = where.us;
	int err;

	if (!where.newest) {
		*ts = where.us;
		return 0;
	}
	if (where.us == INT64_MIN && (err = draw(m, &floor)))
		return err;
	return above_newest(m, c, floor, ts);
}

/* The timestamps of the newest two. */
struct newest {
	unsigned n;
	int64_t ts[2];
	uint64_t size;
};

static int newest_two(struct mutation *m, struct mcolumn *c, struct newest *out)
{
	struct mversion *v;
	struct mwalk w = {0};
	int err;

	out->n = 0;
	while (out->n < 2) {
		if ((err = mcolumn_next(m, c, &w, &v)))
			return err;
		if (!v)
			break;
		if (out->n == 0)
			out->size = v->size;
		out->ts[out->n++] = v->ts;
	}
	return 0;
}

/* Of what a write starts from. -ENOENT. */
static int base_bytes(struct mutation *m, struct mcolumn *c, const struct op *o, struct slice *base)
{
	struct mversion *v = NULL;
	int err = 0;

	if (o->base == OP_BASE_NEWEST)
		err = mcolumn_newest(m, c, &v);
	else if (o->base == OP_BASE_VERSION)
		err = mcolumn_find(m, c, o->base_ts, &v);
	if (err)
		return err;
	if (o->base == OP_BASE_VERSION && !v)
		return -ENOENT;
	return v ? mcolumn_bytes(m, c, v, base) : 0;
}

static int do_write(struct mutation *m, const struct op *o, struct op_result *res)
{
	struct slice base = {NULL, 0}, value;
	struct newest newest = {0};
	struct mcolumn *c;
	bool replaced;
	int64_t ts;
	int err;

	if ((err = mcolumn_touch(m, o->family, o->qualifier, &c)) || (err = base_bytes(m, c, o, &base)) ||
		(err = op_value(m, o, base, &value)))
		return err;
	if (o->replace && (err = newest_two(m, c, &newest)))
		return err;
	replaced = newest.n && newest.ts[0] == o->replace_ts;
	if (replaced && o->ts.newest) {
		ts = o->ts.us == INT64_MIN ? newest.ts[0] : o->ts.us;
		if (newest.n > 1 && ts <= newest.ts[1])
			ts = newest.ts[1] + 1;
	} else if ((err = place(m, c, o->ts, &ts))) {
		return err;
	}
	if (replaced && ts != o->replace_ts && (err = mcolumn_delete(m, c, o->replace_ts)))
		return err;
	if (o->drop_newer && (err = mcolumn_delete_newer(m, c, ts)))
		return err;
	*res = (struct op_result){.ts = ts, .size = value.n, .replaced = replaced};
	return mcolumn_put(m, c, ts, value);
}

static int do_set_time(struct mutation *m, const struct op *o, struct op_result *res)
{
	struct newest newest;
	struct mversion *v;
	struct mcolumn *c;
	struct slice value;
	int err;

	if ((err = mcolumn_touch(m, o->family, o->qualifier, &c)) || (err = newest_two(m, c, &newest)))
		return err;
	if (!newest.n)
		return -ENOENT;
	if (newest.n > 1 && o->ts.us <= newest.ts[1])
		return -EINVAL;
	*res = (struct op_result){.ts = o->ts.us, .size = newest.size};
	if (newest.ts[0] == o->ts.us)
		return 0;
	if ((err = mcolumn_newest(m, c, &v)) || (err = mcolumn_bytes(m, c, v, &value)) ||
		(err = mcolumn_delete(m, c, newest.ts[0])))
		return err;
	return mcolumn_put(m, c, o->ts.us, value);
}

static int move_all(struct mutation *m, struct mcolumn *from, struct mcolumn *to, struct op_result *res)
{
	struct mversion *v;
	struct mwalk w = {0};
	struct slice value;
	bool first = true;
	int err;

	while (!(err = mcolumn_next(m, from, &w, &v)) && v) {
		if (first)
			*res = (struct op_result){.ts = v->ts, .size = v->size};
		first = false;
		if (v->size > MUTATION_BYTES_MAX - m->written)
			return -E2BIG;
		if ((err = mcolumn_bytes(m, from, v, &value)) || (err = mcolumn_put(m, to, v->ts, value)))
			return err;
	}
	return err ? err : mcolumn_delete_all(m, from);
}

static int do_move(struct mutation *m, const struct op *o, struct op_result *res)
{
	bool whole = o->ts.newest, onto_column = o->to.newest;
	struct mversion *v, *there = NULL;
	struct mcolumn *from, *to;
	struct slice value;
	int64_t ts = o->to.us, from_ts;
	int err;

	if ((err = mcolumn_touch(m, o->family, o->qualifier, &from)) ||
		(err = mcolumn_touch(m, o->to_family, o->to_qualifier, &to)) ||
		(err = whole ? mcolumn_newest(m, from, &v) : mcolumn_find(m, from, o->ts.us, &v)))
		return err;
	if (!v)
		return -ENOENT;
	from_ts = v->ts;
	*res = (struct op_result){.ts = from_ts, .size = v->size};
	if (onto_column)
		err = mcolumn_newest(m, to, &there);
	else if (o->noreplace)
		err = mcolumn_find(m, to, ts, &there);
	if (err)
		return err;
	if (o->noreplace && there)
		return -EEXIST;
	if (from == to && (onto_column ? there && there->ts == from_ts : !whole && ts == from_ts))
		return 0;
	if (whole && onto_column && !there)
		return move_all(m, from, to, res);
	if (onto_column && (err = above_newest(m, to, from_ts, &ts)))
		return err;
	if ((err = mcolumn_find(m, from, from_ts, &v)) || (err = v ? mcolumn_bytes(m, from, v, &value) : -EBADMSG))
		return err;
	err = whole ? mcolumn_delete_all(m, from) : mcolumn_delete(m, from, from_ts);
	if (err)
		return err;
	res->ts = ts;
	return mcolumn_put(m, to, ts, value);
}

static int do_increment(struct mutation *m, const struct op *o, struct op_result *res)
{
	struct mversion *newest;
	struct mcolumn *c;
	struct slice value;
	int64_t sum = 0, ts;
	size_t size;
	char *text;
	int err;

	if ((err = mcolumn_touch(m, o->family, o->qualifier, &c)) || (err = mcolumn_newest(m, c, &newest)))
		return err;
	if (newest) {
		if (newest->size > COUNTER_INPUT_MAX)
			return -EINVAL;
		if ((err = mcolumn_bytes(m, c, newest, &value)) || (err = counter_parse(value, &sum)))
			return err;
	}
	if (__builtin_add_overflow(sum, o->by, &sum))
		return -EOVERFLOW;
	if ((err = place(m, c, (struct op_time){true, INT64_MIN}, &ts)))
		return err;
	text = arena_alloc(&m->arena, COUNTER_TEXT_MAX);
	if (!text)
		return -ENOMEM;
	size = counter_text(sum, text);
	*res = (struct op_result){.ts = ts, .size = size, .counter = sum};
	return mcolumn_put(m, c, ts, slice_of(text, size));
}

static int do_check(struct mutation *m, const struct op *o)
{
	bool at_version = (o->check == OP_CHECK_EXISTS || o->check == OP_CHECK_ABSENT) && !o->ts.newest;
	struct mversion *v;
	struct mcolumn *c;
	struct slice value;
	bool holds = false;
	int err;

	if ((err = mcolumn_touch(m, o->family, o->qualifier, &c)) ||
		(err = at_version ? mcolumn_find(m, c, o->ts.us, &v) : mcolumn_newest(m, c, &v)))
		return err;
	switch (o->check) {
	case OP_CHECK_EXISTS:
		holds = v != NULL;
		break;
	case OP_CHECK_ABSENT:
		holds = v == NULL;
		break;
	case OP_CHECK_NEWEST_IS:
		holds = v && v->ts == o->ts.us;
		break;
	case OP_CHECK_VALUE:
		if (!v || v->size != o->value.n)
			break;
		if ((err = mcolumn_bytes(m, c, v, &value)))
			return err;
		holds = slice_eq(value, o->value);
		break;
	}
	return holds ? 0 : -ECANCELED;
}

static int do_op(struct mutation *m, const struct op *o, struct op_result *res)
{
	struct batch_cell cell = {CELL_DELETE_ROW, 0, {NULL, 0}, {NULL, 0}, INT64_MAX};
	struct mcolumn *c;
	int err;

	switch (o->kind) {
	case OP_WRITE:
		return do_write(m, o, res);
	case OP_DELETE_VERSION:
		err = mcolumn_touch(m, o->family, o->qualifier, &c);
		return err ? err : mcolumn_delete(m, c, o->ts.us);
	case OP_DELETE_COLUMN:
		err = mcolumn_touch(m, o->family, o->qualifier, &c);
		return err ? err : mcolumn_delete_all(m, c);
	case OP_DELETE_FAMILY:
		cell.kind = CELL_DELETE_FAMILY;
		cell.family = o->family;
		err = cell_push(&m->cells, &cell);
		return err ? err : mcolumn_clear_family(m, o->family);
	case OP_DELETE_ROW:
		err = cell_push(&m->cells, &cell);
		return err ? err : mcolumn_clear_family(m, 0);
	case OP_SET_TIME:
		return do_set_time(m, o, res);
	case OP_MOVE:
		return do_move(m, o, res);
	case OP_INCREMENT:
		return do_increment(m, o, res);
	case OP_CHECK:
		return 0;
	case OP_KINDS:
		break;
	}
	return -EINVAL;
}

int mutation_heavy(struct mutation *m)
{
	int err;

	mcolumn_reset(m);
	snap_put(&m->snap);
	snap_take(m->t, &m->snap);
	memset(m->results, 0, m->count * sizeof *m->results);
	for (unsigned i = 0; i < m->count; i++) { /* the schema may be another than at mutation_init */
		uint64_t bytes = 0;

		if ((err = op_check(m->snap.schema, &m->ops[i], &bytes)))
			return err;
	}
	for (unsigned i = 0; i < m->count; i++)
		if (m->ops[i].kind == OP_CHECK && (err = do_check(m, &m->ops[i])))
			return err;
	for (unsigned i = 0; i < m->count; i++)
		if ((err = do_op(m, &m->ops[i], &m->results[i])))
			return err;
	return 0;
}
