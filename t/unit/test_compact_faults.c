/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tablet loses nothing if edits of METADATA fail or have an unknown outcome, flushes
 * fail for a long time, the log refuses records, or any single allocation or I/O
 * call fails.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "t/lib/file_faults.h"
#include "t/unit/compact_lib.h"

enum { ROWS = 12 };

/* ---- failing allocations ---- */
static _Thread_local long alloc_countdown; /* 0 if none fails; this thread's only */
static bool alloc_failed;

static bool fails(void)
{
	if (!alloc_countdown || --alloc_countdown)
		return false;
	alloc_failed = true;
	return true;
}

#include "t/unit/wrap_alloc.h"

/* ---- failing I/O ---- */
static _Atomic long io_countdown;
static _Atomic bool io_failed;

static int io_hook(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	if (io_countdown > 0 && --io_countdown == 0) {
		io_failed = true;
		return -EIO;
	}
	return 0;
}

/* Edits that fail, or fail after they took place: nothing is lost, nothing refers to a missing file. */
static void test_edits_in_doubt(void **state)
{
	static struct lib l;
	bool did;

	for (int doubt = 0; doubt < 2; doubt++) {
		for (int reopen = 0; reopen < 2; reopen++) {
			start(&l, 1);
			for (int i = 0; i < 4; i++) {
				LIB(lib_put(&l, "r", 1, "q", i, tfs_str("v")));
				*(doubt ? &l.edit_doubt : &l.edit_fail) = 2;
				assert_int_equal(tablet_flush(l.t), -EIO);
				expect(&l, "r", 1, "q", i, "v");
				/* the redo set is in doubt, too, so there is no write until that is resolved */
				assert_int_equal(lib_put(&l, "r", 1, "x", i, tfs_str("w")), -EIO);
				LIB(lib_put(&l, "r", 1, "x", i, tfs_str("w")));
				*(doubt ? &l.edit_doubt : &l.edit_fail) = 1;
				assert_int_equal(tablet_flush(l.t), -EIO);
				if (reopen) {
					lib_stop(&l);
					lib_start(&l);
				}
				LIB(tablet_flush(l.t));
				expect(&l, "r", 1, "x", i, "w");
			}
			*(doubt ? &l.edit_doubt : &l.edit_fail) = 1;
			assert_int_equal(tablet_compact_step(l.t, &did), -EIO);
			LIB(lib_put(&l, "r", 1, "y", 1, tfs_str("u")));
			LIB(tablet_flush(l.t));
			assert_int_equal(count_cells(&l), 9);
			if (reopen) {
				lib_stop(&l);
				lib_start(&l);
				assert_int_equal(count_cells(&l), 9);
			}
			LIB(tablet_compact(l.t));
			assert_int_equal(l.file_count, 1);
			assert_int_equal(count_cells(&l), 9);
			end(&l);
		}
	}
}

/* A major compaction that a user requested has failed, and nothing else needs a compaction.  Its edit is repeated soon. */
static void test_edit_is_repeated(void **state)
{
	static struct lib l;
	int64_t major_us = 0;
	int err;

	for (int doubt = 0; doubt < 2; doubt++) {
		start(&l, 1);
		lib_stop(&l);
		l.background = true;
		lib_start(&l);
		for (int i = 0; i < 2; i++) {
			LIB(lib_put(&l, "r", 1, "q", i, tfs_str("v")));
			LIB(tablet_flush(l.t));
		}
		*(doubt ? &l.edit_doubt : &l.edit_fail) = 1;
		err = tablet_compact(l.t);
		assert_true(err == -EIO || !err); /* 0 if the edit had been repeated when this thread ran again */
		for (unsigned tries = 0; tries < 10000; tries++) {
			struct tablet_stats st;

			tablet_get_stats(l.t, &st);
			if (st.files == 1)
				break;
			usleep(1000);
		}
		pthread_mutex_lock(&l.meta_lock);
		assert_int_equal(l.edit_fail + l.edit_doubt, 0);
		assert_int_equal(l.file_count, 1);
		assert_true(l.major_us > major_us);
		major_us = l.major_us;
		pthread_mutex_unlock(&l.meta_lock);
		assert_int_equal(count_cells(&l), 2);
		end(&l);
	}
}

