/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Schemas change under traffic and no acknowledged write of an existing family is
 * lost: families are made, dropped, renamed and moved between locality groups,
 * groups are made, renamed, dropped and changed, the table is renamed, and
 * tablets are split and merged at the same time.  A refused write reports that
 * its family does not exist.
 */
#include "engine/base/mutex.h"
#include "t/engine/lib.h"

#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

#define ROWS 40
#define WRITERS 3
#define IDS 8192 /* of families, ever */
#define NAMES 6
static const char *const names[NAMES] = {"a", "b", "c", "d", "e", "f"};
static const char *const groups[4] = {"default", "g1", "g2", "g3"};

/* The index is the family's id. */
static _Atomic bool dropped[IDS];                 /* not before its end was asked for */
static _Atomic uint64_t told[IDS][ROWS][WRITERS]; /* the newest acknowledged value of each writer's column */
static _Atomic bool over;
static _Atomic uint64_t writes, refused, reads, scans, moves, changes[16];

static void row_name(char *row, unsigned i)
{
	snprintf(row, 32, "row%05u", i);
}

static unsigned next(unsigned *x, unsigned n)
{
	*x = *x * 1103515245 + 12345;
	return (*x >> 8) % n;
}

/* The id of a present family; 0: none. */
static uint16_t some_family(unsigned *x)
{
	const struct tfs_schema *s;
	uint16_t id = 0;

	assert_int_equal(tfs_schema_get(table, &s), 0);
	if (s->family_count)
		id = s->families[next(x, s->family_count)].id;
	assert_true(id < IDS);
	tfs_schema_put(s);
	return id;
}

static void *write_cells(void *arg)
{
	unsigned who = (unsigned)(uintptr_t)arg, x = who + 1;

	while (!over) {
		unsigned i = next(&x, ROWS);
		uint16_t id = some_family(&x);
		char row[32], family[8], column[8], value[300];
		uint64_t n;
		int err;

		if (!id)
			continue;
		row_name(row, i);
		snprintf(family, sizeof(family), "#%u", id);
		snprintf(column, sizeof(column), "w%u", who);
		n = told[id][i][who] + 1;
		snprintf(value, sizeof(value), "%llu %0200d", (unsigned long long)n, 7);
		err = store_put(table, tfs_str(row), family, tfs_str(column), tfs_at((int64_t)n), tfs_str(value),
			n % 64 == 0 ? TFS_APPLY_SYNC : 0);
		/* Unknown families are -EINVAL, and no other error is. */
		assert_true(err == 0 || (err == -EINVAL && dropped[id]));
		if (err) {
			refused++;
		} else {
			told[id][i][who] = n;
			writes++;
		}
	}
	return NULL;
}

/* A cell has at least the state that was acknowledged; its family may have been removed. */
static void look_at(uint16_t id, unsigned i, unsigned who)
{
	char row[32], family[8], column[8], value[400];
	uint64_t least = told[id][i][who];
	size_t got = 0;
	int err;

	row_name(row, i);
	snprintf(family, sizeof(family), "#%u", id);
	snprintf(column, sizeof(column), "w%u", who);
	err = tfs_read(table, tfs_str(row), family, tfs_str(column), TFS_AUTO, 0, value, sizeof(value) - 1, &got, NULL);
	assert_true(err == 0 || dropped[id] || (err == -ENOENT && !least));
	value[got] = 0;
	assert_true(err || strtoull(value, NULL, 10) >= least);
}

static void *read_cells(void *arg)
{
	unsigned x = 77;

	while (!over) {
		uint16_t id = some_family(&x);

		if (id)
			look_at(id, next(&x, ROWS), next(&x, WRITERS));
		reads++;
	}
	return NULL;
}

/* A scan's cells are of families that there were, each row's in order. */
static void *scan_cells(void *arg)
{
	while (!over) {
		struct tfs_scan_spec spec = {.what = TFS_SCAN_CELLS, .versions = 1, .batch_bytes = 2000};
		char before[8] = "";
		struct tfs_scan *sc;
		struct tfs_cell c;
		int err;

		assert_int_equal(tfs_scan_new(table, &spec, &sc), 0);
		while ((err = tfs_scan_next(sc, &c)) > 0) {
			assert_true(c.row.n == 8 && memcmp(before, c.row.p, 8) <= 0);
			memcpy(before, c.row.p, 8);
			assert_true(c.family && c.family_id > 0 && c.family_id < IDS);
		}
		assert_int_equal(err, 0);
		tfs_scan_free(sc);
		scans++;
	}
	return NULL;
}

