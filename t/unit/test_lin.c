/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The checker of linearizability: known histories, random ones of a correct row
 * and of rows with one planted bug, and a reference that tries every order of tiny
 * histories.  LIN_SEED, LIN_CASES.
 */
#include "t/lin/lin.h"
#include "t/lib/xorshift.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

static const char *const names[LIN_COLUMNS] = {"a", "b", "n", "m"};

static enum lin_result result_of(const struct lin_op *ops, size_t n)
{
	return lin_check(ops, n, 0).result;
}

/* ---- known histories ---- */

#define A 1u
#define B 2u
#define N 4u
#define AT(from, to) .called = from, .answered = to
#define OK .outcome = LIN_OK
#define PUT(col, v) .kind = LIN_PUT, .columns = col, .value = v
#define APPEND(col, v) .kind = LIN_APPEND, .columns = col, .value = v
#define READ_A(v) .kind = LIN_READ, .columns = A, .seen = A, .found = {v}
#define READ_AB(v, w) .kind = LIN_READ, .columns = A | B, .seen = A | B, .found = {v, w}
#define IF_A(v) .check = 1, .expect = v

static void expect(enum lin_result result, const struct lin_op *ops, size_t n)
{
	assert_int_equal(result_of(ops, n), result);
}
#define GOOD(...)                                                                                                                  \
	expect(LIN_GOOD, (const struct lin_op[]){__VA_ARGS__}, sizeof((const struct lin_op[]){__VA_ARGS__}) / sizeof(struct lin_op))
#define BAD(...)                                                                                                                   \
	expect(LIN_BAD, (const struct lin_op[]){__VA_ARGS__}, sizeof((const struct lin_op[]){__VA_ARGS__}) / sizeof(struct lin_op))

static void test_reads_and_puts(void **state)
{
	expect(LIN_GOOD, NULL, 0);
	GOOD({OK, READ_A(NULL), AT(1, 2)});
	BAD({OK, READ_A("x"), AT(1, 2)});
	GOOD({OK, PUT(A, "x"), AT(1, 2)}, {OK, READ_A("x"), AT(3, 4)});
	BAD({OK, PUT(A, "x"), AT(1, 2)}, {OK, READ_A(NULL), AT(3, 4)});
	/* Equal times are concurrent. */
	GOOD({OK, PUT(A, "x"), AT(1, 2)}, {OK, READ_A(NULL), AT(2, 4)});
	/* The order of the calls says nothing. */
	GOOD({OK, PUT(A, "x"), AT(1, 5)}, {OK, PUT(A, "y"), AT(2, 4)}, {OK, READ_A("x"), AT(6, 7)}, {OK, READ_A("x"), AT(8, 9)});
	BAD({OK, PUT(A, "x"), AT(1, 5)}, {OK, PUT(A, "y"), AT(2, 4)}, {OK, READ_A("x"), AT(6, 7)}, {OK, READ_A("y"), AT(8, 9)});
	/* Two readers see one order (and not each its own). */
	BAD({OK, PUT(A, "x"), AT(1, 9)}, {OK, PUT(A, "y"), AT(1, 9)}, {OK, READ_A("x"), AT(2, 3)}, {OK, READ_A("y"), AT(4, 5)},
		{OK, READ_A("x"), AT(6, 7)});
	/* A read that overlaps a write may see it, and then a later read must. */
	BAD({OK, PUT(A, "x"), AT(1, 9)}, {OK, READ_A("x"), AT(2, 3)}, {OK, READ_A(NULL), AT(4, 5)});
	/* A delete. */
	GOOD({OK, PUT(A, "x"), AT(1, 2)}, {OK, .kind = LIN_DELETE, .columns = A, AT(3, 4)}, {OK, READ_A(NULL), AT(5, 6)});
	BAD({OK, PUT(A, "x"), AT(1, 2)}, {OK, .kind = LIN_DELETE, .columns = A, AT(3, 4)}, {OK, READ_A("x"), AT(5, 6)});
	/* A scan is one instant, and a put of two columns, too. */
	GOOD({OK, PUT(A | B, "x"), AT(1, 9)}, {OK, READ_AB(NULL, NULL), AT(2, 3)}, {OK, READ_AB("x", "x"), AT(4, 5)});
	BAD({OK, PUT(A | B, "x"), AT(1, 9)}, {OK, READ_AB("x", NULL), AT(2, 3)});
}

