/* SPDX-License-Identifier: Apache-2.0 */
/* Files: the calls and their errors, and a hook that fails each operation in turn. */
#include "engine/base/file.h"
#include "t/lib/file_faults.h"
#include "t/unit/dir.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define ok(call) assert_int_equal((call), 0)

static void test_read_and_write(void **state)
{
	const struct slice v[] = {slice_str("ab"), slice_of(NULL, 0), slice_str("cde")};
	struct file *f, *g = NULL;
	uint64_t size;
	char b[16];
	size_t got;

	assert_int_equal(file_open(in_dir("f"), FILE_READ, &g), -ENOENT);
	assert_int_equal(file_open(in_dir("f"), FILE_READWRITE, &g), -ENOENT);
	assert_null(g);
	ok(file_open(in_dir("f"), FILE_CREATE, &f));
	assert_int_equal(file_open(in_dir("f"), FILE_CREATE, &g), -EEXIST);
	assert_string_equal(file_path(f), in_dir("f"));
	ok(file_pwritev(f, v, 3, 1));
	ok(file_pwrite(f, "", 0, 100));
	ok(file_sync(f));
	ok(file_size(f, &size));
	assert_int_equal(size, 6);
	ok(file_pread(f, b, sizeof(b), 0, &got));
	assert_int_equal(got, 6);
	assert_memory_equal(b, "\0abcde", 6);
	ok(file_pread(f, b, 2, 6, &got));
	assert_int_equal(got, 0);
	ok(file_truncate(f, 3));
	ok(file_preallocate(f, 3, 3, false));
	ok(file_pread(f, b, sizeof(b), 0, &got));
	assert_int_equal(got, 6);
	assert_memory_equal(b, "\0ab\0\0\0", 6);
	ok(file_preallocate(f, 0, 3 << 20, true));
	ok(file_size(f, &size));
	assert_int_equal(size, 3 << 20);
	ok(file_pread(f, b, 3, 0, &got));
	assert_memory_equal(b, "\0\0\0", 3);
	file_close(f);
	file_close(NULL);
	ok(file_stat_size(in_dir("f"), &size));
	assert_int_equal(size, 3 << 20);
	assert_int_equal(file_stat_size(in_dir("none"), &size), -ENOENT);
	ok(file_open(in_dir("f"), FILE_READ, &f));
	assert_int_equal(file_pwrite(f, "x", 1, 0), -EBADF);
	file_close(f);
	ok(file_free_bytes(test_dir, &size));
	assert_true(size > 0);
}

static void test_many_pieces(void **state)
{
	static struct slice v[1000];
	static uint8_t bytes[1000][3], got_bytes[3001];
	struct file *f;
	size_t got;

	for (unsigned i = 0; i < 1000; i++) {
		memset(bytes[i], (int)(i * 31 & 0xff), 3);
		v[i] = slice_of(bytes[i], 3);
	}
	ok(file_open(in_dir("f"), FILE_CREATE, &f));
	ok(file_pwritev(f, v, 1000, 0));
	ok(file_pread(f, got_bytes, sizeof(got_bytes), 0, &got));
	assert_int_equal(got, 3000);
	assert_memory_equal(got_bytes, bytes, 3000);
	file_close(f);
}

static int note_entry(void *arg, const char *name, bool is_dir)
{
	strcat(arg, name);
	strcat(arg, is_dir ? "/ " : " ");
	return strcmp(name, "stop") == 0 ? 7 : 0;
}

static void test_directories(void **state)
{
	char names[200] = "";
	struct file *f;

	ok(file_mkdir(in_dir("d")));
	assert_int_equal(file_mkdir(in_dir("d")), -EEXIST);
	ok(file_open(in_dir("b"), FILE_CREATE, &f));
	file_close(f);
	ok(file_open(in_dir("d/x"), FILE_CREATE, &f));
	file_close(f);
	ok(file_list(test_dir, note_entry, names));
	assert_string_equal(names, "b d/ ");
	assert_int_equal(file_rmdir(in_dir("d")), -ENOTEMPTY);
	ok(file_rename(in_dir("d/x"), in_dir("d/stop")));
	ok(file_rename(in_dir("b"), in_dir("d/z")));
	names[0] = '\0';
	assert_int_equal(file_list(in_dir("d"), note_entry, names), 7);
	assert_string_equal(names, "stop ");
	ok(file_unlink(in_dir("d/stop")));
	ok(file_unlink(in_dir("d/z")));
	names[0] = '\0';
	ok(file_list(in_dir("d"), note_entry, names));
	assert_string_equal(names, "");
	ok(file_sync_dir(in_dir("d")));
	ok(file_rmdir(in_dir("d")));
	assert_int_equal(file_list(in_dir("d"), note_entry, names), -ENOENT);
	assert_int_equal(file_sync_dir(in_dir("d")), -ENOENT);
	assert_int_equal(file_unlink(in_dir("d")), -ENOENT);
	assert_int_equal(file_rename(in_dir("d"), in_dir("e")), -ENOENT);
}

