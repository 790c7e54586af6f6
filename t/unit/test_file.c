/* SPDX-License-Identifier: Apache-2.0 */
/* Files: the calls and their errors, and a hook that fails each operation in turn. */
#include "engine/base/file.h"
#include "t/lib/file_faults.h"
#include "t/unit/dir.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define ok(call) assert_int_equal((call), 0)

static void test_read_and_write(void **state)
{
	const struct tfs_bytes v[] = {tfs_str("ab"), tfs_bytes_of(NULL, 0), tfs_str("cde")};
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
	ok(file_preallocate(f, 3, 3));
	ok(file_pread(f, b, sizeof(b), 0, &got));
	assert_int_equal(got, 6);
	assert_memory_equal(b, "\0ab\0\0\0", 6);
	ok(file_preallocate(f, 6, (3 << 20) - 6));
	ok(file_size(f, &size));
	assert_int_equal(size, 3 << 20);
	ok(file_pread(f, b, 3, 0, &got));
	assert_memory_equal(b, "\0ab", 3);
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
	static struct tfs_bytes v[1000];
	static uint8_t bytes[1000][3], got_bytes[3001];
	struct file *f;
	size_t got;

	for (unsigned i = 0; i < 1000; i++) {
		memset(bytes[i], (int)(i * 31 & 0xff), 3);
		v[i] = tfs_bytes_of(bytes[i], 3);
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
	ok(file_replace(in_dir("f"), tfs_str("one")));
	ok(file_read_all(in_dir("f"), 3, &b));
	assert_true(bytes_eq(buf_bytes(&b), tfs_str("one")));
	assert_int_equal(file_read_all(in_dir("f"), 2, &b), -EFBIG);
	assert_true(bytes_eq(buf_bytes(&b), tfs_str("one")));
	ok(file_replace(in_dir("f.tmp"), tfs_str("left over"))); /* as a crash would leave it */
	ok(file_replace(in_dir("f"), tfs_str("")));
	ok(file_read_all(in_dir("f"), 2, &b));
	assert_int_equal(b.n, 0);
	assert_false(exists("f.tmp"));
	memset(big, 'x', sizeof(big));
	ok(file_replace(in_dir("f"), tfs_bytes_of(big, sizeof(big))));
	ok(file_read_all(in_dir("f"), sizeof(big), &b));
	assert_true(bytes_eq(buf_bytes(&b), tfs_bytes_of(big, sizeof(big))));
	buf_fini(&b);
	assert_int_equal(file_replace(in_dir("none/f"), tfs_str("x")), -ENOENT);

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

	ok(file_replace(in_dir("f"), tfs_str("old")));
	for (unsigned i = 0; i < 5; i++) {
		x.at = i + 1;
		file_set_hook(fail_at, &x);
		assert_int_equal(file_replace(in_dir("f"), tfs_str("new")), -EIO);
		file_set_hook(NULL, NULL);
		assert_int_equal(x.op, want[i]);
		assert_string_equal(contents("f", NULL), i < 4 ? "old" : "new");
		assert_false(exists("f.tmp"));
	}
	x.at = 6;
	file_set_hook(fail_at, &x);
	ok(file_replace(in_dir("f"), tfs_str("newer")));
	assert_int_equal(x.last, 5);
	file_set_hook(fail_at, &x); /* counts from 1 again */
	ok(file_replace(in_dir("f"), tfs_str("newer")));
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
	FAILS(FILE_OP_ALLOCATE, file_preallocate(f, 0, 5));
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

/* A link or FIFO that a user put into the directory: nothing outside is read or changed. */
static void test_links_are_refused(void **state)
{
	struct file *f = NULL;
	char names[100] = "", *real;
	uint64_t n;

	ok(file_mkdir(in_dir("out")));
	ok(file_replace(in_dir("out/victim"), tfs_str("precious")));
	ok(file_mkdir(in_dir("in")));
	assert_int_equal(symlink("../out/victim", in_dir("in/file")), 0);
	assert_int_equal(symlink("../out", in_dir("in/dir")), 0);
	assert_int_equal(symlink("nothing", in_dir("in/dangling")), 0);
	assert_int_equal(mkfifo(in_dir("in/fifo"), 0600), 0);
	for (enum file_mode mode = FILE_READ; mode <= FILE_POOLED; mode++) {
		assert_int_equal(file_open(in_dir("in/file"), mode, &f), mode == FILE_CREATE ? -EEXIST : -ELOOP);
		assert_int_equal(file_open(in_dir("in/dir/victim"), mode, &f), -ELOOP);
		assert_int_equal(file_open(in_dir("in/dangling"), mode, &f), mode == FILE_CREATE ? -EEXIST : -ELOOP);
		assert_int_equal(file_open(in_dir("in/fifo"), mode, &f), mode == FILE_CREATE ? -EEXIST : -ENXIO);
		assert_int_equal(file_open(in_dir("in/../out/victim"), mode, &f), -EINVAL);
	}
	assert_int_equal(file_stat_size(in_dir("in/file"), &n), -ELOOP);
	assert_int_equal(file_look_up(in_dir("in/dir/victim"), &n), -ELOOP);
	assert_int_equal(file_unlink(in_dir("in/dir/victim")), -ELOOP);
	assert_int_equal(file_rename(in_dir("in/dir/victim"), in_dir("in/x")), -ELOOP);
	assert_int_equal(file_rename(in_dir("in/fifo"), in_dir("in/dir/victim")), -ELOOP);
	assert_int_equal(file_link(in_dir("out/victim"), in_dir("in/dir/x")), -ELOOP);
	assert_int_equal(file_mkdir(in_dir("in/dir/x")), -ELOOP);
	assert_int_equal(file_rmdir(in_dir("in/dir/x")), -ELOOP);
	assert_int_equal(file_sync_dir(in_dir("in/dir")), -ELOOP);
	assert_int_equal(file_free_bytes(in_dir("in/dir"), &n), -ELOOP);
	assert_int_equal(file_replace(in_dir("in/dir/victim"), tfs_str("x")), -ELOOP);
	assert_int_equal(file_list(in_dir("in/dir"), note_entry, names), -ELOOP);
	assert_true(file_list(in_dir("in"), note_entry, names) < 0);
	ok(file_unlink(in_dir("in/fifo")));
	assert_int_equal(file_list(in_dir("in"), note_entry, names), -ELOOP);
	ok(file_replace(in_dir("in/file"), tfs_str("x"))); /* replaces the link */
	assert_string_equal(contents("out/victim", NULL), "precious");

	ok(link(in_dir("out/victim"), in_dir("in/second")));
	assert_int_equal(file_open(in_dir("in/second"), FILE_READWRITE, &f), -EMLINK);
	ok(file_open(in_dir("in/second"), FILE_READ, &f));
	file_close(f);

	real = file_real(in_dir("in/dir/new"));
	assert_string_equal(real, in_dir("out/new"));
	free(real);
	real = file_real(in_dir("in/../out"));
	assert_string_equal(real, in_dir("out"));
	free(real);
	real = file_real("no/such/directory");
	assert_string_equal(real, "no/such/directory");
	free(real);
}

/* A kernel or a container without openat2. */
static void test_links_are_refused_without_openat2(void **state)
{
	static const int answers[] = {ENOSYS, EPERM};

	for (unsigned i = 0; i < 2; i++) {
		struct sock_filter code[] = {
			BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
			BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
			BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)answers[i]),
			BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		};
		const struct sock_fprog filter = {sizeof(code) / sizeof(*code), code};
		const struct CMUnitTest tests[] = {
			cmocka_unit_test_setup_teardown(test_links_are_refused, test_dir_setup, test_dir_teardown),
			cmocka_unit_test_setup_teardown(test_directories, test_dir_setup, test_dir_teardown)};
		pid_t child = fork();
		int status;

		if (child == 0) {
			int err = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);

			cmocka_set_message_output(CM_OUTPUT_STDOUT);
			if (!freopen("/dev/null", "w", stdout))
				_exit(2);
			_exit(err ? 2 : cmocka_run_group_tests(tests, NULL, NULL) != 0);
		}
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_int_equal(status, 0);
	}
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
		T(test_links_are_refused),
		T(test_links_are_refused_without_openat2),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
