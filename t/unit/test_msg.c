/* SPDX-License-Identifier: Apache-2.0 */
/* Messages: levels, both bounds of the ring, no forged lines, quoting, many threads, repeats. */
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

/* What a child with this argument writes to standard error.  free() it.  A child, because the destination of messages cannot be set back. */
static char *said(const char *how)
{
	char *text = NULL;
	size_t bytes = 0;
	int fds[2], c;
	FILE *from, *to = open_memstream(&text, &bytes);
	pid_t pid;

	assert_non_null(to);
	assert_int_equal(pipe(fds), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		dup2(fds[1], STDERR_FILENO);
		close(fds[0]);
		close(fds[1]);
		execl("/proc/self/exe", "test_msg", how, (char *)NULL);
		_exit(1);
	}
	close(fds[1]);
	from = fdopen(fds[0], "r");
	while ((c = getc(from)) != EOF)
		putc(c, to);
	fclose(from);
	fclose(to);
	return text;
}

static void test_standard_error(void **state)
{
	char *s = said("--say");

	assert_string_equal(s, "notice: said 7\n");
	free(s);
}

/* ---- repeated lines ---- */

static _Atomic uint64_t passed_us; /* the time that has passed on the test's clock */

uint64_t __wrap_monotonic_us(void);
uint64_t __wrap_monotonic_us(void)
{
	return 1 + passed_us;
}

/* A user reads a damaged block again and again. */
static void say_again(void)
{
	char *s;

	for (int i = 0; i < 1000; i++)
		msg_damage("block 1");
	msg_warning("block 1");
	for (int i = 0; i < 2; i++)
		msg_notice("said");
	passed_us = MSG_REPEAT_US - 1;
	msg_damage("block 1");
	passed_us = MSG_REPEAT_US;
	msg_damage("block 1");
	passed_us = 2 * MSG_REPEAT_US;
	msg_damage("block 1");
	s = ring_text();
	if (count(s, "error: block 1\n") > 900)
		msg_notice("the ring has all lines");
	if (msg_damage_count() == 1003 && msg_error_count() == 1003)
		msg_notice("all are counted");
	free(s);
}

static void test_repeats_are_counted(void **state)
{
	char *s = said("--again");

	assert_string_equal(s,
		"error: block 1\n"
		"warning: block 1\n"
		"notice: said\nnotice: said\n"
		"error: block 1 (1000 more such lines since the last one)\n"
		"error: block 1\n"
		"notice: the ring has all lines\n"
		"notice: all are counted\n");
	free(s);
}

/* The lines of a user who reads more damaged blocks than there are places are bounded, too. */
static void say_many(void)
{
	for (int round = 0; round < 3; round++)
		for (int i = 0; i < MSG_TEXTS + 200; i++)
			msg_error("block %d", i);
	passed_us = MSG_REPEAT_US;
	msg_error("block 7");
	msg_error("another");
}

static void test_many_texts_are_bounded(void **state)
{
	char *s = said("--many");

	assert_int_equal(count(s, "\n"), MSG_TEXTS + 2);
	assert_non_null(strstr(s, "error: block 7 (2 more such lines since the last one) (600 other lines were left out)\n"));
	assert_non_null(strstr(s, "error: another (2 other lines were left out)\n")); /* of block 0, whose place it has */
	free(s);
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
		cmocka_unit_test(test_repeats_are_counted),
		cmocka_unit_test(test_many_texts_are_bounded),
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_quote),
	};

	if (argc == 2 && strcmp(argv[1], "--say") == 0) {
		msg_info("not said");
		msg_notice("said %d", 7);
		return 0;
	}
	if (argc == 2) {
		strcmp(argv[1], "--again") == 0 ? say_again() : say_many();
		return 0;
	}
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
