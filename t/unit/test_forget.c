/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forget mode: the bytes after a crash that were written, cut off or allocated
 * before it, for chosen fates.  A sync protects exactly the bytes that it
 * should.  The mode's root, skipped syncs and a dead process are tried, too.
 */
#include "t/unit/forget_lib.h"

static void test_dropped_write(void **state)
{
	put_durable("f", "aaaa");
	put("f", "bb", 1, FILE_READWRITE, false);
	assert_string_equal(contents("f", NULL), "abba");
	assert_int_equal(crash("0").records, 1);
	assert_string_equal(contents("f", NULL), "aaaa");
}

static void test_synced_write_stays(void **state)
{
	put_durable("f", "aaaa");
	put("f", "bb", 1, FILE_READWRITE, true);
	assert_int_equal(crash("0").records, 0);
	assert_string_equal(contents("f", NULL), "abba");
}

static void test_write_sync_write(void **state)
{
	put_durable("f", "1111");
	put("f", "22", 0, FILE_READWRITE, true);
	put("f", "3", 1, FILE_READWRITE, false);
	put("f", "4444", 4, FILE_READWRITE, false);
	assert_int_equal(crash("0").records, 2);
	assert_string_equal(contents("f", NULL), "2211");
}

static void test_overlapping_writes(void **state)
{
	/* A, B and C write overlapping bytes.  Whatever subset survives, each byte is from the newest surviving write. */
	static const char *const answers[] = {"000", "100", "010", "110", "001", "101", "011", "111"};
	static const char *const want[] = {"......", "AAAA..", ".BBBB.", "ABBBB.", "..CCCC", "AACCCC", ".BCCCC", "ABCCCC"};

	file_forget_stop();
	for (unsigned i = 0; i < 8; i++) {
		ok(file_forget_start(test_dir));
		put_durable("f", "......");
		put("f", "AAAA", 0, FILE_READWRITE, false);
		put("f", "BBBB", 1, FILE_READWRITE, false);
		put("f", "CCCC", 2, FILE_READWRITE, false);
		assert_int_equal(crash(answers[i]).records, 3);
		assert_string_equal(contents("f", NULL), want[i]);
		unlink(in_dir("f"));
	}
}

static void test_gap_reads_as_zeros(void **state)
{
	const char *p;
	size_t n;

	put_durable("f", "aa");
	put("f", "bb", 2, FILE_READWRITE, false);
	put("f", "cc", 4, FILE_READWRITE, false);
	crash("01");
	p = contents("f", &n);
	assert_int_equal(n, 6);
	assert_memory_equal(p, "aa\0\0cc", 6);
}

static void test_torn_write(void **state)
{
	char a[2048], b[1600];
	struct script s;
	struct file *f;
	const char *p;
	size_t n;

	memset(a, 'a', sizeof(a));
	memset(b, 'b', sizeof(b));
	ok(file_open(in_dir("f"), FILE_CREATE, &f));
	ok(file_pwrite(f, a, sizeof(a), 0));
	ok(file_sync(f));
	ok(file_sync_dir(in_dir("")));
	ok(file_pwrite(f, b, sizeof(b), 100));
	file_close(f);
	s = crash("22"); /* torn; two of its four sectors, the first from 100 on */
	assert_int_equal(s.asked, 2);
	assert_int_equal(s.ways[0], 3);
	assert_int_equal(s.ways[1], 4);
	p = contents("f", &n);
	assert_int_equal(n, 2048);
	assert_int_equal(p[99], 'a');
	assert_int_equal(p[100], 'b');
	assert_int_equal(p[1023], 'b');
	assert_int_equal(p[1024], 'a');
}

static void test_torn_growth(void **state)
{
	char b[1000];
	const char *p;
	struct file *f;
	size_t n;

	memset(b, 'b', sizeof(b));
	put_durable("f", "");
	put_durable("g", "");
	ok(file_open(in_dir("f"), FILE_READWRITE, &f));
	ok(file_pwrite(f, b, sizeof(b), 0));
	file_close(f);
	ok(file_open(in_dir("g"), FILE_READWRITE, &f));
	ok(file_pwrite(f, b, sizeof(b), 0));
	file_close(f);
	/* f: torn, 1 of 2 sectors, size lost.  g: torn, 0 of 2, size kept. */
	crash("210201");
	p = contents("f", &n);
	assert_int_equal(n, 512);
	assert_int_equal(p[511], 'b');
	p = contents("g", &n);
	assert_int_equal(n, 1000);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(p[i], 0);
}

static void test_small_write_is_not_torn(void **state)
{
	struct script s;

	put_durable("f", "aaaa");
	put("f", "bb", 1, FILE_READWRITE, false);
	s = crash("1");
	assert_int_equal(s.asked, 1);
	assert_int_equal(s.ways[0], 2);
	assert_string_equal(contents("f", NULL), "abba");
}

