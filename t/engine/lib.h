/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of the whole engine: a store in its own directory, with one table "t" and families "f", "g". */
#ifndef T_ENGINE_LIB_H
#define T_ENGINE_LIB_H

#include "engine/base/clock.h"
#include "engine/base/msg.h"
#include "t/lib/file_faults.h"
#include "t/lib/store.h"
#include "t/unit/dir.h"

#include <errno.h>
#include <setjmp.h>
#include <spawn.h>
#include <stdarg.h>
#include <sys/wait.h>

#include <cmocka.h>

static struct tfs_store *store;
static struct tfs_table *table;
static struct open_hooks hooks;
static struct tfs_options options;

/* ENGINE_TRACE=1: prints each file that is created or removed. */
static inline int trace(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	if (op == FILE_OP_CREATE || op == FILE_OP_UNLINK)
		print_message("# %llu %s %s\n", (unsigned long long)number, file_op_names[op], path);
	return 0;
}

static inline void open_store(void)
{
	int err;

	if (getenv("ENGINE_TRACE")) {
		options.log_level = MSG_DEBUG;
		file_set_hook(trace, NULL);
	}
	assert_int_equal(store_open(in_dir("store"), &options, &hooks, &store), 0);
	err = tfs_table_open(store, "t", &table);
	if (err == -ENOENT)
		err = store_table_make(store, "t", "fg", &table);
	assert_int_equal(err, 0);
}

static inline void close_store(void)
{
	tfs_table_close(table);
	assert_int_equal(tfs_close(store), 0);
}

static inline int put(const char *row, const char *qualifier, int64_t ts, struct tfs_bytes value, bool sync)
{
	return store_put(table, tfs_str(row), "f", tfs_str(qualifier), tfs_at(ts), value, sync ? TFS_APPLY_SYNC : 0);
}

/* The table has each row "row%05d" of [from, to) once and in order; word: each with one cell of this value. */
static inline void expect_rows(const char *word, int from, int to)
{
	struct tfs_scan_spec spec = {.what = word ? TFS_SCAN_CELLS : TFS_SCAN_ROWS};
	struct tfs_scan *sc;
	struct tfs_cell c;
	char row[32];
	int i = from, err;

	assert_int_equal(tfs_scan_new(table, &spec, &sc), 0);
	while ((err = tfs_scan_next(sc, &c)) > 0) {
		snprintf(row, sizeof(row), "row%05d", i++);
		assert_int_equal(c.row.n, strlen(row));
		assert_memory_equal(c.row.p, row, c.row.n);
		assert_int_equal(c.value.n, word ? strlen(word) : 0);
		if (word)
			assert_memory_equal(c.value.p, word, c.value.n);
	}
	assert_int_equal(err, 0);
	assert_int_equal(i, to);
	tfs_scan_free(sc);
}

/* tabletctl check finds no damage in the closed store.  Does nothing if tabletctl was not built. */
static inline void check_is_clean(void)
{
	const char *build = getenv("BUILD");
	char tool[600];
	char *const arguments[] = {tool, (char *)"check", (char *)in_dir("store"), NULL};
	posix_spawn_file_actions_t output;
	const char *said;
	int status;
	pid_t pid;

	snprintf(tool, sizeof(tool), "%s/tabletctl", build ? build : "");
	if (!build || access(tool, X_OK))
		return;
	posix_spawn_file_actions_init(&output);
	posix_spawn_file_actions_addopen(&output, 1, in_dir("said"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
	posix_spawn_file_actions_adddup2(&output, 1, 2);
	assert_int_equal(posix_spawn(&pid, tool, &output, NULL, arguments, environ), 0);
	posix_spawn_file_actions_destroy(&output);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	said = contents("said", NULL);
	assert_non_null(said);
	if (status || strncmp(said, "damaged", 7) == 0 || strstr(said, "\ndamaged"))
		fail_msg("tabletctl check ends with status %x: %s", (unsigned)status, said);
}

static inline int setup_options(void **state)
{
	tfs_options_init(&options);
	options.log_level = MSG_ERROR;
	hooks = (struct open_hooks){0};
	return test_dir_setup(state);
}

static const void *const lib_unused[] __attribute__((unused)) = {(const void *)contents, (const void *)exists};

#endif
