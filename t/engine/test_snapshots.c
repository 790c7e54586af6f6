/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Snapshots and clones: a snapshot shows one instant whatever happens to its
 * table; a clone is a table of its own; both share SSTables, and no SSTable is
 * removed too early or remains too long.
 */
#include "t/engine/snapshot_lib.h"

#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

static void expect_snapshot(const char *name, const char *value)
{
	struct tfs_table *t;

	assert_int_equal(tfs_snapshot_open(table, name, &t), 0);
	expect(t, value);
	tfs_table_close(t);
}

/* SSTables of user tables: their number. */
static unsigned sst_count(void)
{
	struct dirent *e, *f;
	DIR *all = opendir(in_dir("store/sst")), *one;
	char path[64];
	unsigned n = 0;

	while (all && (e = readdir(all))) {
		if (atoi(e->d_name) < 16)
			continue;
		snprintf(path, sizeof(path), "store/sst/%.40s", e->d_name);
		one = opendir(in_dir(path));
		while (one && (f = readdir(one)))
			n += f->d_name[0] != '.';
		closedir(one);
	}
	closedir(all);
	return n;
}

static void reopen(void)
{
	close_store();
	check_is_clean();
	open_store();
}

static void a_snapshot_shows_one_instant(void **state)
{
	struct tfs_table *s;
	struct tfs_schema_edit e = {.op = TFS_SCHEMA_FAMILY_RENAME, .name = "f", .value = "new"};
	const struct tfs_schema *p;
	struct tfs_mutation *m;

	open_store();
	fill(table, "old");
	assert_int_equal(tfs_snapshot_create(table, "s"), 0);
	assert_int_equal(tfs_snapshot_create(table, "s"), -EEXIST);
	assert_int_equal(tfs_snapshot_create(table, ".s"), -EINVAL);
	fill(table, "new");
	expect(table, "new");
	expect_snapshot("s", "old");
	assert_int_equal(tfs_split(table, TFS_S("row00020")), 0);
	assert_int_equal(tfs_compact(table), 0);
	expect_snapshot("s", "old");
	reopen();
	expect(table, "new");
	expect_snapshot("s", "old");
	assert_int_equal(tfs_merge(table, TFS_S("row00001")), 0);
	assert_int_equal(tfs_schema_change(table, &e, NULL), 0);
	for (unsigned i = 0; i < ROWS; i++) {
		char row[32];

		row_name(row, i);
		assert_int_equal(store_delete_row(table, tfs_str(row)), 0);
	}
	assert_int_equal(tfs_compact(table), 0);
	e = (struct tfs_schema_edit){.op = TFS_SCHEMA_FAMILY_DROP, .name = "new"};
	assert_int_equal(tfs_schema_change(table, &e, NULL), 0);
	reopen();
	expect_snapshot("s", "old");

	/* It is the table of that instant, and nothing changes it. */
	assert_int_equal(tfs_snapshot_open(table, "s", &s), 0);
	assert_int_equal(tfs_schema_get(s, &p), 0);
	assert_non_null(tfs_schema_family(p, "f"));
	assert_null(tfs_schema_family(p, "new"));
	assert_string_equal(p->name, "s");
	assert_int_equal(p->snapshot_of, tfs_table_id(table));
	tfs_schema_put(p);
	assert_int_equal(store_put(s, TFS_S("row"), "f", TFS_S("q"), TFS_AUTO, TFS_S("x"), 0), -EROFS);
	m = tfs_mutation_new(s, TFS_S("row00001"));
	assert_int_equal(tfs_mutation_delete_row(m), 0);
	assert_int_equal(tfs_apply(m, 0, NULL), -EROFS);
	tfs_mutation_free(m);
	assert_int_equal(tfs_schema_change(s, &e, NULL), -EROFS);
	assert_int_equal(tfs_schema_set_text(s, TFS_S(""), TFS_NO_TIME, NULL), -EROFS);
	assert_int_equal(tfs_split(s, TFS_S("row00010")), -EROFS);
	assert_int_equal(tfs_compact(s), -EROFS);
	assert_int_equal(tfs_flush(s), 0);
	assert_int_equal(tfs_snapshot_create(s, "t"), -EROFS);

	/* Its table can be renamed, and not removed. */
	assert_int_equal(tfs_table_drop(store, "t"), -EBUSY);
	assert_int_equal(tfs_table_truncate(table, NULL), -EBUSY);
	assert_int_equal(tfs_table_create(store, "u", 0, 0, 0755), 0);
	assert_int_equal(tfs_table_rename(store, "u", "t", false), -EBUSY);
	assert_int_equal(tfs_table_rename(store, "t", "v", true), 0);
	expect_snapshot("s", "old");
	assert_int_equal(tfs_table_rename(store, "v", "t", true), 0);
	assert_true(sst_count() > 0);
	assert_int_equal(tfs_snapshot_drop(table, "s"), 0);
	assert_int_equal(tfs_snapshot_drop(table, "s"), -ENOENT);
	assert_int_equal(tfs_row_exists(s, TFS_S("row00001"), NULL, &(bool){false}), -ENOENT);
	tfs_table_close(s);
	assert_int_equal(tfs_compact(table), 0);
	assert_int_equal(sst_count(), 0);
	assert_int_equal(tfs_table_drop(store, "t"), 0);
	close_store();
	check_is_clean();
}

