/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Garbage-collection rules: a small expression tree.
 *
 * A rule evaluates to one number, the time from which it hides a version:
 * timestamp + age for maxage, "always" or "never" for maxversions.  `or` is
 * the smaller of two such times, `and` the greater.  Hiding and expiry are
 * computed by the same function, so they cannot disagree.
 *
 * Texts come from users (.families/F/gc, .schema), so depth and number of
 * terms are bounded.
 */
#include "engine/cell/gc.h"

#include "engine/base/units.h"

#include <errno.h>
#include <stdlib.h>

enum { MAX_TERMS = 64, MAX_DEPTH = 32 };

#define ALWAYS INT64_MIN
#define NEVER INT64_MAX

enum gc_kind { GC_VERSIONS, GC_AGE, GC_OR, GC_AND };
struct gc_rule {
	enum gc_kind kind;
	uint64_t versions;
	int64_t age;
	struct gc_rule *a, *b;
};

void gc_free(struct gc_rule *r)
{
	if (!r)
		return;
	gc_free(r->a);
	gc_free(r->b);
	free(r);
}

int64_t gc_expires(const struct gc_rule *r, uint64_t index, int64_t ts)
{
	int64_t t, a, b;

	if (!r)
		return NEVER;
	switch (r->kind) {
	case GC_VERSIONS:
		return index >= r->versions ? ALWAYS : NEVER;
	case GC_AGE:
		return __builtin_add_overflow(ts, r->age, &t) ? NEVER : t;
	case GC_OR:
	case GC_AND:
		break;
	}
	a = gc_expires(r->a, index, ts);
	b = gc_expires(r->b, index, ts);
	return (r->kind == GC_OR) == (a < b) ? a : b;
}

bool gc_hides(const struct gc_rule *r, uint64_t index, int64_t ts, int64_t now)
{
	int64_t t = gc_expires(r, index, ts);

	return t != NEVER && t <= now;
}

uint64_t gc_max_versions(const struct gc_rule *r)
{
	uint64_t a, b;

	if (!r || r->kind == GC_AGE)
		return UINT64_MAX;
	if (r->kind == GC_VERSIONS)
		return r->versions;
	a = gc_max_versions(r->a);
	b = gc_max_versions(r->b);
	return (r->kind == GC_OR) == (a < b) ? a : b;
}

int64_t gc_max_age(const struct gc_rule *r)
{
	int64_t a, b;

	if (!r || r->kind == GC_VERSIONS)
		return 0;
	if (r->kind == GC_AGE)
		return r->age;
	a = gc_max_age(r->a);
	b = gc_max_age(r->b);
	if (a == 0 || b == 0)
		return r->kind == GC_OR ? a + b : 0;
	return (r->kind == GC_OR) == (a < b) ? a : b;
}

bool gc_has_versions(const struct gc_rule *r)
{
	return r && r->kind != GC_AGE && (r->kind == GC_VERSIONS || gc_has_versions(r->a) || gc_has_versions(r->b));
}

bool gc_has_age(const struct gc_rule *r)
{
	return r && (r->kind == GC_AGE || gc_has_age(r->a) || gc_has_age(r->b));
}

/* ---- the text form ---- */
struct parser {
	const char *p, *why;
	int terms, depth;
};

static void skip_blanks(struct parser *ps)
{
	while (*ps->p == ' ' || *ps->p == '\t' || *ps->p == '\n' || *ps->p == '\r')
		ps->p++;
}

static bool word_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static bool take_word(struct parser *ps, const char *word)
{
	size_t n = strlen(word);

	skip_blanks(ps);
	if (strncmp(ps->p, word, n) != 0 || word_char(ps->p[n]))
		return false;
	ps->p += n;
	return true;
}

static bool take_char(struct parser *ps, char c)
{
	skip_blanks(ps);
	if (*ps->p != c)
		return false;
	ps->p++;
	return true;
}

static int rule_refuse(struct parser *ps, const char *why)
{
	ps->why = why;
	return -EINVAL;
}

static int take_number(struct parser *ps, int64_t *v)
{
	uint64_t n;

	skip_blanks(ps);
	if (*ps->p < '0' || *ps->p > '9')
		return rule_refuse(ps, "a number is missing");
	if (!units_number(&ps->p, &n) || n > INT64_MAX)
		return rule_refuse(ps, "a number is too large");
	*v = (int64_t)n;
	return 0;
}

