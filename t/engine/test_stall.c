/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads never wait for writes, compactions or fsyncs: each of them is stalled in turn
 * through the file layer while readers continue, and the slowest read is
 * printed.  While the log's active writer is stuck in a write or an fsync,
 * commits continue in a second file.  The log then has each record once, in
 * order, and so has the store that replays it.
 */
#include "engine/log/log.h"
#include "t/engine/lib.h"
#include "t/lib/file_faults.h"

#include <pthread.h>
#include <stdatomic.h>

#define ROWS 200
#define READS 3000

/* ---- a gate that operations of one kind on files of one kind wait at ---- */
static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	enum file_op op;
	const char *in; /* part of the path */
	unsigned most;  /* how many wait at it; those after pass */
	unsigned waiting, came;
	bool shut;
} gate = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static int at_gate(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	pthread_mutex_lock(&gate.lock);
	if (gate.shut && op == gate.op && strstr(path, gate.in) && gate.came < gate.most) {
		gate.came++;
		gate.waiting++;
		pthread_cond_broadcast(&gate.changed);
		while (gate.shut)
			pthread_cond_wait(&gate.changed, &gate.lock);
		gate.waiting--;
		pthread_cond_broadcast(&gate.changed);
	}
	pthread_mutex_unlock(&gate.lock);
	return 0;
}

static void shut_gate(enum file_op op, const char *in, unsigned most)
{
	pthread_mutex_lock(&gate.lock);
	gate.op = op;
	gate.in = in;
	gate.most = most;
	gate.came = 0;
	gate.shut = true;
	pthread_mutex_unlock(&gate.lock);
}

static void wait_until_stuck(void)
{
	pthread_mutex_lock(&gate.lock);
	while (!gate.waiting)
		pthread_cond_wait(&gate.changed, &gate.lock);
	pthread_mutex_unlock(&gate.lock);
}

static void open_gate(void)
{
	pthread_mutex_lock(&gate.lock);
	gate.shut = false;
	pthread_cond_broadcast(&gate.changed);
	while (gate.waiting)
		pthread_cond_wait(&gate.changed, &gate.lock);
	pthread_mutex_unlock(&gate.lock);
}

/* ---- the stalled operations ---- */
static _Atomic bool done;
static int result;

static int64_t next_ts;

static void *write_synced(void *arg)
{
	result = store_put(arg ? arg : table, TFS_S("stalled"), "f", TFS_S("q"), tfs_at(++next_ts), TFS_S("v"), TFS_APPLY_SYNC);
	done = true;
	return NULL;
}

static void *do_flush(void *arg)
{
	result = tfs_flush(table);
	done = true;
	return NULL;
}

static void *do_compact(void *arg)
{
	result = tfs_compact(table);
	done = true;
	return NULL;
}

static void fill(void)
{
	char row[32];

	for (int i = 0; i < ROWS; i++) {
		snprintf(row, sizeof(row), "row%03d", i);
		assert_int_equal(put(row, "q", 1, TFS_S("first"), false), 0);
	}
	assert_int_equal(tfs_flush(table), 0);
	for (int i = 0; i < ROWS; i += 2) {
		snprintf(row, sizeof(row), "row%03d", i);
		assert_int_equal(put(row, "q", 2, TFS_S("second"), false), 0);
	}
}

/* Reads and scans; the slowest, in us.  All of them while something is stuck. */
static uint64_t read_on(void)
{
	uint64_t slowest = 0;

	for (int i = 0; i < READS; i++) {
		uint64_t from = monotonic_us(), took;
		char row[32], value[16];
		size_t got = 0;

		snprintf(row, sizeof(row), "row%03d", i % ROWS);
		assert_int_equal(tfs_read(table, tfs_str(row), "f", TFS_S("q"), TFS_AUTO, 0, value, sizeof(value), &got, NULL), 0);
		assert_int_equal(got, i % ROWS % 2 ? 5 : 6);
		if (i % 100 == 0) {
			struct tfs_scan_spec spec = {.what = TFS_SCAN_CELLS};
			struct tfs_scan *sc;
			struct tfs_cell c;
			unsigned n = 0;

			from = monotonic_us();
			assert_int_equal(tfs_scan_new(table, &spec, &sc), 0);
			while (tfs_scan_next(sc, &c) > 0)
				n++;
			tfs_scan_free(sc);
			assert_true(n >= ROWS + ROWS / 2);
		}
		took = monotonic_us() - from;
		if (took > slowest)
			slowest = took;
	}
	return slowest;
}

