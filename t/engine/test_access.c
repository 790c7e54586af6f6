/* SPDX-License-Identifier: Apache-2.0 */
/* A handle for a user reads, scans and writes only the families that owner, group, mode and the table's mode allow. */
#include "t/engine/lib.h"

enum { OWNER = 1001, OTHER = 1002, STAFF = 100 };

static void change(struct tfs_schema_edit e)
{
	assert_int_equal(tfs_schema_change(table, &e, NULL), 0);
}

static void chmod_family(const char *family, mode_t mode)
{
	change((struct tfs_schema_edit){.op = TFS_SCHEMA_FAMILY_MODE, .name = family, .mode = mode});
}

static struct tfs_table *as(uid_t uid, gid_t gid, gid_t extra)
{
	struct tfs_table *t;

	assert_int_equal(
		tfs_table_as(table, &(struct tfs_user){.uid = uid, .gid = gid, .groups = &extra, .group_count = 1}, &t), 0);
	return t;
}

/* The cells that a scan of all families returns, as "ROW/FAMILY ". */
static const char *seen(struct tfs_table *t, enum tfs_scan_what what)
{
	static char text[200];
	struct tfs_scan_spec spec = {.what = what};
	struct tfs_scan *s;
	struct tfs_cell c;
	int n;

	text[0] = 0;
	assert_int_equal(tfs_scan_new(t, &spec, &s), 0);
	while ((n = tfs_scan_next(s, &c)) > 0)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%.*s/%s ", (int)c.row.size, (const char *)c.row.data,
			what == TFS_SCAN_ROWS ? "" : c.family);
	tfs_scan_free(s);
	if (n)
		snprintf(text, sizeof(text), "error %d", n);
	return text;
}

static int read_cell(struct tfs_table *t, const char *family)
{
	struct tfs_info info;

	return tfs_stat(t, TFS_S("r"), family, TFS_S("q"), TFS_AUTO, &info);
}

static int write_cell(struct tfs_table *t, const char *family)
{
	return store_put(t, TFS_S("r"), family, TFS_S("q"), tfs_at(1), TFS_S("1"), 0);
}

/* Opens the store with cells r/f, r/g and s/g.  f: 0640, of OWNER and STAFF; g: 0600, of root. */
static void open_all(void)
{
	open_store();
	assert_int_equal(write_cell(table, "f"), 0);
	assert_int_equal(write_cell(table, "g"), 0);
	assert_int_equal(store_put(table, TFS_S("s"), "g", TFS_S("q"), tfs_at(1), TFS_S("1"), 0), 0);
	change((struct tfs_schema_edit){.op = TFS_SCHEMA_FAMILY_OWNER, .name = "f", .uid = OWNER, .gid = STAFF});
	chmod_family("f", 0640);
	chmod_family("g", 0600);
}

static void families(void **state)
{
	struct tfs_table *owner, *group, *other, *root;
	bool exists;

	open_all();
	owner = as(OWNER, OWNER, OWNER);
	group = as(OTHER, OTHER, STAFF);
	other = as(OTHER, OTHER, OTHER);
	root = as(0, 0, 0);
	assert_string_equal(seen(table, TFS_SCAN_CELLS), "r/f r/g s/g ");
	assert_string_equal(seen(root, TFS_SCAN_CELLS), "r/f r/g s/g ");
	assert_string_equal(seen(owner, TFS_SCAN_CELLS), "r/f ");
	assert_string_equal(seen(owner, TFS_SCAN_ROWS), "r/ ");
	assert_string_equal(seen(group, TFS_SCAN_FAMILIES), "r/f ");
	assert_string_equal(seen(other, TFS_SCAN_KEYS), "");
	assert_int_equal(read_cell(owner, "f"), 0);
	assert_int_equal(read_cell(owner, "g"), -EACCES);
	assert_int_equal(read_cell(group, "f"), 0);
	assert_int_equal(read_cell(other, "f"), -EACCES);
	assert_int_equal(read_cell(other, "none"), -EINVAL);
	assert_int_equal(write_cell(owner, "f"), 0);
	assert_int_equal(write_cell(owner, "g"), -EACCES);
	assert_int_equal(write_cell(group, "f"), -EACCES);
	assert_int_equal(write_cell(root, "g"), 0);
	assert_int_equal(tfs_row_exists(owner, TFS_S("r"), NULL, &exists), 0);
	assert_true(exists);
	assert_int_equal(tfs_row_exists(owner, TFS_S("s"), NULL, &exists), 0);
	assert_false(exists);
	assert_int_equal(tfs_row_exists(owner, TFS_S("s"), "g", &exists), -EACCES);
	/* At once. */
	chmod_family("f", 0600);
	assert_int_equal(read_cell(group, "f"), -EACCES);
	chmod_family("f", 0606);
	assert_int_equal(write_cell(group, "f"), -EACCES);
	assert_int_equal(write_cell(other, "f"), 0);
	change((struct tfs_schema_edit){.op = TFS_SCHEMA_TABLE_MODE, .mode = 0700});
	assert_int_equal(read_cell(other, "f"), -EACCES);
	tfs_table_close(root);
	tfs_table_close(other);
	tfs_table_close(group);
	tfs_table_close(owner);
	close_store();
}

