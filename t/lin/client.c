/* SPDX-License-Identifier: Apache-2.0 */
/* Random operations through tabletfs.h (client.h). */
#include "t/lin/client.h"
#include "t/lib/xorshift.h"

#include <errno.h>
#include <stdlib.h>

enum { A, B, N, M };
const char *const lin_columns[LIN_COLUMNS] = {"a", "b", "n", "m"};
#define ALL ((1u << LIN_COLUMNS) - 1)

static unsigned below(struct lin_client *c, unsigned n)
{
	return (unsigned)(xorshift(&c->x) >> 11) % n;
}

void lin_row(char name[16], unsigned row)
{
	snprintf(name, 16, "row%02u", row);
}

/* ---- drawing ---- */

/* A check of a or b: most often of a value that the column may well have. */
static void draw_check(struct lin_client *c, unsigned row, struct lin_op *op)
{
	unsigned column = below(c, 2);
	const char *known = c->known[row][column];

	op->check = 1 + column;
	if (*known && below(c, 8))
		op->expect = c->text(c->arg, known, strlen(known));
}

unsigned lin_draw(struct lin_client *c, struct lin_op *op)
{
	unsigned row = below(c, c->rows), what = below(c, 20);
	char value[32];

	*op = (struct lin_op){.client = c->number};
	if (what < 4) {
		op->kind = LIN_READ;
		op->columns = 1u << below(c, LIN_COLUMNS);
	} else if (what < 8) {
		op->kind = LIN_READ;
		op->columns = ALL;
	} else if (what < 12) {
		op->kind = LIN_PUT;
		op->columns = 1 + below(c, 3);
	} else if (what < 13) {
		op->kind = LIN_DELETE;
		op->columns = 1 + below(c, ALL);
	} else if (what < 16) {
		op->kind = LIN_APPEND;
		op->columns = 1u << below(c, 2);
	} else {
		op->kind = LIN_INCREMENT;
		op->columns = 1u << (N + below(c, 2));
		op->by = 1 + (int64_t)below(c, 9);
	}
	if (op->kind == LIN_PUT || op->kind == LIN_APPEND) {
		snprintf(value, sizeof(value), "%u.%u;", c->number, ++c->count);
		op->value = c->text(c->arg, value, strlen(value));
	}
	if (op->kind != LIN_READ && below(c, 3) == 0)
		draw_check(c, row, op);
	return row;
}

/* ---- carrying out ---- */

static const char *family_of(const struct lin_client *c, unsigned column)
{
	return c->families[column % 2];
}

static const char *keep(struct lin_client *c, unsigned row, unsigned column, const char *p, size_t n)
{
	if (column < N)
		snprintf(c->known[row][column], sizeof(c->known[0][0]), "%.*s", n < sizeof(c->known[0][0]) ? (int)n : 0, p);
	return c->text(c->arg, p, n);
}

static int read_column(struct lin_client *c, struct tfs_table *t, unsigned row, unsigned column, struct lin_op *op)
{
	size_t got, size = 64 << 10;
	char name[16], *p = malloc(size);
	int err;

	lin_row(name, row);
	err = p ? tfs_read(t, tfs_str(name), family_of(c, column), tfs_str(lin_columns[column]), TFS_AUTO, 0, p, size, &got, NULL)
		: -ENOMEM;
	if (!err)
		op->found[column] = keep(c, row, column, p, got);
	free(p);
	return err == -ENOENT ? 0 : err;
}

static void keep_cell(struct lin_client *c, unsigned row, const struct tfs_cell *cell, struct lin_op *op)
{
	for (unsigned i = 0; i < LIN_COLUMNS; i++)
		if (cell->qualifier.n == 1 && *(const char *)cell->qualifier.p == *lin_columns[i])
			op->found[i] = keep(c, row, i, (const char *)cell->value.p, cell->value.n);
}

static int read_row(struct lin_client *c, struct tfs_table *t, unsigned row, struct lin_op *op)
{
	struct tfs_scan_spec spec = {.one_row = true, .versions = 1};
	struct tfs_scan *s;
	struct tfs_cell cell;
	char name[16];
	int err;

	lin_row(name, row);
	spec.row_from = tfs_str(name);
	err = tfs_scan_new(t, &spec, &s);
	if (err)
		return err;
	while ((err = tfs_scan_next(s, &cell)) > 0)
		keep_cell(c, row, &cell, op);
	tfs_scan_free(s);
	return err;
}

