/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a family's rules hide is still there until a compaction takes it, and
 * a rule that is loosened may show it again.  So a salt waits until hidden
 * cells are off the disk, too.
 */
#include "t/engine/lib.h"

#define KEPT "families = ( { name = \"f\"; gc = \"maxage=1h\"; }, { name = \"g\"; gc = \"maxversions=1\"; } );"
#define LOOSE "maxage=400000d" /* since before 1970 */
#define ROWS 40

/* 1: the table's salt waits until the table is empty. */
static int salt_waits_on(void)
{
	const struct tfs_schema *s;
	int waits;

	assert_int_equal(tfs_schema_get(table, &s), 0);
	waits = s->salt != s->salt_in_use;
	tfs_schema_put(s);
	return waits;
}

static int set_text(const char *head, const char *families)
{
	char text[400], *why = NULL;
	int err;

	snprintf(text, sizeof(text), "%s %s", head, families);
	err = tfs_schema_set_text(table, tfs_str(text), TFS_NO_TIME, &why);
	if (err)
		assert_non_null(why);
	free(why);
	return err ? err : salt_waits_on();
}

static void set_gc(const char *family, const char *gc)
{
	struct tfs_schema_edit e = {.op = TFS_SCHEMA_FAMILY_GC, .name = family, .value = gc};

	assert_int_equal(tfs_schema_change(table, &e, NULL), 0);
}

static int put_in(const char *row, const char *family, int64_t ts, struct tfs_bytes value)
{
	struct tfs_mutation *m = tfs_mutation_new(table, tfs_str(row));
	int err = tfs_mutation_put(m, family, TFS_S("q"), tfs_at(ts), value);

	if (!err)
		err = tfs_apply(m, 0, NULL);
	tfs_mutation_free(m);
	return err;
}

/* First bytes of rows that are salts themselves: one read as the other must not come to be. */
static void row_of(unsigned i, char row[16])
{
	snprintf(row, 16, "%c%crow%02u", 1 + i % 20, 1 + i % 7, i);
}

static void put_rows(int64_t ts)
{
	char row[16];

	for (unsigned i = 0; i < ROWS; i++) {
		row_of(i, row);
		assert_int_equal(put_in(row, "f", ts, tfs_str(row)), 0);
	}
}

/* Cells of the table, each under the row that it names, by scans and by itself. */
static unsigned count_cells(void)
{
	struct tfs_scan_spec spec = {.what = TFS_SCAN_CELLS};
	struct tfs_scan *s;
	struct tfs_cell c;
	unsigned n = 0;
	int r;

	assert_int_equal(tfs_scan_new(table, &spec, &s), 0);
	while ((r = tfs_scan_next(s, &c)) > 0) {
		struct tfs_info info;

		assert_int_equal(c.row.size, c.value.size);
		assert_memory_equal(c.row.data, c.value.data, c.row.size);
		assert_int_equal(tfs_stat(table, c.row, "f", TFS_S("q"), tfs_at(5), &info), 0);
		n++;
	}
	assert_int_equal(r, 0);
	tfs_scan_free(s);
	return n;
}

static const char *rm_store(void)
{
	static char cmd[300];

	snprintf(cmd, sizeof(cmd), "rm -r '%s'", in_dir("store"));
	return cmd;
}

/* Hidden rows in memory, in files, in both, let each salt wait; loosened, they are what they were. */
static void test_salt(void **state)
{
	static const char *const salts[][2] = {{"", "salt = 16;"}, {"salt = 16;", ""}, {"salt = 16;", "salt = 7;"}};

	(void)state;
	options.no_background = true;
	hooks.no_flush = true;
	for (unsigned i = 0; i < 9; i++) {
		const char *from = salts[i / 3][0], *to = salts[i / 3][1];

		open_store();
		assert_int_equal(set_text(from, KEPT), 0);
		set_gc("f", LOOSE); /* a flush would leave out what is hidden */
		put_rows(5);
		if (i % 3)
			assert_int_equal(tfs_flush(table), 0);
		if (i % 3 == 2)
			put_rows(5);
		assert_int_equal(count_cells(), ROWS);
		set_gc("f", "maxage=1h");
		assert_int_equal(count_cells(), 0);
		assert_int_equal(set_text(to, KEPT), 1);
		set_gc("f", LOOSE);
		assert_int_equal(count_cells(), ROWS);
		set_gc("f", "maxage=1h");
		assert_int_equal(set_text(to, KEPT), 1);
		close_store();
		open_store();
		assert_int_equal(set_text(to, KEPT), 1);
		assert_int_equal(tfs_compact(table), 0);
		assert_int_equal(set_text(to, KEPT), 0);
		set_gc("f", LOOSE);
		assert_int_equal(count_cells(), 0);
		put_rows(5);
		assert_int_equal(count_cells(), ROWS);
		set_gc("f", "maxage=1h");
		assert_int_equal(tfs_table_drop(store, "t"), 0); /* hidden cells go with their table */
		close_store();
		assert_int_equal(system(rm_store()), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_salt, setup_options, test_dir_teardown),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