static void test_other_changes(void **state)
{
	GOOD({OK, APPEND(A, "x"), AT(1, 9)}, {OK, APPEND(A, "y"), AT(1, 9)}, {OK, READ_A("yx"), AT(10, 11)});
	BAD({OK, APPEND(A, "x"), AT(1, 9)}, {OK, APPEND(A, "y"), AT(1, 9)}, {OK, READ_A("yxy"), AT(10, 11)});
	BAD({OK, APPEND(A, "x"), AT(1, 2)}, {OK, APPEND(A, "y"), AT(3, 9)}, {OK, READ_A("yx"), AT(10, 11)});
	GOOD({OK, .kind = LIN_INCREMENT, .by = 2, .columns = N, .seen = N, .found = {[2] = "5"}, AT(1, 9)},
		{OK, .kind = LIN_INCREMENT, .by = 3, .columns = N, .seen = N, .found = {[2] = "3"}, AT(1, 9)});
	BAD({OK, .kind = LIN_INCREMENT, .by = 2, .columns = N, .seen = N, .found = {[2] = "2"}, AT(1, 9)},
		{OK, .kind = LIN_INCREMENT, .by = 3, .columns = N, .seen = N, .found = {[2] = "3"}, AT(1, 9)});
	/* Only one of two checks of one value may hold. */
	GOOD({OK, IF_A(NULL), PUT(A, "x"), AT(1, 9)}, {.outcome = LIN_FAILED, IF_A(NULL), PUT(A, "y"), AT(1, 9)});
	BAD({OK, IF_A(NULL), PUT(A, "x"), AT(1, 9)}, {OK, IF_A(NULL), PUT(A, "y"), AT(1, 9)});
	BAD({.outcome = LIN_FAILED, IF_A(NULL), PUT(A, "x"), AT(1, 9)}, {.outcome = LIN_FAILED, IF_A(NULL), PUT(A, "y"), AT(1, 9)});
	/* A check of one column and a change of another. */
	BAD({OK, IF_A(NULL), PUT(B, "x"), AT(3, 9)}, {OK, PUT(A, "y"), AT(1, 2)});
}

static void test_doubts(void **state)
{
	GOOD({PUT(A, "x"), AT(1, 0)}, {OK, READ_A(NULL), AT(5, 6)});
	GOOD({PUT(A, "x"), AT(1, 0)}, {OK, READ_A(NULL), AT(5, 6)}, {OK, READ_A("x"), AT(500, 501)});
	BAD({PUT(A, "x"), AT(1, 0)}, {OK, READ_A("x"), AT(5, 6)}, {OK, READ_A(NULL), AT(500, 501)});
	BAD({PUT(A, "x"), AT(7, 0)}, {OK, READ_A("x"), AT(5, 6)});
	/* Applied before its server died, or never. */
	BAD({PUT(A, "x"), AT(1, 100)}, {OK, READ_A(NULL), AT(105, 106)}, {OK, READ_A("x"), AT(500, 501)});
	GOOD({PUT(A, "x"), AT(1, 100)}, {OK, READ_A("x"), AT(105, 106)}, {OK, READ_A("x"), AT(500, 501)});
	/* Applied once. */
	BAD({APPEND(A, "x"), AT(1, 0)}, {OK, READ_A("xx"), AT(5, 6)});
	/* Ignored: it was refused. */
	BAD({.outcome = LIN_NONE, PUT(A, "x"), AT(1, 2)}, {OK, READ_A("x"), AT(5, 6)});
	GOOD({.kind = LIN_READ, .columns = A, AT(1, 2)}, {OK, READ_A(NULL), AT(5, 6)});
	/* Doubtful changes in the order that the reads need. */
	GOOD({APPEND(A, "x"), AT(1, 0)}, {APPEND(A, "y"), AT(2, 0)}, {APPEND(A, "z"), AT(3, 0)}, {OK, READ_A("zx"), AT(5, 6)},
		{OK, READ_A("zxy"), AT(7, 8)});
	/* What a failed check saw was a doubtful change. */
	GOOD({PUT(A, "x"), AT(1, 0)}, {.outcome = LIN_FAILED, IF_A(NULL), PUT(A, "y"), AT(5, 6)});
}

