/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Garbage-collection rules:
 *
 *	rule    = clause { "or" clause }        "and" binds tighter
 *	clause  = item { "and" item }
 *	item    = "maxversions" "=" N | "maxage" "=" DURATION | "(" rule ")"
 *
 * A rule says what to drop.  "or" drops a version if any part does, "and" if all parts
 * do.
 * One function answers every question: from when on is a version hidden,
 * given its rank among the column's versions?  maxversions hides ranks from N on always,
 * and lower ranks never.  maxage hides from ts + age on (at that very microsecond it is
 * hidden).  "or" is the earlier, "and" the later of its sides.  The answer never rises
 * from a version to the next older one, so what is hidden of a column is always a tail of
 * it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "t/model/model_types.h"

enum gc_kind { GC_VERSIONS, GC_AGE, GC_OR, GC_AND };
struct mdl_gc {
	enum gc_kind kind;
	int64_t number; /* versions, or microseconds */
	struct mdl_gc *left, *right;
};

#define GC_TEXT_MAX 1024
#define GC_DEPTH_MAX 32

struct parser {
	const char *p;
	unsigned depth;
	const char *reason;
};

static int parse_rule(struct parser *ps, struct mdl_gc **out);

void mdl_gc_free(struct mdl_gc *g)
{
	if (!g)
		return;
	mdl_gc_free(g->left);
	mdl_gc_free(g->right);
	free(g);
}

static struct mdl_gc *node(enum gc_kind kind, int64_t number, struct mdl_gc *left, struct mdl_gc *right)
{
	struct mdl_gc *g = malloc(sizeof(*g));

	if (g)
		*g = (struct mdl_gc){kind, number, left, right};
	return g;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}
static bool is_word(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

static void skip(struct parser *ps)
{
	while (is_blank(*ps->p))
		ps->p++;
}

static size_t word(const char *p)
{
	size_t n = 0;

	while (is_word(p[n]))
		n++;
	return n;
}

static bool take_word(struct parser *ps, const char *w)
{
	skip(ps);
	size_t n = word(ps->p);
	if (n != strlen(w) || memcmp(ps->p, w, n) != 0)
		return false;
	ps->p += n;
	return true;
}

static bool number(const char *s, size_t n, int64_t *out)
{
	int64_t v = 0;

	if (n == 0)
		return false;
	for (size_t i = 0; i < n; i++) {
		if (s[i] < '0' || s[i] > '9')
			return false;
		if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, s[i] - '0', &v))
			return false;
	}
	*out = v;
	return true;
}

bool mdl_duration(const char *s, size_t n, int64_t *us)
{
	static const struct {
		const char *name;
		int64_t us;
	} unit[] = {{"us", 1}, {"ms", 1000}, {"s", 1000000}, {"m", 60000000LL}, {"h", 3600000000LL}, {"d", 86400000000LL},
		{"w", 604800000000LL}};
	size_t digits = 0;
	int64_t v;

	while (digits < n && s[digits] >= '0' && s[digits] <= '9')
		digits++;
	for (size_t i = 0; i < sizeof(unit) / sizeof(unit[0]); i++) {
		if (strlen(unit[i].name) != n - digits || memcmp(unit[i].name, s + digits, n - digits) != 0)
			continue;
		if (!number(s, digits, &v) || v == 0 || __builtin_mul_overflow(v, unit[i].us, &v))
			return false;
		*us = v;
		return true;
	}
	return false;
}

bool mdl_size(const char *s, uint64_t *bytes)
{
	static const char units[] = "KMGT";
	size_t n = strlen(s);
	int64_t v;
	unsigned shift = 0;

	if (n > 0 && strchr(units, s[n - 1])) {
		shift = 10 * (unsigned)(strchr(units, s[n - 1]) - units + 1);
		n--;
	}
	if (!number(s, n, &v) || v > (INT64_MAX >> shift))
		return false;
	*bytes = (uint64_t)v << shift;
	return true;
}

