/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Snapshots and clones: a snapshot shows one instant whatever happens to its
 * table, the process or the power; a clone is a table of its own; both share
 * SSTables, and no SSTable is removed too early or remains too long.
 */
#include "t/engine/lib.h"
#include "t/lib/metric.h"

#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROWS 40

static void row_name(char *row, unsigned i)
{
	snprintf(row, 32, "row%05u", i);
}

static void fill(struct tfs_table *t, const char *value)
{
	char row[32];

	for (unsigned i = 0; i < ROWS; i++) {
		row_name(row, i);
		assert_int_equal(store_put(t, tfs_str(row), "f", TFS_S("q"), tfs_at(1), tfs_str(value), 0), 0);
	}
}

/* t has the ROWS rows, each with one cell of this value. */
static void expect(struct tfs_table *t, const char *value)
{
	struct tfs_table *own = table;

	table = t;
	expect_rows(value, 0, ROWS);
	table = own;
}

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
	tfs_table_close(table); /* of the dropped table */
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

/* ---- differences ---- */

struct whole {
	struct cell {
		char row[16], family[8], q[16], value[16];
		unsigned family_id;
		long long ts;
	} v[2000];
	unsigned n;
};

/* All cells of the snapshot, by a scan of it alone. */
static void read_whole(struct tfs_table *s, struct whole *w)
{
	struct tfs_scan_spec all = {.what = TFS_SCAN_CELLS};
	struct tfs_scan *sc;
	struct tfs_cell c;
	int r;

	w->n = 0;
	assert_int_equal(tfs_scan_new(s, &all, &sc), 0);
	while ((r = tfs_scan_next(sc, &c)) > 0) {
		struct cell *v = &w->v[w->n++];

		assert_true(w->n < 2000);
		snprintf(v->row, sizeof(v->row), "%.*s", (int)c.row.size, (const char *)c.row.data);
		snprintf(v->family, sizeof(v->family), "%s", c.family);
		snprintf(v->q, sizeof(v->q), "%.*s", (int)c.qualifier.size, (const char *)c.qualifier.data);
		snprintf(v->value, sizeof(v->value), "%.*s", (int)c.value.size, (const char *)c.value.data);
		v->family_id = c.family_id;
		v->ts = c.ts;
	}
	assert_int_equal(r, 0);
	tfs_scan_free(sc);
}

static bool has_cell(const struct whole *w, const struct cell *c, bool name_only)
{
	for (unsigned i = 0; i < w->n; i++) {
		const struct cell *v = &w->v[i];

		if (!strcmp(v->row, c->row) && v->family_id == c->family_id && !strcmp(v->family, c->family) &&
			!strcmp(v->q, c->q) && v->ts == c->ts)
			return name_only || !strcmp(v->value, c->value);
	}
	return false;
}

static int order(struct tfs_bytes a, const char *b)
{
	size_t n = strlen(b);
	int c = memcmp(a.data, b, a.size < n ? a.size : n);

	return c ? c : (a.size > n) - (a.size < n);
}

static bool within(const struct tfs_scan_spec *p, const struct cell *c)
{
	bool family = !p->family_count;

	for (unsigned i = 0; i < p->family_count; i++)
		family = family || !strcmp(p->families[i], c->family);
	if (p->one_row ? order(p->row_from, c->row) != 0 : p->row_from.data && order(p->row_from, c->row) > -(int)p->row_from_after)
		return false;
	return family && !(p->row_to.data && !p->one_row && order(p->row_to, c->row) <= 0) &&
		!(p->qualifier_from.data && order(p->qualifier_from, c->q) > -(int)p->qualifier_from_after) &&
		!(p->qualifier_to.data && order(p->qualifier_to, c->q) <= 0);
}

static void say_cell(char *out, const struct tfs_scan_spec *p, const struct cell *c)
{
	static const struct cell none;
	const bool cells = p->what == TFS_SCAN_CELLS || p->what == TFS_SCAN_KEYS;
	const struct cell *of = p->what == TFS_SCAN_ROWS ? &none : c, *key = cells ? c : &none;

	sprintf(out, "%s %s %u %s %lld %s\n", c->row, of->family, of->family_id, key->q, key->ts,
		p->what == TFS_SCAN_CELLS ? c->value : "");
}

/* Returns the number of entries. */
static unsigned expect_absent(
	struct tfs_table *a, const struct whole *from, struct tfs_table *b, const struct whole *to, struct tfs_scan_spec spec)
{
	static char expected[1 << 18], got[1 << 18], line[200], last[200];
	size_t en = 0, gn = 0;
	struct tfs_scan *sc;
	struct tfs_cell c;
	unsigned n = 0;
	int r;

