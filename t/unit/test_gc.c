/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Garbage-collection rules have a text form, hide versions, and state expiry and bounds;
 * rules are monotone.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "engine/cell/gc.h"
#include "t/lib/xorshift.h"

static long fail_at;
void *__real_calloc(size_t n, size_t m);
void *__wrap_calloc(size_t n, size_t m);
void *__wrap_calloc(size_t n, size_t m)
{
	return fail_at > 0 && --fail_at == 0 ? NULL : __real_calloc(n, m);
}

#define SECOND INT64_C(1000000)
#define DAY (86400 * SECOND)

static struct gc_rule *rule(const char *text)
{
	struct gc_rule *r = (struct gc_rule *)&fail_at;
	const char *why = NULL;
	int err = gc_parse(text, &r, &why);

	if (err)
		fail_msg("%s: %s", text, why);
	return r;
}

static void empty_texts_keep_everything(void **state)
{
	assert_null(rule(""));
	assert_null(rule(" \t\n"));
	assert_false(gc_hides(NULL, UINT64_MAX, INT64_MIN, INT64_MAX));
	assert_true(gc_expires(NULL, 5, 0) == INT64_MAX);
	assert_true(gc_max_versions(NULL) == UINT64_MAX);
	assert_int_equal(gc_max_age(NULL), 0);
	assert_false(gc_has_age(NULL));
	gc_free(NULL);
}

static void units(void **state)
{
	static const struct {
		const char *text;
		int64_t us;
	} t[] = {{"maxage=5us", 5}, {"maxage=5ms", 5000}, {"maxage=5s", 5 * SECOND}, {"maxage=5m", 300 * SECOND},
		{"maxage=5h", 5 * 3600 * SECOND}, {"maxage=5d", 5 * DAY}, {"maxage=5w", 35 * DAY}, {" maxage = 5us ", 5}};

	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct gc_rule *r = rule(t[i].text);

		assert_true(gc_max_age(r) == t[i].us);
		assert_true(gc_expires(r, 0, 100) == 100 + t[i].us);
		assert_false(gc_hides(r, 9, 100, 100 + t[i].us - 1));
		assert_true(gc_hides(r, 0, 100, 100 + t[i].us));
		assert_true(gc_expires(r, 0, INT64_MAX - 1) == INT64_MAX);
		assert_false(gc_hides(r, 0, INT64_MAX - 1, INT64_MAX));
		gc_free(r);
	}
}

static void what_each_rule_hides(void **state)
{
	/* index, age of the version in days: hidden? */
	static const struct {
		const char *text;
		uint64_t max_versions;
		int64_t max_age;
		bool has_age, hidden[3][3]; /* index 0, 2, 4; age 1, 5, 50 days */
	} t[] = {
		{"maxversions=3", 3, 0, false, {{0, 0, 0}, {0, 0, 0}, {1, 1, 1}}},
		{"maxage=7d", UINT64_MAX, 7 * DAY, true, {{0, 0, 1}, {0, 0, 1}, {0, 0, 1}}},
		{"maxversions=3 or maxage=7d", 3, 7 * DAY, true, {{0, 0, 1}, {0, 0, 1}, {1, 1, 1}}},
		{"maxversions=3 and maxage=7d", UINT64_MAX, 0, true, {{0, 0, 0}, {0, 0, 0}, {0, 0, 1}}},
		{"maxage=40d or maxversions=2 and maxage=3d", UINT64_MAX, 40 * DAY, true, {{0, 0, 1}, {0, 1, 1}, {0, 1, 1}}},
		{"(maxage=40d or maxversions=2) and maxage=3d", UINT64_MAX, 40 * DAY, true, {{0, 0, 1}, {0, 1, 1}, {0, 1, 1}}},
		{"maxversions=2 and maxversions=4", 4, 0, false, {{0, 0, 0}, {0, 0, 0}, {1, 1, 1}}},
		{"maxversions=2 or maxversions=4", 2, 0, false, {{0, 0, 0}, {1, 1, 1}, {1, 1, 1}}},
		{"maxage=2d and maxage=20d", UINT64_MAX, 20 * DAY, true, {{0, 0, 1}, {0, 0, 1}, {0, 0, 1}}},
		{"((maxversions=1))", 1, 0, false, {{0, 0, 0}, {1, 1, 1}, {1, 1, 1}}},
		{"maxversions=1 or(maxage=1us)", 1, 1, true, {{1, 1, 1}, {1, 1, 1}, {1, 1, 1}}},
	};
	static const int64_t ages[] = {1, 5, 50};
	int64_t now = 1000 * DAY;

	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct gc_rule *r = rule(t[i].text);

		assert_true(gc_max_versions(r) == t[i].max_versions);
		assert_true(gc_max_age(r) == t[i].max_age);
		assert_int_equal(gc_has_age(r), t[i].has_age);
		for (int v = 0; v < 3; v++) {
			for (int a = 0; a < 3; a++) {
				if (gc_hides(r, (uint64_t)v * 2, now - ages[a] * DAY, now) != t[i].hidden[v][a])
					fail_msg("%s: index %d, age %d days", t[i].text, v * 2, (int)ages[a]);
			}
		}
		gc_free(r);
	}
}

