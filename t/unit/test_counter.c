/* SPDX-License-Identifier: Apache-2.0 */
/* The texts that set a counter or add to it, their beginnings, and all other texts; the files that counters have. */
#include "engine/base/counter.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void each_text_has_its_meaning(void **state)
{
	static const struct {
		const char *text;
		int result;
		bool sets;
		int64_t value;
	} cases[] = {
		{"5", 0, true, 5},
		{" -5 \n", 0, true, -5},
		{"-9223372036854775808\n", 0, true, INT64_MIN},
		{"+=5\n", 0, false, 5},
		{"-=5", 0, false, -5},
		{"+=-5\n", 0, false, -5},
		{"+=1\n-=3\n+=1", 0, false, -1},
		{"+=1\n\n+=1\n", 0, false, 2},
		{"7\n+=1\n", 0, true, 8},
		{"\n", 1, false, 0},
		{"-", 1, false, 0},
		{"+", 1, false, 0},
		{"+=", 1, false, 0},
		{"-=-", 1, false, 0},
		{"+=1\n-", 1, false, 0},
		{"+5", -EINVAL, false, 0},
		{"+=\n", -EINVAL, false, 0},
		{"-\n+=1\n", -EINVAL, false, 0},
		{"+=1\n5\n", -EINVAL, false, 0},
		{"+=1 2\n", -EINVAL, false, 0},
		{"5\n6\n", -EINVAL, false, 0},
		{"9223372036854775808", -EINVAL, false, 0},
		{"+=9223372036854775808", -EINVAL, false, 0},
		{"-=-9223372036854775808\n", -EOVERFLOW, false, 0},
		{"+=9223372036854775807\n+=1\n", -EOVERFLOW, false, 0},
		{"x", -EINVAL, false, 0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct counter_change change = {0};
		int r = counter_change_parse(tfs_str(cases[i].text), &change);

		if (r != cases[i].result || change.sets != cases[i].sets || change.value != cases[i].value)
			fail_msg("\"%s\": %d, %d, %lld", cases[i].text, r, change.sets, (long long)change.value);
	}
}

static void each_number_has_a_file(void **state)
{
	static const int64_t numbers[] = {0, -1, 14, INT64_MAX, INT64_MIN};
	static const char *const values[][2] = {{"14\n", "14"}, {"twelve\n", "twelve"}, {"twelve", "twelve"}, {"\n", "\n"},
		{"", ""}, {"\n\n", "\n"}, {"12345678901234567890\n", "12345678901234567890"},
		{"123456789012345678901\n", "123456789012345678901\n"}};
	char text[COUNTER_TEXT_MAX];
	int64_t again;

	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
		const size_t n = counter_text(numbers[i], text);

		assert_int_equal(n, strlen(text));
		assert_int_equal(counter_file_size(n), n + 1);
		assert_int_equal(counter_parse(tfs_bytes_of(text, n), &again), 0);
		assert_int_equal(again, numbers[i]);
	}
	for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++)
		assert_true(bytes_eq(counter_file_value(tfs_str(values[i][0])), tfs_str(values[i][1])));
	assert_int_equal(counter_file_size(0), 0);
	assert_int_equal(counter_file_size(21), 21);
	assert_int_equal(counter_file_size(UINT64_MAX), UINT64_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(each_text_has_its_meaning), cmocka_unit_test(each_number_has_a_file)};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
