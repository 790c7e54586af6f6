/* SPDX-License-Identifier: Apache-2.0 */
/* Deaths while a snapshot or a clone is made or dropped: each is there as a whole or not at all. */
#include "t/engine/deaths.h"
#include "t/engine/snapshot_lib.h"

static void set_up(unsigned what)
{
	(void)what;
	open_store();
	assert_int_equal(store_no_dictionary(table), 0);
	fill(table, "old");
	assert_int_equal(tfs_split(table, TFS_S("row00020")), 0);
	assert_int_equal(tfs_snapshot_create(table, "kept"), 0);
	fill(table, "newer");
	close_store();
}

static void prepare(unsigned what)
{
	(void)what;
	fill(table, "newest"); /* in the log and in memory only */
}

/* All is synced: nothing that was acknowledged may be missing. */
static int change(unsigned what)
{
	struct tfs_table *s;
	int err = 0;

	if (what == 0) {
		err = tfs_snapshot_create(table, "new");
	} else if (what == 1) {
		err = tfs_snapshot_drop(table, "kept");
	} else if (what == 2) {
		err = tfs_table_clone(table, "clone");
	} else {
		err = tfs_snapshot_open(table, "kept", &s);
		if (!err)
			err = tfs_table_clone(s, "clone");
		if (!err)
			tfs_table_close(s);
	}
	return err ? err : tfs_compact(table); /* and the files that nothing names are removed */
}

/* After a death every table and snapshot is there as a whole or not at all. */
static void check_after(unsigned what, bool ended)
{
	struct tfs_table *t;
	int err;

	open_store();
	expect(table, "newest");
	err = tfs_snapshot_open(table, "kept", &t);
	assert_true(!err || (err == -ENOENT && what == 1));
	assert_false(ended && what == 1 && !err);
	if (!err) {
		expect(t, "old");
		tfs_table_close(t);
	}
	err = tfs_snapshot_open(table, "new", &t);
	assert_true(err == -ENOENT || (!err && what == 0));
	assert_false(ended && what == 0 && err);
	if (!err) {
		expect(t, "newest");
		tfs_table_close(t);
	}
	err = tfs_table_open(store, "clone", &t);
	assert_true(err == -ENOENT || (!err && what >= 2));
	assert_false(ended && what >= 2 && err);
	if (!err) {
		expect(t, what == 2 ? "newest" : "old");
		fill(t, "own");
		expect(t, "own");
		tfs_table_close(t);
	}
	expect(table, "newest");
	assert_int_equal(tfs_compact(table), 0);
	close_store();
}

static const struct death_test snapshots = {4, set_up, prepare, change, check_after};

static void kills_leave_all_or_nothing(void **state)
{
	deaths(&snapshots, false);
}

static void power_cuts_leave_all_or_nothing(void **state)
{
	deaths(&snapshots, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(kills_leave_all_or_nothing, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(power_cuts_leave_all_or_nothing, setup_options, test_dir_teardown),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