static uint64_t rng = 12345;

static uint32_t rnd(uint32_t n)
{
	return (uint32_t)((xorshift(&rng) >> 16) % n);
}

static void random_text(char *out, size_t n, int depth)
{
	char a[256], b[256];

	if (depth == 0 || rnd(3) == 0) {
		if (rnd(2))
			snprintf(out, n, "maxversions=%d", 1 + (int)rnd(5));
		else
			snprintf(out, n, "maxage=%dus", 1 + (int)rnd(20));
		return;
	}
	random_text(a, sizeof(a), depth - 1);
	random_text(b, sizeof(b), depth - 1);
	snprintf(out, n, rnd(2) ? "(%.100s) %s (%.100s)" : "%.100s %s %.100s", a, rnd(2) ? "or" : "and", b);
}

static void rules_are_monotone_and_bounds_hold(void **state)
{
	for (int round = 0; round < 3000; round++) {
		char text[512];
		struct gc_rule *r;
		int64_t now = 30;

		random_text(text, sizeof(text), 2);
		r = rule(text);
		for (uint64_t i = 0; i < 7; i++) {
			for (int64_t ts = 0; ts < 32; ts++) {
				bool h = gc_hides(r, i, ts, now);
				int64_t e = gc_expires(r, i, ts);

				assert_int_equal(h, e != INT64_MAX && e <= now);
				if (h) {
					assert_true(gc_hides(r, i + 1, ts, now));
					assert_true(gc_hides(r, i, ts - 1, now));
					assert_true(gc_hides(r, i, ts, now + 1));
				}
				if (i >= gc_max_versions(r))
					assert_true(h);
				if (gc_max_age(r) && ts + gc_max_age(r) <= now)
					assert_true(h);
				if (!gc_has_age(r))
					assert_true(e == INT64_MAX || e == INT64_MIN);
			}
		}
		gc_free(r);
	}
}

static void bad_texts_are_refused_with_a_reason(void **state)
{
	static const char *const bad[] = {
		"maxversions",
		"maxversions=",
		"maxversions=0",
		"maxversions=-1",
		"maxversions=3x",
		"maxversions=3d",
		"maxage=7",
		"maxage=7y",
		"maxage=7days",
		"maxage=0s",
		"maxage=d",
		"maxage=99999999999999w",
		"maxversions=99999999999999999999",
		"or",
		"maxversions=1 or",
		"and maxage=1s",
		"maxversions=1 maxage=1s",
		"(maxversions=1",
		"maxversions=1)",
		"()",
		"maxversions=1 xor maxage=1s",
		"maxversions=1 orr maxage=1s",
		"MAXVERSIONS=1",
		"minversions=1",
		"maxversions=1;",
		"maxversionsx=1",
		"maxversions=1 or (maxage=1s and)",
		"maxage=1 d",
	};
	char deep[200] = {0}, longer[4000] = {0};
	struct gc_rule *r = (struct gc_rule *)&fail_at;
	const char *why;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		why = NULL;
		if (gc_parse(bad[i], &r, &why) != -EINVAL || !why)
			fail_msg("accepted: %s", bad[i]);
		assert_int_equal(gc_parse(bad[i], &r, NULL), -EINVAL);
	}
	memset(deep, '(', 100);
	assert_int_equal(gc_parse(deep, &r, &why), -EINVAL);
	for (int i = 0; i < 100; i++)
		strcat(longer, i ? " or maxversions=7" : "maxversions=7");
	assert_int_equal(gc_parse(longer, &r, &why), -EINVAL);
	assert_ptr_equal(r, &fail_at);
}

static void out_of_memory(void **state)
{
	struct gc_rule *r = NULL;
	const char *why = NULL;
	int err;

	for (long n = 1;; n++) {
		fail_at = n;
		err = gc_parse("(maxversions=1 or maxage=2d) and maxversions=7", &r, &why);
		if (!err)
			break;
		assert_int_equal(err, -ENOMEM);
		assert_null(why);
		assert_null(r);
	}
	assert_int_equal(fail_at, 1);
	fail_at = 0;
	gc_free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(empty_texts_keep_everything),
		cmocka_unit_test(units),
		cmocka_unit_test(what_each_rule_hides),
		cmocka_unit_test(rules_are_monotone_and_bounds_hold),
		cmocka_unit_test(bad_texts_are_refused_with_a_reason),
		cmocka_unit_test(out_of_memory),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
