/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests of the server and the master: a store in its own directory, used
 * through the public API, and a hook into its file operations.
 */
#ifndef T_UNIT_SERVER_LIB_H
#define T_UNIT_SERVER_LIB_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "engine/base/copies.h"
#include "engine/base/file.h"
#include "engine/base/msg.h"
#include "engine/client/metadata.h"
#include "engine/server/storage/storage.h"
#include "engine/server/tables/tables.h"
#include "engine/server/tablets/tablets.h"
#include "t/lib/file_faults.h"
#include "t/lib/store.h"
#include "t/unit/dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>

static struct open_hooks hooks;
static struct tfs_options options;
static struct tfs_store *store;

/* One hook is installed for the whole run, because background threads may be in it at any time.  Tests replace the function that it calls. */
static _Atomic(file_hook_fn *) hook_now;
static _Atomic(void *) hook_arg;
static _Atomic uint64_t hook_number;

static inline int dispatch(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	file_hook_fn *fn = hook_now;

	return fn ? fn(hook_arg, op, path, offset, n, ++hook_number) : 0;
}

static inline void set_hook(file_hook_fn *fn, void *arg)
{
	hook_now = NULL;
	hook_arg = arg;
	hook_number = 0;
	hook_now = fn;
}

static inline int setup(void **state)
{
	hooks = (struct open_hooks){0};
	tfs_options_init(&options);
	options.no_background = true;
	options.block_cache_bytes = options.memtable_bytes = options.table_cache_bytes = 8u << 20;
	options.log_segment_bytes = 1u << 20;
	return test_dir_setup(state);
}

static inline int teardown(void **state)
{
	set_hook(NULL, NULL);
	return test_dir_teardown(state);
}

static inline void open_store(void)
{
	assert_int_equal(store_open(in_dir("d"), &options, &hooks, &store), 0);
}

static inline void close_store(bool flush)
{
	hooks.no_flush = !flush;
	assert_int_equal(tfs_close(store), 0);
	store = NULL;
}

static inline struct tfs_table *open_table(const char *name)
{
	struct tfs_table *t;

	assert_int_equal(tfs_table_open(store, name, &t), 0);
	return t;
}

static inline int add_family(struct tfs_table *t, const char *name)
{
	return store_family_add(t, name);
}

static inline int drop_family(struct tfs_table *t, const char *name)
{
	return store_family_drop(t, name);
}

static inline struct tfs_table *make_table(const char *name)
{
	struct tfs_table *t;

	assert_int_equal(store_table_make(store, name, "f", &t), 0);
	return t;
}

static inline int put(struct tfs_table *t, const char *row, const char *family, const char *value)
{
	return store_put(t, tfs_str(row), family, TFS_S("q"), TFS_AUTO, tfs_str(value), 0);
}

static inline int delete_row(struct tfs_table *t, const char *row)
{
	return store_delete_row(t, tfs_str(row));
}

static inline int look(struct tfs_table *t, const char *row)
{
	struct tfs_info info;

	return tfs_stat(t, tfs_str(row), "f", TFS_S("q"), TFS_AUTO, &info);
}

struct fault {
	enum file_op op;
	const char *part;       /* a part of the path */
	_Atomic unsigned times; /* left */
	_Atomic unsigned seen;
	int err;
};

static inline int fail_some(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	struct fault *f = arg;

	if (op != f->op || !strstr(path, f->part))
		return 0;
	f->seen++;
	if (!f->times)
		return 0;
	f->times--;
	return f->err;
}

static inline unsigned files_in(const char *dir)
{
	DIR *d = opendir(in_dir(dir));
	unsigned n = 0;

	if (!d)
		return 0;
	for (struct dirent *e; (e = readdir(d));)
		n += e->d_name[0] != '.';
	closedir(d);
	return n;
}

static inline void damage(const char *path, long at)
{
	FILE *f = fopen(path, "r+b");
	int c;

	assert_non_null(f);
	assert_int_equal(fseek(f, at, at < 0 ? SEEK_END : SEEK_SET), 0);
	c = fgetc(f);
	assert_int_equal(fseek(f, -1, SEEK_CUR), 0);
	fputc(c ^ 0x5a, f);
	fclose(f);
}

/* Damages a file of two copies (base/copies.h), in one copy or in both. */
static inline void damage_copies(const char *path, bool first, bool second)
{
	if (first)
		damage(path, 3);
	if (second)
		damage(path, -2);
}

static inline bool copies_agree(const char *path)
{
	struct buf b = {0};
	bool agree = false;

	assert_int_equal(file_read_all(path, 1 << 22, &b), 0);
	for (size_t at = COPIES_APART; at < b.n && !agree; at += COPIES_APART)
		agree = b.n - at <= at && copies_whole(buf_bytes(&b), b.n - at);
	buf_fini(&b);
	return agree;
}

static inline void refused(const char *part, int expect)
{
	char *why = NULL;
	int err = tfs_open_hooked(in_dir("d"), &options, &hooks, &store, &why);

	if (err != expect)
		print_message("%s damaged: opened with %s: %s\n", part, strerror(-err), why ? why : "");
	assert_int_equal(err, expect);
	assert_non_null(why);
	if (!strstr(why, part))
		print_message("%s is not named in: %s\n", part, why);
	assert_non_null(strstr(why, part));
	free(why);
}

static inline void shell(const char *command)
{
	char cmd[1500];

	snprintf(cmd, sizeof(cmd), "cd '%s' && %s", in_dir(""), command);
	assert_int_equal(system(cmd), 0);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
#define RUN(tests)                                                                                                                 \
	(msg_to_nowhere(), file_set_hook(dispatch, NULL), cmocka_set_message_output(CM_OUTPUT_TAP),                                \
		cmocka_run_group_tests(tests, NULL, NULL))

static const void *const server_lib_unused[] __attribute__((unused)) = {(const void *)contents, (const void *)exists};

#endif
