/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tfs_error: each error that the caller can mend has a reason, which names table, row, family,
 * qualifier or clause.  A later success, another thread and another store do not have it.
 */
#include "t/engine/lib.h"

#include <pthread.h>

/* The call has failed with err, and its reason contains `part`. */
static void expect(int got, int err, const char *part)
{
	const char *reason = tfs_error(store);

	if (got != err || !strstr(reason, part) || (!*part && *reason))
		fail_msg("%d, not %d; \"%s\", not \"%s\"", got, err, reason, part);
}
static void expect_done(int got)
{
	assert_int_equal(got, 0);
	assert_string_equal(tfs_error(store), "");
}

static int apply(struct tfs_mutation *m)
{
	int err = tfs_apply(m, 0, NULL);

	tfs_mutation_free(m);
	return err;
}

static struct tfs_mutation *row(const char *key)
{
	return tfs_mutation_new(table, tfs_str(key));
}

static int scan(const struct tfs_scan_spec *spec)
{
	struct tfs_scan *sc;
	struct tfs_cell c;
	int err = tfs_scan_new(table, spec, &sc);

	if (err)
		return err;
	while ((err = tfs_scan_next(sc, &c)) > 0)
		;
	if (err < 0) { /* the next call has the same error and reason */
		char *reason = strdup(tfs_error(store));

		assert_int_equal(tfs_scan_next(sc, &c), err);
		assert_string_equal(tfs_error(store), reason);
		free(reason);
	}
	tfs_scan_free(sc);
	return err;
}

static void mutations(void **state)
{
	struct tfs_mutation *m = row("r");

	expect_done(put("r", "q", 1, TFS_S("v"), false));
	assert_int_equal(tfs_mutation_put(m, "nosuch", TFS_S("q"), TFS_AUTO, TFS_S("v")), 0);
	expect(apply(m), -EINVAL, "table t: it has no family \"nosuch\"");
	m = row("");
	assert_int_equal(tfs_mutation_put(m, "f", TFS_S("q"), TFS_AUTO, TFS_S("v")), 0);
	expect(apply(m), -EINVAL, "table t: a row key has 1 to 65,536 bytes");
	m = row("r");
	assert_int_equal(tfs_mutation_increment(m, "f", TFS_S("q"), 1), 0);
	expect(apply(m), -EINVAL, "table t: row \"r\": f:\"q\": its newest version is not a decimal number");
	expect_done(put("r", "q", 1, TFS_S("v"), false));
	m = row("r");
	assert_int_equal(tfs_mutation_put(m, "f", TFS_S("new"), TFS_AUTO, TFS_S("v")), 0);
	assert_int_equal(tfs_mutation_check(m, TFS_CHECK_VALUE, "f", TFS_S("q"), TFS_AUTO, TFS_S("w")), 0);
	expect(apply(m), -ECANCELED, "row \"r\": f:\"q\": its newest version has another value");
	m = row("r");
	assert_int_equal(tfs_mutation_check(m, TFS_CHECK_ABSENT, "f", TFS_S("q"), TFS_AUTO, TFS_S("")), 0);
	expect(apply(m), -ECANCELED, "there is a version of it");
	m = row("r");
	assert_int_equal(tfs_mutation_check(m, TFS_CHECK_MATCH, "f", TFS_S("q"), TFS_AUTO, TFS_S("(")), 0);
	expect(apply(m), -EINVAL, "not a regular expression");
	expect_done(put("r", "q", 1, TFS_S("v"), false));
}

static void reads(void **state)
{
	char qualifier[TFS_QUALIFIER_MAX + 1] = "";
	struct tfs_info info;
	bool exists;

	expect(tfs_stat(table, TFS_S("r"), "nosuch", TFS_S("q"), TFS_AUTO, &info), -EINVAL, "table t: it has no family \"nosuch\"");
	expect(tfs_stat(table, TFS_S("r"), "f", TFS_S("none"), TFS_AUTO, &info), -ENOENT, "");
	expect(tfs_stat(table, TFS_S("r"), "f", tfs_bytes_of(qualifier, sizeof(qualifier)), TFS_AUTO, &info), -EINVAL,
		"a qualifier at most 16,384");
	expect(tfs_row_exists(table, TFS_S(""), NULL, &exists), -EINVAL, "a row key has 1 to 65,536 bytes");
	expect_done(tfs_row_exists(table, TFS_S("r"), NULL, &exists));
}