/* Cells that expire later remain in the snapshot, and in nothing else. */
static void time_stands_still(void **state)
{
	struct tfs_schema_edit e = {.op = TFS_SCHEMA_FAMILY_GC, .name = "f", .value = "maxage=1s"};
	struct tfs_table *s;
	struct tfs_info info;
	bool there = true;

	open_store();
	assert_int_equal(tfs_schema_change(table, &e, NULL), 0);
	assert_int_equal(store_put(table, TFS_S("r"), "f", TFS_S("q"), TFS_AUTO, TFS_S("x"), 0), 0);
	assert_int_equal(tfs_snapshot_create(table, "s"), 0);
	assert_int_equal(tfs_snapshot_open(table, "s", &s), 0);
	while (there)
		assert_int_equal(tfs_row_exists(table, TFS_S("r"), NULL, &there), 0);
	assert_int_equal(tfs_compact(table), 0);
	assert_int_equal(tfs_stat(s, TFS_S("r"), "f", TFS_S("q"), TFS_AUTO, &info), 0);
	assert_true(info.expires_us == INT64_MAX);
	assert_int_equal(tfs_row_exists(s, TFS_S("r"), "f", &there), 0);
	assert_true(there);
	assert_int_equal(tfs_table_empty(s, &there), 0);
	assert_false(there);
	tfs_table_close(s);
	reopen();
	assert_int_equal(tfs_snapshot_open(table, "s", &s), 0);
	assert_int_equal(tfs_row_exists(s, TFS_S("r"), "f", &there), 0);
	assert_true(there);
	tfs_table_close(s);
	close_store();
	check_is_clean();
}

static int found_one(void *arg, const struct tfs_snapshot *s)
{
	return 1;
}

static void old_snapshots_are_dropped(void **state)
{
	const struct tfs_schema *p;
	char *why;
	int there;

	open_store();
	assert_int_equal(put("r", "q", 1, TFS_S("x"), false), 0);
	assert_int_equal(tfs_snapshot_create(table, "s"), 0);
	assert_int_equal(
		tfs_schema_set_text(table, TFS_S("snapshot_maxage = \"0d\"; families = ({ name = \"f\"; });"), TFS_NO_TIME, &why),
		-EINVAL);
	free(why);
	assert_int_equal(
		tfs_schema_set_text(table, TFS_S("snapshot_maxage = \"90m\"; families = ({ name = \"f\"; }, { name = \"g\"; });"),
			TFS_NO_TIME, NULL),
		0);
	assert_int_equal(
		tfs_schema_change(table, &(struct tfs_schema_edit){.op = TFS_SCHEMA_FAMILY_ADD, .name = "h", .mode = 0644}, NULL),
		0);
	assert_int_equal(tfs_schema_get(table, &p), 0);
	assert_non_null(strstr(p->text, "snapshot_maxage = \"90m\";"));
	tfs_schema_put(p);
	assert_int_equal(tfs_snapshot_create(table, "t"), 0);
	reopen();
	assert_int_equal(tfs_snapshot_list(table, false, found_one, NULL), 1);
	assert_int_equal(
		tfs_schema_set_text(table,
			TFS_S("snapshot_maxage = \"1s\"; families = ({ name = \"f\"; }, { name = \"g\"; }, { name = \"h\"; });"),
			TFS_NO_TIME, NULL),
		0);
	while ((there = tfs_snapshot_list(table, false, found_one, NULL)) == 1)
		(void)usleep(10000);
	assert_int_equal(there, 0);
	assert_int_equal(tfs_snapshot_create(table, "u"), 0);
	close_store();
	open_store();
	while ((there = tfs_snapshot_list(table, false, found_one, NULL)) == 1)
		(void)usleep(10000);
	assert_int_equal(there, 0);
	close_store();
	check_is_clean();
}

