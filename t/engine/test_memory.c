/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory is bounded by the configuration under any load: threads write as fast as
 * they can into a store with small memtables and caches, while another reads.
 * The store's own count and the process's resident size stay within bounds, and
 * no write is refused.
 */
#include "t/engine/lib.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#define WRITERS 4
#define EACH 6000
#define VALUE 4000
#define MEMTABLES (2u << 20)

static char value[VALUE];
static _Atomic unsigned running;
static _Atomic int refused;

static uint64_t resident(void)
{
	unsigned long size = 0, pages = 0;
	FILE *f = fopen("/proc/self/statm", "r");

	if (f && fscanf(f, "%lu %lu", &size, &pages) != 2)
		pages = 0;
	if (f)
		fclose(f);
	return (uint64_t)pages * 4096;
}

static void *writer(void *arg)
{
	int me = *(int *)arg;
	char row[32];

	for (int i = 0; i < EACH && !refused; i++) {
		int err;

		snprintf(row, sizeof(row), "%d-%d", me, i * 7919 % EACH);
		err = put(row, "q", i, tfs_bytes_of(value, sizeof(value)), false);
		if (err)
			refused = err;
	}
	running--;
	return NULL;
}

static void test_bounded(void **state)
{
	pthread_t thread[WRITERS];
	int number[WRITERS];
	uint64_t before, most = 0, most_counted = 0;
	unsigned reads = 0;

	for (unsigned i = 0; i < sizeof(value); i++)
		value[i] = (char)(i * 2654435761u >> 13); /* does not compress */
	options.memtable_bytes = MEMTABLES;
	options.block_cache_bytes = 1 << 20;
	options.table_cache_bytes = 1 << 20;
	options.log_segment_bytes = 1 << 20;
	open_store();
	before = resident();
	running = WRITERS;
	for (int i = 0; i < WRITERS; i++) {
		number[i] = i;
		assert_int_equal(pthread_create(&thread[i], NULL, writer, &number[i]), 0);
	}
	while (running) {
		struct tfs_usage u;
		char row[32], p[16];
		uint64_t now = resident();
		size_t got;
		int err;

		assert_int_equal(tfs_usage(table, NULL, &u), 0);
		if (u.memory_bytes > most_counted)
			most_counted = u.memory_bytes;
		if (now > most)
			most = now;
		snprintf(row, sizeof(row), "%u-%u", reads % WRITERS, reads % EACH);
		err = tfs_read(table, tfs_str(row), "f", TFS_S("q"), TFS_AUTO, 0, p, sizeof(p), &got, NULL);
		assert_true(err == 0 || err == -ENOENT);
		reads++;
	}
	for (int i = 0; i < WRITERS; i++)
		pthread_join(thread[i], NULL);
	assert_int_equal(refused, 0);
	print_message(
		"# %u MiB written, memtables of %u KiB: counted at most %llu KiB, resident grew by %llu KiB; %u reads meanwhile\n",
		WRITERS * EACH * VALUE >> 20, MEMTABLES >> 10, (unsigned long long)most_counted >> 10,
		(unsigned long long)(most > before ? most - before : 0) >> 10, reads);
	/* A writer may be past the gate with its value when the bound is reached. */
	assert_true(most_counted < 4 * MEMTABLES);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	assert_true(most < before + (64u << 20));
#endif
	for (int w = 0; w < WRITERS; w++) {
		for (int i = 0; i < EACH; i += 97) {
			char row[32];
			struct tfs_info info;

			snprintf(row, sizeof(row), "%d-%d", w, i);
			assert_int_equal(tfs_stat(table, tfs_str(row), "f", TFS_S("q"), TFS_AUTO, &info), 0);
			assert_int_equal(info.size, VALUE);
		}
	}
	close_store();
}

/* Empty memtables do not slow writers down, because no flush would free them.  Snapshots have such memtables, too. */
static void test_many_tablets(void **state)
{
	char name[16];

	(void)state;
	options.memtable_bytes = 64 << 10;
	open_store();
	for (char c = 'b'; c <= 'k'; c++)
		assert_int_equal(tfs_split(table, tfs_bytes_of(&c, 1)), 0);
	for (unsigned i = 0; i < 5; i++) {
		snprintf(name, sizeof(name), "s%u", i);
		assert_int_equal(tfs_snapshot_create(table, name), 0);
	}
	alarm(60);
	assert_int_equal(put("row", "q", 1, TFS_S("x"), false), 0);
	alarm(0);
	close_store();
}

/* The size of a batch is a wish.  The server allocates no such memory. */
static void test_batches(void **state)
{
	static const enum tfs_scan_what what[] = {TFS_SCAN_CELLS, TFS_SCAN_ROWS, TFS_SCAN_HASHES};
	struct tfs_scan *scan;
	struct tfs_cell c;
	unsigned count;
	char row[4];
	int n;

	(void)state;
	open_store();
	for (unsigned i = 0; i < 100; i++) {
		snprintf(row, sizeof(row), "%03u", i);
		assert_int_equal(put(row, "q", 1, tfs_bytes_of(value, VALUE), false), 0);
	}
	for (unsigned i = 0; i < 2 * sizeof(what) / sizeof(*what); i++) {
		const struct tfs_scan_spec spec = {.what = what[i / 2], .batch_bytes = i % 2 ? SIZE_MAX : (size_t)1 << 60};

		assert_int_equal(tfs_scan_new(table, &spec, &scan), 0);
		for (count = 0; (n = tfs_scan_next(scan, &c)) > 0; count++)
			;
		assert_int_equal(n, 0);
		assert_int_equal(count, spec.what == TFS_SCAN_HASHES ? 1 : 100);
		tfs_scan_free(scan);
	}
	close_store();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_bounded, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(test_many_tablets, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(test_batches, setup_options, test_dir_teardown),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