static void stalled(const char *what, void *(*fn)(void *), enum file_op op, const char *in)
{
	pthread_t thread;
	uint64_t slowest;

	hooks.log_stall_us = 3600u * 1000000u; /* here the log shall wait, not switch */
	open_store();
	fill();
	done = false;
	file_set_hook(at_gate, NULL);
	shut_gate(op, in, 1);
	assert_int_equal(pthread_create(&thread, NULL, fn, NULL), 0);
	wait_until_stuck();
	slowest = read_on();
	assert_false(done); /* it was stuck all the while */
	open_gate();
	pthread_join(thread, NULL);
	assert_int_equal(result, 0);
	print_message("# slowest of %d reads while %s is stalled: %llu us\n", READS, what, (unsigned long long)slowest);
	close_store();
	file_set_hook(NULL, NULL);
}

static void test_write(void **state)
{
	stalled("a write of the log", write_synced, FILE_OP_WRITE, "/log/");
}

static void test_fsync(void **state)
{
	stalled("an fsync of the log", write_synced, FILE_OP_SYNC, "/log/");
}

static void test_minor(void **state)
{
	stalled("a minor compaction", do_flush, FILE_OP_WRITE, "/sst/");
}

static void test_minor_sync(void **state)
{
	stalled("the fsync of a minor compaction", do_flush, FILE_OP_SYNC, "/sst/");
}

static void test_major(void **state)
{
	options.no_background = true;
	stalled("a major compaction", do_compact, FILE_OP_WRITE, "/sst/");
}

/* ---- the contents of the log afterwards ---- */
struct told {
	uint64_t next_lsn, seq; /* the numbers of the first tablet's records */
	unsigned stalled, next_while, late;
	uint32_t table;
};

static int tell(void *arg, const struct log_record *r)
{
	struct told *t = arg;
	char row[32];

	assert_int_equal(r->lsn, t->next_lsn);
	t->next_lsn++;
	if (r->table < 16)
		return 0;
	t->stalled += bytes_eq(r->row_from, tfs_str("stalled"));
	t->late += bytes_eq(r->row_from, tfs_str("late"));
	if (r->table != t->table)
		return 0;
	assert_true(r->seq > t->seq);
	t->seq = r->seq;
	snprintf(row, sizeof(row), "while%03u", t->next_while);
	if (bytes_has_prefix(r->row_from, tfs_str("while"))) {
		assert_true(bytes_eq(r->row_from, tfs_str(row)));
		t->next_while++;
	}
	return 0;
}

/*
 * While the first writer hangs, commits go on through the second, and all of
 * it is there afterwards: commits to another tablet, and to the very one
 * whose commit hangs, although mutations are published in the order of their
 * sequence numbers.  A flush does not wait for the hanging one either.
 */
