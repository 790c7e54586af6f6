/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keys that conditions on a row or a qualifier leave, and the same of timestamps.
 *
 * The store orders keys by their bytes.  SQLite orders every TEXT before every BLOB.  So a range
 * has two spans of bytes, one for each type: `row > 'm'' leaves TEXT behind m, and every BLOB.
 *
 * The comparison of a statement may convert its operands first.  A span must contain each key
 * for which the comparison could be true:
 *
 *	number    The key may be compared as a number, so that '05' = 5, or the number as a
 *		  text.  xFilter cannot see which.  A number narrows nothing.
 *	TEXT      If the other operand is a column of numbers that contains a text, keys are
 *		  compared as numbers, too.  Then a key that looks like a number is less than
 *		  the text.  Such keys begin with a byte below ':'.  So an upper bound is at
 *		  least ':', unless the text is a literal or a parameter, which have no affinity.
 *		  A text that looks like a number is never in a column of numbers.
 *	BLOB      Nothing is converted.
 *	NULL      No comparison is true.
 *
 * GLOB and LIKE read a BLOB as a text, up to its first NUL, and take each byte that is not
 * UTF-8 for U+FFFD.  So only the ASCII characters at the start of a pattern are a bound, for both
 * types, and of LIKE, which ignores case, only those that are no letters.
 */
#include "sql/internal.h"

#include <ctype.h>
#include <stdlib.h>

SQLITE_EXTENSION_INIT3

/* ---- spans ---- */

bool span_is_point(const struct span *s)
{
	return !s->after && s->from.n && s->to.p && s->to.n == s->from.n + 1 && s->to.p[s->from.n] == 0 &&
		memcmp(s->from.p, s->to.p, s->from.n) == 0;
}

static void check_empty(struct span *s)
{
	const int order = s->to.p ? bytes_compare(s->from, s->to) : -1;

	s->empty |= order > 0 || order == 0;
}

static struct tfs_bytes copied(struct range *r, struct tfs_bytes b)
{
	struct tfs_bytes copy = bytes_copy(b);

	r->no_memory |= !copy.p;
	return copy;
}

static void raise_from(struct range *r, struct span *s, struct tfs_bytes key, bool after)
{
	const int order = bytes_compare(key, s->from);

	if (order < 0 || (order == 0 && (s->after || !after)))
		return;
	bytes_free(&s->from);
	s->from = copied(r, key);
	s->after = after;
	check_empty(s);
}

static void lower_to(struct range *r, struct span *s, struct tfs_bytes key)
{
	if (s->to.p && bytes_compare(key, s->to) >= 0)
		return;
	bytes_free(&s->to);
	s->to = copied(r, key);
	check_empty(s);
}

/* The end of the span is behind the key: it ends before the key with a NUL, which bytes_copy() adds. */
static void lower_to_including(struct range *r, struct span *s, struct tfs_bytes key)
{
	struct tfs_bytes copy = copied(r, key);

	if (copy.p)
		lower_to(r, s, tfs_bytes_of(copy.p, copy.n + 1));
	bytes_free(&copy);
}

/* ---- comparisons ---- */

static void compare(struct range *r, struct span *s, enum plan_op op, struct tfs_bytes key)
{
	if (op == PLAN_EQ || op == PLAN_GE || op == PLAN_GT)
		raise_from(r, s, key, op == PLAN_GT);
	if (op == PLAN_EQ || op == PLAN_LE)
		lower_to_including(r, s, key);
	if (op == PLAN_LT)
		lower_to(r, s, key);
}

static void compare_text(struct range *r, enum plan_op op, struct tfs_bytes key, bool constant)
{
	const struct tfs_bytes after_numbers = TFS_S(":");

	if ((op == PLAN_LT || op == PLAN_LE) && !constant && bytes_compare(key, after_numbers) < 0) {
		lower_to(r, &r->text, after_numbers);
		r->inexact = true;
	} else {
		compare(r, &r->text, op, key);
	}
	if (op != PLAN_GT && op != PLAN_GE)
		r->blob.empty = true;
}

static void compare_blob(struct range *r, enum plan_op op, struct tfs_bytes key)
{
	compare(r, &r->blob, op, key);
	if (op != PLAN_LT && op != PLAN_LE)
		r->text.empty = true;
}

/* ---- patterns ---- */

static bool is_fixed(uint8_t c, enum plan_op op)
{
	return c && c < 0x80 && (op == PLAN_GLOB ? !strchr("*?[", c) : !strchr("%_", c) && !isalpha(c));
}

static void match(struct range *r, enum plan_op op, struct tfs_bytes pattern)
{
	struct tfs_bytes end;
	size_t n = 0;

	while (n < pattern.n && is_fixed(pattern.p[n], op))
		n++;
	r->inexact |= pattern.n != n + 1 || pattern.p[n] != (op == PLAN_GLOB ? '*' : '%');
	if (!n)
		return;
	pattern.n = n;
	end = copied(r, pattern);
	if (!end.p)
		return;
	((uint8_t *)(uintptr_t)end.p)[n - 1]++;
	raise_from(r, &r->text, pattern, false);
	raise_from(r, &r->blob, pattern, false);
	lower_to(r, &r->text, end);
	lower_to(r, &r->blob, end);
	bytes_free(&end);
}

/* ---- IN ---- */

static int compare_points(const void *a, const void *b)
{
	const struct tfs_bytes *x = a, *y = b;
	const bool text = value_is_text(*x);

	return text != value_is_text(*y) ? (text ? -1 : 1) : bytes_compare(*x, *y);
}

static void free_points(struct range *r)
{
	for (unsigned i = 0; i < r->point_count; i++)
		bytes_free(&r->points[i]);
	sqlite3_free(r->points);
	r->points = NULL;
	r->point_count = 0;
}

static bool add_point(struct range *r, struct tfs_bytes key)
{
	/* Twice as large at each power of two. */
	if ((r->point_count & (r->point_count - 1)) == 0) {
		struct tfs_bytes *more = sqlite3_realloc64(r->points, (r->point_count + 1) * 2 * sizeof(*more));

		if (!more)
			return false;
		r->points = more;
	}
	r->points[r->point_count] = copied(r, key);
	return r->points[r->point_count++].p != NULL;
}

static void sort_points(struct range *r)
{
	unsigned n = 0;

	qsort(r->points, r->point_count, sizeof(*r->points), compare_points);
	for (unsigned i = 0; i < r->point_count; i++) {
		if (n && bytes_compare(r->points[n - 1], r->points[i]) == 0)
			bytes_free(&r->points[i]);
		else
			r->points[n++] = r->points[i];
	}
	r->point_count = n;
}

static void add_list(struct range *r, sqlite3_value *list)
{
	sqlite3_value *v;
	int status;

	if (r->points) { /* one list is enough: SQLite checks the other */
		r->inexact = true;
		return;
	}
	for (status = sqlite3_vtab_in_first(list, &v); status == SQLITE_OK; status = sqlite3_vtab_in_next(list, &v)) {
		const int type = sqlite3_value_type(v);

		if (type == SQLITE_INTEGER || type == SQLITE_FLOAT) {
			free_points(r);
			r->inexact = true;
			return;
		}
		/* No key is equal to a value of the type in which keys of these bytes are not shown. */
		if (type != SQLITE_NULL && value_is_text(value_bytes(v)) == (type == SQLITE_TEXT) &&
			!add_point(r, value_bytes(v))) {
			r->no_memory = true;
			return;
		}
	}
	if (r->point_count)
		sort_points(r);
	else
		r->text.empty = r->blob.empty = true;
}

/* ---- ranges ---- */

void range_add(struct range *r, const struct plan_condition *c, sqlite3_value *v)
{
	const int type = sqlite3_value_type(v);

	if (c->op == PLAN_IN) {
		add_list(r, v);
		return;
	}
	if (type == SQLITE_NULL) {
		r->text.empty = r->blob.empty = true;
		return;
	}
	if (c->op == PLAN_GLOB || c->op == PLAN_LIKE)
		match(r, c->op, value_bytes(v));
	else if (type == SQLITE_TEXT)
		compare_text(r, c->op, value_bytes(v), c->literal || sqlite3_value_frombind(v));
	else if (type == SQLITE_BLOB)
		compare_blob(r, c->op, value_bytes(v));
	else
		r->inexact = true;
}

bool range_contains_text(const struct range *r, struct tfs_bytes key)
{
	const int order = bytes_compare(key, r->text.from);
	bool found = r->points == NULL;

	for (unsigned i = 0; i < r->point_count && !found; i++)
		found = bytes_compare(key, r->points[i]) == 0;
	return found && !r->text.empty && (order > 0 || (order == 0 && !r->text.after)) &&
		(!r->text.to.p || bytes_compare(key, r->text.to) < 0);
}

/* From the least of the points to the greatest.  bytes_copy() has put a NUL behind it. */
static struct span points_hull(const struct range *r)
{
	struct tfs_bytes least = r->points[0], greatest = r->points[0];

	for (unsigned i = 1; i < r->point_count; i++) {
		if (bytes_compare(r->points[i], least) < 0)
			least = r->points[i];
		if (bytes_compare(r->points[i], greatest) > 0)
			greatest = r->points[i];
	}
	return (struct span){.from = least, .to = tfs_bytes_of(greatest.p, greatest.n + 1)};
}

struct span range_hull(const struct range *r)
{
	const struct span *a = &r->text, *b = &r->blob;
	struct span hull;
	int order;

	if (r->points && !(a->empty && b->empty))
		return points_hull(r);
	if (a->empty || b->empty)
		return a->empty ? *b : *a;
	order = bytes_compare(a->from, b->from);
	hull.from = order <= 0 ? a->from : b->from;
	hull.after = order < 0 ? a->after : order > 0 ? b->after : a->after && b->after;
	hull.to = !a->to.p || !b->to.p ? tfs_bytes_of(NULL, 0) : bytes_compare(a->to, b->to) > 0 ? a->to : b->to;
	hull.empty = false;
	return hull;
}

static bool is_all(const struct span *s)
{
	return !s->empty && !s->from.n && !s->after && !s->to.p;
}

bool range_is_all(const struct range *r)
{
	return !r->points && is_all(&r->text) && is_all(&r->blob);
}

void range_free(struct range *r)
{
	free_points(r);
	bytes_free(&r->text.from);
	bytes_free(&r->text.to);
	bytes_free(&r->blob.from);
	bytes_free(&r->blob.to);
	*r = (struct range){0};
}

/* ---- timestamps ---- */

/* Comparisons with the column timestamp are between numbers, if the other operand is one or looks like one. */
static void compare_time(struct times *t, enum plan_op op, int64_t ts)
{
	if ((op == PLAN_EQ || op == PLAN_GE) && ts > t->since)
		t->since = ts;
	if (op == PLAN_GT && ts == INT64_MAX)
		t->empty = true;
	else if (op == PLAN_GT && ts + 1 > t->since)
		t->since = ts + 1;
	/* INT64_MAX is no end of a scan, and also the greatest timestamp. */
	if ((op == PLAN_EQ || op == PLAN_LE) && ts != INT64_MAX && ts + 1 < t->until)
		t->until = ts + 1;
	if (op == PLAN_LT && ts < t->until)
		t->until = ts;
	t->inexact |= op == PLAN_LT && ts == INT64_MAX;
	t->bounded = true;
	t->empty |= t->since >= t->until && t->until != INT64_MAX;
}

/* A fraction is rounded to the timestamp outside of the range. */
static void compare_fraction(struct times *t, enum plan_op op, double d)
{
	const bool lower = op == PLAN_GT || op == PLAN_GE;

	t->inexact = true;
	if (op == PLAN_EQ || !(d > -9e18 && d < 9e18))
		return;
	compare_time(t, lower ? PLAN_GE : PLAN_LE, (int64_t)d + (lower ? -1 : 1));
}

void times_add(struct times *t, const struct plan_condition *c, sqlite3_value *v)
{
	if (c->op == PLAN_IN) {
		t->inexact = true;
		return;
	}
	switch (sqlite3_value_numeric_type(v)) {
	case SQLITE_INTEGER:
		compare_time(t, c->op, sqlite3_value_int64(v));
		break;
	case SQLITE_FLOAT:
		compare_fraction(t, c->op, sqlite3_value_double(v));
		break;
	case SQLITE_NULL:
		t->empty = true;
		break;
	default:
		t->inexact = true;
	}
}
