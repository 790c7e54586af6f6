/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forget mode: what a crash leaves of each kind of operation, for chosen
 * fates; that a sync protects what it should and nothing else; and, over
 * every crash point of a small workload, that file_replace is atomic and
 * that taking out any one of its syncs is found.
 */
#include "engine/base/file.h"
#include "t/unit/dir.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cmocka.h>

#define ok(call) assert_int_equal((call), 0)

/* Answers by record: a digit each, the last one repeated; torn writes take two more digits. */
struct script {
	const char *answers;
	unsigned asked, records, ways[32];
};

static unsigned by_script(void *arg, unsigned index, unsigned ways)
{
	struct script *s = arg;
	char c = *s->answers;

	if (s->answers[1])
		s->answers++;
	if (s->asked < 32)
		s->ways[s->asked] = ways;
	s->asked++;
	s->records = index + 1;
	return (unsigned)(c - '0');
}

static struct script crash(const char *answers)
{
	struct script s = {.answers = answers};

	assert_int_equal(file_forget_crash(by_script, &s), 0);
	file_forget_stop();
	return s;
}

static void put(const char *name, const char *text, uint64_t offset, enum file_mode mode, bool sync)
{
	struct file *f;

	ok(file_open(in_dir(name), mode, &f));
	ok(file_pwrite(f, text, strlen(text), offset));
	if (sync)
		ok(file_sync(f));
	file_close(f);
}

static void put_durable(const char *name, const char *text)
{
	put(name, text, 0, FILE_CREATE, true);
	ok(file_sync_dir(in_dir("")));
}

static int start(void **state)
{
	if (test_dir_setup(state) != 0)
		return -1;
	return file_forget_start(test_dir);
}

static int stop(void **state)
{
	char side[300];

	file_forget_stop();
	snprintf(side, sizeof(side), "%s.forget", test_dir);
	if (access(side, F_OK) == 0)
		return -1;
	return test_dir_teardown(state);
}

static void test_dropped_write(void **state)
{
	(void)state;
	put_durable("f", "aaaa");
	put("f", "bb", 1, FILE_READWRITE, false);
	assert_string_equal(contents("f", NULL), "abba");
	assert_int_equal(crash("0").records, 1);
	assert_string_equal(contents("f", NULL), "aaaa");
}

static void test_synced_write_stays(void **state)
{
	(void)state;
	put_durable("f", "aaaa");
	put("f", "bb", 1, FILE_READWRITE, true);
	assert_int_equal(crash("0").records, 0);
	assert_string_equal(contents("f", NULL), "abba");
}

static void test_write_sync_write(void **state)
{
	(void)state;
	put_durable("f", "1111");
	put("f", "22", 0, FILE_READWRITE, true);
	put("f", "3", 1, FILE_READWRITE, false);
	put("f", "4444", 4, FILE_READWRITE, false);
	assert_int_equal(crash("0").records, 2);
	assert_string_equal(contents("f", NULL), "2211");
}