static int parse_item(struct parser *ps, struct mdl_gc **out)
{
	skip(ps);
	if (*ps->p == '(') {
		if (++ps->depth > GC_DEPTH_MAX) {
			ps->reason = "too many parentheses";
			return -EINVAL;
		}
		ps->p++;
		int r = parse_rule(ps, out);
		if (r < 0)
			return r;
		skip(ps);
		if (*ps->p != ')') {
			mdl_gc_free(*out);
			*out = NULL;
			ps->reason = "\")\" is missing";
			return -EINVAL;
		}
		ps->p++;
		ps->depth--;
		return 0;
	}
	bool versions = take_word(ps, "maxversions");
	if (!versions && !take_word(ps, "maxage")) {
		ps->reason = "maxversions=N, maxage=DURATION or \"(\" expected";
		return -EINVAL;
	}
	skip(ps);
	if (*ps->p != '=') {
		ps->reason = "\"=\" is missing";
		return -EINVAL;
	}
	ps->p++;
	skip(ps);
	size_t n = word(ps->p);
	int64_t v;
	if (versions && (!number(ps->p, n, &v) || v == 0)) {
		ps->reason = "maxversions needs a number of at least 1";
		return -EINVAL;
	}
	if (!versions && !mdl_duration(ps->p, n, &v)) {
		ps->reason = "maxage needs a duration, such as 30s, 10m, 12h, 7d or 4w";
		return -EINVAL;
	}
	ps->p += n;
	*out = node(versions ? GC_VERSIONS : GC_AGE, v, NULL, NULL);
	return *out ? 0 : -ENOMEM;
}

/* kind GC_AND: items; GC_OR: clauses of items. */
static int parse_chain(struct parser *ps, enum gc_kind kind, struct mdl_gc **out)
{
	struct mdl_gc *left = NULL, *right = NULL;
	int r = kind == GC_OR ? parse_chain(ps, GC_AND, &left) : parse_item(ps, &left);

	while (r == 0 && take_word(ps, kind == GC_OR ? "or" : "and")) {
		right = NULL;
		r = kind == GC_OR ? parse_chain(ps, GC_AND, &right) : parse_item(ps, &right);
		if (r < 0)
			break;
		struct mdl_gc *both = node(kind, 0, left, right);
		if (!both) {
			mdl_gc_free(right);
			r = -ENOMEM;
			break;
		}
		left = both;
	}
	if (r < 0)
		mdl_gc_free(left);
	else
		*out = left;
	return r;
}

static int parse_rule(struct parser *ps, struct mdl_gc **out)
{
	return parse_chain(ps, GC_OR, out);
}

int mdl_gc_parse(const char *text, struct mdl_gc **out, const char **reason)
{
	struct parser ps = {text, 0, NULL};
	struct mdl_gc *g = NULL;

	if (strlen(text) > GC_TEXT_MAX) {
		*reason = "rule too long";
		return -EINVAL;
	}
	skip(&ps);
	if (*ps.p == '\0') {
		*out = NULL;
		return 0;
	}
	int r = parse_rule(&ps, &g);
	skip(&ps);
	if (r == 0 && *ps.p != '\0') {
		mdl_gc_free(g);
		ps.reason = "\"and\", \"or\" or the end expected";
		r = -EINVAL;
	}
	if (r < 0)
		*reason = ps.reason ? ps.reason : "out of memory";
	else
		*out = g;
	return r;
}

int64_t mdl_gc_expiry(const struct mdl_gc *g, size_t rank, int64_t ts)
{
	if (!g)
		return INT64_MAX;
	if (g->kind == GC_VERSIONS)
		return rank < (uint64_t)g->number ? INT64_MAX : INT64_MIN;
	if (g->kind == GC_AGE) {
		int64_t at;
		return __builtin_add_overflow(ts, g->number, &at) ? INT64_MAX : at;
	}
	int64_t l = mdl_gc_expiry(g->left, rank, ts), r = mdl_gc_expiry(g->right, rank, ts);
	if (g->kind == GC_OR)
		return l < r ? l : r;
	return l > r ? l : r;
}

static int64_t age(const struct mdl_gc *g)
{
	if (!g || g->kind == GC_VERSIONS)
		return INT64_MAX;
	if (g->kind == GC_AGE)
		return g->number;
	int64_t l = age(g->left), r = age(g->right);
	if (g->kind == GC_OR)
		return l < r ? l : r;
	return l > r ? l : r;
}

int64_t mdl_gc_max_age(const struct mdl_gc *g)
{
	int64_t a = age(g);

	return a == INT64_MAX ? 0 : a;
}
