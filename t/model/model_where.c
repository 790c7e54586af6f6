/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conditions on the columns of a row (tfs_scan_spec.row_where), evaluated as they are read.
 *
 * Choices:
 *  - A term on a column that the row does not have is false, whatever its operator.
 *  - Both sides of `and` and `or` are read, so the result of a text that is not valid does not depend on the row.
 */
#include <errno.h>
#include <stdlib.h>

#include "t/model/model_types.h"

enum { DEEP = 100, COLUMNS = 256, OPERATORS = 1024 };

struct reader {
	const struct tfs_table *t;
	const struct mdl_row *row; /* NULL: only check the text */
	const char *p, *end;
	unsigned depth, columns, operators;
	int err;
};

static bool either(struct reader *x);

static void spaces(struct reader *x)
{
	while (x->p < x->end && (*x->p == ' ' || *x->p == '\t' || *x->p == '\n'))
		x->p++;
}

static bool fail(struct reader *x, int err)
{
	x->err = x->err ? x->err : err;
	return false;
}

static bool word(struct reader *x, const char *text)
{
	const char *after = x->p + strlen(text);

	if (after > x->end || strncmp(x->p, text, strlen(text)) != 0 || (after < x->end && *after && !strchr(" \t\n()", *after)) ||
		(after < x->end && !*after))
		return false;
	x->p = after;
	spaces(x);
	return true;
}

/* A quoted or bare text; bare ones end at a byte of `ends`. */
static struct mdl_blob *piece(struct reader *x, const char *ends)
{
	struct mdl_blob *b;
	char *copy;
	size_t n = 0;

	copy = malloc((size_t)(x->end - x->p) + 1);
	if (!copy)
		return NULL;
	if (x->p < x->end && *x->p == '"') {
		for (x->p++; x->p < x->end; copy[n++] = *x->p++)
			if (*x->p == '"' && (++x->p == x->end || *x->p != '"'))
				goto done;
		fail(x, -EINVAL);
	} else {
		while (x->p < x->end && (!*x->p || !strchr(ends, *x->p)))
			copy[n++] = *x->p++;
	}
done:
	b = mdl_blob_new(copy, n);
	free(copy);
	return b;
}

struct digits {
	const char *whole, *fraction;
	size_t whole_n, fraction_n;
	bool minus;
};

static bool digits_of(struct tfs_bytes s, struct digits *d)
{
	const char *p = (const char *)s.p, *end = p + s.n;

	*d = (struct digits){0};
	if (p < end && (*p == '+' || *p == '-'))
		d->minus = *p++ == '-';
	for (d->whole = p; p < end && *p >= '0' && *p <= '9'; p++)
		d->whole_n++;
	if (!d->whole_n)
		return false;
	if (p == end)
		return true;
	if (*p++ != '.' || p == end)
		return false;
	for (d->fraction = p; p < end && *p >= '0' && *p <= '9'; p++)
		d->fraction_n++;
	return p == end;
}

static int digit(const struct digits *d, long place)
{
	if (place >= 0)
		return (size_t)place < d->whole_n ? d->whole[d->whole_n - 1 - (size_t)place] - '0' : 0;
	return (size_t)-place <= d->fraction_n ? d->fraction[-place - 1] - '0' : 0;
}

/* Compares digit by digit, from the greatest place on. */
static int number_order(const struct digits *a, const struct digits *b)
{
	const long most = (long)(a->whole_n > b->whole_n ? a->whole_n : b->whole_n);
	const long least = -(long)(a->fraction_n > b->fraction_n ? a->fraction_n : b->fraction_n);

	for (long place = most; place >= least; place--) {
		const int x = a->minus ? -digit(a, place) : digit(a, place), y = b->minus ? -digit(b, place) : digit(b, place);

		if (x != y)
			return x < y ? -1 : 1;
	}
	return 0;
}

static int value_order(struct tfs_bytes a, struct tfs_bytes b)
{
	struct digits x, y;

	a.n -= a.n && a.p[a.n - 1] == '\n';
	b.n -= b.n && b.p[b.n - 1] == '\n';
	return digits_of(a, &x) && digits_of(b, &y) ? number_order(&x, &y) : mdl_compare(a, b);
}