static void test_overlapping_writes(void **state)
{
	/* Of writes A, B, C over the same bytes, every subset gives its newest survivor. */
	static const char *const answers[] = {"000", "100", "010", "110", "001", "101", "011", "111"};
	static const char *const want[] = {"......", "AAAA..", ".BBBB.", "ABBBB.", "..CCCC", "AACCCC", ".BCCCC", "ABCCCC"};

	(void)state;
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

	(void)state;
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

	(void)state;
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

	(void)state;
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

	(void)state;
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

	(void)state;
	for (unsigned kept = 0; kept < 4; kept++) {
		const char answers[] = {(char)('0' + (kept & 1)), (char)('0' + (kept >> 1)), '\0'};

		file_forget_stop();
		unlink(in_dir("f"));
		ok(file_forget_start(test_dir));
		put_durable("f", "abcdef");
		ok(file_open(in_dir("f"), FILE_READWRITE, &f));
		ok(file_truncate(f, 2));
		ok(file_preallocate(f, 2, 6, false));
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

static void test_zeroed_preallocation(void **state)
{
	struct file *f;
	const char *p;
	size_t n;

	(void)state;
	put_durable("f", "");
	ok(file_open(in_dir("f"), FILE_READWRITE, &f));
	ok(file_preallocate(f, 0, 4096, true));
	ok(file_pwrite(f, "one", 3, 0));
	ok(file_sync(f));
	ok(file_pwrite(f, "two", 3, 3));
	ok(file_preallocate(f, 4096, 4096, true));
	file_close(f);
	crash("0");
	p = contents("f", &n);
	assert_int_equal(n, 4096);
	assert_memory_equal(p, "one\0\0\0\0", 7);
}

static void test_created_entry(void **state)
{
	(void)state;
	put("lost", "data", 0, FILE_CREATE, true); /* fdatasync does not sync the entry */
	put("kept", "data", 0, FILE_CREATE, true);
	crash("01");
	assert_false(exists("lost"));
	assert_string_equal(contents("kept", NULL), "data");
}

static void test_entry_without_data(void **state)
{
	size_t n;

	(void)state;
	put("f", "data", 0, FILE_CREATE, false);
	ok(file_sync_dir(in_dir("")));
	assert_int_equal(crash("0").records, 1);
	assert_non_null(contents("f", &n));
	assert_int_equal(n, 0);
}

static void test_undone_rename(void **state)
{
	(void)state;
	put_durable("old", "old");
	put_durable("new", "new");
	ok(file_rename(in_dir("new"), in_dir("old")));
	assert_false(exists("new"));
	assert_int_equal(crash("0").records, 1);
	assert_string_equal(contents("old", NULL), "old");
	assert_string_equal(contents("new", NULL), "new");
}

static void test_surviving_rename(void **state)
{
	(void)state;
	put_durable("old", "old");
	put_durable("new", "new");
	ok(file_rename(in_dir("new"), in_dir("old")));
	crash("1");
	assert_string_equal(contents("old", NULL), "new");
	assert_false(exists("new"));
}

static void test_rename_needs_creation(void **state)
{
	(void)state;
	put_durable("old", "old");
	put("new", "new", 0, FILE_CREATE, true);
	ok(file_rename(in_dir("new"), in_dir("old")));
	crash("01"); /* the creation lost, the rename chosen */
	assert_string_equal(contents("old", NULL), "old");
	assert_false(exists("new"));
}

static void test_rename_without_data(void **state)
{
	size_t n;

	(void)state;
	put_durable("old", "old");
	put("new", "new", 0, FILE_CREATE, false);
	ok(file_rename(in_dir("new"), in_dir("old")));
	crash("101"); /* created, written (lost), renamed: the famous empty file */
	assert_non_null(contents("old", &n));
	assert_int_equal(n, 0);
}

static void test_undone_unlink(void **state)
{
	struct file *f;

	(void)state;
	put_durable("f", "data");
	put_durable("g", "data");
	put_durable("h", "data");
	ok(file_unlink(in_dir("f")));
	ok(file_unlink(in_dir("g")));
	assert_false(exists("f"));
	assert_int_equal(file_open(in_dir("f"), FILE_READ, &f), -ENOENT);
	ok(file_open(in_dir("f"), FILE_CREATE, &f)); /* the name again, another file */
	ok(file_pwrite(f, "else", 4, 0));
	file_close(f);
	crash("0111");
	assert_string_equal(contents("f", NULL), "data");
	assert_false(exists("g"));
	assert_string_equal(contents("h", NULL), "data");
}

static void test_durable_unlink_forgets_data(void **state)
{
	(void)state;
	put_durable("f", "data");
	put("f", "unsynced", 0, FILE_READWRITE, false);
	ok(file_unlink(in_dir("f")));
	ok(file_sync_dir(in_dir("")));
	assert_int_equal(crash("0").records, 0);
	assert_false(exists("f"));
}

static void test_directories(void **state)
{
	(void)state;
	ok(file_mkdir(in_dir("d")));
	put("d/f", "data", 0, FILE_CREATE, true);
	ok(file_sync_dir(in_dir("d")));
	assert_int_equal(file_mkdir(in_dir("d")), -EEXIST);
	assert_int_equal(file_rmdir(in_dir("d")), -ENOTEMPTY);
	assert_int_equal(file_unlink(in_dir("d")), -EISDIR);
	assert_int_equal(crash("0").records, 1);
	assert_false(exists("d")); /* nobody synced the parent */
}

static void test_directory_survives(void **state)
{
	(void)state;
	ok(file_mkdir(in_dir("d")));
	put("d/f", "data", 0, FILE_CREATE, true);
	put("d/g", "data", 0, FILE_CREATE, true);
	ok(file_sync_dir(in_dir("")));
	crash("10");
	assert_true(exists("d"));
	assert_true(exists("d/f"));
	assert_false(exists("d/g"));
}

static void test_rmdir(void **state)
{
	(void)state;
	ok(file_mkdir(in_dir("d")));
	ok(file_sync_dir(in_dir("")));
	put("d/f", "data", 0, FILE_CREATE, true);
	ok(file_sync_dir(in_dir("d")));
	ok(file_unlink(in_dir("d/f")));
	ok(file_rmdir(in_dir("d")));
	assert_false(exists("d"));
	crash("01"); /* the unlink lost, so the rmdir is */
	assert_string_equal(contents("d/f", NULL), "data");
	ok(file_forget_start(test_dir));
	ok(file_unlink(in_dir("d/f")));
	ok(file_rmdir(in_dir("d")));
	ok(file_sync_dir(in_dir(""))); /* takes the unlink with it */
	assert_int_equal(crash("0").records, 0);
	assert_false(exists("d"));
}

static void test_renamed_directory(void **state)
{
	struct file *f;

	(void)state;
	ok(file_mkdir(in_dir("log")));
	ok(file_sync_dir(in_dir("")));
	ok(file_open(in_dir("log/1"), FILE_CREATE, &f));
	ok(file_pwrite(f, "data", 4, 0));
	ok(file_rename(in_dir("log"), in_dir("dead")));
	ok(file_sync_dir(in_dir("")));
	ok(file_pwrite(f, "more", 4, 4)); /* through the old handle */
	file_close(f);
	assert_int_equal(crash("110").records, 3);
	assert_false(exists("log"));
	assert_string_equal(contents("dead/1", NULL), "data");
}

static void test_creation_lost_in_renamed_directory(void **state)
{
	(void)state;
	ok(file_mkdir(in_dir("log")));
	ok(file_sync_dir(in_dir("")));
	put("log/1", "data", 0, FILE_CREATE, true);
	ok(file_rename(in_dir("log"), in_dir("dead")));
	ok(file_sync_dir(in_dir("")));
	crash("0");
	assert_true(exists("dead"));
	assert_false(exists("dead/1"));
}

static void test_rename_between_directories(void **state)
{
	(void)state;
	ok(file_mkdir(in_dir("a")));
	ok(file_mkdir(in_dir("b")));
	ok(file_sync_dir(in_dir("")));
	put("a/x", "data", 0, FILE_CREATE, true);
	put("a/other", "data", 0, FILE_CREATE, true);
	ok(file_rename(in_dir("a/x"), in_dir("b/y")));
	ok(file_sync_dir(in_dir("b"))); /* the creation of a/x must come along, that of a/other not */
	assert_int_equal(crash("0").records, 1);
	assert_string_equal(contents("b/y", NULL), "data");
	assert_false(exists("a/x"));
	assert_false(exists("a/other"));
}

static void test_rename_into_new_directory(void **state)
{
	(void)state;
	put_durable("f", "data");
	ok(file_mkdir(in_dir("d")));
	ok(file_rename(in_dir("f"), in_dir("d/f")));
	crash("01"); /* without its directory the rename is lost, not the file */
	assert_string_equal(contents("f", NULL), "data");
	assert_false(exists("d"));
}

static void test_rename_errors(void **state)
{
	(void)state;
	put_durable("f", "data");
	ok(file_mkdir(in_dir("d")));
	ok(file_mkdir(in_dir("e")));
	put("e/x", "x", 0, FILE_CREATE, false);
	assert_int_equal(file_rename(in_dir("none"), in_dir("f")), -ENOENT);
	assert_int_equal(file_rename(in_dir("f"), in_dir("none/f")), -ENOENT);
	assert_int_equal(file_rename(in_dir("f"), in_dir("d")), -EISDIR);
	assert_int_equal(file_rename(in_dir("d"), in_dir("f")), -ENOTDIR);
	assert_int_equal(file_rename(in_dir("d"), in_dir("e")), -ENOTEMPTY);
	assert_int_equal(file_rename(in_dir("d"), in_dir("d/in")), -EINVAL);
	ok(file_rename(in_dir("f"), in_dir("f")));
	assert_int_equal(file_unlink(in_dir("none")), -ENOENT);
	assert_int_equal(file_rmdir(in_dir("f")), -ENOTDIR);
	assert_int_equal(file_mkdir(in_dir("none/d")), -ENOENT);
	ok(file_rename(in_dir("e"), in_dir("g")));
	ok(file_rename(in_dir("g"), in_dir("d"))); /* over an empty one */
	assert_true(exists("d/x"));
	/* mkdir d, mkdir e, create e/x, write, two renames */
	assert_int_equal(crash("111110").records, 6);
	assert_true(exists("g/x"));
	assert_true(exists("d"));
	assert_false(exists("d/x"));
}

static void test_root_itself(void **state)
{
	char parent[300];

	(void)state;
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
	(void)state;
	file_forget_skip(4);
	put_durable("f", "aaaa");                 /* syncs 1, 2 */
	put("f", "b", 0, FILE_READWRITE, true);   /* 3 */
	put("f", "c", 1, FILE_READWRITE, true);   /* 4, left out */
	assert_int_equal(file_forget_sync_count(), 4);
	assert_int_equal(crash("0").records, 1);
	assert_string_equal(contents("f", NULL), "baaa");
}

static void test_outside_the_root(void **state)
{
	char other[300];
	struct file *f;

	(void)state;
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

	(void)state;
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

	(void)state;
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
	file_forget_stop(); /* the machine is on again: the write goes on */
	pthread_join(t, NULL);
	assert_string_equal(contents("f", NULL), "zombie");
	file_close(f);
}

/* ---- every crash point of a workload, in a child ---- */

struct plan {
	uint64_t at;   /* the operation to crash at */
	uint64_t seed; /* of the fates */
};

static unsigned by_seed(void *arg, unsigned index, unsigned ways)
{
	struct plan *p = arg;

	(void)index;
	p->seed = p->seed * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)(p->seed >> 33) % ways;
}

static int crash_at(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	struct plan *p = arg;

	(void)op, (void)path, (void)offset, (void)n;
	if (number != p->at)
		return 0;
	/* At once, past a sanitizer's end of the process: other threads may stand anywhere. */
	syscall(SYS_exit_group, file_forget_crash(by_seed, p) == 0 ? 0 : 99);
	return -EIO;
}

/* Replaces "state" by 1, 2, 3 and tells the pipe what was answered. */
static void workload(int pipe_fd)
{
	for (char c = '1'; c <= '3'; c++) {
		char text[1400];

		memset(text, c, sizeof(text));
		if (file_replace(in_dir("state"), slice_of(text, sizeof(text))) != 0 || write(pipe_fd, &c, 1) != 1)
			_exit(98);
	}
}

/* One run; true when the file found after it is one that may be. */
static bool run_once(uint64_t at, uint64_t seed, uint64_t skip, bool *ended)
{
	char acked = '0', c;
	int fds[2], status;
	const char *p;
	size_t n = 0;
	pid_t pid;

	assert_int_equal(pipe(fds), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct plan plan = {at, seed};

		if (file_forget_start(test_dir) != 0)
			_exit(97);
		file_forget_skip(skip);
		file_set_hook(crash_at, &plan);
		workload(fds[1]);
		/* Whole: the power fails after the last answer. */
		_exit(file_forget_crash(by_seed, &plan) == 0 ? 1 : 96);
	}
	close(fds[1]);
	while (read(fds[0], &c, 1) == 1)
		acked = c;
	close(fds[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) <= 1);
	*ended = WEXITSTATUS(status) == 1;

	p = contents("state", &n);
	if (!p)
		return acked == '0';
	for (size_t i = 1; i < n; i++)
		if (p[i] != p[0])
			return false;
	return n == 1400 && (p[0] == acked || p[0] == acked + 1);
}

static bool all_crash_points_hold(uint64_t skip)
{
	bool ended = false, good = true;

	for (uint64_t at = 1; good && !ended; at++) {
		for (uint64_t seed = 0; good && seed < 12; seed++) {
			good = run_once(at, seed * 7919 + at, skip, &ended);
			unlink(in_dir("state"));
			unlink(in_dir("state.tmp"));
		}
	}
	return good;
}

static void test_replace_is_atomic(void **state)
{
	(void)state;
	file_forget_stop();
	assert_true(all_crash_points_hold(0));
}

static void test_each_sync_is_needed(void **state)
{
	(void)state;
	file_forget_stop();
	for (uint64_t skip = 1; skip <= 6; skip++)
		assert_false(all_crash_points_hold(skip));
}

/* Three threads at once, the power failing under one of them. */
struct writer {
	pthread_t thread;
	int pipe_fd;
	char name;
};

static void *writer_main(void *arg)
{
	struct writer *w = arg;
	char name[2] = {w->name, '\0'};

	for (char c = '1'; c <= '9'; c++) {
		const char ack[2] = {w->name, c};
		char text[700];

		memset(text, c, sizeof(text));
		if (file_replace(in_dir(name), slice_of(text, sizeof(text))) != 0 || write(w->pipe_fd, ack, 2) != 2)
			_exit(98);
	}
	return NULL;
}

static void writers_child(int pipe_fd, uint64_t at)
{
	struct plan plan = {at, at};
	struct writer w[3];

	if (file_forget_start(test_dir) != 0)
		_exit(97);
	file_set_hook(crash_at, &plan);
	for (unsigned i = 0; i < 3; i++) {
		w[i].pipe_fd = pipe_fd;
		w[i].name = (char)('a' + i);
		if (pthread_create(&w[i].thread, NULL, writer_main, &w[i]) != 0)
			_exit(95);
	}
	for (unsigned i = 0; i < 3; i++)
		pthread_join(w[i].thread, NULL);
	_exit(1); /* not reached: 3 * 9 * 5 operations are more than any at */
}

static void test_threads(void **state)
{
	(void)state;
	file_forget_stop();
	for (uint64_t at = 3; at < 130; at += 9) {
		char acked[3] = {'0', '0', '0'}, ack[2];
		int fds[2], status;
		pid_t pid;

		assert_int_equal(pipe(fds), 0);
		pid = fork();
		assert_true(pid >= 0);
		if (pid == 0)
			writers_child(fds[1], at);
		close(fds[1]);
		while (read(fds[0], ack, 2) == 2)
			acked[ack[0] - 'a'] = ack[1];
		close(fds[0]);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFEXITED(status));
		assert_int_equal(WEXITSTATUS(status), 0);
		for (unsigned i = 0; i < 3; i++) {
			char name[2] = {(char)('a' + i), '\0'};
			const char *p;
			size_t n = 0;

			p = contents(name, &n);
			if (acked[i] != '0')
				assert_non_null(p);
			if (p) {
				assert_int_equal(n, 700);
				assert_true(p[0] == acked[i] || p[0] == acked[i] + 1);
				for (size_t k = 1; k < n; k++)
					assert_int_equal(p[k], p[0]);
			}
			unlink(in_dir(name));
			unlink(in_dir((const char[]){name[0], '.', 't', 'm', 'p', '\0'}));
		}
	}
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, start, stop)
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
		T(test_zeroed_preallocation),
		T(test_created_entry),
		T(test_entry_without_data),
		T(test_undone_rename),
		T(test_surviving_rename),
		T(test_rename_needs_creation),
		T(test_rename_without_data),
		T(test_undone_unlink),
		T(test_durable_unlink_forgets_data),
		T(test_directories),
		T(test_directory_survives),
		T(test_rmdir),
		T(test_renamed_directory),
		T(test_creation_lost_in_renamed_directory),
		T(test_rename_between_directories),
		T(test_rename_into_new_directory),
		T(test_rename_errors),
		T(test_root_itself),
		T(test_skipped_sync),
		T(test_outside_the_root),
		T(test_lock_is_not_kept),
		T(test_dead),
		T(test_replace_is_atomic),
		T(test_each_sync_is_needed),
		T(test_threads),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
