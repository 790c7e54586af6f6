/* SPDX-License-Identifier: Apache-2.0 */
/*
 * METADATA is read once for a thousand reads of a row, whichever server it names, and
 * the look-up notices tables that are dropped and created.
 */
#include "t/engine/lib.h"
#include "t/lib/metric.h"

static void read_all(unsigned rounds)
{
	for (unsigned i = 0; i < rounds * 100; i++) {
		struct tfs_info info;
		char row[16];

		snprintf(row, sizeof(row), "row%02u", i % 100);
		assert_int_equal(tfs_stat(table, tfs_str(row), "f", TFS_S("q"), TFS_AUTO, &info), 0);
	}
}

/*
 * Background work (collection, edits of METADATA) uses the same cache.  Its look-ups are
 * few, and their number differs from run to run.
 */
static const uint64_t background = 50;

static void known_once(void **state)
{
	uint64_t reads, hits;
	char *text;

	open_store();
	for (unsigned i = 0; i < 100; i++) {
		char row[16];

		snprintf(row, sizeof(row), "row%02u", i);
		assert_int_equal(put(row, "q", 1, TFS_S("value"), false), 0);
	}
	reads = metric_of(store, "location_reads");
	hits = metric_of(store, "location_hits");
	read_all(10);
	assert_true(metric_of(store, "location_reads") - reads <= background);
	assert_true(metric_of(store, "location_hits") >= hits + 1000);
	assert_true(metric_of(store, "location_entries") >= 2); /* the table's tablet, METADATA's */
	assert_true(metric_of(store, "location_bytes") > 0);
	assert_int_equal(tfs_metrics(store, &text), 0);
	assert_non_null(strstr(text, "# TYPE tabletfs_location_hits_total counter\ntabletfs_location_hits_total "));
	assert_non_null(strstr(text, "# TYPE tabletfs_location_entries gauge\ntabletfs_location_entries "));
	free(text);
	/* METADATA names the former process until the first change. */
	for (unsigned i = 0; i < 2; i++) {
		hooks.no_flush = i;
		close_store();
		open_store();
		read_all(1);
		reads = metric_of(store, "location_reads");
		read_all(9);
		assert_true(metric_of(store, "location_reads") - reads <= background);
		assert_int_equal(metric_of(store, "location_stale"), 0);
		assert_int_equal(put("row00", "q", 2 + i, TFS_S("value"), true), 0);
	}
	close_store();
}

static void dropped_and_made(void **state)
{
	struct tfs_schema_edit add = {.op = TFS_SCHEMA_FAMILY_ADD, .name = "f", .mode = 0644};
	struct tfs_table *again;
	struct tfs_info info;

	open_store();
	assert_int_equal(put("row", "q", 1, TFS_S("value"), false), 0);
	assert_int_equal(store_delete_row(table, TFS_S("row")), 0);
	assert_int_equal(tfs_table_drop(store, "t"), 0);
	assert_int_equal(put("row", "q", 1, TFS_S("value"), false), -ENOENT);
	assert_int_equal(tfs_stat(table, TFS_S("row"), "f", TFS_S("q"), TFS_AUTO, &info), -ENOENT);
	assert_int_equal(tfs_flush(table), -ENOENT);
	assert_int_equal(tfs_table_create(store, "t", 0, 0, 0755), 0);
	assert_int_equal(tfs_table_open(store, "t", &again), 0);
	assert_int_equal(tfs_schema_change(again, &add, NULL), 0);
	tfs_table_close(table);
	table = again;
	assert_int_equal(put("row", "q", 1, TFS_S("value"), false), 0);
	assert_int_equal(tfs_stat(table, TFS_S("row"), "f", TFS_S("q"), TFS_AUTO, &info), 0);
	close_store();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(known_once, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(dropped_and_made, setup_options, test_dir_teardown),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
