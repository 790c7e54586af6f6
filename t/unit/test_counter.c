/* SPDX-License-Identifier: Apache-2.0 */
/* The texts that set a counter or add to it, their beginnings, and all other texts. */
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

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(each_text_has_its_meaning)};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
