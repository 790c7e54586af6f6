/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A split that is put into METADATA by hand, as one inserted row, loses no cell:
 * sequence numbers, redo sets and file ranges are evaluated.  Part of the data is
 * in SSTables and part only in the log.  Reopened, the two tablets read, compact
 * and take writes, and are reopened again.  Then the upper half is split again.
 */
#include "engine/client/metadata.h"
#include "engine/server/internal.h"
#include "t/engine/lib.h"

#define ROWS 300

static void fill(int64_t ts, const char *word, int from, int to, int step)
{
	char row[32], value[64];

	for (int i = from; i < to; i += step) {
		snprintf(row, sizeof(row), "row%03d", i);
		snprintf(value, sizeof(value), "%s %d", word, i);
		assert_int_equal(put(row, "q", ts, tfs_str(value), false), 0);
	}
}

static void delete_row(const char *row)
{
	assert_int_equal(store_delete_row(table, tfs_str(row)), 0);
}

/* All cells as one text. */
static char *everything(void)
{
	static char text[2][1 << 18];
	static unsigned turn;
	struct tfs_scan_spec spec = {.what = TFS_SCAN_CELLS};
	char *p = text[turn++ % 2];
	struct tfs_scan *sc;
	struct tfs_cell c;
	size_t n = 0;
	int err;

	p[0] = '\0';
	assert_int_equal(tfs_scan_new(table, &spec, &sc), 0);
	while ((err = tfs_scan_next(sc, &c)) > 0) {
		struct tfs_info info;

		n += (size_t)snprintf(p + n, sizeof(text[0]) - n, "%.*s %s %.*s %lld %.*s\n", (int)c.row.n, (const char *)c.row.p,
			c.family, (int)c.qualifier.n, (const char *)c.qualifier.p, (long long)c.ts, (int)c.value.n,
			(const char *)c.value.p);
		assert_true(n < sizeof(text[0]));
		assert_int_equal(tfs_stat(table, c.row, c.family, c.qualifier, tfs_at(c.ts), &info), 0);
	}
	assert_int_equal(err, 0);
	tfs_scan_free(sc);
	return p;
}

static int count_tablet(void *arg, const struct tfs_tablet *t)
{
	unsigned *n = arg;

	assert_string_not_equal(t->state, "");
	(*n)++;
	return 0;
}

static unsigned tablets(void)
{
	unsigned n = 0;

	assert_int_equal(tfs_tablets(table, count_tablet, &n), 0);
	return n;
}

/* Copies the METADATA row of the tablet that ends the table to one that ends at `at`: that commits a split. */
static void split_by_hand(const char *at)
{
	struct tablet_service *svc = server_service(hooks.server);
	struct meta_tablet upper = {0};
	struct arena arena = {0};
	struct buf key = {0};
	struct op *ops;
	unsigned count;

	assert_int_equal(meta_row_key(&key, tfs_table_id(table), true, (struct tfs_bytes){NULL, 0}), 0);
	assert_int_equal(metadata_read(svc, buf_bytes(&key), &upper), 0);
	upper.last = false;
	assert_int_equal(buf_set(&upper.end, at, strlen(at)), 0);
	for (unsigned i = 0; i < upper.file_count; i++)
		assert_int_equal(buf_set(&upper.files[i].end, at, strlen(at)), 0);
	buf_reset(&key);
	assert_int_equal(meta_row_key(&key, tfs_table_id(table), false, tfs_str(at)), 0);
	assert_int_equal(meta_ops_new(&upper, &arena, &ops, &count), 0);
	assert_int_equal(metadata_mutate(svc, buf_bytes(&key), ops, count), 0);
	meta_tablet_fini(&upper);
	arena_fini(&arena);
	buf_fini(&key);
}

/* The upper tablet's row still has the lower's files, and they are clipped: no damage, and nothing is left over. */
static void reopen(bool flush)
{
	hooks.no_flush = !flush;
	close_store();
	check_is_clean();
	open_store();
}

/* Splits by a server without background work, so that no compaction changes the tablet's files meanwhile. */
static void split_and_reopen(const char *at)
{
	bool background = !options.no_background;

	options.no_background = true;
	reopen(false);
	split_by_hand(at);
	options.no_background = !background;
	reopen(false);
}

static void compare(char *before)
{
	char *after = everything();

	assert_string_equal(before, after);
}

static void split(bool background)
{
	char *before;

	options.no_background = !background;
	open_store();
	fill(1, "old", 0, ROWS, 1);
	assert_int_equal(tfs_flush(table), 0);
	fill(2, "middle", 0, ROWS, 3);
	assert_int_equal(tfs_flush(table), 0);
	fill(3, "in the log", 0, ROWS, 2);
	delete_row("row100");
	delete_row("row200");
	before = everything();
	split_and_reopen("row150"); /* records in the log reach both by their rows */
	assert_int_equal(tablets(), 2);
	compare(before);
	assert_int_equal(tfs_flush(table), 0);
	compare(before);
	assert_int_equal(tfs_compact(table), 0);
	compare(before);
	reopen(true);
	assert_int_equal(tablets(), 2);
	compare(before);

	/* Writes after it: sequence numbers continue above the parent's in both. */
	fill(3, "again", 140, 160, 1);
	fill(4, "new", 145, 155, 1);
	delete_row("row149");
	delete_row("row150");
	before = everything();
	reopen(false);
	compare(before);
	fill(5, "more", 0, ROWS, 50);
	before = everything();
	split_and_reopen("row250");
	assert_int_equal(tablets(), 3);
	compare(before);
	assert_int_equal(tfs_compact(table), 0);
	compare(before);
	reopen(true);
	compare(before);
	close_store();
}

static void test_quiet(void **state)
{
	split(false);
}

static void test_background(void **state)
{
	options.memtable_bytes = 64 << 10;
	split(true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_quiet, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(test_background, setup_options, test_dir_teardown),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