	expected[0] = got[0] = last[0] = 0;
	for (unsigned i = 0; i < to->n; i++) {
		if (!within(&spec, &to->v[i]) || has_cell(from, &to->v[i], spec.absent_names))
			continue;
		say_cell(line, &spec, &to->v[i]);
		if (strcmp(line, last) != 0)
			en += (size_t)sprintf(expected + en, "%s", line);
		strcpy(last, line);
	}
	spec.absent_from = a;
	assert_int_equal(tfs_scan_new(b, &spec, &sc), 0);
	while ((r = tfs_scan_next(sc, &c)) > 0) {
		struct cell v = {.family_id = c.family_id, .ts = c.ts};

		snprintf(v.row, sizeof(v.row), "%.*s", (int)c.row.size, (const char *)c.row.data);
		snprintf(v.family, sizeof(v.family), "%s", c.family ? c.family : "");
		snprintf(v.q, sizeof(v.q), "%.*s", (int)c.qualifier.size, (const char *)c.qualifier.data);
		snprintf(v.value, sizeof(v.value), "%.*s", (int)c.value.size, (const char *)c.value.data);
		say_cell(got + gn, &spec, &v);
		gn += strlen(got + gn);
		n++;
	}
	assert_int_equal(r, 0);
	tfs_scan_free(sc);
	assert_string_equal(got, expected);
	return n;
}

/* Both directions, whole and with some bounds. */
static unsigned expect_diff(const char *from, const char *to, unsigned *x)
{
	static struct whole w[2];
	const char *families[2], *names[2] = {from, to};
	struct tfs_table *t[2];
	char row[2][16], q[2][16];
	unsigned n = 0;

	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(tfs_snapshot_open(table, names[i], &t[i]), 0);
		read_whole(t[i], &w[i]);
	}
	for (unsigned i = 0; i < 10; i++) {
		struct tfs_scan_spec spec = {
			.what = i < 2 ? TFS_SCAN_CELLS : (enum tfs_scan_what)((*x >> 7) % 4), .absent_names = i & 1};

		for (unsigned k = 0; k < 2; k++) {
			*x = *x * 1103515245 + 12345;
			snprintf(row[k], sizeof(row[k]), "r%02u", (*x >> 8) % 60);
			snprintf(q[k], sizeof(q[k]), "q%u", (*x >> 16) % 4);
			families[k] = (*x >> 22) % 2 ? "f" : "g";
		}
		if (i >= 2) {
			spec.row_from = (*x >> 8) % 3 ? tfs_str(row[0]) : TFS_S("");
			spec.one_row = spec.row_from.size && (*x >> 11) % 3 == 0;
			spec.row_from_after = (*x >> 9) % 2 && !spec.one_row;
			if ((*x >> 12) % 2)
				spec.row_to = tfs_str(row[1]);
			if ((*x >> 13) % 4 == 0)
				spec.qualifier_from = tfs_str(q[0]);
			spec.qualifier_from_after = spec.qualifier_from.data && (*x >> 15) % 2;
			if ((*x >> 17) % 4 == 0)
				spec.qualifier_to = tfs_str(q[1]);
			if ((*x >> 19) % 2) {
				spec.families = families;
				spec.family_count = 1 + (*x >> 21) % 2;
			}
			if ((*x >> 24) % 2)
				spec.batch_bytes = 1 + (*x >> 25) % 64;
		}
		n += expect_absent(t[0], &w[0], t[1], &w[1], spec);
		n += expect_absent(t[1], &w[1], t[0], &w[0], spec);
	}
	tfs_table_close(t[0]);
	tfs_table_close(t[1]);
	return n;
}