static void *move_tablets(void *arg)
{
	unsigned x = 4242;
	char row[32];

	while (!over) {
		unsigned what = next(&x, 16);
		int err;

		row_name(row, next(&x, ROWS));
		if (what == 0)
			err = tfs_compact(table);
		else if (what < 3)
			err = tfs_flush(table);
		else
			err = what < 10 ? tfs_merge(table, tfs_str(row)) : tfs_split(table, tfs_str(row));
		assert_true(err == 0 || err == -ENOENT || err == -EEXIST);
		moves += !err;
	}
	return NULL;
}

/* The families as a text: one may be left out, two may change names, each in some group. */
static int by_text(unsigned *x)
{
	const struct tfs_schema *s;
	char text[4000];
	size_t n;
	unsigned out, one, other;
	int err;

	assert_int_equal(tfs_schema_get(table, &s), 0);
	out = next(x, 2) ? next(x, s->family_count + 1) : s->family_count;
	one = next(x, s->family_count + 1);
	other = next(x, s->family_count + 1);
	if (one == out || other == out || one >= s->family_count || other >= s->family_count)
		one = other = s->family_count;
	n = (size_t)snprintf(text, sizeof(text),
		"allow_delete = true; groups = ( { name = \"g1\"; block_size = \"4K\"; }, { name = \"g2\"; compression = \"%s\"; } );"
		"families = (",
		next(x, 2) ? "none" : "lz4");
	for (unsigned i = 0, some = 0; i < s->family_count; i++) {
		const char *was = s->families[i == one ? other : i == other ? one : i].name;

		if (i == out) {
			dropped[s->families[i].id] = true;
			continue;
		}
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s { name = \"%s\"; was = \"%s\"; group = \"%s\"; }",
			some++ ? "," : "", s->families[i].name, was, groups[next(x, 3)]);
	}
	(void)snprintf(text + n, sizeof(text) - n, " );");
	tfs_schema_put(s);
	err = tfs_schema_set_text(table, tfs_str(text), TFS_NO_TIME, NULL);
	assert_int_equal(err, 0);
	return err;
}

static int name_it(const char *to)
{
	const struct tfs_schema *s;
	char from[TFS_NAME_MAX + 1];

	assert_int_equal(tfs_schema_get(table, &s), 0);
	strcpy(from, s->name);
	tfs_schema_put(s);
	return tfs_table_rename(store, from, to, false);
}

static int drop(uint16_t family)
{
	struct tfs_schema_edit e = {.op = TFS_SCHEMA_FAMILY_DROP};
	char id[8];
	int err;

	snprintf(id, sizeof(id), "#%u", family);
	e.name = id;
	dropped[family] = true;
	err = tfs_schema_change(table, &e, NULL);
	dropped[family] = err == 0;
	return err;
}

static int one_change(unsigned *x)
{
	const char *const name = names[next(x, NAMES)], *const group = groups[next(x, 4)];
	struct tfs_schema_edit e = {.name = name, .mode = 0644, .explicit_act = true};
	unsigned what = next(x, 13);
	char id[8];
	int err = 0;

	snprintf(id, sizeof(id), "#%u", some_family(x));
	switch (what) {
	case 0:
	case 1:
	case 2:
		e.op = TFS_SCHEMA_FAMILY_ADD;
		break;
	case 3:
	case 4:
		e.op = TFS_SCHEMA_FAMILY_RENAME;
		e.name = id;
		e.value = name;
		break;
	case 5:
	case 6:
		e.op = TFS_SCHEMA_FAMILY_GROUP;
		e.name = id;
		e.value = group;
		break;
	case 7:
		e.op = next(x, 2) ? TFS_SCHEMA_GROUP_ADD : TFS_SCHEMA_GROUP_DROP;
		e.name = group;
		break;
	case 8:
		e.op = TFS_SCHEMA_GROUP_RENAME;
		e.name = group;
		e.value = groups[next(x, 4)];
		break;
	case 9:
		e.op = next(x, 2) ? TFS_SCHEMA_GROUP_BLOCK_SIZE : TFS_SCHEMA_GROUP_COMPRESSION;
		e.name = group;
		e.value = e.op == TFS_SCHEMA_GROUP_BLOCK_SIZE ? (next(x, 2) ? "4K" : "32K") : next(x, 2) ? "none" : "zstd";
		break;
	case 10: /* if it has cells it stays; writes are blocked during the check, and continue */
		err = drop(some_family(x));
		break;
	case 11:
		err = by_text(x);
		break;
	default:
		err = name_it(next(x, 2) ? "t" : "another");
		break;
	}
	if (what < 10)
		err = tfs_schema_change(table, &e, NULL);
	if (!err)
		changes[what]++;
	return err;
}