/*
 * The edit that took this incarnation out of the redo set took place, though
 * its caller got an error.  The next writes must be replayed nevertheless.
 */
static void test_redo_set_in_doubt(void **state)
{
	static struct lib l;

	for (int again = 0; again < 2; again++) {
		start(&l, 1);
		LIB(lib_put(&l, "r", 1, "q", 1, tfs_str("v")));
		l.edit_doubt = 1;
		assert_int_equal(tablet_flush(l.t), -EIO);
		assert_int_equal(l.redo_count, 0);
		LIB(lib_put(&l, "r", 1, "q", 2, tfs_str("w")));
		if (again) {
			LIB(tablet_flush(l.t));
			LIB(lib_put(&l, "r", 1, "q", 3, tfs_str("x")));
		}
		assert_int_equal(l.redo_count, 1);
		lib_stop(&l); /* without a flush, as a crash would */
		lib_start(&l);
		expect(&l, "r", 1, "q", 1, "v");
		expect(&l, "r", 1, "q", 2, "w");
		expect(&l, "r", 1, "q", 3, again ? "x" : NULL);
		end(&l);
	}
}

static uint64_t redo_seen;

static void see_redo(struct lib *l)
{
	redo_seen = tablet_redo_lsn(l->t, l->env.incarnation);
}

static void see_redo_next(struct lib *l)
{
	l->on_edit = see_redo;
}

/* A flush whose edit failed is installed after a first write: the redo point does not move back, because the log below it may have been dropped. */
static void test_redo_point_stays(void **state)
{
	const struct log_record other = {.table = 99, .row_from = tfs_str("r"), .row_to = tfs_str("r"), .seq = 1};
	static struct lib l;
	struct log_ticket ticket;
	uint64_t redo;

	start(&l, 1);
	LIB(lib_put(&l, "r", 1, "q", 1, tfs_str("v")));
	lib_stop(&l);
	lib_start(&l);
	l.edit_fail = 1;
	assert_int_equal(tablet_flush(l.t), -EIO);
	LIB(log_submit(l.env.log, &other, true, &ticket));
	LIB(log_wait(l.env.log, &ticket));
	LIB(lib_put(&l, "r", 1, "q", 2, tfs_str("w")));
	redo = tablet_redo_lsn(l.t, l.env.incarnation);
	l.on_edit = see_redo_next;
	LIB(tablet_flush(l.t));
	assert_true(redo_seen >= redo);
	end(&l);
}

/* The edit before the first write failed, and there is no further write: a flush releases the log. */
static void test_redo_set_let_go(void **state)
{
	static struct lib l;

	for (int doubt = 0; doubt < 2; doubt++) {
		start(&l, 1);
		*(doubt ? &l.edit_doubt : &l.edit_fail) = 1;
		assert_int_equal(lib_put(&l, "r", 1, "q", 1, tfs_str("v")), -EIO);
		assert_int_equal(l.redo_count, doubt);
		assert_true(tablet_redo_lsn(l.t, l.env.incarnation) != UINT64_MAX);
		LIB(tablet_flush(l.t));
		assert_int_equal(l.redo_count, 0);
		assert_true(tablet_redo_lsn(l.t, l.env.incarnation) == UINT64_MAX);
		LIB(lib_put(&l, "r", 1, "q", 2, tfs_str("w")));
		assert_int_equal(l.redo_count, 1);
		lib_stop(&l);
		lib_start(&l);
		expect(&l, "r", 1, "q", 1, NULL);
		expect(&l, "r", 1, "q", 2, "w");
		end(&l);
	}
}

/* The background's threads run while it changes, so the hook itself stays. */
static _Atomic bool disk_has_space;

static int no_space(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	return op == FILE_OP_CREATE && strstr(path, ".sst") && !disk_has_space ? -ENOSPC : 0;
}

/*
 * Flushes fail until no further memtable can be frozen; then the newest
 * version is deleted, and then the rules change.  The flush that does work
 * takes the frozen memtables, but not the memtable that holds the delete.
 */
