/* SPDX-License-Identifier: Apache-2.0 */
/* A record of operations on many rows. */
#include "t/lin/lin.h"

#include <stdlib.h>
#include <string.h>

struct row {
	const char *name;
	struct lin_op **ops;
	size_t count, room;
};
struct lin_record {
	struct row *rows;
	size_t row_count;
	uint64_t max_steps; /* 0 for the default */
	void **blocks;      /* the memory of all operations and texts */
	size_t block_count, block_room;
};

static void *need(void *p)
{
	if (!p)
		abort();
	return p;
}

static void *block(struct lin_record *r, size_t size)
{
	if (r->block_count == r->block_room) {
		r->block_room = r->block_room ? 2 * r->block_room : 256;
		r->blocks = need(reallocarray(r->blocks, r->block_room, sizeof(*r->blocks)));
	}
	return r->blocks[r->block_count++] = need(calloc(1, size));
}

struct lin_record *lin_record_new(void)
{
	return need(calloc(1, sizeof(struct lin_record)));
}

void lin_record_free(struct lin_record *r)
{
	for (size_t i = 0; i < r->row_count; i++)
		free(r->rows[i].ops);
	for (size_t i = 0; i < r->block_count; i++)
		free(r->blocks[i]);
	free(r->rows);
	free(r->blocks);
	free(r);
}

const char *lin_text(struct lin_record *r, const void *data, size_t size)
{
	char *p = block(r, size + 1);

	if (size)
		memcpy(p, data, size);
	return p;
}

static struct row *row_of(struct lin_record *r, const char *name)
{
	for (size_t i = 0; i < r->row_count; i++)
		if (!strcmp(r->rows[i].name, name))
			return &r->rows[i];
	r->rows = need(reallocarray(r->rows, r->row_count + 1, sizeof(*r->rows)));
	r->rows[r->row_count] = (struct row){.name = lin_text(r, name, strlen(name))};
	return &r->rows[r->row_count++];
}

struct lin_op *lin_called(struct lin_record *r, const char *row, const struct lin_op *op, int64_t now)
{
	struct row *to = row_of(r, row);
	struct lin_op *copy = block(r, sizeof(*copy));

	*copy = *op;
	copy->outcome = LIN_DOUBT;
	copy->called = now;
	copy->answered = 0;
	if (op->value)
		copy->value = lin_text(r, op->value, strlen(op->value));
	if (op->expect)
		copy->expect = lin_text(r, op->expect, strlen(op->expect));
	if (to->count == to->room) {
		to->room = to->room ? 2 * to->room : 64;
		to->ops = need(reallocarray(to->ops, to->room, sizeof(*to->ops)));
	}
	return to->ops[to->count++] = copy;
}

void lin_record_limit(struct lin_record *r, uint64_t max_steps)
{
	r->max_steps = max_steps;
}

size_t lin_record_check(const struct lin_record *r, const char *const names[LIN_COLUMNS], FILE *out, struct lin_totals *totals)
{
	struct lin_totals sum = {.rows = r->row_count};

	for (size_t i = 0; i < r->row_count; i++) {
		const struct row *row = &r->rows[i];
		struct lin_op *ops = need(calloc(row->count + 1, sizeof(*ops)));
		struct lin_verdict v;

		for (size_t k = 0; k < row->count; k++) {
			ops[k] = *row->ops[k];
			sum.doubts += ops[k].outcome == LIN_DOUBT;
		}
		v = lin_check(ops, row->count, r->max_steps);
		sum.ops += row->count;
		sum.steps += v.steps;
		sum.bad += v.result == LIN_BAD;
		sum.undecided += v.result == LIN_UNDECIDED;
		if (v.result == LIN_BAD && out) {
			fprintf(out, "row \"%s\": ", row->name);
			lin_explain(out, ops, row->count, names);
		}
		free(ops);
	}
	if (totals)
		*totals = sum;
	return sum.bad;
}
