/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parser and the evaluation of conditions on the columns of a row (where.h).
 *
 * The parser descends recursively and writes postfix steps.  The bounds of terms and of nesting keep its stack, and the
 * stack of an evaluation, small for any text.
 */
#include "engine/base/where.h"

#include <errno.h>

enum { NESTED_MOST = 100, STEPS_MOST = 4 * WHERE_TERMS_MOST, STEP_NOT = WHERE_TERMS_MOST, STEP_AND, STEP_OR };

struct parser {
	struct where *to;
	const uint8_t *p, *end;
	unsigned nested;
	const char *why;
	int err;
};

static bool refuse(struct parser *x, const char *why)
{
	if (!x->why)
		x->why = why;
	return false;
}

static bool is_space(uint8_t c)
{
	return c == ' ' || c == '\t' || c == '\n';
}

static void skip_space(struct parser *x)
{
	while (x->p < x->end && is_space(*x->p))
		x->p++;
}

/* Passes the word if it stands here and does not go on. */
static bool take_word(struct parser *x, const char *word)
{
	const size_t n = strlen(word), left = (size_t)(x->end - x->p);

	if (left < n || memcmp(x->p, word, n) != 0 || (left > n && !is_space(x->p[n]) && x->p[n] != '(' && x->p[n] != ')'))
		return false;
	x->p += n;
	skip_space(x);
	return true;
}

static bool take_sign(struct parser *x, char sign)
{
	if (x->p == x->end || *x->p != (uint8_t)sign)
		return false;
	x->p++;
	skip_space(x);
	return true;
}

/* ---- terms ---- */

/* Bytes between double quotes. */
static bool take_quoted(struct parser *x, struct tfs_bytes *out)
{
	uint8_t *copy = arena_alloc(&x->to->arena, (size_t)(x->end - x->p));
	size_t n = 0;

	if (!copy) {
		x->err = -ENOMEM;
		return false;
	}
	for (x->p++; x->p < x->end; copy[n++] = *x->p++) {
		if (*x->p != '"')
			continue;
		x->p++;
		if (x->p == x->end || *x->p != '"') {
			*out = tfs_bytes_of(copy, n);
			return true;
		}
	}
	return refuse(x, "a double quote is not closed");
}

/* Bytes up to one of `ends`, a space, a parenthesis or a double quote; or between double quotes. */
static bool take_text(struct parser *x, const char *ends, struct tfs_bytes *out)
{
	const uint8_t *from = x->p;

	if (x->p < x->end && *x->p == '"')
		return take_quoted(x, out);
	while (x->p < x->end && !is_space(*x->p) && (*x->p == 0 || !strchr("()\"", *x->p)) && (*x->p == 0 || !strchr(ends, *x->p)))
		x->p++;
	if (arena_dup(&x->to->arena, tfs_bytes_of(from, (size_t)(x->p - from)), out))
		return true;
	x->err = -ENOMEM;
	return false;
}

static enum where_test take_test(struct parser *x)
{
	static const struct {
		const char *text;
		enum where_test test;
	} tests[] = {{"!=", WHERE_NE}, {"<=", WHERE_LE}, {">=", WHERE_GE}, {"=", WHERE_EQ}, {"<", WHERE_LT}, {">", WHERE_GT}};

	for (unsigned i = 0; i < sizeof(tests) / sizeof(*tests); i++) {
		const size_t n = strlen(tests[i].text);

		if ((size_t)(x->end - x->p) >= n && memcmp(x->p, tests[i].text, n) == 0) {
			x->p += n;
			skip_space(x);
			return tests[i].test;
		}
	}
	return WHERE_HAS;
}

static bool add_step(struct parser *x, unsigned step)
{
	struct where *w = x->to;

	if (w->step_count == STEPS_MOST)
		return refuse(x, "it has too many operators");
	if (!w->steps)
		w->steps = arena_alloc(&w->arena, STEPS_MOST * sizeof(*w->steps));
	if (!w->steps) {
		x->err = -ENOMEM;
		return false;
	}
	w->steps[w->step_count++] = (uint16_t)step;
	return true;
}

static bool is_of_name(uint8_t c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-';
}

/* The store checks that the family exists. */
static bool take_family(struct parser *x, char *out)
{
	size_t n = 0;

	while (n < (size_t)(x->end - x->p) && is_of_name(x->p[n]))
		n++;
	if (!n || n > TFS_NAME_MAX || n == (size_t)(x->end - x->p) || x->p[n] != ':')
		return refuse(x, "a column is needed: FAMILY:Q, as in f:q=VALUE");
	memcpy(out, x->p, n);
	out[n] = 0;
	x->p += n + 1;
	return true;
}

static bool take_term(struct parser *x)
{
	struct where *w = x->to;
	struct where_term *t;

	if (w->term_count == WHERE_TERMS_MOST)
		return refuse(x, "it has more than 256 columns");
	if (!w->terms)
		w->terms = arena_alloc(&w->arena, WHERE_TERMS_MOST * sizeof(*w->terms));
	if (!w->terms) {
		x->err = -ENOMEM;
		return false;
	}
	t = &w->terms[w->term_count];
	*t = (struct where_term){0};
	if (!take_family(x, t->family) || !take_text(x, "=!<>", &t->qualifier))
		return false;
	skip_space(x);
	t->test = take_test(x);
	if (t->test != WHERE_HAS) {
		const uint8_t *from = x->p;

		if (!take_text(x, "", &t->value))
			return false;
		if (x->p == from)
			return refuse(x, "a VALUE is needed after the operator; the empty one is \"\"");
	}
	skip_space(x);
	return add_step(x, w->term_count++);
}