static void test_whole_files(void **state)
{
	struct buf b = {0};
	uint8_t big[200000];
	char *p;

	assert_int_equal(file_read_all(in_dir("f"), 10, &b), -ENOENT);
	ok(file_replace(in_dir("f"), slice_str("one")));
	ok(file_read_all(in_dir("f"), 3, &b));
	assert_true(slice_eq(buf_slice(&b), slice_str("one")));
	assert_int_equal(file_read_all(in_dir("f"), 2, &b), -EFBIG);
	assert_true(slice_eq(buf_slice(&b), slice_str("one")));
	ok(file_replace(in_dir("f.tmp"), slice_str("left over"))); /* as a crash would leave it */
	ok(file_replace(in_dir("f"), slice_str("")));
	ok(file_read_all(in_dir("f"), 2, &b));
	assert_int_equal(b.n, 0);
	assert_false(exists("f.tmp"));
	memset(big, 'x', sizeof(big));
	ok(file_replace(in_dir("f"), slice_of(big, sizeof(big))));
	ok(file_read_all(in_dir("f"), sizeof(big), &b));
	assert_true(slice_eq(buf_slice(&b), slice_of(big, sizeof(big))));
	buf_fini(&b);
	assert_int_equal(file_replace(in_dir("none/f"), slice_str("x")), -ENOENT);

	p = path_join("a", "b");
	assert_string_equal(p, "a/b");
	free(p);
	p = path_join("/", "b");
	assert_string_equal(p, "/b");
	free(p);
}

struct failing {
	uint64_t at, last;
	enum file_op op;
};

static int fail_at(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	struct failing *x = arg;

	x->last = number;
	if (number != x->at)
		return 0;
	x->op = op;
	return -EIO;
}

static void test_every_step_fails(void **state)
{
	static const enum file_op want[] = {FILE_OP_CREATE, FILE_OP_WRITE, FILE_OP_SYNC, FILE_OP_RENAME, FILE_OP_SYNCDIR};
	struct failing x = {0};

	ok(file_replace(in_dir("f"), slice_str("old")));
	for (unsigned i = 0; i < 5; i++) {
		x.at = i + 1;
		file_set_hook(fail_at, &x);
		assert_int_equal(file_replace(in_dir("f"), slice_str("new")), -EIO);
		file_set_hook(NULL, NULL);
		assert_int_equal(x.op, want[i]);
		assert_string_equal(contents("f", NULL), i < 4 ? "old" : "new");
		assert_false(exists("f.tmp"));
	}
	x.at = 6;
	file_set_hook(fail_at, &x);
	ok(file_replace(in_dir("f"), slice_str("newer")));
	assert_int_equal(x.last, 5);
	file_set_hook(fail_at, &x); /* counts from 1 again */
	ok(file_replace(in_dir("f"), slice_str("newer")));
	assert_int_equal(x.last, 5);
	file_set_hook(NULL, NULL);
}

static void test_each_operation_fails(void **state)
{
	struct failing x = {.at = 1};
	char names[8] = "";
	struct file *f, *g;
	size_t got;
	char c;

#define FAILS(which, call)                                                                                                         \
	do {                                                                                                                       \
		file_set_hook(fail_at, &x);                                                                                        \
		assert_int_equal((call), -EIO);                                                                                    \
		assert_int_equal(x.op, (which));                                                                                   \
		assert_non_null(file_op_names[x.op]);                                                                              \
		file_set_hook(NULL, NULL);                                                                                         \
	} while (0)
	ok(file_open(in_dir("f"), FILE_CREATE, &f));
	FAILS(FILE_OP_OPEN, file_open(in_dir("f"), FILE_READ, &g));
	FAILS(FILE_OP_CREATE, file_open(in_dir("g"), FILE_CREATE, &g));
	FAILS(FILE_OP_READ, file_pread(f, &c, 1, 0, &got));
	FAILS(FILE_OP_WRITE, file_pwrite(f, "x", 1, 0));
	FAILS(FILE_OP_SYNC, file_sync(f));
	FAILS(FILE_OP_TRUNCATE, file_truncate(f, 5));
	FAILS(FILE_OP_ALLOCATE, file_preallocate(f, 0, 5, true));
	FAILS(FILE_OP_UNLINK, file_unlink(in_dir("f")));
	FAILS(FILE_OP_RENAME, file_rename(in_dir("f"), in_dir("g")));
	FAILS(FILE_OP_MKDIR, file_mkdir(in_dir("d")));
	ok(file_mkdir(in_dir("d")));
	FAILS(FILE_OP_RMDIR, file_rmdir(in_dir("d")));
	FAILS(FILE_OP_SYNCDIR, file_sync_dir(in_dir("d")));
	FAILS(FILE_OP_LIST, file_list(in_dir("d"), note_entry, names));
	file_close(f);
	assert_string_equal(contents("f", NULL), "");
	assert_false(exists("g"));
	assert_true(exists("d"));
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, test_dir_setup, test_dir_teardown)
	const struct CMUnitTest tests[] = {
		T(test_read_and_write),
		T(test_many_pieces),
		T(test_directories),
		T(test_whole_files),
		T(test_every_step_fails),
		T(test_each_operation_fails),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