static void scans(void **state)
{
	expect(scan(&(struct tfs_scan_spec){.families = (const char *[]){"f", "nosuch"}, .family_count = 2}), -EINVAL,
		"it has no family \"nosuch\"");
	expect(scan(&(struct tfs_scan_spec){.row_regex = TFS_S("(")}), -EINVAL,
		"table t: the pattern of rows, \"(\", is not valid: missing closing parenthesis");
	expect(scan(&(struct tfs_scan_spec){.qualifier_regex = TFS_S("(*ACCEPT)")}), -EINVAL, "it has a verb");
	expect(scan(&(struct tfs_scan_spec){.value_regex = TFS_S("[")}), -EINVAL, "the pattern of values, \"[\"");
	expect(scan(&(struct tfs_scan_spec){.one_row = true}), -EINVAL, "exclude each other");
	expect_done(scan(&(struct tfs_scan_spec){0}));
}

static void of_tables(void **state)
{
	struct tfs_table *t;
	char *why = NULL;

	expect(tfs_table_create(store, "a b", 0, 0, 0755), -EINVAL, "\"a b\" is no name");
	expect(tfs_table_create(store, "t", 0, 0, 0755), -EEXIST, "there is a table t already");
	expect(tfs_table_open(store, "none", &t), -ENOENT, "there is no table none");
	expect(tfs_table_drop(store, "none"), -ENOENT, "there is no table none");
	expect(tfs_table_drop(store, "t"), -ENOTEMPTY, "table t: it has cells");
	expect(tfs_table_rename(store, "none", "x", false), -ENOENT, "there is no table none");
	expect(tfs_schema_set_text(table, TFS_S("families = 7;"), TFS_NO_TIME, NULL), -EINVAL, "families");
	assert_int_equal(tfs_schema_set_text(table, TFS_S("families = 7;"), TFS_NO_TIME, &why), -EINVAL);
	expect(-EINVAL, -EINVAL, why);
	expect(-EINVAL, -EINVAL, "table t: ");
	free(why);
	expect(tfs_schema_change(table, &(struct tfs_schema_edit){.op = TFS_SCHEMA_FAMILY_ADD, .name = "f", .mode = 0644}, NULL),
		-EEXIST, "table t: f exists already");
	expect(tfs_snapshot_open(table, "none", &t), -ENOENT, "table t: there is no snapshot \"none\"");
	expect(tfs_snapshot_create(table, ""), -EINVAL, "is no name");
	expect_done(tfs_snapshot_create_all(store, "s"));
	expect(tfs_snapshot_create_all(store, "s"), -EEXIST, "table t: it has a snapshot s already");
	expect(tfs_table_truncate(table, NULL), -EBUSY, "snapshot");
	expect_done(tfs_snapshot_open(table, "s", &t));
	expect(store_put(t, TFS_S("r"), "f", TFS_S("q"), TFS_AUTO, TFS_S("v"), 0), -EROFS,
		"snapshot s: a snapshot cannot be changed");
	tfs_table_close(t);
	expect_done(tfs_snapshot_drop_all(store, "s"));
	expect(tfs_split(table, TFS_S("")), -EINVAL, "table t: no tablet is split at the empty row");
	expect(tfs_merge(table, TFS_S("r")), -ENOENT, "there is no tablet after that of row \"r\"");
	expect(tfs_config_change(store, TFS_S("nosuch = 1;"), NULL), -EINVAL, "nosuch");
	expect_done(tfs_config_change(store, TFS_S("sync = false;"), NULL));
}

