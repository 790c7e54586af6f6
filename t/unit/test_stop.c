/* SPDX-License-Identifier: Apache-2.0 */
/* One request has one timeout, which all of its waits share (engine/base/stop.h). */
#include "engine/base/clock.h"
#include "engine/base/outcome.h"
#include "engine/base/stop.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define LIMIT 400000000u /* a test never waits so long */
#define TRY STOP_TRY_US(LIMIT)
#define LONG (UINT64_C(1) << 50)

static bool is_about(uint64_t us, uint64_t want)
{
	return us <= want && us + LIMIT / 4 > want;
}

static void without_a_limit_nothing_is_cut(void **state)
{
	stop_wait_begin(monotonic_us() - LIMIT, 0);
	assert_true(stop_wait_left(LONG) == LONG);
	stop_wait_ended(-UNREACHABLE);
	assert_true(stop_wait_left(LONG) == LONG);
}

static void waits_share_the_limit(void **state)
{
	const uint64_t now = monotonic_us();

	stop_wait_begin(now, LIMIT);
	assert_true(is_about(stop_wait_left(LONG), LIMIT));
	assert_true(stop_wait_left(7) == 7);
	stop_wait_begin(now - LIMIT / 2, LIMIT);
	assert_true(is_about(stop_wait_left(LONG), LIMIT / 2));
	/* Too late: one try, until it has failed. */
	stop_wait_begin(now - LIMIT - 1, LIMIT);
	assert_true(stop_wait_left(LONG) == TRY);
	stop_wait_ended(-ANSWER_LOST);
	assert_true(stop_wait_left(LONG) == 0);
	assert_true(stop_wait_in_vain() == LIMIT);
	stop_wait_begin(now, LIMIT);
	stop_wait_repeats();
	assert_true(stop_wait_left(LONG) == TRY);
	assert_true(stop_wait_in_vain() == 0);
}

static void an_answer_begins_it_again(void **state)
{
	stop_wait_begin(monotonic_us() - LIMIT - 1, LIMIT);
	stop_wait_ended(-UNREACHABLE);
	assert_true(stop_wait_left(LONG) == 0);
	stop_wait_ended(-ENOENT);
	assert_true(stop_wait_in_vain() == 0);
	assert_true(is_about(stop_wait_left(LONG), LIMIT));
}

static void *other_thread(void *arg)
{
	assert_true(stop_wait_left(LONG) == LONG);
	stop_wait_begin(monotonic_us(), LIMIT);
	stop_wait_ended(0);
	return NULL;
}

/* A thread that has waited for another one in this process is not late, but a server that is silent for it stays so. */
static void an_answer_to_another_thread_counts_before_the_first_wait(void **state)
{
	const uint64_t now = monotonic_us();
	pthread_t thread;

	stop_wait_begin(now - LIMIT, LIMIT);
	assert_int_equal(pthread_create(&thread, NULL, other_thread, NULL), 0);
	pthread_join(thread, NULL);
	assert_true(is_about(stop_wait_left(LONG), LIMIT));
	stop_wait_begin(now - LIMIT, LIMIT);
	stop_wait_ended(-ETIMEDOUT);
	assert_true(stop_wait_left(LONG) == 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_a_limit_nothing_is_cut),
		cmocka_unit_test(waits_share_the_limit),
		cmocka_unit_test(an_answer_begins_it_again),
		cmocka_unit_test(an_answer_to_another_thread_counts_before_the_first_wait),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