static void test_flush_without_its_deletes(void **state)
{
	static const char *const strict[2] = {"maxversions=1", "maxversions=1"};
	static struct lib l;
	struct store_schema *s;
	struct op del = {.kind = OP_DELETE_VERSION, .family = 1, .w.qualifier = tfs_str("q"), .w.place = {false, VIEW_MEMS - 1}};
	struct tablet_stats st;

	start(&l, 1);
	file_set_hook(no_space, NULL);
	for (int i = 1; i < VIEW_MEMS; i++) {
		LIB(lib_put(&l, "r", 1, "q", i, tfs_str(i == VIEW_MEMS - 2 ? "second" : "v")));
		assert_int_equal(tablet_flush(l.t), -ENOSPC);
	}
	tablet_get_stats(l.t, &st);
	assert_int_equal(st.memtables, VIEW_MEMS);
	LIB(lib_put(&l, "r", 1, "x", 1, tfs_str("v")));
	LIB(lib_op(&l, "r", &del, NULL));
	s = lib_schema(strict, 2, 1);
	tablet_set_schema(l.t, s);
	store_schema_put(s);
	expect(&l, "r", 1, "q", INT64_MIN, "second");
	file_set_hook(NULL, NULL);
	LIB(tablet_flush(l.t));
	expect(&l, "r", 1, "q", INT64_MIN, "second");
	LIB(tablet_compact(l.t));
	expect(&l, "r", 1, "q", INT64_MIN, "second");
	end(&l);
}

/* ---- every n-th failure ---- */

/* One fixed history; have[i]: the contents of row i's column (0: nothing).  In doubt: -1. */
static void workload(struct lib *l, int *have, int *next, bool in_doubt)
{
	char row[16], value[16];
	bool did;

	for (int i = 0; i < ROWS; i++) {
		struct tfs_range range = {0, tfs_str("v")};
		struct op o = {.kind = OP_WRITE,
			.family = 1,
			.w.qualifier = tfs_str("q"),
			.w.place = {true, INT64_MIN},
			.w.truncate_to = UINT64_MAX,
			.value = tfs_bytes_of(value, 0)};
		int n = (*next)++, err;

		snprintf(row, sizeof row, "%02d", i);
		if (i % 4 == 3) {
			o = (struct op){.kind = OP_DELETE_COLUMN, .family = 1, .w.qualifier = tfs_str("q")};
			n = 0;
		} else if (i % 4 == 2) {
			o.w.base = TFS_BASE_NEWEST;
			o.w.truncate_to = 0;
			o.w.ranges = &range;
			o.w.range_count = 1;
			range.data = tfs_bytes_of(value, (size_t)snprintf(value, sizeof value, "%d", n));
		} else {
			o.value = tfs_bytes_of(value, (size_t)snprintf(value, sizeof value, "%d", n));
		}
		err = lib_op(l, row, &o, NULL);
		if (!err)
			have[i] = n;
		else if (in_doubt)
			have[i] = -1;
		if (i % 5 == 4)
			(void)!tablet_flush(l->t);
	}
	(void)!tablet_compact_step(l->t, &did);
	if (*next % 3 == 0)
		(void)!tablet_compact(l->t);
}

static void verify(struct lib *l, const int *have)
{
	char row[16], value[16];

	for (int i = 0; i < ROWS; i++) {
		if (have[i] < 0)
			continue;
		snprintf(row, sizeof row, "%02d", i);
		snprintf(value, sizeof value, "%d", have[i]);
		expect(l, row, 1, "q", INT64_MIN, have[i] ? value : NULL);
	}
}

static void test_nth_allocation_fails(void **state)
{
	static struct lib l;
	int have[ROWS] = {0}, next = 1;
	unsigned failures = 0;

	start(&l, 1);
	for (long n = 1; n < 600; n++) {
		alloc_failed = false;
		alloc_countdown = n;
		workload(&l, have, &next, false);
		alloc_countdown = 0;
		failures += alloc_failed;
		verify(&l, have);
		if (n % 50 == 0) {
			lib_stop(&l);
			lib_start(&l);
			verify(&l, have);
		}
	}
	print_message("# %u allocations failed\n", failures);
	assert_true(failures > 100);
	LIB(tablet_compact(l.t));
	verify(&l, have);
	/* an install that was in doubt at a reopening may leave a file that nothing refers to */
	assert_true(lib_disk_files(&l) >= l.file_count);
	end(&l);
}

