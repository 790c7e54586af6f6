/* SPDX-License-Identifier: Apache-2.0 */
/* Messages: levels, both bounds of the ring, no forged lines, quoting, many threads. */
#include "engine/base/msg.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

/* The whole ring as a string; free() it. */
static char *ring_text(void)
{
	struct buf b = {0};

	assert_int_equal(msg_ring(&b), 0);
	assert_int_equal(buf_u8(&b, 0), 0);
	return (char *)b.p;
}

static unsigned count(const char *text, const char *what)
{
	unsigned n = 0;

	for (const char *p = text; (p = strstr(p, what)); p++)
		n++;
	return n;
}

static void test_levels(void **state)
{
	enum msg_level l;
	char *s;

	msg_to_nowhere();
	msg_error("e %d", 1);
	msg_info("dropped");
	msg_set_level(MSG_DEBUG);
	msg_log(MSG_DEBUG, "shown");
	msg_set_level(MSG_ERROR);
	msg_warning("dropped");
	msg_set_level(MSG_NOTICE);
	s = ring_text();
	assert_int_equal(count(s, "\n"), 2);
	assert_non_null(strstr(s, "Z error: e 1\n"));
	assert_non_null(strstr(s, "Z debug: shown\n"));
	assert_true(strstr(s, "error:") < strstr(s, "debug:"));
	free(s);
	assert_true(msg_level_parse("warning", &l) && l == MSG_WARNING);
	assert_true(msg_level_parse("debug", &l) && l == MSG_DEBUG);
	assert_false(msg_level_parse("loud", &l));
	assert_false(msg_level_parse("", &l));
}

static void test_one_line_and_errno(void **state)
{
	char *s, *tail;

	errno = ENOSPC;
	msg_error("a\nerror: forged\r\x1b[0m %m");
	assert_int_equal(errno, ENOSPC);
	s = ring_text();
	tail = strstr(s, "a?error: forged??[0m No space left on device\n");
	assert_non_null(tail);
	free(s);
}

static void test_long_line_is_cut(void **state)
{
	char big[5000];
	char *s, *p;

	memset(big, 'L', sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
	msg_error("%s", big);
	s = ring_text();
	p = strchr(s, 'L');
	assert_non_null(p);
	assert_true(strspn(p, "L") > 1900 && strspn(p, "L") < 2048);
	assert_int_equal(p[strspn(p, "L")], '\n');
	free(s);
}

static void test_ring_is_bounded(void **state)
{
	char big[1500];
	char *s;

	for (int i = 0; i < 1500; i++)
		msg_error("small %d.", i);
	s = ring_text();
	assert_int_equal(count(s, "\n"), 1000);
	assert_null(strstr(s, "small 499."));
	assert_non_null(strstr(s, "small 500."));
	assert_non_null(strstr(s, "small 1499."));
	free(s);
	memset(big, 'b', sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
	for (int i = 0; i < 300; i++)
		msg_error("%s", big);
	s = ring_text();
	assert_true(strlen(s) <= 256 * 1024);
	assert_true(strlen(s) > 250 * 1024);
	free(s);
}

static void test_standard_error(void **state)
{
	int saved = dup(STDERR_FILENO), fds[2];
	char got[200];
	ssize_t n;
	pid_t pid;

	/* In a child, because the destination of messages cannot be set back. */
	assert_int_equal(pipe(fds), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		dup2(fds[1], STDERR_FILENO);
		execl("/proc/self/exe", "test_msg", "--say", (char *)NULL);
		_exit(1);
	}
	close(fds[1]);
	n = read(fds[0], got, sizeof(got) - 1);
	assert_true(n > 0);
	got[n] = '\0';
	assert_string_equal(got, "notice: said 7\n");
	close(fds[0]);
	close(saved);
}

static void *talker(void *arg)
{
	for (int i = 0; i < 500; i++) {
		struct buf b = {0};

		msg_error("thread %d line %d end", (int)(intptr_t)arg, i);
		if (i % 50 == 0 && msg_ring(&b) != 0)
			return NULL;
		buf_fini(&b);
	}
	return (void *)1;
}

static void test_threads(void **state)
{
	pthread_t t[4];
	char *s;

	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&t[i], NULL, talker, (void *)(intptr_t)i), 0);
	for (int i = 0; i < 4; i++) {
		void *good;

		pthread_join(t[i], &good);
		assert_non_null(good);
	}
	s = ring_text();
	assert_int_equal(count(s, "\n"), 1000);
	assert_int_equal(count(s, " end\n"), 1000);
	free(s);
}

static void test_quote(void **state)
{
	char small[16];

	assert_string_equal(Q(tfs_str("row")), "\"row\"");
	assert_string_equal(Q(tfs_bytes_of("a\0\"\\\xff\n", 6)), "\"a\\x00\\\"\\\\\\xff\\x0a\"");
	assert_string_equal(Q(tfs_bytes_of(NULL, 0)), "\"\"");
	assert_string_equal(msg_quote(small, sizeof(small), tfs_str("0123456789abcdef")), "\"0123456...\"");
	for (size_t n = 0; n <= sizeof(small); n++) {
		memset(small, 'X', sizeof(small));
		msg_quote(small, n, tfs_bytes_of("\xff\xff\xff\xff\xff", 5));
		for (size_t i = n; i < sizeof(small); i++)
			assert_int_equal(small[i], 'X');
		if (n)
			assert_true(strlen(small) < n);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_levels),
		cmocka_unit_test(test_one_line_and_errno),
		cmocka_unit_test(test_long_line_is_cut),
		cmocka_unit_test(test_ring_is_bounded),
		cmocka_unit_test(test_standard_error),
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_quote),
	};

	if (argc == 2 && strcmp(argv[1], "--say") == 0) {
		msg_info("not said");
		msg_notice("said %d", 7);
		return 0;
	}
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