static void test_truncate_and_allocate(void **state)
{
	struct file *f;
	const char *p;
	size_t n;

	for (unsigned kept = 0; kept < 4; kept++) {
		const char answers[] = {(char)('0' + (kept & 1)), (char)('0' + (kept >> 1)), '\0'};

		file_forget_stop();
		unlink(in_dir("f"));
		ok(file_forget_start(test_dir));
		put_durable("f", "abcdef");
		ok(file_open(in_dir("f"), FILE_READWRITE, &f));
		ok(file_truncate(f, 2));
		ok(file_preallocate(f, 2, 6));
		file_close(f);
		p = contents("f", &n);
		assert_int_equal(n, 8);
		assert_memory_equal(p, "ab\0\0\0\0\0\0", 8);
		crash(answers);
		p = contents("f", &n);
		assert_int_equal(n, kept == 1 ? 2 : kept == 0 ? 6 : 8);
		assert_memory_equal(p, (kept & 1) ? "ab\0\0\0\0\0" : "abcdef\0\0", n);
	}
}

static void test_root_itself(void **state)
{
	char parent[300];

	file_forget_stop();
	snprintf(parent, sizeof(parent), "%s", test_dir);
	strcat(test_dir, "/store");
	ok(file_forget_start(in_dir("")));
	ok(file_mkdir(test_dir));
	put("f", "data", 0, FILE_CREATE, true);
	ok(file_sync_dir(test_dir));
	ok(file_sync_dir(parent));
	assert_int_equal(file_forget_sync_count(), 3);
	ok(file_sync_dir(parent)); /* nothing is recorded of it by now, and it counts */
	assert_int_equal(file_forget_sync_count(), 4);
	assert_int_equal(crash("0").records, 0);
	assert_string_equal(contents("f", NULL), "data");
	unlink(in_dir("f"));
	rmdir(test_dir);
	ok(file_forget_start(test_dir));
	ok(file_mkdir(test_dir));
	put("f", "data", 0, FILE_CREATE, true);
	ok(file_sync_dir(test_dir));
	crash("0");
	assert_int_equal(access(test_dir, F_OK), -1);
	snprintf(test_dir, sizeof(test_dir), "%.250s", parent);
}

static void test_skipped_sync(void **state)
{
	file_forget_skip(4);
	put_durable("f", "aaaa");               /* syncs 1, 2 */
	put("f", "b", 0, FILE_READWRITE, true); /* 3 */
	put("f", "c", 1, FILE_READWRITE, true); /* 4, left out */
	assert_int_equal(file_forget_sync_count(), 4);
	assert_int_equal(crash("0").records, 1);
	assert_string_equal(contents("f", NULL), "baaa");
}

static void test_outside_the_root(void **state)
{
	char other[300];
	struct file *f;

	snprintf(other, sizeof(other), "%sx", test_dir); /* the root is a prefix of its name */
	ok(file_open(other, FILE_CREATE, &f));
	ok(file_pwrite(f, "x", 1, 0));
	ok(file_sync(f));
	file_close(f);
	assert_int_equal(file_forget_sync_count(), 0);
	assert_int_equal(crash("0").records, 0);
	assert_int_equal(unlink(other), 0);
}

static void test_lock_is_not_kept(void **state)
{
	struct file *f, *g;

	ok(file_open(in_dir("lock"), FILE_CREATE, &f));
	ok(file_pwrite(f, "x", 1, 0));
	ok(flock(file_fd(f), LOCK_EX | LOCK_NB));
	file_close(f);
	ok(file_open(in_dir("lock"), FILE_READWRITE, &g));
	assert_int_equal(flock(file_fd(g), LOCK_EX | LOCK_NB), 0);
	file_close(g);
}

static void *write_when_dead(void *arg)
{
	struct file *f = arg;

	if (file_pwrite(f, "zombie", 6, 0) == 0)
		(void)!file_sync(f);
	return arg;
}

static void test_dead(void **state)
{
	struct script s = {.answers = "0"};
	struct file *f, *g;
	pthread_t t;

	put_durable("f", "data");
	ok(file_open(in_dir("f"), FILE_READWRITE, &f));
	ok(file_pwrite(f, "lost", 4, 0));
	ok(file_forget_crash(by_script, &s));
	assert_int_equal(file_pwrite(f, "x", 1, 0), -EIO);
	assert_int_equal(file_sync(f), -EIO);
	assert_int_equal(file_open(in_dir("f"), FILE_READ, &g), -EIO);
	assert_int_equal(file_unlink(in_dir("f")), -EIO);
	assert_int_equal(file_sync_dir(test_dir), -EIO);
	assert_int_equal(file_forget_crash(by_script, &s), -EINVAL);
	ok(pthread_create(&t, NULL, write_when_dead, f));
	/* Nothing can be waited for here: the thread must not write, whenever it comes. */
	assert_string_equal(contents("f", NULL), "data");
	file_forget_stop(); /* the machine is on again, and the write continues */
	pthread_join(t, NULL);
	assert_string_equal(contents("f", NULL), "zombie");
	file_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_dropped_write),
		T(test_synced_write_stays),
		T(test_write_sync_write),
		T(test_overlapping_writes),
		T(test_gap_reads_as_zeros),
		T(test_torn_write),
		T(test_torn_growth),
		T(test_small_write_is_not_torn),
		T(test_truncate_and_allocate),
		T(test_root_itself),
		T(test_skipped_sync),
		T(test_outside_the_root),
		T(test_lock_is_not_kept),
		T(test_dead),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
