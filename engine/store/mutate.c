/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations into cells (mutate.h).
 *
 * Two ways.  The light one reads nothing: puts at a given time, deletes that
 * need not know what they delete, and puts through the plain name whose time
 * is above every timestamp that the row can hold (the stripe keeps a bound).
 * That is nearly every write, and its stripe is shared.  All else takes the
 * heavy way over copies of the columns, the stripe held alone.
 *
 * Order of judging: arguments of all operations, then all checks, then each
 * operation.  Nothing is applied on any error.  A unique time of the clock is
 * drawn once for an operation, however often the mutation is resolved.
 *
 * Decided against: logging operations and judging them at replay.  The log
 * holds resulting cells (DESIGN 3.1), so replay needs no old state.
 */
#include "engine/store/mutate_impl.h"

#include <errno.h>
#include <stdlib.h>

int
mutation_init(struct mutation *m, struct tablet *t, struct slice row, const struct op *ops, unsigned count)
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

static void
list_fini(struct cell_list *l)
{
	if (l->cap && l->v != l->fixed_)
		free(l->v);
}

void
mutation_fini(struct mutation *m)
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

static int
draw(struct mutation *m, int64_t *us)
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

static int
light_write(struct mutation *m, unsigned i, int64_t bound)
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

int
mutation_light(struct mutation *m, int64_t bound)
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
static int
above_newest(const struct mcolumn *c, int64_t floor, int64_t *ts)
{
	*ts = floor;
	if (c->n && c->v[0].ts >= floor) {
		if (c->v[0].ts == INT64_MAX)
			return -EOVERFLOW;
		*ts = c->v[0].ts + 1;
	}
	return 0;
}

static int
place(struct mutation *m, const struct mcolumn *c, struct op_time where, int64_t *ts)
{
	int64_t floor = where.us;
	int err;

	if (!where.newest) {
		*ts = where.us;
		return 0;
	}
	if (where.us == INT64_MIN && (err = draw(m, &floor)))
		return err;
	return above_newest(c, floor, ts);
}

static int
do_write(struct mutation *m, const struct op *o, struct op_result *res)
{
	bool newest_only = m->count == 1 && o->base != OP_BASE_VERSION && !o->replace && !o->drop_newer && o->ts.newest;
	struct slice base = {NULL, 0}, value;
	struct mcolumn *c;
	bool replaced;
	unsigned at;
	int64_t ts;
	int err = mcolumn_touch(m, o->family, o->qualifier, newest_only, &c);

	if (err)
		return err;
	at = o->base == OP_BASE_NEWEST && c->n ? 0 : c->n;
	if (o->base == OP_BASE_VERSION && (at = mcolumn_find(c, o->base_ts)) == c->n)
		return -ENOENT;
	if (at < c->n && (err = mcolumn_bytes(m, c, at, &base)))
		return err;
	if ((err = op_value(m, o, base, &value)))
		return err;
	replaced = o->replace && c->n && c->v[0].ts == o->replace_ts;
	if (replaced && o->ts.newest) {
		ts = o->ts.us == INT64_MIN ? c->v[0].ts : o->ts.us;
		if (c->n > 1 && ts <= c->v[1].ts)
			ts = c->v[1].ts + 1;
	} else if ((err = place(m, c, o->ts, &ts))) {
		return err;
	}
	if (replaced && ts != o->replace_ts && (err = mcolumn_delete(m, c, 0)))
		return err;
	if (o->drop_newer) {
		if ((err = mcolumn_purge(m, c)))
			return err;
		while (c->n && c->v[0].ts > ts)
			if ((err = mcolumn_delete(m, c, 0)))
				return err;
	}
	*res = (struct op_result){.ts = ts, .size = value.n, .replaced = replaced};
	return mcolumn_put(m, c, ts, value);
}

static int
do_set_time(struct mutation *m, const struct op *o, struct op_result *res)
{
	struct mcolumn *c;
	struct slice value;
	int err = mcolumn_touch(m, o->family, o->qualifier, false, &c);

	if (err)
		return err;
	if (!c->n)
		return -ENOENT;
	if (c->n > 1 && o->ts.us <= c->v[1].ts)
		return -EINVAL;
	*res = (struct op_result){.ts = o->ts.us, .size = c->v[0].size};
	if (c->v[0].ts == o->ts.us)
		return 0;
	if ((err = mcolumn_bytes(m, c, 0, &value)) || (err = mcolumn_delete(m, c, 0)))
		return err;
	return mcolumn_put(m, c, o->ts.us, value);
}

