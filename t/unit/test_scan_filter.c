/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Filters of scans: a pattern matches whole byte strings, no pattern takes
 * unbounded time, and a bad one is refused.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "engine/base/clock.h"
#include "engine/base/msg.h"
#include "engine/cell/scan_filter.h"

/* Matches a row key: 1, 0 or -errno. */
static int row_matches(const char *pattern, struct tfs_bytes row)
{
	struct scan_spec spec = {.pub.row_regex = tfs_str(pattern)};
	struct scan_filter *f;
	int n = scan_filter_new(&spec, &f);

	if (n)
		return n;
	n = scan_filter_row(f, row);
	assert_int_equal(scan_filter_qualifier(f, tfs_str("not filtered")), 1);
	assert_int_equal(scan_filter_value(f, tfs_str("not filtered")), 1);
	assert_false(scan_filter_needs_value(f, 12));
	scan_filter_free(f);
	return n;
}

static void a_pattern_matches_the_whole_key(void **state)
{
	static const struct {
		const char *pattern, *row;
		size_t n;
		int matches;
	} cases[] = {
		{"com\\..*", "com.cnn.www", 11, 1},
		{"cnn", "com.cnn.www", 11, 0},
		{"com", "com.cnn.www", 11, 0},
		{"a|ab", "ab", 2, 1},
		{"", "", 0, 1},
		{"", "a", 1, 0},
		{".", "\n", 1, 1},
		{"a.*", "a\n\xff\x00z", 5, 1},
		{"a\\x00b", "a\0b", 3, 1},
		{"\xc3.", "\xc3\xa4", 2, 1}, /* bytes, not characters */
		{"a", "a\n", 2, 0},
		{"^a$", "a", 1, 1},
		{"(.)b\\1", "aba", 3, 1},
		{"(.)b\\1", "abc", 3, 0},
		{"a(?C1)b", "ab", 2, 1},
		{"\\(*A", "((A", 3, 1},
		{"(*atomic:a+)b", "aab", 3, 1},
		{"(a|ab)(c|bcd)?", "abcd", 4, 1},
		{"a\\Kb", "ab", 2, 1},
		{"(?m)a$.b", "a\nb", 3, 1},
		{"(?m)a$", "a\nb", 3, 0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		if (row_matches(cases[i].pattern, tfs_bytes_of(cases[i].row, cases[i].n)) != cases[i].matches)
			fail_msg("case %zu: %s", i, cases[i].pattern);
}

static void bad_patterns_are_refused(void **state)
{
	static const char *const bad[] = {"(", "a{2", "[z-a]", "(a)\\2", "(*UTF)a", "(*UCP)a", "\\", "a(*ACCEPT)b", "(*COMMIT)a|a",
		"a(*SKIP)", "(*:m)a", "(*LIMIT_MATCH=9999999)a", "(*LIMIT_HEAP=1)a", "(*NO_JIT)a", "(*CRLF)a", "\\\\(*ACCEPT)",
		"\\c\\(*ACCEPT)", "\\Q\\\\E(*ACCEPT)", "(?#\\)(*ACCEPT)", "[a\\](*ACCEPT)]", "(?x) # \\\n(*ACCEPT)",
		"((((a{1000}){1000}){1000}){1000})"};
	char *longest = malloc(20000);

	assert_int_equal(row_matches("a{2", tfs_str("a{2")), 1); /* PCRE2 takes an open brace for itself */
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		if (i != 1 && row_matches(bad[i], tfs_str("a")) != -EINVAL)
			fail_msg("%s is not refused", bad[i]);
	memset(longest, 'a', 19999);
	longest[19999] = 0;
	assert_int_equal(row_matches(longest, tfs_str("a")), -EINVAL);
	free(longest);
}

/* Each of these would backtrack for centuries.  Their last byte is a class: for a single one PCRE2 searches first. */
static void no_pattern_takes_unbounded_time(void **state)
{
	static const char *const patterns[] = {
		"(a+)+[bc]", "(a|aa)+[bc]", "(.*)*[xy]", "(?:a?){40}a{40}[bc]", "(?:(?R)|a)+[bc]", "((a*)*)*[bc]"};
	const size_t longer_n = 16 * 1024 * 1024;
	char text[64 * 1024], *longer;
	const uint64_t begun = worked_us();

	memset(text, 'a', sizeof(text));
	for (size_t i = 0; i < sizeof(patterns) / sizeof(*patterns); i++) {
		int n = row_matches(patterns[i], tfs_bytes_of(text, sizeof(text)));

		if (n != 0 && n != -ETIME)
			fail_msg("%s: %d", patterns[i], n);
		n = row_matches(patterns[i], tfs_bytes_of(text, 60));
		if (n != 0 && n != -ETIME)
			fail_msg("%s: %d", patterns[i], n);
	}
	assert_int_equal(row_matches("(?:a|aa)+[bc]", tfs_bytes_of(text, 60)), -ETIME);
	/* Each of the steps of these reads the text to its end. */
	assert_non_null(longer = malloc(longer_n));
	memset(longer, 'a', longer_n);
	assert_int_equal(row_matches("[^b]*[^c]*[^d]*b", tfs_bytes_of(longer, longer_n)), -ETIME);
	assert_int_equal(row_matches("(.*)\\1[bc]", tfs_bytes_of(longer, longer_n)), -ETIME);
	memcpy(longer + longer_n / 2, "needle", 6);
	assert_int_equal(row_matches(".*needle.*", tfs_bytes_of(longer, longer_n)), 1);
	assert_int_equal(row_matches(".*needless.*", tfs_bytes_of(longer, longer_n)), 0);
	free(longer);
	assert_in_range(worked_us() - begun, 0, 60 * UINT64_C(1000000));
}

static void a_value_is_compared_with_all_its_bytes(void **state)
{
	struct scan_spec spec = {.pub.value_is = tfs_bytes_of("a\0b", 3)};
	struct scan_filter *f;

	assert_int_equal(scan_filter_new(&spec, &f), 0);
	assert_true(scan_filter_excludes_size(f, 4));
	assert_false(scan_filter_needs_value(f, 4));
	assert_true(scan_filter_needs_value(f, 3));
	assert_int_equal(scan_filter_value(f, tfs_bytes_of("a\0b", 3)), 1);
	assert_int_equal(scan_filter_value(f, tfs_bytes_of("a\0c", 3)), 0);
	scan_filter_free(f);
	spec = (struct scan_spec){.pub.value_is = tfs_bytes_of("", 0)};
	assert_int_equal(scan_filter_new(&spec, &f), 0);
	assert_int_equal(scan_filter_value(f, tfs_bytes_of("", 0)), 1);
	scan_filter_free(f);
	spec = (struct scan_spec){0};
	assert_int_equal(scan_filter_new(&spec, &f), 0);
	assert_null(f);
	assert_int_equal(scan_filter_value(f, tfs_bytes_of("", 0)), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_pattern_matches_the_whole_key),
		cmocka_unit_test(bad_patterns_are_refused),
		cmocka_unit_test(no_pattern_takes_unbounded_time),
		cmocka_unit_test(a_value_is_compared_with_all_its_bytes),
	};

	msg_set_level(MSG_ERROR);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