static void two_writers(enum file_op op, bool same)
{
	struct told told = {.next_lsn = 1};
	struct tfs_table *other;
	char row[32], value[16];
	pthread_t thread;
	uint64_t from, slowest = 0;
	struct log_end end;
	size_t got;

	hooks.log_stall_us = 50000;
	open_store();
	fill();
	assert_int_equal(store_table_make(store, "other", "f", &other), 0);
	write_synced(other); /* its first write would be stuck in METADATA's tablet */
	assert_int_equal(result, 0);
	assert_int_equal(tfs_sync(store), 0);
	done = false;
	file_set_hook(at_gate, NULL);
	shut_gate(op, "/log/", 1);
	assert_int_equal(pthread_create(&thread, NULL, write_synced, same ? NULL : other), 0);
	wait_until_stuck();
	for (int i = 0; i < 50; i++) {
		from = monotonic_us();
		snprintf(row, sizeof(row), "while%03d", i);
		assert_int_equal(put(row, "q", 1, TFS_S("second writer"), i % 2 == 1), 0);
		assert_int_equal(put("order", "q", 1, tfs_str(row), false), 0); /* one cell, of which the last value counts */
		if (monotonic_us() - from > slowest)
			slowest = monotonic_us() - from;
	}
	assert_int_equal(tfs_flush(same ? table : other), 0);
	assert_int_equal(tfs_read(same ? table : other, TFS_S("stalled"), "f", TFS_S("q"), tfs_at(next_ts), 0, value, sizeof(value),
				 &got, NULL),
		0);
	assert_false(done); /* that thread is in the system call itself */
	print_message("# slowest of 50 commits to %s tablet while the first writer hangs in %s: %llu us\n",
		same ? "the same" : "another", file_op_names[op], (unsigned long long)slowest);
	assert_int_equal(gate.waiting, 1);
	open_gate();
	pthread_join(thread, NULL);
	assert_int_equal(result, 0); /* its record was written again by the second writer */
	assert_int_equal(put("late", "q", 1, TFS_S("after the late return"), true), 0);
	told.table = tfs_table_id(table);
	hooks.no_flush = true;
	tfs_table_close(other);
	close_store();
	assert_true(exists("store/log/1/0000000002.log")); /* the second writer's */
	assert_int_equal(log_replay(in_dir("store/log/1"), 1, tell, &told, &end, NULL), 0);
	assert_int_equal(told.next_while, 50);
	assert_int_equal(told.late, 1);
	assert_int_equal(told.stalled, 2); /* the second table has had one before */
	file_set_hook(NULL, NULL);
	hooks.no_flush = false;
	open_store();
	assert_int_equal(tfs_table_open(store, "other", &other), 0);
	assert_int_equal(tfs_read(same ? table : other, TFS_S("stalled"), "f", TFS_S("q"), tfs_at(next_ts), 0, value, sizeof(value),
				 &got, NULL),
		0);
	tfs_table_close(other);
	assert_int_equal(tfs_read(table, TFS_S("order"), "f", TFS_S("q"), tfs_at(1), 0, value, sizeof(value), &got, NULL), 0);
	assert_int_equal(got, strlen("while049"));
	assert_memory_equal(value, "while049", got);
	assert_int_equal(tfs_read(table, TFS_S("late"), "f", TFS_S("q"), TFS_AUTO, 0, value, sizeof(value), &got, NULL), 0);
	for (int i = 0; i < 50; i++) {
		snprintf(row, sizeof(row), "while%03d", i);
		assert_int_equal(tfs_read(table, tfs_str(row), "f", TFS_S("q"), TFS_AUTO, 0, value, sizeof(value), &got, NULL), 0);
		assert_int_equal(got, 13);
	}
	read_on();
	close_store();
}

static void test_two_writers_write(void **state)
{
	two_writers(FILE_OP_WRITE, false);
}

static void test_same_tablet_write(void **state)
{
	two_writers(FILE_OP_WRITE, true);
}

static void test_two_writers_sync(void **state)
{
	two_writers(FILE_OP_SYNC, false);
}

static void test_same_tablet_sync(void **state)
{
	two_writers(FILE_OP_SYNC, true);
}

/* A compaction that a user started may last for hours.  It ends when the store is to be closed, and changes nothing. */
static void test_will_close(void **state)
{
	char row[32];

	(void)state;
	options.no_background = true;
	open_store();
	for (int i = 0; i < 2000; i++) {
		snprintf(row, sizeof(row), "row%05d", i);
		assert_int_equal(put(row, "q", 1, TFS_S("v"), false), 0);
		if (i == 1000)
			assert_int_equal(tfs_flush(table), 0);
	}
	tfs_will_close(store);
	assert_int_equal(tfs_compact(table), -ECANCELED);
	assert_int_equal(put("row02000", "q", 1, TFS_S("v"), false), 0);
	assert_int_equal(tfs_flush(table), 0);
	expect_rows("v", 0, 2001);
	close_store();
	check_is_clean();
	open_store();
	expect_rows("v", 0, 2001);
	assert_int_equal(tfs_compact(table), 0);
	close_store();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_write, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(test_fsync, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(test_minor, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(test_minor_sync, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(test_major, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(test_two_writers_write, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(test_two_writers_sync, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(test_same_tablet_write, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(test_same_tablet_sync, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(test_will_close, setup_options, test_dir_teardown),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