/* ---- random histories of one row, correct but for a planted bug ---- */

enum bug { NO_BUG, LOST_WRITE, DOUBLE_APPEND, STALE_READ, FROM_NOWHERE, LATE_EDIT, BUGS };
static const char *const bug_names[] = {"none", "lost write", "double append", "stale read", "a value from nowhere", "late edit"};

#define MOST 4000
#define TEXT 200
#define CLIENTS 16
struct value {
	char text[TEXT];
	bool there;
};
struct world {
	uint64_t x;
	struct lin_op ops[MOST];
	struct value found[MOST][LIN_COLUMNS]; /* the values that the answers state */
	char written[MOST][24], wanted[MOST][TEXT];
	size_t n;
	struct value row[LIN_COLUMNS], old[LIN_COLUMNS];          /* old has the values before the last change of each column */
	size_t changed_by[LIN_COLUMNS], before_that[LIN_COLUMNS]; /* an operation + 1 */
	int64_t now, planted;
	bool with_hints;
	struct client {
		size_t op; /* + 1; 0: idle */
		bool applied;
	} clients[CLIENTS];
	size_t late[64]; /* doubtful, not yet applied */
	unsigned late_count;
};

static unsigned below(struct world *w, unsigned n)
{
	return (unsigned)(xorshift(&w->x) >> 11) % n;
}

static const char *text_of(const struct value *v)
{
	return v->there ? v->text : NULL;
}

static size_t call(struct world *w, unsigned client)
{
	size_t i = w->n++;
	struct lin_op *op = &w->ops[i];
	unsigned what = below(w, 20);

	*op = (struct lin_op){.client = client, .called = ++w->now, .columns = 1u << below(w, 2)};
	snprintf(w->written[i], sizeof(w->written[i]), "%zu;", i);
	op->value = w->written[i];
	if (what < 4) {
		op->kind = LIN_READ;
	} else if (what < 7) {
		op->kind = LIN_READ;
		op->columns = 7;
	} else if (what < 10) {
		op->kind = LIN_PUT;
		op->columns = 1 + below(w, 3);
	} else if (what < 11) {
		op->kind = LIN_DELETE;
		op->columns = 1 + below(w, 7);
	} else if (what < 15) {
		op->kind = LIN_APPEND;
	} else if (what < 17) {
		op->kind = LIN_INCREMENT;
		op->columns = N;
		op->by = (int64_t)below(w, 5) - 2;
	} else {
		unsigned c = below(w, 2);

		op->kind = what < 19 ? LIN_PUT : LIN_APPEND;
		op->check = 1 + c;
		memcpy(w->wanted[i], w->row[c].text, TEXT);
		op->expect = w->row[c].there && below(w, 8) ? w->wanted[i] : NULL;
	}
	return i;
}