static void differences_are_exact(void **state)
{
	static char large[60000];
	unsigned x = 1, found = 0;
	char name[2][32], row[32], q[32], value[32];

	options.no_background = true;
	open_store();
	assert_int_equal(store_no_dictionary(table), 0);
	/* A cell that never changes.  Beside its file, those of a few mutations are small. */
	for (unsigned i = 0; i < sizeof(large); i++) {
		x = x * 1103515245 + 12345;
		large[i] = (char)(x >> 16);
	}
	assert_int_equal(store_put(table, TFS_S("r29x"), "f", TFS_S("q"), tfs_at(1), tfs_bytes_of(large, sizeof(large)), 0), 0);
	for (unsigned n = 0; n < 24; n++) {
		for (unsigned i = 0; i < (n % 5 ? 4 : 30); i++) {
			struct tfs_mutation *m;

			x = x * 1103515245 + 12345;
			snprintf(row, sizeof(row), "r%02u", n % 3 ? (x >> 8) % 60 : n + (x >> 8) % 6);
			m = tfs_mutation_new(table, tfs_str(row));
			snprintf(q, sizeof(q), "q%u", (x >> 16) % 3);
			snprintf(value, sizeof(value), "v%u", (x >> 20) % 3);
			switch ((x >> 12) % 8) {
			case 0:
				assert_int_equal(tfs_mutation_delete_row(m), 0);
				break;
			case 1:
				assert_int_equal(tfs_mutation_delete_column(m, "f", tfs_str(q)), 0);
				break;
			default:
				assert_int_equal(tfs_mutation_put(m, (x >> 22) % 4 ? "f" : "g", tfs_str(q), tfs_at((x >> 18) % 4),
							 tfs_str(value)),
					0);
			}
			assert_int_equal(tfs_apply(m, 0, NULL), 0);
			tfs_mutation_free(m);
		}
		if (n == 12)
			assert_int_equal(tfs_schema_change(table,
						 &(struct tfs_schema_edit){
							 .op = TFS_SCHEMA_FAMILY_GC, .name = "f", .value = "maxversions=2"},
						 NULL),
				0);
		snprintf(name[0], sizeof(name[0]), "s%u", n);
		assert_int_equal(tfs_snapshot_create(table, name[0]), 0);
		snprintf(row, sizeof(row), "r%02u", (x >> 9) % 60);
		if (n % 4 == 1)
			(void)!tfs_split(table, tfs_str(row));
		if (n % 4 == 2)
			assert_int_equal(tfs_compact(table), 0);
		if (n % 8 == 7)
			(void)!tfs_merge(table, TFS_S("r"));
		for (unsigned i = 0; i <= n; i += 1 + i / 3) {
			snprintf(name[1], sizeof(name[1]), "s%u", i);
			found += expect_diff(name[1], name[0], &x);
		}
		assert_int_equal(expect_diff(name[0], name[0], &x), 0);
	}
	print_message("# %u differences\n", found);
	close_store();
	check_is_clean();
}

/* Reads the cells that `of` has and `from` has not, with cold caches.  Returns the bytes read, in percent of those of a snapshot. */
static unsigned difference_reads(const char *from, const char *of, unsigned *cells)
{
	struct tfs_scan_spec spec = {.what = TFS_SCAN_CELLS};
	struct tfs_snapshot whole;
	struct tfs_table *a, *b;
	struct tfs_scan *sc;
	struct tfs_cell c;
	uint64_t before;
	int r;

	close_store();
	open_store();
	assert_int_equal(tfs_snapshot_open(table, from, &a), 0);
	assert_int_equal(tfs_snapshot_open(table, of, &b), 0);
	assert_int_equal(tfs_snapshot_usage(b, &whole), 0);
	spec.absent_from = a;
	before = metric_of(store, "bytes_read");
	assert_int_equal(tfs_scan_new(b, &spec, &sc), 0);
	for (*cells = 0; (r = tfs_scan_next(sc, &c)) > 0; ++*cells)
		;
	assert_int_equal(r, 0);
	tfs_scan_free(sc);
	tfs_table_close(a);
	tfs_table_close(b);
	return (unsigned)((metric_of(store, "bytes_read") - before) * 100 / whole.bytes);
}

/* Of 5000 rows, 50 change: neighbours, or every hundredth. */
static void differences_read_what_changed(void **state)
{
	static const char *const names[] = {"start", "new", "neighbours", "scattered", "compacted"};
	unsigned x = 1, percent[5] = {0}, cells[5] = {0};
	char row[32], value[1000];

	options.no_background = true;
	open_store();
	assert_int_equal(store_no_dictionary(table), 0);
	for (unsigned n = 0; n < 5; n++) {
		for (unsigned i = 0; i < (n ? 50 : 5000); i++) {
			row_name(row, n == 1 ? 6000 + i : n == 2 ? 2000 + i : n == 3 ? i * 100 : n == 4 ? i * 100 + 50 : i);
			for (unsigned k = 0; k < sizeof(value); k++) {
				x = x * 1103515245 + 12345;
				value[k] = (char)(x >> 16);
			}
			assert_int_equal(
				store_put(table, tfs_str(row), "f", TFS_S("q"), tfs_at(n), tfs_bytes_of(value, sizeof(value)), 0),
				0);
		}
		if (n == 0 || n == 4)
			assert_int_equal(tfs_compact(table), 0);
		assert_int_equal(tfs_snapshot_create(table, names[n]), 0);
	}
	for (unsigned n = 1; n < 5; n++) {
		percent[n] = difference_reads(names[n - 1], names[n], &cells[n]);
		print_message("# %s: %u cells, %u percent of a snapshot read\n", names[n], cells[n], percent[n]);
		assert_int_equal(cells[n], 50);
	}
	assert_true(percent[1] <= 3 && percent[2] <= 5 && percent[3] <= 25 && percent[4] <= 210);
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

/* ---- power cuts ---- */

static uint64_t die_at;
static _Atomic uint64_t ops_done;
static uint32_t seed;
static bool power;

static unsigned survives(void *arg, unsigned index, unsigned ways)
{
	uint32_t *x = arg;

	*x = *x * 1664525 + 1013904223;
	return (*x >> 8) % ways;
}

static int die(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	uint32_t x = seed + (uint32_t)die_at;

	if (op == FILE_OP_READ || op == FILE_OP_OPEN || op == FILE_OP_LIST || atomic_fetch_add(&ops_done, 1) + 1 != die_at)
		return 0;
	if (power)
		(void)!file_forget_crash(survives, &x);
	_exit(1);
}

/* The changes during which the process dies.  All is synced before: nothing that was acknowledged may be missing. */
static void change(unsigned what)
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
	if (!err)
		err = tfs_compact(table); /* and the files that nothing names are removed */
	_exit(err ? 3 : 0);
}

