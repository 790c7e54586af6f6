/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes a bad history short, and prints it.  Each step weakens the history: the
 * weaker one accepts every order that the stronger one accepts.  So if the result
 * is bad, the operations that it still has are enough to prove the error.  Steps
 * are tried on many operations at a time, then on fewer.
 */
#include "t/lin/check.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define TRY_STEPS 100000u /* a weaker history that takes more is not used */

struct shorter {
	struct lin_op *all; /* the history as it was, by time of call */
	struct lin_op *ops; /* the operations, made weaker */
	struct lin_op *tried;
	size_t n;
};

static void *need(void *p)
{
	if (!p)
		abort();
	return p;
}

/* Uses the history in `tried` if it is bad, too. */
static bool settle(struct shorter *h)
{
	if (lin_check(h->tried, h->n, TRY_STEPS).result != LIN_BAD)
		return false;
	memcpy(h->ops, h->tried, h->n * sizeof(*h->ops));
	return true;
}

/* Only what happened up to `until`: an operation without an answer by then is in doubt. */
static void cut(struct lin_op *ops, size_t n, int64_t until)
{
	for (size_t i = 0; i < n; i++) {
		struct lin_op *op = &ops[i];

		if (op->called > until || (op->outcome == LIN_DOUBT && op->kind == LIN_READ)) {
			op->outcome = LIN_NONE;
		} else if (op->answered > until) {
			op->outcome = LIN_DOUBT;
			op->answered = 0;
			op->seen = 0;
		}
	}
}

static int time_order(const void *a, const void *b)
{
	const int64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* Returns the time of the earliest answer up to which the operations have no linear order.  They have none up to `until`. */
static int64_t earliest(const struct lin_op *ops, struct shorter *h, int64_t until)
{
	int64_t *times = need(calloc(h->n + 1, sizeof(*times)));
	size_t low = 0, high = 0;

	for (size_t i = 0; i < h->n; i++)
		if (ops[i].answered && ops[i].answered <= until)
			times[high++] = ops[i].answered;
	qsort(times, high, sizeof(*times), time_order);
	high -= high > 0;
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		memcpy(h->tried, ops, h->n * sizeof(*ops));
		cut(h->tried, h->n, times[middle]);
		if (lin_check(h->tried, h->n, 0).result == LIN_BAD)
			high = middle;
		else
			low = middle + 1;
	}
	until = times[high];
	free(times);
	return until;
}

static void only_column(struct lin_op *op, unsigned column)
{
	op->columns &= 1u << column;
	op->seen &= 1u << column;
	if (op->check && op->check != column + 1) {
		if (op->outcome == LIN_FAILED)
			op->outcome = LIN_NONE;
		op->check = 0;
	}
	if (!op->columns && !op->check && !op->seen)
		op->outcome = LIN_NONE;
}

static bool only_reads(const struct lin_op *op)
{
	return op->outcome == LIN_FAILED || (op->outcome == LIN_OK && op->kind == LIN_READ);
}

static bool drop_read(struct lin_op *op)
{
	if (!only_reads(op))
		return false;
	op->outcome = LIN_NONE;
	return true;
}

static bool make_possible(struct lin_op *op)
{
	if (op->outcome != LIN_OK || op->kind == LIN_READ)
		return false;
	op->outcome = LIN_DOUBT;
	op->seen = 0;
	return true;
}

/* Weakens as many operations as the history remains bad without. */
static void weaken(struct shorter *h, bool (*weaker)(struct lin_op *))
{
	for (size_t piece = h->n; piece; piece /= 2) {
		for (size_t from = 0; from < h->n; from += piece) {
			bool any = false;

			memcpy(h->tried, h->ops, h->n * sizeof(*h->ops));
			for (size_t i = from; i < h->n && i < from + piece; i++)
				any |= weaker(&h->tried[i]);
			if (any)
				settle(h);
		}
	}
}

/* ---- printing ---- */

static void print_text(FILE *out, const char *text)
{
	size_t n = text ? strlen(text) : 0;

	if (!text)
		fprintf(out, "absent");
	else if (n > 120)
		fprintf(out, "\"%.50s...(%zu bytes)...%s\"", text, n, text + n - 60);
	else
		fprintf(out, "\"%s\"", text);
}

static void print_columns(FILE *out, unsigned columns, const char *const names[LIN_COLUMNS])
{
	const char *comma = "";

	for (unsigned c = 0; c < LIN_COLUMNS; c++)
		if (columns >> c & 1) {
			fprintf(out, "%s%s", comma, names[c]);
			comma = ",";
		}
}

static void print_values(FILE *out, unsigned columns, const char *const found[LIN_COLUMNS], const char *const names[LIN_COLUMNS])
{
	for (unsigned c = 0; c < LIN_COLUMNS; c++)
		if (columns >> c & 1) {
			fprintf(out, " %s=", names[c]);
			print_text(out, found[c]);
		}
}