static int
move_all(struct mutation *m, struct mcolumn *from, struct mcolumn *to, struct op_result *res)
{
	struct slice value;
	int err;

	for (unsigned i = 0; i < from->n; i++) {
		if (from->v[i].size > MUTATION_BYTES_MAX - m->written)
			return -E2BIG;
		if ((err = mcolumn_bytes(m, from, i, &value)) || (err = mcolumn_put(m, to, from->v[i].ts, value)))
			return err;
	}
	*res = (struct op_result){.ts = from->v[0].ts, .size = from->v[0].size};
	return mcolumn_delete_all(m, from);
}

static int
do_move(struct mutation *m, const struct op *o, struct op_result *res)
{
	bool whole = o->ts.newest, onto_column = o->to.newest;
	struct mcolumn *from, *to;
	struct slice value;
	unsigned at;
	int64_t ts, from_ts;
	int err;

	if ((err = mcolumn_touch(m, o->family, o->qualifier, false, &from)) ||
	    (err = mcolumn_touch(m, o->to_family, o->to_qualifier, false, &to)))
		return err;
	at = whole ? 0 : mcolumn_find(from, o->ts.us);
	if (at >= from->n)
		return -ENOENT;
	if (o->noreplace && (onto_column ? to->n > 0 : mcolumn_find(to, o->to.us) < to->n))
		return -EEXIST;
	from_ts = from->v[at].ts;
	*res = (struct op_result){.ts = from_ts, .size = from->v[at].size};
	if (from == to && ((onto_column && at == 0) || (!onto_column && !whole && o->to.us == from_ts)))
		return 0;
	if (whole && onto_column && !to->n)
		return move_all(m, from, to, res);
	ts = o->to.us;
	if (onto_column && (err = above_newest(to, from_ts, &ts)))
		return err;
	if ((err = mcolumn_bytes(m, from, at, &value)))
		return err;
	err = whole ? mcolumn_delete_all(m, from) : mcolumn_delete(m, from, at);
	if (err)
		return err;
	res->ts = ts;
	return mcolumn_put(m, to, ts, value);
}

static int
do_increment(struct mutation *m, const struct op *o, struct op_result *res)
{
	struct mcolumn *c;
	struct slice value;
	int64_t sum = 0, ts;
	uint8_t *p;
	int err = mcolumn_touch(m, o->family, o->qualifier, m->count == 1, &c);

	if (err)
		return err;
	if (c->n) {
		if (c->v[0].size != 8)
			return -EINVAL;
		if ((err = mcolumn_bytes(m, c, 0, &value)))
			return err;
		sum = (int64_t)load_be64(value.p);
	}
	if (__builtin_add_overflow(sum, o->by, &sum))
		return -EOVERFLOW;
	if ((err = place(m, c, (struct op_time){true, INT64_MIN}, &ts)))
		return err;
	p = arena_alloc(&m->arena, 8);
	if (!p)
		return -ENOMEM;
	put_be64(p, (uint64_t)sum);
	*res = (struct op_result){.ts = ts, .size = 8, .counter = sum};
	return mcolumn_put(m, c, ts, slice_of(p, 8));
}

static int
do_check(struct mutation *m, const struct op *o)
{
	struct mcolumn *c;
	struct slice value;
	bool holds = false, found;
	int err = mcolumn_touch(m, o->family, o->qualifier, false, &c);

	if (err)
		return err;
	found = o->ts.newest ? c->n > 0 : mcolumn_find(c, o->ts.us) < c->n;
	switch (o->check) {
	case OP_CHECK_EXISTS:
		holds = found;
		break;
	case OP_CHECK_ABSENT:
		holds = !found;
		break;
	case OP_CHECK_NEWEST_IS:
		holds = c->n && c->v[0].ts == o->ts.us;
		break;
	case OP_CHECK_VALUE:
		if (!c->n || c->v[0].size != o->value.n)
			break;
		if ((err = mcolumn_bytes(m, c, 0, &value)))
			return err;
		holds = slice_eq(value, o->value);
		break;
	}
	return holds ? 0 : -ECANCELED;
}

static int
do_op(struct mutation *m, const struct op *o, struct op_result *res)
{
	struct batch_cell cell = {CELL_DELETE_ROW, 0, {NULL, 0}, {NULL, 0}, INT64_MAX};
	struct mcolumn *c;
	int err;

	switch (o->kind) {
	case OP_WRITE:
		return do_write(m, o, res);
	case OP_DELETE_VERSION:
		err = mcolumn_touch(m, o->family, o->qualifier, false, &c);
		return err ? err : mcolumn_delete(m, c, mcolumn_find(c, o->ts.us));
	case OP_DELETE_COLUMN:
		err = mcolumn_touch(m, o->family, o->qualifier, false, &c);
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

int
mutation_heavy(struct mutation *m)
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