/* Changes the row, and keeps the answer for later. */
static void apply(struct world *w, size_t i)
{
	struct lin_op *op = &w->ops[i];

	op->hint = w->with_hints ? ++w->now : 0;
	op->outcome = LIN_OK;
	if (op->check) {
		const char *is = text_of(&w->row[op->check - 1]);

		if (is != op->expect && (!is || !op->expect || strcmp(is, op->expect) != 0)) {
			op->outcome = LIN_FAILED;
			return;
		}
	}
	for (unsigned c = 0; c < LIN_COLUMNS; c++) {
		struct value *v = &w->row[c], *old = &w->old[c];

		if (!(op->columns >> c & 1))
			continue;
		if (op->kind != LIN_READ) {
			*old = *v;
			w->before_that[c] = w->changed_by[c];
			w->changed_by[c] = i + 1;
		}
		if (op->kind == LIN_APPEND && (!v->there || strlen(v->text) + strlen(op->value) < TEXT))
			strcat(v->text, op->value);
		else if (op->kind == LIN_PUT || op->kind == LIN_APPEND)
			strcpy(v->text, op->value);
		else if (op->kind == LIN_DELETE)
			v->text[0] = '\0';
		else if (op->kind == LIN_INCREMENT)
			snprintf(v->text, TEXT, "%lld", (long long)(v->there ? atoll(v->text) : 0) + (long long)op->by);
		if (op->kind == LIN_APPEND && old->there && strlen(old->text) + strlen(op->value) >= TEXT)
			op->kind = LIN_PUT;
		if (op->kind != LIN_READ)
			v->there = op->kind != LIN_DELETE;
	}
	if (op->kind == LIN_READ || op->kind == LIN_INCREMENT)
		op->seen = op->columns;
	else if (op->kind == LIN_APPEND && i % 4 == 0)
		op->seen = op->columns;
	memcpy(w->found[i], w->row, sizeof(w->row));
	for (unsigned c = 0; c < LIN_COLUMNS; c++)
		if (op->seen >> c & 1)
			op->found[c] = text_of(&w->found[i][c]);
}

/* Its answer is lost. */
static void forget_answer(struct world *w, size_t i)
{
	struct lin_op *op = &w->ops[i];

	op->outcome = LIN_DOUBT;
	op->seen = 0;
	op->hint = 0;
}

/* one in `doubts` steps is the end of a client that waits; 0 if none is */
static void step(struct world *w, unsigned clients, unsigned doubts, bool more)
{
	unsigned who = below(w, clients);
	struct client *c = &w->clients[who];

	w->now++;
	if (w->late_count && below(w, more ? 200 : 4) == 0) {
		size_t i = w->late[--w->late_count];

		apply(w, i);
		forget_answer(w, i);
	}
	if (!c->op && !more)
		return;
	if (!c->op) {
		c->op = call(w, who) + 1;
		c->applied = false;
	} else if (doubts && below(w, doubts) == 0) {
		if (c->applied)
			forget_answer(w, c->op - 1);
		else if (w->late_count < 64 && below(w, 2))
			w->late[w->late_count++] = c->op - 1;
		c->op = 0;
	} else if (!c->applied) {
		apply(w, c->op - 1);
		c->applied = true;
	} else {
		w->ops[c->op - 1].answered = ++w->now;
		c->op = 0;
	}
}

static size_t whole(struct world *w, unsigned client, struct lin_op op, bool applied)
{
	size_t i = call(w, client);

	op.client = client;
	op.called = w->ops[i].called;
	op.value = w->ops[i].value;
	w->ops[i] = op;
	if (applied)
		apply(w, i);
	w->ops[i].outcome = LIN_OK;
	w->ops[i].answered = ++w->now;
	return i;
}

/* One bug, and a read that sees it.  Returns false if the state does not allow it now. */
static bool plant(struct world *w, enum bug bug)
{
	const struct lin_op read = {.kind = LIN_READ, .columns = A | B};
	size_t i;

	w->planted = w->now;
	if (!w->row[0].there || strlen(w->row[0].text) + 48 > TEXT || !w->changed_by[0] || !w->ops[w->changed_by[0] - 1].answered)
		return false;
	if (bug == LOST_WRITE) {
		whole(w, 90, (struct lin_op){.kind = below(w, 2) ? LIN_APPEND : LIN_PUT, .columns = A}, false);
		whole(w, 91, read, true);
	} else if (bug == DOUBLE_APPEND) {
		i = whole(w, 90, (struct lin_op){.kind = LIN_APPEND, .columns = A}, true);
		apply(w, i);
		whole(w, 91, read, true);
	} else if (bug == STALE_READ) {
		const struct lin_op *last = &w->ops[w->changed_by[0] - 1], *before = &w->ops[w->before_that[0] - 1];

		if (!w->old[0].there || !before->answered || before->answered >= last->called ||
			!strcmp(w->old[0].text, w->row[0].text))
			return false;
		i = whole(w, 91, read, true);
		w->found[i][0] = w->old[0];
	} else if (bug == FROM_NOWHERE) {
		i = whole(w, 91, read, true);
		strcpy(w->found[i][0].text, below(w, 2) ? "77777;" : "");
	} else if (bug == LATE_EDIT) { /* its client has given it up */
		i = whole(w, 90, (struct lin_op){.kind = LIN_APPEND, .columns = A}, false);
		w->ops[i].outcome = LIN_DOUBT;
		whole(w, 91, read, true);
		apply(w, i);
		forget_answer(w, i);
		whole(w, 92, read, true);
	}
	return true;
}