static void scan_named(void **state)
{
	struct tfs_table *owner;
	const char *names[] = {"f", "g"};
	struct tfs_scan_spec spec = {.families = names, .family_count = 1, .reverse = true};
	struct tfs_scan *s;
	struct tfs_cell c;

	open_all();
	owner = as(OWNER, OWNER, OWNER);
	assert_int_equal(tfs_scan_new(owner, &spec, &s), 0);
	assert_int_equal(tfs_scan_next(s, &c), 1);
	assert_int_equal(tfs_scan_next(s, &c), 0);
	tfs_scan_free(s);
	spec.family_count = 2;
	assert_int_equal(tfs_scan_new(owner, &spec, &s), 0);
	assert_int_equal(tfs_scan_next(s, &c), -EACCES);
	tfs_scan_free(s);
	tfs_table_close(owner);
	close_store();
}

/* Returns the error of a mutation of row r with one operation. */
#define APPLY(t, add, ...)                                                                                                         \
	({                                                                                                                         \
		struct tfs_mutation *m_ = tfs_mutation_new(t, TFS_S("r"));                                                         \
		store_apply(m_, add(m_, ##__VA_ARGS__), 0);                                                                        \
	})

static void mutations(void **state)
{
	struct tfs_table *other;
	struct tfs_bytes q = TFS_S("q"), none = {0};
	struct tfs_batch *b;
	struct tfs_mutation *m;

	open_all();
	other = as(OTHER, OTHER, OTHER);
	chmod_family("f", 0642);
	assert_int_equal(APPLY(other, tfs_mutation_put, "f", q, TFS_AUTO, TFS_S("1")), 0);
	assert_int_equal(APPLY(other, tfs_mutation_set_time, "f", q, INT64_MAX - 1), 0);
	assert_int_equal(APPLY(other, tfs_mutation_check, TFS_CHECK_EXISTS, "f", q, TFS_AUTO, none), -EACCES);
	assert_int_equal(APPLY(other, tfs_mutation_increment, "f", q, 1), -EACCES);
	assert_int_equal(APPLY(other, tfs_mutation_move, "f", q, TFS_AUTO, "f", TFS_S("p"), TFS_AUTO, false), -EACCES);
	assert_int_equal(APPLY(other, tfs_mutation_delete_row), -EACCES);
	chmod_family("f", 0646);
	assert_int_equal(APPLY(other, tfs_mutation_increment, "f", q, 1), 0);
	assert_int_equal(APPLY(other, tfs_mutation_move, "f", q, TFS_AUTO, "g", q, TFS_AUTO, false), -EACCES);
	assert_int_equal(APPLY(other, tfs_mutation_move, "g", q, TFS_AUTO, "f", q, TFS_AUTO, false), -EACCES);
	assert_int_equal(APPLY(other, tfs_mutation_delete_family, "g"), -EACCES);
	assert_int_equal(APPLY(other, tfs_mutation_delete_column, "f", q), 0);
	assert_string_equal(seen(table, TFS_SCAN_CELLS), "r/g s/g ");
	/* A mutation of the table's own handle is not this user's. */
	m = tfs_mutation_new(table, TFS_S("r"));
	assert_int_equal(tfs_mutation_put(m, "g", q, TFS_AUTO, q), 0);
	assert_int_equal(tfs_batch_new(other, NULL, &b), 0);
	assert_int_equal(tfs_batch_add(b, m), -EINVAL);
	tfs_mutation_free(m);
	for (int i = 0; i < 10; i++) {
		m = tfs_mutation_new(other, i % 2 ? TFS_S("x") : TFS_S("y"));
		assert_int_equal(tfs_mutation_put(m, i == 5 ? "g" : "f", q, TFS_AUTO, q), 0);
		assert_int_equal(tfs_batch_add(b, m), 0);
		tfs_mutation_free(m);
	}
	assert_int_equal(tfs_batch_close(b), -EACCES);
	assert_string_equal(seen(other, TFS_SCAN_FAMILIES), "x/f y/f ");
	tfs_table_close(other);
	close_store();
}

static void snapshot(void **state)
{
	struct tfs_table *owner, *snap;

	open_all();
	owner = as(OWNER, OWNER, OWNER);
	assert_int_equal(tfs_snapshot_create(table, "s"), 0);
	chmod_family("f", 0600);
	assert_int_equal(tfs_snapshot_open(owner, "s", &snap), 0);
	assert_string_equal(seen(snap, TFS_SCAN_CELLS), "r/f ");
	assert_int_equal(read_cell(snap, "g"), -EACCES);
	tfs_table_close(snap);
	/* In the snapshot the group may still read. */
	tfs_table_close(owner);
	owner = as(OTHER, OTHER, STAFF);
	assert_int_equal(read_cell(owner, "f"), -EACCES);
	assert_int_equal(tfs_snapshot_open(owner, "s", &snap), 0);
	assert_int_equal(read_cell(snap, "f"), 0);
	tfs_table_close(snap);
	tfs_table_close(owner);
	close_store();
}

static int tablet_seen(void *arg, const struct tfs_tablet *t)
{
	return 0;
}

static void tablets(void **state)
{
	struct tfs_table *owner, *other;
	struct tfs_usage u;

	open_all();
	change((struct tfs_schema_edit){.op = TFS_SCHEMA_TABLE_OWNER, .uid = OWNER, .gid = OWNER});
	owner = as(OWNER, OWNER, OWNER);
	other = as(OTHER, OTHER, OTHER);
	assert_int_equal(tfs_usage(owner, NULL, &u), 0);
	assert_int_equal(tfs_usage(owner, "g", &u), 0);
	assert_int_equal(tfs_usage(other, NULL, &u), -EACCES);
	assert_int_equal(tfs_tablets(owner, tablet_seen, NULL), 0);
	assert_int_equal(tfs_tablets(other, tablet_seen, NULL), -EACCES);
	assert_int_equal(tfs_flush(owner), 0);
	assert_int_equal(tfs_flush(other), -EACCES);
	assert_int_equal(tfs_compact(other), -EACCES);
	assert_int_equal(tfs_split(other, TFS_S("s")), -EACCES);
	assert_int_equal(tfs_table_truncate(other, NULL), -EACCES);
	assert_int_equal(tfs_split(owner, TFS_S("s")), 0);
	assert_int_equal(tfs_merge(other, TFS_S("r")), -EACCES);
	/* A scan over several tablets omits the family in each. */
	assert_string_equal(seen(other, TFS_SCAN_CELLS), "");
	chmod_family("g", 0604);
	assert_string_equal(seen(other, TFS_SCAN_CELLS), "r/g s/g ");
	assert_int_equal(tfs_table_truncate(owner, NULL), 0);
	assert_string_equal(seen(owner, TFS_SCAN_CELLS), "");
	tfs_table_close(owner);
	tfs_table_close(other);
	close_store();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(families, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(scan_named, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(mutations, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(snapshot, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(tablets, setup_options, test_dir_teardown),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