static void print_op(FILE *out, const struct lin_op *op, const char *const names[LIN_COLUMNS])
{
	static const char *const verbs[] = {"read", "put", "delete", "append", "increment"};
	char until[32] = "...";

	if (op->answered)
		snprintf(until, sizeof(until), "%" PRId64, op->answered);
	fprintf(out, " [%10" PRId64 ", %10s] client %2u: ", op->called, until, op->client);
	if (op->check) {
		fprintf(out, "if %s is ", names[op->check - 1]);
		print_text(out, op->expect);
		fprintf(out, ": ");
	}
	fprintf(out, "%s ", verbs[op->kind]);
	print_columns(out, op->columns, names);
	if (op->kind == LIN_PUT || op->kind == LIN_APPEND) {
		fprintf(out, " ");
		print_text(out, op->value);
	} else if (op->kind == LIN_INCREMENT) {
		fprintf(out, " by %" PRId64, op->by);
	}
	fprintf(out, op->outcome == LIN_OK ? "; ok" : op->outcome == LIN_FAILED ? "; the check failed" : "; may be applied or not");
	if (op->outcome == LIN_OK)
		print_values(out, op->seen, op->found, names);
	fprintf(out, "\n");
}

static bool contains(const char *text, const char *piece)
{
	return text && piece && *piece && strstr(text, piece);
}

static bool mentions(const struct lin_op *op, const char *piece)
{
	bool found = contains(op->value, piece) || contains(op->expect, piece);

	for (unsigned c = 0; c < LIN_COLUMNS; c++)
		found |= op->seen >> c & 1 && contains(op->found[c], piece);
	return found;
}

/* Sets *shown to the certain operations, then twice adds the operations that write a text which the shown operations mention. */
static void choose_shown(const struct shorter *h, unsigned char *shown)
{
	for (size_t i = 0; i < h->n; i++)
		shown[i] = h->ops[i].outcome == LIN_OK || h->ops[i].outcome == LIN_FAILED;
	for (unsigned char round = 1; round < 3; round++)
		for (size_t i = 0; i < h->n; i++)
			for (size_t k = 0; k < h->n && !shown[i] && h->ops[i].outcome == LIN_DOUBT; k++)
				if (shown[k] && shown[k] <= round && mentions(&h->ops[k], h->ops[i].value))
					shown[i] = round + 1;
}

static int call_order(const void *a, const void *b)
{
	const struct lin_op *x = a, *y = b;

	return x->called < y->called ? -1 : x->called > y->called;
}

static void print(FILE *out, struct shorter *h, const char *const names[LIN_COLUMNS])
{
	unsigned char *shown = need(calloc(h->n + 1, 1));
	struct lin_states states;
	struct lin_verdict v = lin_check_states(h->ops, h->n, TRY_STEPS, &states);
	size_t certain = 0, hidden = 0;

	choose_shown(h, shown);
	for (size_t i = 0; i < h->n; i++) {
		certain += shown[i] == 1;
		hidden += h->ops[i].outcome == LIN_DOUBT && !shown[i];
	}
	fprintf(out, "no order explains the answers of the %zu operations marked *, of %zu:\n", certain, h->n);
	for (size_t i = 0; i < h->n; i++)
		if (shown[i]) {
			fprintf(out, shown[i] == 1 ? " *" : "  ");
			print_op(out, shown[i] == 1 ? &h->ops[i] : &h->all[i], names);
		}
	if (hidden)
		fprintf(out, "  (%zu other changes, applied or not, make no difference)\n", hidden);
	free(shown);
	if (v.result != LIN_BAD)
		return;
	fprintf(out, "the answer at %" PRId64 " is wrong; before it the row may have been:\n", v.until);
	for (unsigned i = 0; i < states.count; i++) {
		fprintf(out, "  ");
		print_values(out, (1u << LIN_COLUMNS) - 1, (const char *const *)states.text[i], names);
		fprintf(out, "\n");
	}
	if (states.more)
		fprintf(out, "   and others\n");
	lin_states_free(&states);
}

void lin_explain(FILE *out, const struct lin_op *ops, size_t n, const char *const names[LIN_COLUMNS])
{
	struct shorter h = {
		need(calloc(n + 1, sizeof(*ops))), need(calloc(n + 1, sizeof(*ops))), need(calloc(n + 1, sizeof(*ops))), n};
	struct lin_verdict v = lin_check(ops, n, 0);

	if (n) {
		memcpy(h.all, ops, n * sizeof(*ops));
		qsort(h.all, n, sizeof(*ops), call_order);
		memcpy(h.ops, h.all, n * sizeof(*ops));
	}
	if (v.result == LIN_BAD) {
		cut(h.ops, n, earliest(h.all, &h, v.until));
		for (unsigned c = 0; c < LIN_COLUMNS; c++) {
			memcpy(h.tried, h.ops, n * sizeof(*ops));
			for (size_t i = 0; i < n; i++)
				only_column(&h.tried[i], c);
			if (settle(&h))
				break;
		}
		weaken(&h, drop_read);
		weaken(&h, make_possible);
		weaken(&h, drop_read);
		print(out, &h, names);
	}
	free(h.all);
	free(h.ops);
	free(h.tried);
}