/* ---- the condition ---- */

static bool take_or(struct parser *x);

static bool take_not(struct parser *x)
{
	bool good;

	if (x->nested == NESTED_MOST)
		return refuse(x, "it is nested too deeply");
	x->nested++;
	if (take_word(x, "not"))
		good = take_not(x) && add_step(x, STEP_NOT);
	else if (take_sign(x, '('))
		good = take_or(x) &&
			(take_sign(x, ')') ||
				refuse(x,
					"after a column: and, or, ) or an operator; a VALUE with a space "
					"or a parenthesis stands between double quotes"));
	else
		good = take_term(x);
	x->nested--;
	return good;
}

static bool take_and(struct parser *x)
{
	bool good = take_not(x);

	while (good && take_word(x, "and"))
		good = take_not(x) && add_step(x, STEP_AND);
	return good;
}

static bool take_or(struct parser *x)
{
	bool good = take_and(x);

	while (good && take_word(x, "or"))
		good = take_and(x) && add_step(x, STEP_OR);
	return good;
}

int where_parse(struct tfs_bytes text, struct where *out, const char **why)
{
	struct parser x = {.to = out, .p = text.p, .end = text.p + text.n};

	*out = (struct where){0};
	*why = NULL;
	if (!text.n)
		return *why = "a condition is needed, as f:q=VALUE", -EINVAL;
	skip_space(&x);
	if (take_or(&x) && x.p < x.end)
		(void)refuse(&x,
			*x.p == ')' ? "a ) has no ("
				    : "after a column: and, or, the end or an operator; a VALUE with a space "
				      "or a parenthesis stands between double quotes");
	*why = x.err ? NULL : x.why;
	return x.err ? x.err : x.why ? -EINVAL : 0;
}

void where_fini(struct where *w)
{
	arena_fini(&w->arena);
	*w = (struct where){0};
}

/* ---- comparisons ---- */

/* A number as texts of digits, without zeros before the point's left part and behind its right part. */
struct decimal {
	bool negative;
	struct tfs_bytes whole, fraction;
};

static struct tfs_bytes take_digits(struct tfs_bytes *s)
{
	struct tfs_bytes digits = {s->p, 0};

	while (digits.n < s->n && s->p[digits.n] >= '0' && s->p[digits.n] <= '9')
		digits.n++;
	*s = tfs_bytes_of(s->p + digits.n, s->n - digits.n);
	return digits;
}

static bool is_decimal(struct tfs_bytes s, struct decimal *out)
{
	*out = (struct decimal){0};
	if (s.n && (*s.p == '-' || *s.p == '+')) {
		out->negative = *s.p == '-';
		s = tfs_bytes_of(s.p + 1, s.n - 1);
	}
	out->whole = take_digits(&s);
	if (out->whole.n && s.n > 1 && *s.p == '.') {
		s = tfs_bytes_of(s.p + 1, s.n - 1);
		out->fraction = take_digits(&s);
	}
	if (!out->whole.n || s.n)
		return false;
	while (out->whole.n && *out->whole.p == '0')
		out->whole = tfs_bytes_of(out->whole.p + 1, out->whole.n - 1);
	while (out->fraction.n && out->fraction.p[out->fraction.n - 1] == '0')
		out->fraction.n--;
	if (!out->whole.n && !out->fraction.n)
		out->negative = false; /* -0 */
	return true;
}

static int decimal_cmp(const struct decimal *a, const struct decimal *b)
{
	int order;

	if (a->negative != b->negative)
		return a->negative ? -1 : 1;
	if (a->whole.n != b->whole.n)
		order = a->whole.n < b->whole.n ? -1 : 1;
	else if (!(order = bytes_cmp(a->whole, b->whole)))
		order = bytes_cmp(a->fraction, b->fraction);
	return a->negative ? -order : order;
}

static struct tfs_bytes without_newline(struct tfs_bytes s)
{
	return tfs_bytes_of(s.p, s.n - (s.n && s.p[s.n - 1] == '\n'));
}

bool where_term_holds(const struct where_term *t, struct tfs_bytes value)
{
	const struct tfs_bytes a = without_newline(value), b = without_newline(t->value);
	struct decimal x, y;
	int order;

	if (t->test == WHERE_HAS)
		return true;
	order = is_decimal(b, &y) && is_decimal(a, &x) ? decimal_cmp(&x, &y) : bytes_cmp(a, b);
	switch (t->test) {
	case WHERE_EQ:
		return order == 0;
	case WHERE_NE:
		return order != 0;
	case WHERE_LT:
		return order < 0;
	case WHERE_LE:
		return order <= 0;
	case WHERE_GT:
		return order > 0;
	case WHERE_GE:
		return order >= 0;
	case WHERE_HAS:
		break;
	}
	return true;
}

bool where_holds(const struct where *w, const bool *holds)
{
	bool stack[WHERE_TERMS_MOST + 1] = {false}; /* each term adds one */
	unsigned n = 0;

	for (unsigned i = 0; i < w->step_count; i++) {
		const unsigned step = w->steps[i];

		if (step < WHERE_TERMS_MOST) {
			stack[n++] = holds[step];
		} else if (step == STEP_NOT) {
			stack[n - 1] = !stack[n - 1];
		} else {
			n--;
			stack[n - 1] = step == STEP_AND ? stack[n - 1] && stack[n] : stack[n - 1] || stack[n];
		}
	}
	return stack[0];
}