static void a_clone_is_a_table(void **state)
{
	struct tfs_table *c, *s, *d;
	char name[TFS_NAME_MAX + 1];

	open_store();
	fill(table, "old");
	assert_int_equal(tfs_split(table, TFS_S("row00020")), 0);
	assert_int_equal(tfs_snapshot_create(table, "s"), 0);
	fill(table, "new");
	assert_int_equal(tfs_table_clone(table, "t"), -EEXIST);
	assert_int_equal(tfs_table_clone(table, "a/b"), -EINVAL);
	assert_int_equal(tfs_table_clone(table, "c"), 0);
	assert_int_equal(tfs_snapshot_open(table, "s", &s), 0);
	assert_int_equal(tfs_table_clone(s, "d"), 0);
	tfs_table_close(s);
	assert_int_equal(tfs_table_open(store, "c", &c), 0);
	assert_int_equal(tfs_table_open(store, "d", &d), 0);
	expect(c, "new");
	expect(d, "old");
	fill(c, "c");
	fill(d, "d");
	expect(table, "new");
	expect_snapshot("s", "old");
	assert_int_equal(tfs_snapshot_create(d, "s"), 0);
	fill(d, "e");
	assert_int_equal(tfs_compact(table), 0);
	assert_int_equal(tfs_snapshot_drop(table, "s"), 0);
	tfs_table_close(c);
	tfs_table_close(d);
	reopen();
	/* The clones live on without their source. */
	for (unsigned i = 0; i < ROWS; i++) {
		row_name(name, i);
		assert_int_equal(store_delete_row(table, tfs_str(name)), 0);
	}
	assert_int_equal(tfs_table_drop(store, "t"), 0);
	assert_int_equal(tfs_table_open(store, "c", &c), 0);
	assert_int_equal(tfs_table_open(store, "d", &d), 0);
	expect(c, "c");
	expect(d, "e");
	tfs_table_close(table); /* the handle of the dropped table */
	table = d;
	expect_snapshot("s", "d");
	assert_int_equal(tfs_compact(c), 0);
	assert_int_equal(tfs_compact(d), 0);
	expect(c, "c");
	expect(d, "e");
	expect_snapshot("s", "d");
	assert_int_equal(tfs_snapshot_drop(d, "s"), 0);
	tfs_table_close(c);
	tfs_table_close(d);
	assert_int_equal(tfs_close(store), 0);
	assert_int_equal(sst_count(), 4); /* of two tablets each of c and d */
	check_is_clean();
}

struct list {
	char text[400];
};

static int list_one(void *arg, const struct tfs_snapshot *s)
{
	struct list *l = arg;
	size_t n = strlen(l->text);

	assert_true(s->time_us > 0 && s->pinned_bytes <= s->bytes);
	snprintf(l->text + n, sizeof(l->text) - n, "%s%s%s ", s->name, s->of_all ? "*" : "", s->pinned_bytes ? "!" : "");
	return 0;
}

static const char *listed(bool usage)
{
	static struct list l;

	l.text[0] = 0;
	assert_int_equal(tfs_snapshot_list(table, usage, list_one, &l), 0);
	return l.text;
}

static void snapshots_are_listed(void **state)
{
	struct tfs_table *u, *b;
	struct list l = {""};
	struct tfs_snapshot s;

	open_store();
	fill(table, "old");
	assert_string_equal(listed(true), "");
	assert_int_equal(tfs_snapshot_create(table, "b"), 0);
	assert_int_equal(tfs_snapshot_create(table, "a"), 0);
	assert_string_equal(listed(false), "a b ");
	assert_string_equal(listed(true), "a b "); /* they share all with the table */
	fill(table, "new");
	assert_int_equal(tfs_compact(table), 0);
	assert_string_equal(listed(true), "a b "); /* and now with each other */
	assert_int_equal(tfs_snapshot_drop(table, "a"), 0);
	assert_string_equal(listed(true), "b! ");
	assert_int_equal(tfs_snapshot_open(table, "b", &b), 0);
	assert_int_equal(tfs_snapshot_usage(b, &s), 0);
	tfs_table_close(b);
	assert_true(s.pinned_bytes == s.bytes && s.bytes > 100);
	assert_int_equal(tfs_snapshot_usage(table, &s), -EINVAL);

	assert_int_equal(store_table_make(store, "u", "x", &u), 0);
	assert_int_equal(tfs_snapshot_create_all(store, "b"), -EEXIST);
	assert_int_equal(tfs_snapshot_create_all(store, "n"), 0);
	assert_int_equal(tfs_snapshot_create(u, "alone"), 0);
	assert_string_equal(listed(false), "b n* ");
	assert_int_equal(tfs_snapshot_list_all(store, list_one, &l), 0);
	assert_string_equal(l.text, "n* ");
	assert_int_equal(tfs_snapshot_drop_all(store, "b"), -ENOENT);
	assert_int_equal(tfs_snapshot_drop_all(store, "n"), 0);
	assert_string_equal(listed(false), "b ");
	assert_int_equal(tfs_snapshot_drop(u, "alone"), 0);
	tfs_table_close(u);
	close_store();
	check_is_clean();
}

