/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Locks exclude, conditions wake and time out, and debug builds abort on a wrong order
 * and print the names of the two ranks.
 */
#include "engine/base/mutex.h"
#include "engine/base/clock.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static struct mutex low, mid, high;

static int setup(void **state)
{
	mutex_init(&low, RANK_SERVER);
	mutex_init(&mid, RANK_TABLET);
	mutex_init(&high, RANK_FILE_POOL);
	return 0;
}

static int teardown(void **state)
{
	mutex_fini(&low);
	mutex_fini(&mid);
	mutex_fini(&high);
	return 0;
}

/* Runs fn in a child; returns its standard error, and whether it aborted. */
static bool aborts(void (*fn)(void), char *said, size_t said_bytes)
{
	size_t n = 0;
	int fds[2], status;
	ssize_t r;
	pid_t pid;

	assert_int_equal(pipe(fds), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct rlimit none = {0, 0};

		setrlimit(RLIMIT_CORE, &none);
		signal(SIGABRT, SIG_DFL);
		dup2(fds[1], STDERR_FILENO);
		close(fds[0]);
		close(fds[1]);
		fn();
		_exit(0);
	}
	close(fds[1]);
	while ((r = read(fds[0], said + n, said_bytes - 1 - n)) > 0)
		n += (size_t)r;
	said[n] = '\0';
	close(fds[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static void expect_abort(void (*fn)(void), const char *one, const char *other)
{
#ifdef TFS_DEBUG
	char said[1000];

	assert_true(aborts(fn, said, sizeof(said)));
	assert_non_null(strstr(said, one));
	assert_non_null(strstr(said, other));
#else
	/* Not skip(): cmocka writes "not ok ... # SKIP", which prove takes for a failure. */
	(void)aborts;
	print_message("# only debug builds look\n");
#endif
}

static void right_order(void)
{
	mutex_lock(&low);
	mutex_assert_held(&low);
	mutex_lock(&mid);
	mutex_lock(&high);
	mutex_unlock(&low); /* in any order */
	mutex_unlock(&high);
	mutex_unlock(&mid);
	mutex_assert_none_held();
	mutex_lock(&low);
	mutex_unlock(&low);
}

static void test_right_order(void **state)
{
	char said[1000];

	assert_false(aborts(right_order, said, sizeof(said)));
	assert_string_equal(said, "");
	right_order();
}

static void wrong_order(void)
{
	mutex_lock(&mid);
	mutex_lock(&low);
}

static void test_wrong_order(void **state)
{
	expect_abort(wrong_order, "SERVER", "TABLET");
}

static void below_what_was_unlocked_between(void)
{
	mutex_lock(&low);
	mutex_lock(&mid);
	mutex_lock(&high);
	mutex_unlock(&mid);
	mutex_lock(&mid);
}

static void test_order_after_unlock_in_between(void **state)
{
	expect_abort(below_what_was_unlocked_between, "TABLET", "FILE_POOL");
}

static void same_rank(void)
{
	struct mutex other;

	mutex_init(&other, RANK_TABLET);
	mutex_lock(&mid);
	mutex_lock(&other);
}

static void test_same_rank(void **state)
{
	expect_abort(same_rank, "lock of rank TABLET", "holding rank TABLET");
}

static void twice(void)
{
	mutex_lock(&mid);
	mutex_lock(&mid);
}

static void not_ours(void)
{
	mutex_unlock(&mid);
}

static void assert_not_held(void)
{
	mutex_lock(&low);
	mutex_assert_held(&mid);
}

static void assert_none(void)
{
	mutex_lock(&low);
	mutex_assert_none_held();
}

static void test_other_mistakes(void **state)
{
	expect_abort(twice, "again", "TABLET");
	expect_abort(not_ours, "unlock", "NONE");
	expect_abort(assert_not_held, "not held", "SERVER");
	expect_abort(assert_none, "NONE", "SERVER");
}

static struct cond cond;
static int turns;

static void *other_side(void *arg)
{
	mutex_lock(&mid);
	while (turns < 1000) {
		if (turns % 2 == 0)
			cond_wait(&cond, &mid);
		else {
			turns++;
			cond_signal(&cond);
		}
	}
	mutex_unlock(&mid);
	mutex_assert_none_held();
	return arg;
}

static void test_cond(void **state)
{
	pthread_t t;

	cond_init(&cond);
	assert_int_equal(pthread_create(&t, NULL, other_side, NULL), 0);
	mutex_lock(&low); /* locked throughout: a wait unlocks its own mutex only */
	mutex_lock(&mid);
	while (turns < 1000) {
		if (turns % 2 == 0) {
			turns++;
			cond_broadcast(&cond);
		} else {
			cond_wait(&cond, &mid);
		}
	}
	cond_broadcast(&cond);
	mutex_assert_held(&mid);
	mutex_unlock(&mid);
	mutex_assert_held(&low);
	mutex_unlock(&low);
	pthread_join(t, NULL);
	mutex_assert_none_held();
	cond_fini(&cond);
}

static void wait_under_higher(void)
{
	struct cond c;

	cond_init(&c);
	mutex_lock(&mid);
	mutex_lock(&high);
	cond_wait_us(&c, &mid, 1);
}

static void test_wait_obeys_order(void **state)
{
	expect_abort(wait_under_higher, "TABLET", "FILE_POOL");
}

static void test_timeout(void **state)
{
	struct cond c;
	uint64_t t;

	cond_init(&c);
	mutex_lock(&mid);
	t = monotonic_us();
	while (cond_wait_us(&c, &mid, 20000)) {
		/* a spurious wake */
	}
	assert_true(monotonic_us() - t >= 20000);
	assert_false(cond_wait_us(&c, &mid, 0));
	mutex_assert_held(&mid);
	mutex_unlock(&mid);
	cond_fini(&c);
}

/* Two threads set each other's events in turn; a number set before the wait is not missed. */
static struct event there[2000], back[2000];

static void *answers(void *arg)
{
	for (unsigned i = 0; i < sizeof(there) / sizeof(*there); i++) {
		if (event_wait_us(&there[i], 0, UINT64_MAX) != i + 1)
			return NULL;
		event_set(&back[i], 2);
		event_wake(&back[i]);
	}
	return arg;
}

static void test_event(void **state)
{
	struct event b = {0};
	uint64_t from = monotonic_us();
	pthread_t t;
	void *ok;

	assert_int_equal(event_wait_us(&b, 0, 2000), 0);
	assert_true(monotonic_us() - from >= 2000);
	event_wake(&b);
	assert_int_equal(event_wait_us(&b, 0, 0), 0);
	event_set(&b, 1);
	assert_int_equal(event_wait_us(&b, 0, UINT64_MAX), 1);
	assert_int_equal(pthread_create(&t, NULL, answers, &b), 0);
	for (unsigned i = 0; i < sizeof(there) / sizeof(*there); i++) {
		event_set(&there[i], i + 1);
		event_wake(&there[i]);
		assert_int_equal(event_wait_us(&back[i], 0, UINT64_MAX), 2);
	}
	assert_int_equal(pthread_join(t, &ok), 0);
	assert_ptr_equal(ok, &b);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(test_event),
		T(test_right_order),
		T(test_wrong_order),
		T(test_order_after_unlock_in_between),
		T(test_same_rank),
		T(test_other_mistakes),
		T(test_cond),
		T(test_wait_obeys_order),
		T(test_timeout),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