static int take_unit(struct parser *ps, int64_t *us)
{
	*us = (int64_t)units_duration_unit(&ps->p);
	return *us && !word_char(*ps->p) ? 0 : rule_refuse(ps, "an age needs a unit: us ms s m h d w");
}

static int node_new(enum gc_kind kind, struct gc_rule *a, struct gc_rule *b, struct gc_rule **out)
{
	struct gc_rule *r = calloc(1, sizeof(*r));

	if (!r)
		return -ENOMEM;
	r->kind = kind;
	r->a = a;
	r->b = b;
	*out = r;
	return 0;
}

static int parse_any(struct parser *ps, struct gc_rule **out);

static int parse_limit(struct parser *ps, struct gc_rule **out)
{
	struct gc_rule *r;
	bool age;
	int64_t n, us = 1;
	int err;

	if (take_word(ps, "maxversions"))
		age = false;
	else if (take_word(ps, "maxage"))
		age = true;
	else
		return rule_refuse(ps, "expected maxversions=N, maxage=AGE or (");
	if (!take_char(ps, '='))
		return rule_refuse(ps, "= is missing");
	err = take_number(ps, &n);
	if (!err && age)
		err = take_unit(ps, &us);
	if (err)
		return err;
	if (n == 0)
		return rule_refuse(ps, "a limit must be at least 1");
	if (word_char(*ps->p))
		return rule_refuse(ps, "a number is followed by letters");
	if (__builtin_mul_overflow(n, us, &n))
		return rule_refuse(ps, "a number is too large");
	if (++ps->terms > MAX_TERMS)
		return rule_refuse(ps, "too many terms");
	err = node_new(age ? GC_AGE : GC_VERSIONS, NULL, NULL, &r);
	if (err)
		return err;
	if (age)
		r->age = n;
	else
		r->versions = (uint64_t)n;
	*out = r;
	return 0;
}

static int parse_factor(struct parser *ps, struct gc_rule **out)
{
	struct gc_rule *r = NULL;
	int err;

	if (!take_char(ps, '('))
		return parse_limit(ps, out);
	if (++ps->depth > MAX_DEPTH)
		return rule_refuse(ps, "too many parentheses");
	err = parse_any(ps, &r);
	ps->depth--;
	if (err)
		return err;
	if (!take_char(ps, ')')) {
		gc_free(r);
		return rule_refuse(ps, ") is missing");
	}
	*out = r;
	return 0;
}

/* One or more operands joined by word. */
static int parse_joined(struct parser *ps, const char *word, enum gc_kind kind, int (*operand)(struct parser *, struct gc_rule **),
	struct gc_rule **out)
{
	struct gc_rule *left = NULL, *right, *both;
	int err = operand(ps, &left);

	while (!err && take_word(ps, word)) {
		right = NULL;
		err = operand(ps, &right);
		if (!err)
			err = node_new(kind, left, right, &both);
		if (err)
			gc_free(right);
		else
			left = both;
	}
	if (err) {
		gc_free(left);
		return err;
	}
	*out = left;
	return 0;
}

static int parse_all(struct parser *ps, struct gc_rule **out)
{
	return parse_joined(ps, "and", GC_AND, parse_factor, out);
}

static int parse_any(struct parser *ps, struct gc_rule **out)
{
	return parse_joined(ps, "or", GC_OR, parse_all, out);
}

int gc_parse(const char *text, struct gc_rule **out, const char **why)
{
	struct parser ps = {.p = text};
	struct gc_rule *r = NULL;
	int err;

	skip_blanks(&ps);
	if (*ps.p == '\0') {
		*out = NULL;
		return 0;
	}
	err = parse_any(&ps, &r);
	if (!err) {
		skip_blanks(&ps);
		if (*ps.p != '\0') {
			gc_free(r);
			err = rule_refuse(&ps, "expected `or`, `and` or the end");
		}
	}
	if (err) {
		if (why && err == -EINVAL)
			*why = ps.why;
		return err;
	}
	*out = r;
	return 0;
}