/* ---- under load ---- */

#define PAIRS 8
static _Atomic bool over;
static _Atomic uint64_t longest_us, told[PAIRS], splits;

/* Writes n into a row below, then into one above: whoever sees the second sees the first. */
static void *write_pairs(void *arg)
{
	const unsigned who = (unsigned)(uintptr_t)arg;

	for (uint64_t n = 1; !over; n++) {
		char value[300], row[2][32];
		uint64_t since;

		snprintf(value, sizeof(value), "%llu %0200d", (unsigned long long)n, 1);
		snprintf(row[0], sizeof(row[0]), "a%u", who);
		snprintf(row[1], sizeof(row[1]), "z%u", who);
		for (unsigned i = 0; i < 2; i++) {
			since = monotonic_us();
			assert_int_equal(
				store_put(table, tfs_str(row[(n + i) % 2]), "f", TFS_S("q"), tfs_at((int64_t)n), tfs_str(value), 0),
				0);
			since = monotonic_us() - since;
			if (since > longest_us)
				longest_us = since;
		}
		told[who] = n;
	}
	return NULL;
}

static void *move(void *arg)
{
	(void)arg;
	while (!over) {
		int err = tfs_split(table, TFS_S("m"));

		splits += !err;
		assert_true(!err || err == -EEXIST);
		err = tfs_split(table, TFS_S("z3"));
		assert_true(!err || err == -EEXIST);
		assert_int_equal(tfs_compact(table), 0);
		err = tfs_merge(table, TFS_S("a"));
		assert_true(!err || err == -ENOENT || err == -EBUSY);
	}
	return NULL;
}

static uint64_t number_in(struct tfs_table *t, const char *row)
{
	char value[400];
	size_t got = 0;
	int err = tfs_read(t, tfs_str(row), "f", TFS_S("q"), TFS_AUTO, 0, value, sizeof(value) - 1, &got, NULL);

	assert_true(!err || err == -ENOENT);
	value[got] = 0;
	return strtoull(value, NULL, 10);
}

static void check_pairs(const char *name, const uint64_t *least)
{
	struct tfs_table *s;
	char row[32];

	assert_int_equal(tfs_snapshot_open(table, name, &s), 0);
	for (unsigned i = 0; i < PAIRS / 2; i++) {
		uint64_t a, z;

		snprintf(row, sizeof(row), "a%u", i);
		a = number_in(s, row);
		row[0] = 'z';
		z = number_in(s, row);
		/* Odd numbers are written to z first. */
		assert_true(a == z || (a == z + 1 && a % 2 == 0) || (z == a + 1 && z % 2 == 1));
		assert_true(a >= least[i] || z >= least[i]);
	}
	tfs_table_close(s);
}

static void one_instant_over_all_tablets(void **state)
{
	pthread_t writers[PAIRS / 2], mover;
	char name[32];

	options.memtable_bytes = 4 << 20;
	open_store();
	over = false;
	for (unsigned i = 0; i < PAIRS / 2; i++)
		assert_int_equal(pthread_create(&writers[i], NULL, write_pairs, (void *)(uintptr_t)i), 0);
	assert_int_equal(pthread_create(&mover, NULL, move, NULL), 0);
	for (unsigned n = 0; n < 40 || (splits < 3 && n < 2000); n++) {
		uint64_t least[PAIRS];

		for (unsigned i = 0; i < PAIRS / 2; i++)
			least[i] = told[i];
		snprintf(name, sizeof(name), "s%u", n);
		assert_int_equal(tfs_snapshot_create(table, name), 0);
		check_pairs(name, least);
		if (n >= 20) {
			snprintf(name, sizeof(name), "s%u", n - 20);
			check_pairs(name, (uint64_t[PAIRS]){0});
			assert_int_equal(tfs_snapshot_drop(table, name), 0);
		}
	}
	over = true;
	for (unsigned i = 0; i < PAIRS / 2; i++)
		assert_int_equal(pthread_join(writers[i], NULL), 0);
	assert_int_equal(pthread_join(mover, NULL), 0);
	print_message(
		"# %llu splits; the longest write took %llu us\n", (unsigned long long)splits, (unsigned long long)longest_us);
	close_store();
	check_is_clean();
	open_store();
	close_store();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_snapshot_shows_one_instant, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(time_stands_still, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(old_snapshots_are_dropped, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(a_clone_is_a_table, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(snapshots_are_listed, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(one_instant_over_all_tablets, setup_options, test_dir_teardown),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
