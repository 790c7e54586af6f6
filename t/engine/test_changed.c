/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A scan of the cells that were committed since a time reads no SSTable without
 * such cells, unless a cell in it hides one that is read.
 */
#include "t/engine/lib.h"

#include "t/lib/metric.h"

#define SECOND INT64_C(1000000)
#define BEGIN (INT64_C(1600000000) * SECOND)

static int64_t now;

static int64_t test_clock(void *arg)
{
	return now;
}

/* The values that were committed at or after this second, each with a space after it. */
static const char *changed(int64_t second, uint32_t versions)
{
	static char text[2 << 20];
	struct tfs_scan_spec spec = {
		.what = TFS_SCAN_CELLS, .has_changed = true, .changed_since = BEGIN + second * SECOND, .versions = versions};
	struct tfs_scan *sc;
	struct tfs_cell c;
	size_t n = 0;
	int err;

	text[0] = 0;
	assert_int_equal(tfs_scan_new(table, &spec, &sc), 0);
	while ((err = tfs_scan_next(sc, &c)) > 0)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%.*s ", (int)c.value.n, (const char *)c.value.p);
	assert_int_equal(err, 0);
	tfs_scan_free(sc);
	return text;
}

static void put_at(int64_t second, const char *row, int64_t ts, const char *value)
{
	now = BEGIN + second * SECOND;
	assert_int_equal(put(row, "q", ts, tfs_str(value), false), 0);
}

static void set_rule(const char *rule)
{
	const struct tfs_schema_edit e = {.op = TFS_SCHEMA_FAMILY_GC, .name = "f", .value = rule};

	assert_int_equal(tfs_schema_change(table, &e, NULL), 0);
}

static void open_at(int64_t second)
{
	now = BEGIN + second * SECOND;
	clock_free(hooks.clock);
	hooks.clock = clock_new(test_clock, NULL);
	open_store();
}

static void end(void)
{
	close_store();
	check_is_clean();
	clock_free(hooks.clock);
	hooks.clock = NULL;
}

static void test_few_blocks(void **state)
{
	char row[32], value[200];
	uint64_t all, few;

	(void)state;
	options.no_background = true;
	open_at(0);
	memset(value, 'v', sizeof(value) - 1);
	value[sizeof(value) - 1] = 0;
	for (unsigned i = 0; i < 5000; i++) {
		snprintf(row, sizeof(row), "row%05u", i * 7919 % 5000);
		put_at(1, row, 1000 + i, value);
	}
	assert_int_equal(tfs_compact(table), 0);
	put_at(5, "row01234", 9000, "new");
	put_at(6, "row04321", 9000, "newer");
	assert_int_equal(tfs_flush(table), 0);
	close_store();
	for (unsigned pass = 0; pass < 2; pass++) {
		open_at(10);
		all = metric_of(store, "blocks_read");
		assert_int_equal(strlen(changed(1, 0)), 5000 * 200 + 10);
		all = metric_of(store, "blocks_read") - all;
		close_store();
		open_at(10);
		few = metric_of(store, "blocks_read");
		assert_string_equal(changed(5, 0), "new newer ");
		few = metric_of(store, "blocks_read") - few;
		print_message("# %s: %llu blocks of %llu\n", pass ? "with maxversions" : "no rule", (unsigned long long)few,
			(unsigned long long)all);
		assert_true(all > 20 && few <= 4);
		if (pass == 0)
			set_rule("maxversions=3");
		close_store();
	}
	clock_free(hooks.clock);
	hooks.clock = NULL;
}

/* A cell that is committed later with an older timestamp is hidden by a version in a file without later commits. */
static void test_back_dated(void **state)
{
	(void)state;
	options.no_background = true;
	open_at(0);
	put_at(1, "row", 100, "first");
	assert_int_equal(tfs_compact(table), 0);
	put_at(5, "row", 50, "back-dated");
	put_at(5, "other", 200, "other");
	for (unsigned flushed = 0; flushed < 2; flushed++) {
		assert_string_equal(changed(3, 0), "other back-dated ");
		assert_string_equal(changed(3, 1), "other ");
		assert_string_equal(changed(3, 2), "other back-dated ");
		set_rule("maxversions=1");
		assert_string_equal(changed(3, 0), "other ");
		set_rule("maxversions=2");
		assert_string_equal(changed(3, 0), "other back-dated ");
		assert_string_equal(changed(0, 0), "other first back-dated ");
		set_rule("");
		assert_int_equal(tfs_flush(table), 0);
	}
	end();
}

/* The clock was set back between two openings: the later write has the earlier time of commit. */
static void test_clock_set_back(void **state)
{
	(void)state;
	options.no_background = true;
	open_at(0);
	put_at(1, "a", 1, "old");
	put_at(30, "row", 5, "first");
	close_store();
	open_at(10);
	put_at(10, "row", 5, "second");
	assert_string_equal(changed(20, 0), "");
	assert_int_equal(tfs_flush(table), 0);
	assert_string_equal(changed(20, 0), "");
	assert_string_equal(changed(5, 0), "second ");
	assert_string_equal(changed(0, 0), "old second ");
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_few_blocks, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(test_back_dated, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(test_clock_set_back, setup_options, test_dir_teardown),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