int lin_scan(struct lin_client *c, struct tfs_table *t, struct lin_op *ops[])
{
	struct tfs_scan_spec spec = {.versions = 1};
	struct tfs_scan *s;
	struct tfs_cell cell;
	int err = tfs_scan_new(t, &spec, &s);

	if (err)
		return err;
	while ((err = tfs_scan_next(s, &cell)) > 0) {
		unsigned row = cell.row.n == 5
			? (unsigned)atoi((const char[3]){((const char *)cell.row.p)[3], ((const char *)cell.row.p)[4], '\0'})
			: LIN_ROWS;

		if (row < c->rows)
			keep_cell(c, row, &cell, ops[row]);
	}
	tfs_scan_free(s);
	for (unsigned i = 0; i < c->rows && !err; i++) {
		ops[i]->outcome = LIN_OK;
		ops[i]->seen = ops[i]->columns;
	}
	return err;
}

static int add_column(struct lin_client *c, struct tfs_mutation *m, const struct lin_op *op, unsigned column)
{
	const char *family = family_of(c, column);
	struct tfs_bytes q = tfs_str(lin_columns[column]);

	if (op->kind == LIN_PUT)
		return tfs_mutation_put(m, family, q, TFS_AUTO, tfs_str(op->value));
	if (op->kind == LIN_DELETE)
		return tfs_mutation_delete_column(m, family, q);
	if (op->kind == LIN_INCREMENT)
		return tfs_mutation_increment(m, family, q, op->by);
	return tfs_mutation_write(m,
		&(struct tfs_write){.family = family,
			.qualifier = q,
			.base = TFS_BASE_NEWEST,
			.truncate_to = UINT64_MAX,
			.append = tfs_str(op->value),
			.place = TFS_AUTO});
}

static int change(struct lin_client *c, struct tfs_table *t, const char *name, struct lin_op *op)
{
	struct tfs_mutation *m = tfs_mutation_new(t, tfs_str(name));
	struct tfs_result results[LIN_COLUMNS + 1] = {0};
	unsigned n = op->check != 0;
	int err = 0;

	if (!m)
		return -ENOMEM;
	if (op->check)
		err = tfs_mutation_check(m, op->expect ? TFS_CHECK_VALUE : TFS_CHECK_ABSENT, family_of(c, op->check - 1),
			tfs_str(lin_columns[op->check - 1]), TFS_AUTO, tfs_str(op->expect ? op->expect : ""));
	for (unsigned i = 0; i < LIN_COLUMNS && !err; i++)
		if (op->columns >> i & 1)
			err = add_column(c, m, op, i);
	if (!err)
		err = tfs_apply(m, c->flags, results);
	for (unsigned i = 0; i < LIN_COLUMNS && !err; i++) {
		if (!(op->columns >> i & 1))
			continue;
		op->hint = results[n].commit_us;
		if (op->kind == LIN_INCREMENT) {
			char text[32];

			snprintf(text, sizeof(text), "%lld", (long long)results[n].counter);
			op->seen = op->columns;
			op->found[i] = c->text(c->arg, text, strlen(text));
		}
		n++;
	}
	tfs_mutation_free(m);
	return err;
}

/* Errors that prove that nothing was applied (tfs_apply).  After all others it may have been. */
static enum lin_outcome outcome_of(int err, const struct lin_op *op)
{
	switch (err) {
	case 0:
		return LIN_OK;
	case -ECANCELED:
		return op->check ? LIN_FAILED : LIN_DOUBT;
	case -EINVAL:
	case -ENOENT:
	case -ENOMEM:
	case -ENOSPC:
		return LIN_NONE;
	default:
		return LIN_DOUBT;
	}
}

int lin_run(struct lin_client *c, struct tfs_table *t, unsigned row, struct lin_op *op)
{
	char name[16];
	int err;

	lin_row(name, row);
	if (op->kind != LIN_READ) {
		err = change(c, t, name, op);
		op->outcome = outcome_of(err, op);
		if (op->kind == LIN_PUT && !err)
			for (unsigned i = 0; i < 2; i++)
				if (op->columns >> i & 1)
					snprintf(c->known[row][i], sizeof(c->known[0][0]), "%s", op->value);
		return err;
	}
	if (op->columns & (op->columns - 1))
		err = read_row(c, t, row, op);
	else
		err = read_column(c, t, row, (unsigned)__builtin_ctz(op->columns), op);
	op->outcome = err ? LIN_NONE : LIN_OK;
	op->seen = err ? 0 : op->columns;
	return err;
}