static void child(unsigned what)
{
	options.no_background = true;
	options.sync = true;
	if (file_forget_start(in_dir("store")))
		_exit(4);
	if (store_open(in_dir("store"), &options, &hooks, &store) || tfs_table_open(store, "t", &table))
		_exit(5);
	fill(table, "newest"); /* in the log and in memory only */
	file_set_hook(die, NULL);
	change(what);
}

static void set_up(void)
{
	char cmd[600];

	snprintf(cmd, sizeof(cmd), "rm -rf '%s' '%s.forget'", in_dir("store"), in_dir("store"));
	assert_int_equal(system(cmd), 0);
	options.no_background = true;
	open_store();
	assert_int_equal(store_no_dictionary(table), 0);
	fill(table, "old");
	assert_int_equal(tfs_split(table, TFS_S("row00020")), 0);
	assert_int_equal(tfs_snapshot_create(table, "kept"), 0);
	fill(table, "newer");
	close_store();
}

/* After a death every table and snapshot is there as a whole or not at all. */
static void check_after(unsigned what, bool finished)
{
	struct tfs_table *t;
	int err;

	options.no_background = false;
	open_store();
	expect(table, "newest");
	err = tfs_snapshot_open(table, "kept", &t);
	assert_true(!err || (err == -ENOENT && what == 1));
	assert_false(finished && what == 1 && !err);
	if (!err) {
		expect(t, "old");
		tfs_table_close(t);
	}
	err = tfs_snapshot_open(table, "new", &t);
	assert_true(err == -ENOENT || (!err && what == 0));
	assert_false(finished && what == 0 && err);
	if (!err) {
		expect(t, "newest");
		tfs_table_close(t);
	}
	err = tfs_table_open(store, "clone", &t);
	assert_true(err == -ENOENT || (!err && what >= 2));
	assert_false(finished && what >= 2 && err);
	if (!err) {
		expect(t, what == 2 ? "newest" : "old");
		fill(t, "own");
		expect(t, "own");
		tfs_table_close(t);
	}
	expect(table, "newest");
	assert_int_equal(tfs_compact(table), 0);
	close_store();
	check_is_clean();
}

static void deaths(bool with_power)
{
	unsigned points = 0;

	power = with_power;
	for (unsigned what = 0; what < 4; what++) {
		bool finished = false;

		for (die_at = 1; !finished; die_at++) {
			int status;
			pid_t pid;

			set_up();
			ops_done = 0;
			pid = fork();
			assert_true(pid >= 0);
			if (!pid)
				child(what);
			assert_int_equal(waitpid(pid, &status, 0), pid);
			assert_true(WIFEXITED(status) && WEXITSTATUS(status) <= 1);
			finished = WEXITSTATUS(status) == 0;
			check_after(what, finished);
			points++;
		}
	}
	print_message("# %u points\n", points);
}

static void kills_leave_all_or_nothing(void **state)
{
	deaths(false);
}

static void power_cuts_leave_all_or_nothing(void **state)
{
	seed = 7;
	deaths(true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_snapshot_shows_one_instant, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(time_stands_still, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(old_snapshots_are_dropped, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(a_clone_is_a_table, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(snapshots_are_listed, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(differences_are_exact, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(differences_read_what_changed, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(one_instant_over_all_tablets, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(kills_leave_all_or_nothing, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(power_cuts_leave_all_or_nothing, setup_options, test_dir_teardown),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