static void test_nth_io_fails(void **state)
{
	static struct lib l;
	int have[ROWS] = {0}, next = 1;
	unsigned failures = 0;

	start(&l, 1);
	file_set_hook(io_hook, NULL);
	for (long n = 1; n < 150; n++) {
		io_failed = false;
		io_countdown = n;
		workload(&l, have, &next, true);
		io_countdown = 0;
		failures += io_failed;
		verify(&l, have);
		if (n % 20 == 0) {
			lib_stop(&l);
			lib_start(&l);
			verify(&l, have);
		}
	}
	file_set_hook(NULL, NULL);
	print_message("# %u I/O calls failed\n", failures);
	assert_true(failures > 20);
	LIB(tablet_compact(l.t));
	verify(&l, have);
	end(&l);
}

/* Flushing fails: memory stays bounded, writers get the error, reads succeed; all is well again afterwards. */
static void test_disk_full(void **state)
{
	static struct lib l;
	static uint8_t value[4000];
	char row[16];
	int err = 0, n = 0;

	lib_init(&l, "/dev/shm");
	l.schema = lib_schema(plain, 2, 1);
	l.background = true;
	l.memtable_bytes = 200 * 1024;
	disk_has_space = false;
	file_set_hook(no_space, NULL);
	lib_start(&l);
	while (!err && n < 10000) {
		snprintf(row, sizeof row, "%05d", n);
		err = lib_put(&l, row, 1, "q", 1, tfs_bytes_of(value, sizeof value));
		n += !err;
	}
	assert_int_equal(err, -ENOSPC);
	assert_true(l.memory_used < 2 * l.memtable_bytes);
	assert_int_equal(count_cells(&l), n);
	disk_has_space = true;
	LIB(tablet_flush(l.t));
	LIB(lib_put(&l, "x", 1, "q", 1, tfs_str("v")));
	assert_int_equal(count_cells(&l), n + 1);
	end(&l);
	file_set_hook(NULL, NULL);
	disk_has_space = false;
}

/* The log refuses everything: mutations prepared for refused writes must not pile up, nor stop writers later. */
static int no_log(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	return (op == FILE_OP_WRITE || op == FILE_OP_CREATE) && strstr(path, "/log") ? -ENOSPC : 0;
}

static void test_refused_writes_cost_nothing(void **state)
{
	static struct lib l;
	static uint8_t value[4000];
	struct tablet_stats st;

	lib_init(&l, "/dev/shm");
	l.schema = lib_schema(plain, 2, 1);
	l.background = true;
	l.memtable_bytes = 200 * 1024;
	lib_start(&l);
	LIB(lib_put(&l, "r", 1, "q", 1, tfs_str("kept")));
	for (int with = 0; with < 2; with++) {   /* a cell in the memtable, and none */
		task_pool_drain(l.compact_pool); /* it has checked all files that the start found */
		file_set_hook(no_log, NULL);
		for (int i = 0; i < 500; i++) {
			int err = lib_put(&l, "r", 1, "q", 2, tfs_bytes_of(value, sizeof value));

			assert_true(err == -ENOSPC || err == -EROFS);
			tablet_get_stats(l.t, &st);
			assert_true(st.memory_bytes < 2 * l.memtable_bytes);
			assert_true(l.memory_used < 2 * l.memtable_bytes);
		}
		file_set_hook(NULL, NULL);
		lib_stop(&l);
		lib_start(&l);
		expect(&l, "r", 1, "q", INT64_MIN, "kept");
		LIB(tablet_flush(l.t));
	}
	end(&l);
}

static void damage(struct lib *l, unsigned file)
{
	const struct tablet_file *m = &l->files[file];
	char *path = tablet_file_path(l->dir, LIB_TABLE, m->incarnation, m->number);
	uint8_t byte = 0;
	struct file *f;
	size_t got;

	LIB(file_open(path, FILE_READWRITE, &f));
	LIB(file_pread(f, &byte, 1, 14, &got));
	byte ^= 0x40;
	LIB(file_pwrite(f, &byte, 1, 14));
	file_close(f);
	free(path);
}