/* Returns false if there was no place for the bug. */
static bool history(struct world *w, uint64_t seed, unsigned clients, size_t n, unsigned doubts, bool hints, enum bug bug)
{
	bool planted = bug == NO_BUG;

	memset(w, 0, sizeof(*w));
	w->x = seed * 0x9e3779b97f4a7c15u + 1;
	w->with_hints = hints;
	while (w->n < n) {
		step(w, clients, doubts, true);
		if (!planted && w->n > n / 2)
			planted = plant(w, bug);
	}
	for (unsigned i = 0; i < clients;)
		if (w->clients[i].op)
			step(w, clients, doubts, false);
		else
			i++;
	return planted;
}

static uint64_t env(const char *name, uint64_t usual)
{
	return getenv(name) ? strtoull(getenv(name), NULL, 10) : usual;
}

static void show(const struct world *w)
{
	lin_explain(stderr, w->ops, w->n, names);
}

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void test_random_good(void **state)
{
	struct world *w = malloc(sizeof(*w));
	uint64_t seed = env("LIN_SEED", 1), cases = env("LIN_CASES", 300), steps = 0, most = 0;
	double start = now_ms(), longest = 0;

	for (uint64_t i = 0; i < cases; i++) {
		double from = now_ms();
		struct lin_verdict v;

		history(w, seed + i, 1 + (unsigned)(i % CLIENTS), i % 10 ? 300 : 3000, i % 10 && i % 3 ? 60 : 0, i % 2, NO_BUG);
		from = now_ms();
		v = lin_check(w->ops, w->n, 0);
		if (v.result == LIN_BAD)
			show(w);
		if (v.result != LIN_GOOD)
			print_error("seed %llu: result %u after %llu steps\n", (unsigned long long)(seed + i), v.result,
				(unsigned long long)v.steps);
		assert_int_equal(v.result, LIN_GOOD);
		steps += v.steps;
		most = v.steps > most ? v.steps : most;
		longest = now_ms() - from > longest ? now_ms() - from : longest;
	}
	print_message("# %llu histories, %.0f ms, %.1f ms the longest; %llu steps, %llu the most\n", (unsigned long long)cases,
		now_ms() - start, longest, (unsigned long long)steps, (unsigned long long)most);
	free(w);
}

static void test_planted(void **state)
{
	struct world *w = malloc(sizeof(*w));
	uint64_t seed = env("LIN_SEED", 1), cases = env("LIN_CASES", 300);

	for (enum bug bug = LOST_WRITE; bug < BUGS; bug++) {
		uint64_t planted = 0, undecided = 0, most = 0;
		double start = now_ms();

		for (uint64_t i = 0; i < cases; i++) {
			struct lin_verdict v;

			if (!history(w, seed + i, 1 + (unsigned)(i % (i % 2 ? CLIENTS : CLIENTS / 2)), 300, i % 3 ? 60 : 0, i % 2,
				    bug))
				continue;
			planted++;
			v = lin_check(w->ops, w->n, 0);
			if (v.result == LIN_GOOD)
				print_error("%s, seed %llu: no error found\n", bug_names[bug], (unsigned long long)(seed + i));
			assert_int_not_equal(v.result, LIN_GOOD);
			undecided += v.result == LIN_UNDECIDED;
			if (v.result == LIN_BAD)
				assert_true(v.until >= w->planted && v.op < w->n);
			most = v.steps > most ? v.steps : most;
		}
		print_message("# %s: %llu histories, %.0f ms; %llu steps the most\n", bug_names[bug], (unsigned long long)planted,
			now_ms() - start, (unsigned long long)most);
		assert_true(planted > cases / 2 && undecided <= cases / 100);
	}
	free(w);
}

