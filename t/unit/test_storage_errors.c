/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Errors of storage are not damage: whatever operation fails for a while, with EIO or
 * with the errors of an unreachable network file system, the store works again
 * afterwards, and every acknowledged cell is there.
 */
#include "t/unit/server_lib.h"

#define ROWS 60u

/* ---- one file ---- */

static struct {
	enum file_op op;
	int err;
	unsigned times, opens;
} one;

static int fail_one(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	(void)arg, (void)path, (void)offset, (void)n, (void)number;
	one.opens += op == FILE_OP_OPEN;
	if (op != one.op || !one.times)
		return 0;
	one.times--;
	return one.err;
}

static void arm(enum file_op op, int err, unsigned times)
{
	one.op = op;
	one.err = err;
	one.times = times;
	one.opens = 0;
	set_hook(fail_one, NULL);
}

static int entries(void *arg, const char *name, bool is_dir)
{
	(void)name, (void)is_dir;
	++*(unsigned *)arg;
	return 0;
}

static void test_a_read_is_repeated_once(void **state)
{
	static const enum file_mode modes[] = {FILE_READ, FILE_POOLED};
	char path[300], b[8];
	struct file *f;
	unsigned seen = 0;
	uint64_t id;
	size_t got;

	(void)state;
	snprintf(path, sizeof(path), "%s", in_dir("f"));
	assert_int_equal(file_replace(path, tfs_str("contents")), 0);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(file_open(path, modes[i], &f), 0);
		for (unsigned k = 0; k < 2; k++) {
			const int err = k ? -ENOTCONN : -ESTALE;

			arm(FILE_OP_READ, err, 1);
			assert_int_equal(file_pread(f, b, 8, 0, &got), 0);
			assert_int_equal(got, 8);
			assert_memory_equal(b, "contents", 8);
			assert_int_equal(one.opens, 1);
			arm(FILE_OP_READ, err, 2);
			assert_int_equal(file_pread(f, b, 8, 0, &got), -EIO);
			assert_int_equal(one.opens, 1);
			arm(FILE_OP_READ, -EIO, 1); /* the medium has failed: another open file does not help */
			assert_int_equal(file_pread(f, b, 8, 0, &got), -EIO);
			assert_int_equal(one.opens, 0);
			assert_int_equal(file_pread(f, b, 8, 0, &got), 0);
		}
		file_close(f);
	}
	/* Paths: repeated if they change nothing. */
	arm(FILE_OP_LIST, -ESTALE, 1);
	assert_int_equal(file_list(in_dir(""), entries, &seen), 0);
	assert_int_equal(seen, 1);
	arm(FILE_OP_LIST, -ESTALE, 2);
	assert_int_equal(file_list(in_dir(""), entries, &seen), -EIO);
	arm(FILE_OP_LOOK_UP, -ENOTCONN, 1);
	assert_int_equal(file_look_up(path, &id), 0);
	arm(FILE_OP_OPEN, -ESTALE, 1);
	assert_int_equal(file_open(path, FILE_READWRITE, &f), 0);
	/* Calls that write are not repeated. */
	arm(FILE_OP_WRITE, -ESTALE, 1);
	assert_int_equal(file_pwrite(f, "x", 1, 0), -EIO);
	assert_int_equal(one.opens, 0);
	arm(FILE_OP_SYNC, -ENOTCONN, 1);
	assert_int_equal(file_sync(f), -EIO);
	arm(FILE_OP_RENAME, -ESTALE, 1);
	assert_int_equal(file_rename(path, in_dir("g")), -EIO);
	assert_true(exists("f"));
	arm(FILE_OP_CREATE, -ENOTCONN, 1);
	{
		struct file *none;

		assert_int_equal(file_open(in_dir("h"), FILE_CREATE, &none), -EIO);
	}
	file_close(f);
	set_hook(NULL, NULL);
}

/* ---- a store ---- */

static struct {
	_Atomic bool on;
	_Atomic enum file_op op;
	const char *part;
	int err;
	_Atomic unsigned hits;
} outage;

