/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks of mutations: a pattern over the newest value, the fingerprint of a
 * family in a row, and which operation of a failed mutation is the cause.
 */
#include "t/engine/lib.h"

#define ROW TFS_S("row")
#define OPS 3

static struct tfs_result results[OPS];

/* Applies m and frees it. */
static int apply(struct tfs_mutation *m)
{
	int err;

	memset(results, 0xff, sizeof(results));
	err = tfs_apply(m, 0, results);
	tfs_mutation_free(m);
	return err;
}

static uint64_t fingerprint(const char *family)
{
	struct tfs_scan_spec spec = {
		.what = TFS_SCAN_KEYS, .row_from = ROW, .one_row = true, .families = &family, .family_count = 1};
	struct tfs_scan *sc;
	struct tfs_cell c;
	uint64_t sum = 0;
	int err;

	assert_int_equal(tfs_scan_new(table, &spec, &sc), 0);
	while ((err = tfs_scan_next(sc, &c)) > 0)
		sum += tfs_fingerprint(&c);
	assert_int_equal(err, 0);
	tfs_scan_free(sc);
	return sum;
}

/* The check of family "f" with this fingerprint: 0 or -ECANCELED. */
static int check_family(uint64_t sum)
{
	struct tfs_mutation *m = tfs_mutation_new(table, ROW);

	assert_int_equal(tfs_mutation_check_family(m, "f", sum), 0);
	return apply(m);
}

static int put_f(const char *qualifier, int64_t ts, const char *value)
{
	return put("row", qualifier, ts, tfs_str(value), false);
}

static int match(const char *pattern)
{
	struct tfs_mutation *m = tfs_mutation_new(table, ROW);

	assert_int_equal(tfs_mutation_put(m, "f", TFS_S("seen"), tfs_at(1), TFS_S("x")), 0);
	assert_int_equal(tfs_mutation_check(m, TFS_CHECK_MATCH, "f", TFS_S("q"), TFS_AUTO, tfs_str(pattern)), 0);
	return apply(m);
}

static void a_pattern_matches_the_whole_newest_value(void **state)
{
	open_store();
	assert_int_equal(put_f("q", 1, "older"), 0);
	assert_int_equal(put_f("q", 2, "status=200"), 0);
	assert_int_equal(match("status=[0-9]+"), 0);
	assert_int_equal(results[0].ts, 1);
	assert_int_equal(match("status=200|x"), 0);
	assert_int_equal(match("status"), -ECANCELED);
	assert_true(results[1].failed);
	assert_false(results[0].failed);
	assert_int_equal(match("older"), -ECANCELED);
	assert_int_equal(match("(unclosed"), -EINVAL);
	assert_true(results[1].failed);
	/* An absent column matches nothing. */
	struct tfs_mutation *m = tfs_mutation_new(table, ROW);
	assert_int_equal(tfs_mutation_check(m, TFS_CHECK_MATCH, "f", TFS_S("absent"), TFS_AUTO, TFS_S(".*")), 0);
	assert_int_equal(apply(m), -ECANCELED);
	close_store();
}