/* ---- tiny histories, and every order of them ---- */

struct tiny {
	const struct lin_op *ops;
	size_t n;
};

static bool same(const char *a, const char *b)
{
	return a == b || (a && b && !strcmp(a, b));
}

/* The operation on a copy of the row.  Returns false if its answer is wrong.  *nothing: it changes nothing. */
static bool plain_apply(const struct lin_op *op, struct value row[LIN_COLUMNS])
{
	bool holds = !op->check || same(text_of(&row[op->check - 1]), op->expect);

	if (op->outcome == LIN_FAILED)
		return !holds;
	if (!holds)
		return op->outcome == LIN_DOUBT;
	for (unsigned c = 0; c < LIN_COLUMNS; c++) {
		struct value *v = &row[c];

		if (!(op->columns >> c & 1) || op->kind == LIN_READ)
			continue;
		if (op->kind == LIN_INCREMENT) {
			snprintf(v->text, TEXT, "%lld", (v->there ? atoll(v->text) : 0) + (long long)op->by);
		} else {
			if (op->kind != LIN_APPEND || !v->there)
				v->text[0] = '\0';
			if (op->kind != LIN_DELETE)
				strcat(v->text, op->value);
		}
		v->there = op->kind != LIN_DELETE;
	}
	if (op->outcome == LIN_DOUBT)
		return true;
	for (unsigned c = 0; c < LIN_COLUMNS; c++) {
		if (op->seen >> c & 1 && !same(text_of(&row[c]), op->found[c]))
			return false;
	}
	return true;
}

static bool any_order(const struct tiny *t, unsigned done, const struct value row[LIN_COLUMNS])
{
	bool finished = true;

	for (size_t i = 0; i < t->n; i++) {
		struct value after[LIN_COLUMNS];
		bool first = true;

		if (done >> i & 1)
			continue;
		finished = false;
		for (size_t k = 0; k < t->n; k++)
			first &= done >> k & 1 || !t->ops[k].answered || t->ops[k].answered >= t->ops[i].called;
		if (!first)
			continue;
		if ((t->ops[i].outcome == LIN_DOUBT || t->ops[i].outcome == LIN_NONE) && any_order(t, done | 1u << i, row))
			return true;
		memcpy(after, row, sizeof(after));
		if (t->ops[i].outcome != LIN_NONE && plain_apply(&t->ops[i], after) && any_order(t, done | 1u << i, after))
			return true;
	}
	return finished;
}

static void spoil(struct world *w)
{
	size_t i = below(w, (unsigned)w->n), k = below(w, (unsigned)w->n);
	struct lin_op *op = &w->ops[i];
	unsigned c = below(w, 2);

	switch (below(w, 4)) {
	case 0: /* the answer of another operation */
		for (unsigned d = 0; d < LIN_COLUMNS; d++)
			op->found[d] = w->ops[k].seen >> d & 1 ? w->ops[k].found[d] : op->found[d];
		break;
	case 1:
		op->found[c] = op->found[c] ? NULL : w->written[k];
		break;
	case 2:
		if (op->answered)
			op->outcome = op->outcome == LIN_FAILED ? LIN_OK : op->check ? LIN_FAILED : LIN_NONE;
		break;
	default: /* shorter, so that there are fewer orders */
		if (op->answered)
			op->answered = op->called + 1;
	}
}