static int fail_all(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	(void)arg, (void)offset, (void)n, (void)number;
	if (!outage.on || op != outage.op || !strstr(path, outage.part))
		return 0;
	outage.hits++;
	return outage.err;
}

static unsigned last[ROWS]; /* the last acknowledged value */

static void write_rows(struct tfs_table *t, unsigned n, bool must)
{
	char row[16], value[16];

	for (unsigned i = 0; i < ROWS; i++) {
		int err;

		snprintf(row, sizeof(row), "row%02u", i);
		snprintf(value, sizeof(value), "%u", n);
		err = put(t, row, "f", value);
		if (!err)
			last[i] = n;
		assert_true(!must || !err);
	}
}

static void read_rows(struct tfs_table *t, bool must)
{
	char row[16], value[16];
	size_t got;

	for (unsigned i = 0; i < ROWS; i++) {
		int err;

		snprintf(row, sizeof(row), "row%02u", i);
		memset(value, 0, sizeof(value));
		err = tfs_read(t, tfs_str(row), "f", TFS_S("q"), TFS_AUTO, 0, value, sizeof(value) - 1, &got, NULL);
		if (must)
			assert_int_equal(err, 0);
		else
			assert_true(!err || err == -EIO);
		assert_true(err || (unsigned)atoi(value) >= last[i]);
	}
}

/* The log tries a fresh file once a second. */
static void await_writes(struct tfs_table *t)
{
	for (unsigned i = 0; put(t, "again", "f", "x"); i++) {
		assert_true(i < 2000);
		usleep(5000);
	}
}

static void one_outage(enum file_op op, const char *part, int err)
{
	struct tfs_table *t;

	open_store();
	t = make_table("t");
	memset(last, 0, sizeof(last));
	write_rows(t, 1, true);
	assert_int_equal(tfs_flush(t), 0);
	write_rows(t, 2, true);
	assert_int_equal(tfs_flush(t), 0);
	outage.op = op;
	outage.part = part;
	outage.err = err;
	outage.hits = 0;
	set_hook(fail_all, NULL);
	outage.on = true;
	read_rows(t, false);
	write_rows(t, 3, false);
	(void)!tfs_flush(t);
	(void)!tfs_compact(t);
	(void)!tfs_split(t, TFS_S("row30"));
	read_rows(t, false);
	(void)!tfs_sync(store);
	outage.on = false;
	await_writes(t);
	read_rows(t, true);
	write_rows(t, 4, true);
	assert_int_equal(tfs_flush(t), 0);
	assert_int_equal(tfs_compact(t), 0);
	read_rows(t, true);
	assert_int_equal(tfs_sync(store), 0);
	tfs_table_close(t);
	close_store(false);
	set_hook(NULL, NULL);
	open_store();
	t = open_table("t");
	read_rows(t, true);
	tfs_table_close(t);
	close_store(true);
}

static void test_an_outage_leaves_no_trace(void **state)
{
	static const enum file_op ops[] = {FILE_OP_OPEN, FILE_OP_CREATE, FILE_OP_READ, FILE_OP_WRITE, FILE_OP_SYNC, FILE_OP_RENAME,
		FILE_OP_SYNCDIR, FILE_OP_LIST, FILE_OP_UNLINK, FILE_OP_MKDIR};
	static const int errs[] = {-EIO, -ESTALE, -ENOTCONN};
	static const char *const parts[] = {"/sst/", "/log/"};
	unsigned hits = 0, with = 0;

	(void)state;
	options.sync = true;
	for (unsigned p = 0; p < 2; p++)
		for (unsigned o = 0; o < sizeof(ops) / sizeof(*ops); o++)
			for (unsigned e = 0; e < 3; e++) {
				one_outage(ops[o], parts[p], errs[e]);
				hits += outage.hits;
				with += outage.hits > 0;
				assert_true(tree_remove(in_dir("d")));
			}
	print_message("# %u outages with %u failed operations\n", with, hits);
	assert_true(with >= 25);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_a_read_is_repeated_once, setup, teardown),
		cmocka_unit_test_setup_teardown(test_an_outage_leaves_no_trace, setup, teardown),
	};

	file_set_hook(dispatch, NULL);
	msg_to_nowhere();
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