static void no_pattern_can_hang_a_mutation(void **state)
{
	char value[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab";

	open_store();
	assert_int_equal(put_f("q", 1, value), 0);
	assert_int_equal(match("((a|aa)+)+"), -ETIME);
	assert_true(results[1].failed);
	close_store();
}

/* A value that no caller may pass is the caller's mistake (EINVAL), not damage.  Nothing is applied. */
static void wrong_enums_are_refused(void **state)
{
	const struct tfs_ts wrong = {(enum tfs_when)2, 5};
	struct tfs_mutation *m;
	struct tfs_info info;
	size_t got;
	char byte;

	open_store();
	assert_int_equal(put_f("q", 1, "x"), 0);
	m = tfs_mutation_new(table, ROW);
	assert_int_equal(tfs_mutation_put(m, "f", TFS_S("new"), wrong, TFS_S("x")), 0);
	assert_int_equal(apply(m), -EINVAL);
	m = tfs_mutation_new(table, ROW);
	assert_int_equal(tfs_mutation_move(m, "f", TFS_S("q"), tfs_at(1), "f", TFS_S("new"), wrong, false), 0);
	assert_int_equal(apply(m), -EINVAL);
	m = tfs_mutation_new(table, ROW);
	assert_int_equal(tfs_mutation_check(m, TFS_CHECK_FAMILY, "f", TFS_S("q"), TFS_AUTO, TFS_S("")), 0);
	assert_int_equal(apply(m), -EINVAL);
	assert_int_equal(tfs_read(table, ROW, "f", TFS_S("q"), wrong, 0, &byte, 1, &got, &info), -EINVAL);
	assert_int_equal(tfs_stat(table, ROW, "f", TFS_S("q"), wrong, &info), -EINVAL);
	assert_int_equal(tfs_stat(table, ROW, "f", TFS_S("new"), TFS_AUTO, &info), -ENOENT);
	assert_int_equal(tfs_stat(table, ROW, "f", TFS_S("q"), TFS_AUTO, &info), 0);
	close_store();
}

static void a_failed_operation_is_named(void **state)
{
	struct tfs_mutation *m;

	open_store();
	assert_int_equal(put_f("text", 1, "no number"), 0);
	m = tfs_mutation_new(table, ROW);
	assert_int_equal(tfs_mutation_put(m, "f", TFS_S("a"), TFS_AUTO, TFS_S("v")), 0);
	assert_int_equal(tfs_mutation_put(m, "f", TFS_S("b"), TFS_AUTO, TFS_S("v")), 0);
	assert_int_equal(tfs_mutation_increment(m, "f", TFS_S("text"), 1), 0);
	assert_int_equal(apply(m), -EINVAL);
	assert_false(results[0].failed);
	assert_false(results[1].failed);
	assert_true(results[2].failed);
	m = tfs_mutation_new(table, ROW);
	assert_int_equal(tfs_mutation_check(m, TFS_CHECK_EXISTS, "f", TFS_S("text"), TFS_AUTO, TFS_S("")), 0);
	assert_int_equal(tfs_mutation_check(m, TFS_CHECK_ABSENT, "f", TFS_S("text"), TFS_AUTO, TFS_S("")), 0);
	assert_int_equal(apply(m), -ECANCELED);
	assert_false(results[0].failed);
	assert_true(results[1].failed);
	close_store();
}

static void any_change_of_a_family_is_noticed(void **state)
{
	uint64_t empty, one, two;

	open_store();
	empty = fingerprint("f");
	assert_int_equal(check_family(empty), 0);
	assert_int_equal(put_f("q", 1, "v"), 0);
	assert_int_equal(check_family(empty), -ECANCELED);
	one = fingerprint("f");
	assert_int_equal(check_family(one), 0);
	/* Now the cell is written again. */
	assert_int_equal(put_f("q", 1, "v"), 0);
	assert_int_equal(check_family(one), -ECANCELED);
	one = fingerprint("f");
	assert_int_equal(put_f("r", 1, "v"), 0);
	two = fingerprint("f");
	assert_int_equal(check_family(two), 0);
	/* A cell that was deleted, and one that was deleted and written again. */
	assert_int_equal(store_delete_row(table, ROW), 0);
	assert_int_equal(check_family(two), -ECANCELED);
	assert_int_equal(check_family(fingerprint("f")), 0);
	assert_int_equal(put_f("q", 1, "v"), 0);
	assert_int_equal(put_f("r", 1, "v"), 0);
	assert_int_equal(check_family(two), -ECANCELED);
	assert_int_equal(check_family(fingerprint("f")), 0);
	/* Another family does not count. */
	two = fingerprint("f");
	assert_int_equal(store_put(table, ROW, "g", TFS_S("q"), tfs_at(1), TFS_S("v"), 0), 0);
	assert_int_equal(check_family(two), 0);
	close_store();
}

static void a_fingerprint_outlives_the_files(void **state)
{
	uint64_t sum;

	open_store();
	for (int i = 0; i < 50; i++) {
		char q[16];

		snprintf(q, sizeof(q), "q%d", i);
		assert_int_equal(put_f(q, i, "v"), 0);
		assert_int_equal(put("before", q, i, TFS_S("v"), false), 0);
	}
	sum = fingerprint("f");
	assert_int_equal(tfs_flush(table), 0);
	assert_int_equal(check_family(sum), 0);
	assert_int_equal(tfs_split(table, ROW), 0);
	assert_int_equal(check_family(sum), 0);
	close_store();
	open_store();
	assert_int_equal(check_family(sum), 0);
	assert_int_equal(tfs_compact(table), 0);
	assert_int_equal(check_family(sum), 0);
	assert_int_equal(tfs_merge(table, TFS_S("before")), 0);
	assert_int_equal(check_family(sum), 0);
	assert_int_equal(fingerprint("f"), sum);
	close_store();
	check_is_clean();
}

/* The sequence numbers of a truncated table begin again. */
static void a_truncation_is_noticed(void **state)
{
	uint64_t sum;

	open_store();
	assert_int_equal(put_f("q", 1, "v"), 0);
	sum = fingerprint("f");
	assert_int_equal(tfs_table_truncate(table, NULL), 0);
	assert_int_equal(check_family(sum), -ECANCELED);
	assert_int_equal(put_f("q", 1, "w"), 0);
	assert_int_equal(check_family(sum), -ECANCELED);
	close_store();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_pattern_matches_the_whole_newest_value, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(no_pattern_can_hang_a_mutation, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(wrong_enums_are_refused, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(a_failed_operation_is_named, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(any_change_of_a_family_is_noticed, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(a_fingerprint_outlives_the_files, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(a_truncation_is_noticed, setup_options, test_dir_teardown),
	};

	msg_to_nowhere();
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