static void *change_schema(void *arg)
{
	unsigned x = 99;

	while (!over) {
		int err = one_change(&x);

		/* Already there, absent, no such group, has cells or families, or its name is permanent. */
		assert_true(err == 0 || err == -EEXIST || err == -ENOENT || err == -EINVAL || err == -EBUSY);
	}
	return NULL;
}

static bool all_changes(uint64_t least)
{
	for (unsigned i = 0; i < 13; i++)
		if (i != 10 && changes[i] < least)
			return false;
	return true;
}

static void expect_all(void)
{
	const struct tfs_schema *s;
	bool there[IDS] = {false};
	struct tfs_usage u;
	uint64_t cells = 0;
	char id[8];

	assert_int_equal(tfs_schema_get(table, &s), 0);
	for (unsigned i = 0; i < s->family_count; i++)
		there[s->families[i].id] = true;
	tfs_schema_put(s);
	for (unsigned f = 1; f < IDS; f++) {
		bool exists = false;

		snprintf(id, sizeof(id), "#%u", f);
		if (!there[f]) {
			assert_int_equal(tfs_row_exists(table, TFS_S("row00000"), id, &exists), -EINVAL);
			continue;
		}
		assert_false(dropped[f]);
		for (unsigned i = 0; i < ROWS; i++)
			for (unsigned w = 0; w < WRITERS; w++)
				look_at((uint16_t)f, i, w);
		for (unsigned i = 0; i < ROWS; i++)
			for (unsigned w = 0; w < WRITERS; w++)
				cells += told[f][i][w];
	}
	/* Nothing remains of removed families once all has been compacted. */
	assert_int_equal(tfs_compact(table), 0);
	assert_int_equal(tfs_usage(table, NULL, &u), 0);
	assert_int_equal(u.cells, cells);
	assert_int_equal(u.tombstones, 0);
}

static void reopen(void)
{
	close_store();
	open_store();
}

static void test_traffic(void **state)
{
	pthread_t t[WRITERS + 4];
	unsigned n = 0;
	uint64_t end;

	options.memtable_bytes = 1 << 20;
	options.compaction_threads = 2;
	open_store();
	for (unsigned i = 0; i < WRITERS; i++)
		assert_int_equal(pthread_create(&t[n++], NULL, write_cells, (void *)(uintptr_t)i), 0);
	assert_int_equal(pthread_create(&t[n++], NULL, read_cells, NULL), 0);
	assert_int_equal(pthread_create(&t[n++], NULL, scan_cells, NULL), 0);
	assert_int_equal(pthread_create(&t[n++], NULL, move_tablets, NULL), 0);
	assert_int_equal(pthread_create(&t[n++], NULL, change_schema, NULL), 0);
	end = monotonic_us() + 600000000; /* much more than it takes, also on a loaded machine */
	while ((moves < 100 || scans < 20 || writes < 3000 || !all_changes(10)) && monotonic_us() < end)
		usleep(1000); /* leaves the processor to the threads that change the store */
	over = true;
	for (unsigned i = 0; i < n; i++)
		pthread_join(t[i], NULL);
	print_message(
		"# %llu writes, %llu refused, %llu reads, %llu scans, %llu splits and merges; changes:", (unsigned long long)writes,
		(unsigned long long)refused, (unsigned long long)reads, (unsigned long long)scans, (unsigned long long)moves);
	for (unsigned i = 0; i < 13; i++)
		print_message(" %llu", (unsigned long long)changes[i]);
	print_message("\n");
	assert_true(moves >= 100 && scans >= 20 && writes >= 3000 && all_changes(10));
	expect_all();
	name_it("t");
	hooks.no_flush = true;
	reopen();
	expect_all();
	close_store();
}

/* ---- the remains of a family that was removed ---- */

#define MARK "what-nobody-is-to-find-again"