static void test_every_order(void **state)
{
	struct world *w = malloc(sizeof(*w));
	uint64_t seed = env("LIN_SEED", 1), cases = env("LIN_CASES", 300) * 100, good = 0, bad = 0;

	for (uint64_t i = 0; i < cases; i++) {
		struct tiny t = {w->ops, 0};
		struct value row[LIN_COLUMNS] = {0};
		enum lin_result result;
		bool any;

		history(w, seed + i, 2 + (unsigned)(i % 6), 2 + i % 6, i % 4 ? 3 + (unsigned)(i % 9) : 0, i % 2, NO_BUG);
		for (size_t k = 0; k < w->n; k++) /* few values, so that different orders have equal results */
			if (i % 3)
				w->written[k][0] = (char)('0' + k % 2);
		if (i % 3)
			for (size_t k = 0; k < w->n; k++)
				for (unsigned c = 0; c < 2; c++)
					for (char *p = w->found[k][c].text; *p; p++)
						*p = *p == ';' ? ';' : (char)('0' + (*p - '0') % 2);
		if (i % 3)
			for (size_t k = 0; k < w->n; k++)
				for (char *p = w->wanted[k]; *p; p++)
					*p = *p == ';' ? ';' : (char)('0' + (*p - '0') % 2);
		for (unsigned k = 0; k < i % 4; k++)
			spoil(w);
		t.n = w->n;
		any = any_order(&t, 0, row);
		result = result_of(w->ops, w->n);
		if (result != (any ? LIN_GOOD : LIN_BAD)) {
			print_error("seed %llu: every order says %s\n", (unsigned long long)(seed + i), any ? "good" : "bad");
			show(w);
		}
		assert_int_equal(result, any ? LIN_GOOD : LIN_BAD);
		good += any;
		bad += !any;
	}
	print_message("# %llu good and %llu bad tiny histories\n", (unsigned long long)good, (unsigned long long)bad);
	assert_true(good > cases / 4 && bad > cases / 10);
	free(w);
}

/* ---- the explanation ---- */

static void test_explained(void **state)
{
	struct lin_record *r = lin_record_new();
	struct lin_totals totals;
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);
	int64_t now = 0;

	for (unsigned i = 0; i < 60; i++) {
		char value[16];
		struct lin_op *op;

		snprintf(value, sizeof(value), "v%u;", i);
		op = lin_called(r, i % 2 ? "good" : "bad",
			&(struct lin_op){.kind = LIN_APPEND, .columns = A, .value = value, .client = i}, ++now);
		if (i == 4) /* lost */
			op->columns = 0;
		op->outcome = LIN_OK;
		op->answered = ++now;
		op = lin_called(r, "other", &(struct lin_op){.kind = LIN_PUT, .columns = B, .value = value}, ++now);
	}
	for (unsigned i = 0; i < 3; i++) {
		struct lin_op *op = lin_called(r, "bad", &(struct lin_op){.kind = LIN_READ, .columns = A | B, .client = 99}, ++now);

		op->outcome = LIN_OK;
		op->seen = A | B;
		op->found[0] = lin_text(r, "v0;v2;v4;", 9);
		op->answered = ++now;
	}
	assert_int_equal(lin_record_check(r, names, out, &totals), 1);
	fclose(out);
	assert_int_equal(totals.rows, 3);
	assert_int_equal(totals.ops, 123);
	assert_int_equal(totals.doubts, 60);
	if (getenv("LIN_SHOW"))
		print_error("%s", text);
	assert_non_null(strstr(text, "row \"bad\": no order explains the answers of the 1 operations marked *, of 33:"));
	assert_non_null(strstr(text, "client 99: read a; ok a=\"v0;v2;v4;\""));
	assert_null(strstr(text, "row \"good\""));
	assert_null(strstr(text, "read a,b"));
	print_message("# %zu bytes of explanation\n", size);
	assert_true(size < 700);
	free(text);
	lin_record_free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reads_and_puts),
		cmocka_unit_test(test_other_changes),
		cmocka_unit_test(test_doubts),
		cmocka_unit_test(test_every_order),
		cmocka_unit_test(test_random_good),
		cmocka_unit_test(test_planted),
		cmocka_unit_test(test_explained),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
