/* SPDX-License-Identifier: Apache-2.0 */
/* Forget mode: names after a crash, of files made, renamed and removed, and of directories. */
#include "t/unit/forget_lib.h"

static void test_created_entry(void **state)
{
	put("lost", "data", 0, FILE_CREATE, true); /* fdatasync does not sync the entry */
	put("kept", "data", 0, FILE_CREATE, true);
	crash("01");
	assert_false(exists("lost"));
	assert_string_equal(contents("kept", NULL), "data");
}

static void test_entry_without_data(void **state)
{
	size_t n;

	put("f", "data", 0, FILE_CREATE, false);
	ok(file_sync_dir(in_dir("")));
	assert_int_equal(crash("0").records, 1);
	assert_non_null(contents("f", &n));
	assert_int_equal(n, 0);
}

static void test_undone_rename(void **state)
{
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
	put_durable("old", "old");
	put_durable("new", "new");
	ok(file_rename(in_dir("new"), in_dir("old")));
	crash("1");
	assert_string_equal(contents("old", NULL), "new");
	assert_false(exists("new"));
}

static void test_rename_needs_creation(void **state)
{
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

	put_durable("old", "old");
	put("new", "new", 0, FILE_CREATE, false);
	ok(file_rename(in_dir("new"), in_dir("old")));
	crash("101"); /* created, written (lost) and renamed, which makes the famous empty file */
	assert_non_null(contents("old", &n));
	assert_int_equal(n, 0);
}

static void test_undone_unlink(void **state)
{
	struct file *f;

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
	put_durable("f", "data");
	put("f", "unsynced", 0, FILE_READWRITE, false);
	ok(file_unlink(in_dir("f")));
	ok(file_sync_dir(in_dir("")));
	assert_int_equal(crash("0").records, 0);
	assert_false(exists("f"));
}

static void test_directories(void **state)
{
	ok(file_mkdir(in_dir("d")));
	put("d/f", "data", 0, FILE_CREATE, true);
	ok(file_sync_dir(in_dir("d")));
	assert_int_equal(file_mkdir(in_dir("d")), -EEXIST);
	assert_int_equal(file_rmdir(in_dir("d")), -ENOTEMPTY);
	assert_int_equal(file_unlink(in_dir("d")), -EISDIR);
	assert_int_equal(crash("0").records, 1);
	assert_false(exists("d")); /* the parent was not synced */
}

static void test_directory_survives(void **state)
{
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
	ok(file_mkdir(in_dir("a")));
	ok(file_mkdir(in_dir("b")));
	ok(file_sync_dir(in_dir("")));
	put("a/x", "data", 0, FILE_CREATE, true);
	put("a/other", "data", 0, FILE_CREATE, true);
	ok(file_rename(in_dir("a/x"), in_dir("b/y")));
	ok(file_sync_dir(in_dir("b"))); /* the creation of a/x must come along, but not the creation of a/other */
	assert_int_equal(crash("0").records, 1);
	assert_string_equal(contents("b/y", NULL), "data");
	assert_false(exists("a/x"));
	assert_false(exists("a/other"));
}

static void test_rename_into_new_directory(void **state)
{
	put_durable("f", "data");
	ok(file_mkdir(in_dir("d")));
	ok(file_rename(in_dir("f"), in_dir("d/f")));
	crash("01"); /* without its directory the rename is lost, not the file */
	assert_string_equal(contents("f", NULL), "data");
	assert_false(exists("d"));
}

static void test_rename_errors(void **state)
{
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

int main(void)
{
	const struct CMUnitTest tests[] = {
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
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