/* Files of the directory and those below it in which the bytes stand. */
static unsigned files_with(const char *dir, const char *bytes, unsigned *files)
{
	char path[600];
	unsigned found = 0;
	struct dirent *e;
	DIR *d = opendir(dir);

	assert_non_null(d);
	while ((e = readdir(d))) {
		struct stat st;

		if (e->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
		assert_int_equal(stat(path, &st), 0);
		if (S_ISDIR(st.st_mode)) {
			found += files_with(path, bytes, files);
		} else {
			char *p = malloc((size_t)st.st_size + 1);
			FILE *f = fopen(path, "r");

			assert_true(p && f && fread(p, 1, (size_t)st.st_size, f) == (size_t)st.st_size);
			found += memmem(p, (size_t)st.st_size, bytes, strlen(bytes)) != NULL;
			++*files;
			fclose(f);
			free(p);
		}
	}
	closedir(d);
	return found;
}

static void set_schema(const char *text)
{
	assert_int_equal(tfs_schema_set_text(table, tfs_str(text), TFS_NO_TIME, NULL), 0);
}

static void test_removed(void **state)
{
	const struct tfs_schema *s;
	struct tfs_usage u;
	unsigned files = 0;
	uint16_t id;
	char row[32];

	options.no_background = true;
	open_store();
	set_schema(
		"families = ( { name = \"f\"; }, { name = \"g\"; } ); groups = ( { name = \"default\"; compression = \"none\"; } );");
	for (unsigned i = 0; i < 200; i++) {
		row_name(row, i % 100);
		assert_int_equal(put(row, "q", i, tfs_str(MARK), false), 0);
		assert_int_equal(store_put(table, tfs_str(row), "g", TFS_S("q"), tfs_at(i), TFS_S("this stays"), 0), 0);
		if (i % 70 == 0)
			assert_int_equal(tfs_flush(table), 0);
		if (i == 150)
			assert_int_equal(tfs_split(table, tfs_str("row00050")), 0); /* files that two tablets share */
	}
	assert_int_equal(tfs_flush(table), 0);
	assert_true(files_with(in_dir("store/sst"), MARK, &files) >= 3);
	assert_int_equal(tfs_usage(table, "f", &u), 0);
	assert_int_equal(u.cells, 200);
	assert_int_equal(tfs_schema_get(table, &s), 0);
	id = tfs_schema_family(s, "f")->id;
	tfs_schema_put(s);

	set_schema(
		"families = ( { name = \"g\"; } ); groups = ( { name = \"default\"; compression = \"none\"; } ); allow_delete = true;");
	assert_int_equal(tfs_compact(table), 0);
	files = 0;
	assert_int_equal(files_with(in_dir("store/sst"), MARK, &files), 0);
	assert_true(files > 0);
	assert_true(files_with(in_dir("store/sst"), "this stays", &files) > 0);
	assert_int_equal(tfs_usage(table, NULL, &u), 0);
	assert_int_equal(u.cells, 200);
	assert_int_equal(u.tombstones, 0);

	/* One of that name has another id, and nothing of the first: now, and from the log. */
	hooks.no_flush = true;
	for (unsigned again = 0; again < 2; again++) {
		if (again == 0)
			set_schema("families = ( { name = \"f\"; }, { name = \"g\"; } );");
		else
			reopen();
		assert_int_equal(tfs_schema_get(table, &s), 0);
		assert_true(tfs_schema_family(s, "f")->id > id);
		tfs_schema_put(s);
		assert_int_equal(tfs_usage(table, "f", &u), 0);
		assert_int_equal(u.cells, 0);
		assert_int_equal(u.raw_bytes, 0);
		assert_int_equal(u.disk_bytes, 0);
		for (unsigned i = 0; i < 100; i++) {
			bool exists = true;

			row_name(row, i);
			assert_int_equal(tfs_row_exists(table, tfs_str(row), "f", &exists), 0);
			assert_false(exists);
		}
	}
	/* An id is not used again, even if its last family had the greatest id. */
	set_schema("families = ( { name = \"g\"; } );");
	reopen();
	set_schema("families = ( { name = \"f\"; }, { name = \"g\"; } );");
	assert_int_equal(tfs_schema_get(table, &s), 0);
	assert_true(tfs_schema_family(s, "f")->id > id + 1);
	tfs_schema_put(s);
	close_store();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_removed, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(test_traffic, setup_options, test_dir_teardown),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