/* The newest live version of the column, or NULL. */
static const struct mdl_blob *newest(struct reader *x, uint16_t family, struct tfs_bytes qualifier)
{
	const char *name;
	size_t at;

	if (!x->row || !mdl_column_find(x->row, family, qualifier, &at) ||
		!mdl_column_live(x->row->col[at], mdl_schema_gc(x->t->schema, family, &name), mdl_table_now(x->t)))
		return NULL;
	return x->row->col[at]->v[0].value;
}

static bool column(struct reader *x)
{
	static const char *const operators[] = {"!=", "<=", ">=", "=", "<", ">"};
	const char *colon = memchr(x->p, ':', (size_t)(x->end - x->p));
	const size_t n = colon ? (size_t)(colon - x->p) : 0;
	char name[TFS_NAME_MAX + 1] = "";
	const struct tfs_family *f;
	const struct mdl_blob *has;
	struct mdl_blob *qualifier, *value = NULL;
	unsigned op = 0;
	int order;

	if (!n || n > TFS_NAME_MAX || x->columns++ == COLUMNS)
		return fail(x, -EINVAL);
	memcpy(name, x->p, n);
	f = mdl_schema_family(x->t->schema, name);
	if (!f)
		return fail(x, -EINVAL);
	x->p = colon + 1;
	qualifier = piece(x, " \t\n()\"=!<>");
	if (!qualifier)
		return fail(x, -ENOMEM);
	spaces(x);
	while (op < 6 && (x->p + strlen(operators[op]) > x->end || strncmp(x->p, operators[op], strlen(operators[op])) != 0))
		op++;
	if (op < 6) {
		x->p += strlen(operators[op]);
		spaces(x);
		if (x->p == x->end || strchr("() \t\n", *x->p ? *x->p : 'x'))
			fail(x, -EINVAL);
		value = piece(x, " \t\n()\"");
	}
	has = newest(x, f->id, mdl_blob_bytes(qualifier));
	order = has && value ? value_order(mdl_blob_bytes(has), mdl_blob_bytes(value)) : 0;
	mdl_blob_put(qualifier);
	if (op < 6 && !value)
		return fail(x, -ENOMEM);
	mdl_blob_put(value);
	spaces(x);
	if (!has)
		return false;
	return op == 0    ? order != 0
		: op == 1 ? order <= 0
		: op == 2 ? order >= 0
		: op == 3 ? order == 0
		: op == 4 ? order < 0
		: op == 5 ? order > 0
			  : true;
}

static bool one(struct reader *x)
{
	bool yes = false;

	if (x->depth++ == DEEP)
		return fail(x, -EINVAL);
	if (x->err) {
		x->depth--;
		return false;
	}
	if (word(x, "not")) {
		yes = !one(x);
		x->operators++;
	} else if (x->p < x->end && *x->p == '(') {
		x->p++;
		spaces(x);
		yes = either(x);
		if (!x->err && (x->p == x->end || *x->p != ')'))
			fail(x, -EINVAL);
		x->p += !x->err;
		spaces(x);
	} else {
		yes = column(x);
	}
	x->depth--;
	return yes;
}

static bool both(struct reader *x)
{
	bool yes = one(x);

	while (!x->err && word(x, "and")) {
		const bool more = one(x);

		yes = yes && more;
		x->operators++;
	}
	return yes;
}

static bool either(struct reader *x)
{
	bool yes = both(x);

	while (!x->err && word(x, "or")) {
		const bool more = both(x);

		yes = yes || more;
		x->operators++;
	}
	return yes;
}

int mdl_where(const struct tfs_table *t, struct tfs_bytes text, const struct mdl_row *row)
{
	struct reader x = {.t = t, .row = row, .p = (const char *)text.p, .end = (const char *)text.p + text.n};
	bool yes;

	if (!text.p)
		return 1;
	spaces(&x);
	yes = either(&x);
	if (!x.err && (x.p < x.end || x.columns + x.operators > OPERATORS))
		x.err = -EINVAL;
	return x.err ? x.err : yes;
}