/* A file that cannot be read is left alone; all other files are merged as if it were not there. */
static void test_a_damaged_file_stops_no_merge(void **state)
{
	static struct lib l;
	char row[16], got[16];
	bool did = false;
	int failures = 0;

	start(&l, 1);
	for (int i = 0; i < 3; i++) {
		snprintf(row, sizeof row, "%02d", i);
		LIB(lib_put(&l, row, 1, "q", 1, tfs_str("v")));
		LIB(tablet_flush(l.t));
	}
	lib_stop(&l);
	damage(&l, 1);
	lib_start(&l);
	for (int i = 3; i < 40; i++) {
		snprintf(row, sizeof row, "%02d", i);
		LIB(lib_put(&l, row, 1, "q", 1, tfs_str("v")));
		LIB(tablet_flush(l.t));
		failures += tablet_compact_step(l.t, &did) != 0;
	}
	assert_int_equal(failures, 1);
	assert_true(l.file_count <= 1 + 1 + 8);
	for (int i = 0; i < 40; i++) {
		snprintf(row, sizeof row, "%02d", i);
		assert_int_equal(read_ts(&l, row, 1, "q", INT64_MIN, got, sizeof got), i == 1 ? -EBADMSG : 0);
	}
	/* a caller of a major compaction gets the error; in the background none is tried */
	assert_int_equal(tablet_compact(l.t), -EBADMSG);
	expect(&l, "39", 1, "q", INT64_MIN, "v");
	end(&l);
}

/* The error of opening an SSTable as long as it is set, and of reading one once. */
static _Atomic int fault_open, fault_read;

static int passing_fault(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	size_t len = strlen(path);

	if (len < 4 || strcmp(path + len - 4, ".sst"))
		return 0;
	return op == FILE_OP_OPEN ? fault_open : op == FILE_OP_READ ? atomic_exchange(&fault_read, 0) : 0;
}

/* A lack of descriptors, or a read that fails once, leaves no file out of compactions. */
static void test_a_passing_error_is_no_damage(void **state)
{
	static const int opens[] = {-EMFILE, -ENFILE, -ENOMEM, -EINTR, 0, 0}, reads[] = {0, 0, 0, 0, -EIO, -EMFILE};
	static struct lib l;
	char row[16];
	bool did;

	for (unsigned k = 0; k < sizeof opens / sizeof opens[0]; k++) {
		start(&l, 1);
		for (int i = 0; i < 12; i++) {
			snprintf(row, sizeof row, "%02d", i);
			LIB(lib_put(&l, row, 1, "q", 1, tfs_str("v")));
			LIB(tablet_flush(l.t));
		}
		lib_stop(&l); /* nothing is open */
		lib_start(&l);
		fault_open = opens[k];
		fault_read = reads[k];
		file_set_hook(passing_fault, NULL);
		assert_true(tablet_compact_step(l.t, &did) != 0);
		assert_int_equal(fault_read, 0);
		file_set_hook(NULL, NULL);
		for (unsigned i = 0; i < l.t->view->file_count; i++)
			assert_false(vfile_excluded(l.t->view->files[i]));
		LIB(tablet_compact_step(l.t, &did));
		assert_true(did);
		LIB(tablet_compact(l.t));
		assert_int_equal(l.file_count, 1);
		for (int i = 0; i < 12; i++) {
			snprintf(row, sizeof row, "%02d", i);
			expect(&l, row, 1, "q", INT64_MIN, "v");
		}
		end(&l);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_edits_in_doubt),
		cmocka_unit_test(test_edit_is_repeated),
		cmocka_unit_test(test_redo_set_in_doubt),
		cmocka_unit_test(test_redo_point_stays),
		cmocka_unit_test(test_redo_set_let_go),
		cmocka_unit_test(test_flush_without_its_deletes),
		cmocka_unit_test(test_nth_allocation_fails),
		cmocka_unit_test(test_nth_io_fails),
		cmocka_unit_test(test_disk_full),
		cmocka_unit_test(test_refused_writes_cost_nothing),
		cmocka_unit_test(test_a_damaged_file_stops_no_merge),
		cmocka_unit_test(test_a_passing_error_is_no_damage),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	msg_to_nowhere();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