static void users(void **state)
{
	const struct tfs_user user = {.uid = 1234, .gid = 1234};
	struct tfs_schema_edit e = {.op = TFS_SCHEMA_FAMILY_MODE, .name = "g", .mode = 0600};
	struct tfs_table *as, *own = table;
	struct tfs_info info;

	expect_done(tfs_schema_change(table, &e, NULL));
	expect_done(tfs_table_as(table, &user, &as));
	expect(tfs_stat(as, TFS_S("r"), "g", TFS_S("q"), TFS_AUTO, &info), -EACCES, "table t: no permission to read the family g");
	table = as;
	expect(scan(&(struct tfs_scan_spec){.families = (const char *[]){"f", "g"}, .family_count = 2}), -EACCES,
		"table t: no permission to read the family g");
	expect(put("r", "q", 1, TFS_S("v"), false), -EACCES, "row \"r\": f:\"q\": no permission for the family");
	expect(tfs_compact(as), -EACCES, "table t: only its owner may do this");
	expect(tfs_schema_set_text(as, TFS_S(""), TFS_NO_TIME, NULL), -EACCES, "table t: only its owner may do this");
	table = own;
	tfs_table_close(as);
}

static void *other_thread(void *arg)
{
	assert_string_equal(tfs_error(store), "");
	expect(tfs_table_drop(store, "thread"), -ENOENT, "there is no table thread");
	return NULL;
}

static void note_reason(void *arg, struct tfs_bytes key, int err)
{
	strcpy(arg, tfs_error(store));
}

static void threads_and_stores(void **state)
{
	struct tfs_store *second;
	struct tfs_mutation *m;
	struct tfs_batch *b;
	struct tfs_table *t;
	char reason[1024] = "";
	pthread_t thread;

	expect(tfs_table_drop(store, "none"), -ENOENT, "none");
	assert_int_equal(pthread_create(&thread, NULL, other_thread, NULL), 0);
	pthread_join(thread, NULL);
	expect(-ENOENT, -ENOENT, "there is no table none");
	assert_string_equal(tfs_error(NULL), "");
	assert_string_equal(tfs_error(store), "");

	assert_int_equal(store_open(in_dir("second"), NULL, &hooks, &second), 0);
	expect(tfs_table_drop(store, "none"), -ENOENT, "none");
	assert_string_equal(tfs_error(second), "");
	assert_int_equal(tfs_table_open(second, "other", &t), -ENOENT);
	assert_string_equal(tfs_error(store), "");
	assert_string_equal(tfs_error(second), "there is no table other");
	assert_int_equal(tfs_close(second), 0);

	/* A batch: in its callback, and in the call that returns the first error. */
	expect_done(put("r", "n", 1, TFS_S("x"), false));
	expect_done(tfs_batch_new(table, &(struct tfs_batch_options){.failed = note_reason, .arg = reason}, &b));
	m = row("r");
	assert_int_equal(tfs_mutation_increment(m, "f", TFS_S("n"), 1), 0);
	expect_done(tfs_batch_add(b, m));
	expect(tfs_batch_flush(b), -EINVAL, "table t: row \"r\": f:\"n\": its newest version is not a decimal number");
	assert_string_equal(reason, tfs_error(store));
	expect_done(tfs_batch_close(b));
	tfs_mutation_free(m);
}

static void dropped(void **state)
{
	struct tfs_table *t;
	struct tfs_info info;
	const struct tfs_schema *s;

	expect_done(tfs_table_create(store, "brief", 0, 0, 0755));
	expect_done(tfs_table_open(store, "brief", &t));
	expect_done(tfs_table_drop(store, "brief"));
	expect(tfs_schema_get(t, &s), -ENOENT, "table brief: it was dropped");
	expect(tfs_stat(t, TFS_S("r"), "#1", TFS_S("q"), TFS_AUTO, &info), -ENOENT, "table brief: it was dropped");
	expect(tfs_table_truncate(t, NULL), -ENOENT, "table brief: it was dropped");
	expect(tfs_flush(t), -ENOENT, "table brief: it was dropped");
	tfs_table_close(t);
}

static int begin(void **state)
{
	int err = setup_options(state);

	if (!err) {
		open_store();
		err = put("r", "q", 1, TFS_S("v"), false);
	}
	return err;
}

static int end(void **state)
{
	close_store();
	return test_dir_teardown(state);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(mutations), TEST(reads), TEST(scans), TEST(of_tables), TEST(users), TEST(threads_and_stores), TEST(dropped)};

	msg_to_nowhere();
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
