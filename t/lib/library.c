/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that uses an installed libtabletfs: it makes each call of tabletfs.h,
 * right and wrong, and compares the results with the header's contract.
 * usage: library DIRECTORY (empty); prints TAP.
 */
#include <tabletfs.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static int count, failed;
static char path[4000];

static void ok(int good, const char *what)
{
	printf("%sok %d - %s\n", good ? "" : "not ", ++count, what);
	failed += !good;
}

static void is(long long got, long long want, const char *what)
{
	ok(got == want, what);
	if (got != want)
		printf("# got %lld, not %lld\n", got, want);
}

static const char *in(const char *dir, const char *name)
{
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

static void options(const char *dir)
{
	struct tfs_options o;
	char *why = NULL;
	FILE *f;

	tfs_options_init(&o);
	ok(o.memtable_bytes == 128u << 20 && o.compaction_threads == 2 && !o.sync, "tfs_options_init: the defaults");
	f = fopen(in(dir, "conf"), "w");
	fputs("memtable = \"2M\";\nlog_level = \"error\";\n", f);
	fclose(f);
	is(tfs_options_load(&o, path, &why), 0, "tfs_options_load");
	ok(o.memtable_bytes == 2u << 20 && o.log_level == 0 && !why, "what the file says");
	f = fopen(path, "w");
	fputs("\nmemtabel = \"2M\";\n", f);
	fclose(f);
	is(tfs_options_load(&o, path, &why), -EINVAL, "an unknown setting");
	ok(why && strstr(why, "conf:2: "), "is told with file and line");
	free(why);
	is(tfs_options_load(&o, path, NULL), -EINVAL, "nobody has to ask why");
	is(tfs_options_load(&o, in(dir, "none"), &why), -ENOENT, "no such file");
	free(why);
}

static struct tfs_store *opened(const char *dir)
{
	/* Returns some entries only. */
	const struct tfs_options o = {.sync = true};
	struct tfs_store *s = NULL;
	char *why = NULL;

	is(tfs_open(in(dir, "store"), &o, &s, &why), 0, "tfs_open");
	ok(s && !why, "gives a store and no reason");
	if (!s)
		exit(1);
	return s;
}

static void opening(const char *dir, struct tfs_store *s)
{
	struct tfs_store *other = NULL;
	char *why = NULL;

	is(tfs_open(in(dir, "store"), NULL, &other, &why), -EBUSY, "a store that is in use");
	ok(!other && why && strstr(why, "in use") && strstr(why, path), "is told");
	free(why);
	is(tfs_open("", NULL, &other, &why), -EINVAL, "no name");
	free(why);
	is(tfs_open(NULL, NULL, &other, NULL), -EINVAL, "NULL for a name");
	is(tfs_open(in(dir, "conf"), NULL, &other, NULL), -ENOTDIR, "a file");
	is(tfs_open(dir, NULL, &other, &why), -ENOTEMPTY, "a directory that is something else");
	free(why);
	is(tfs_open(in(dir, "no/where"), NULL, &other, NULL), -ENOENT, "a directory in none");
	is(tfs_close(NULL), 0, "tfs_close(NULL)");
}

static void tables(struct tfs_store *s)
{
	char names[3][TFS_NAME_MAX + 1], longest[TFS_NAME_MAX + 2];
	struct tfs_table *t, *same;
	bool empty = false;

	memset(longest, 'x', sizeof(longest));
	longest[TFS_NAME_MAX] = 0;
	ok(tfs_name_valid("a.b-c_9") && tfs_name_valid(longest), "names");
	longest[TFS_NAME_MAX] = 'x';
	ok(!tfs_name_valid("") && !tfs_name_valid(".a") && !tfs_name_valid("a/b") && !tfs_name_valid(NULL), "and what is none");
	is(tfs_table_create(s, "a", 1, 2, 0750), 0, "tfs_table_create");
	is(tfs_table_create(s, "a", 1, 2, 0750), -EEXIST, "again");
	is(tfs_table_create(s, ".a", 1, 2, 0750), -EINVAL, "no name of a table");
	is(tfs_table_create(s, NULL, 1, 2, 0750), -EINVAL, "NULL");
	is(tfs_table_create(s, "c", 0, 0, 0755), 0, "another");
	is(tfs_table_list(s, NULL, names, 3), 2, "tfs_table_list");
	ok(strcmp(names[0], "a") == 0 && strcmp(names[1], "c") == 0, "in order");
	is(tfs_table_list(s, "a", names, 3), 1, "after one");
	is(tfs_table_list(s, "", names, 1), 1, "one at most");
	is(tfs_table_list(s, "", names, 0), 0, "none at most");
	is(tfs_table_rename(s, "c", "b", false), 0, "tfs_table_rename");
	is(tfs_table_rename(s, "c", "d", false), -ENOENT, "what is not there");
	is(tfs_table_rename(s, "b", "a", true), -EEXIST, "onto another, not to replace it");
	is(tfs_table_rename(s, "b", "/", true), -EINVAL, "to no name");
	is(tfs_table_rename(s, NULL, "x", true), -EINVAL, "NULL");
	is(tfs_table_open(s, "b", &t), 0, "tfs_table_open");
	is(tfs_table_open(s, "b", &same), 0, "again");
	ok(tfs_table_id(t) == tfs_table_id(same) && tfs_table_id(t) > 0, "tfs_table_id");
	tfs_table_close(same);
	is(tfs_table_open(s, "no", &same), -ENOENT, "no such table");
	is(tfs_table_empty(t, &empty), 0, "tfs_table_empty");
	ok(empty, "it is");
	is(tfs_close(s), -EBUSY, "tfs_close with a table open");
	is(tfs_table_drop(s, "b"), 0, "tfs_table_drop");
	is(tfs_table_drop(s, "b"), -ENOENT, "again");
	is(tfs_table_drop(s, NULL), -EINVAL, "NULL");
	is(tfs_table_empty(t, &empty), -ENOENT, "a handle of it");
	tfs_table_close(t);
	tfs_table_close(NULL);
}

/* Families and groups have names and ids, and either may be given. */
static void renames(struct tfs_table *t)
{
	struct tfs_schema_edit e = {.op = TFS_SCHEMA_FAMILY_RENAME, .name = "f", .value = "g"};
	const struct tfs_schema *s = NULL;
	const struct tfs_family *f;
	struct tfs_mutation *put;
	struct tfs_info info;
	char *why = NULL, id[8];

	is(tfs_schema_get(t, &s), 0, "tfs_schema_get");
	snprintf(id, sizeof(id), "#%u", tfs_schema_family(s, "f")->id);
	put = tfs_mutation_new(t, TFS_S("renamed"));
	is(tfs_mutation_put(put, "f", TFS_S("q"), TFS_AUTO, TFS_S("v")), 0, "a mutation made before a rename");
	is(tfs_schema_change(t, &e, NULL), 0, "  a family is renamed");
	is(tfs_apply(put, 0, NULL), 0, "  applied after it");
	is(tfs_stat(t, TFS_S("renamed"), "g", TFS_S("q"), TFS_AUTO, &info), 0, "  its cell is the renamed family's");
	is(tfs_stat(t, TFS_S("renamed"), id, TFS_S("q"), TFS_AUTO, &info), 0, "  which can be named by its id");
	is(tfs_stat(t, TFS_S("renamed"), "f", TFS_S("q"), TFS_AUTO, &info), -EINVAL, "  and not by its old name");
	is(tfs_stat(t, TFS_S("renamed"), "#999", TFS_S("q"), TFS_AUTO, &info), -EINVAL, "  nor by an id that is none");
	tfs_schema_put(s);
	is(tfs_schema_get(t, &s), 0, "tfs_schema_get");
	f = tfs_schema_family(s, id);
	ok(f && f == tfs_schema_family(s, "g") && !tfs_schema_family(s, "#01"), "tfs_schema_family by id");
	ok(tfs_schema_group(s, "#0") && tfs_schema_group(s, "#0") == tfs_schema_group(s, "default") &&
			!tfs_schema_group(s, "none") && !tfs_schema_group(s, NULL),
		"tfs_schema_group");
	tfs_schema_put(s);
	e = (struct tfs_schema_edit){.op = TFS_SCHEMA_FAMILY_RENAME, .name = id, .value = "n"};
	is(tfs_schema_change(t, &e, &why), -EEXIST, "a family gets no name that another has");
	ok(why != NULL, "is told why");
	free(why);
	e.value = "f";
	is(tfs_schema_change(t, &e, NULL), 0, "its old name again, by its id");
	tfs_mutation_free(put);
	put = tfs_mutation_new(t, TFS_S("renamed"));
	is(tfs_mutation_delete_family(put, id), 0, "a mutation by id");
	is(tfs_apply(put, 0, NULL), 0, "applied");
	tfs_mutation_free(put);
	e = (struct tfs_schema_edit){.op = TFS_SCHEMA_GROUP_RENAME, .name = "default", .value = "x"};
	is(tfs_schema_change(t, &e, &why), -EBUSY, "the default group keeps its name");
	ok(why != NULL, "is told why");
	free(why);
}

static void schemas(struct tfs_table *t)
{
	struct tfs_schema_edit e = {.op = TFS_SCHEMA_FAMILY_ADD, .name = "f", .uid = 7, .gid = 8, .mode = 0640};
	const struct tfs_schema *s = NULL, *later = NULL;
	char *why = NULL;

	is(tfs_schema_get(t, &s), 0, "tfs_schema_get");
	ok(strcmp(s->name, "a") == 0 && s->uid == 1 && s->gid == 2 && s->mode == 0750 && !s->is_set && s->family_count == 0 &&
			s->group_count == 1 && strcmp(s->groups[0].name, "default") == 0 && s->text &&
			s->text_size == strlen(s->text),
		"of a new table");
	ok(!tfs_schema_family(s, "f") && !tfs_schema_family(s, NULL), "tfs_schema_family: none");
	is(tfs_schema_change(t, &e, &why), 0, "tfs_schema_change");
	is(tfs_schema_change(t, &e, NULL), -EEXIST, "again");
	is(tfs_schema_get(t, &later), 0, "tfs_schema_get");
	ok(later->generation > s->generation && tfs_schema_family(later, "f")->mode == 0640 &&
			tfs_schema_family(later, "f")->uid == 7,
		"has it");
	ok(!tfs_schema_family(s, "f"), "the one had before has not");
	tfs_schema_put(s);
	tfs_schema_put(later);
	tfs_schema_put(NULL);
	e.name = ".f";
	is(tfs_schema_change(t, &e, &why), -EINVAL, "no name of a family");
	ok(why != NULL, "is told why");
	free(why);
	e = (struct tfs_schema_edit){.op = TFS_SCHEMA_FAMILY_GC, .name = "f", .value = "maxversions=two"};
	is(tfs_schema_change(t, &e, &why), -EINVAL, "no rule");
	ok(why != NULL, "is told why");
	free(why);
	e.name = "none";
	is(tfs_schema_change(t, &e, NULL), -ENOENT, "of no family");
	is(tfs_schema_set_text(t, TFS_S("families = (\n { nam = \"f\"; } );"), TFS_NO_TIME, &why), -EINVAL, "a text that is none");
	ok(why && strstr(why, "line 2"), "is told with its line");
	free(why);
	is(tfs_schema_set_text(t, TFS_S("families = ( { name = \"f\"; }, { name = \"n\"; type = \"counter\"; } );"), 5, NULL), 0,
		"tfs_schema_set_text");
	is(tfs_schema_get(t, &s), 0, "tfs_schema_get");
	ok(s->is_set && s->mtime_us == 5 && s->family_count == 2 && s->families[1].type == TFS_TYPE_COUNTER, "what the text says");
	tfs_schema_put(s);
	renames(t);
}

static struct tfs_mutation *m; /* under way */

static int applied(int added, unsigned flags, struct tfs_result *r)
{
	int err = added ? added : tfs_apply(m, flags, r);

	tfs_mutation_free(m);
	m = NULL;
	return err;
}

static struct tfs_mutation *on(struct tfs_table *t, struct tfs_bytes row)
{
	return m = tfs_mutation_new(t, row);
}

static void mutations(struct tfs_table *t)
{
	static char big[TFS_VALUE_MAX + 1], row[TFS_ROW_MAX + 1];
	const struct tfs_range ranges[] = {{1, {(const uint8_t *)"XY", 2}}, {6, {(const uint8_t *)"!", 1}}};
	struct tfs_write w = {.family = "f",
		.qualifier = TFS_S("q"),
		.base = TFS_BASE_NEWEST,
		.truncate_to = 3,
		.ranges = ranges,
		.range_count = 2,
		.append = TFS_S("end"),
		.place = TFS_AUTO};
	struct tfs_result r[3] = {{0}};
	struct tfs_info info;
	char p[100];
	size_t got;

	memset(row, 'r', sizeof(row));
	is(applied(tfs_mutation_put(on(t, TFS_S("row")), "f", TFS_S("q"), tfs_at(-5), TFS_S("hello")), TFS_APPLY_SYNC, r), 0,
		"put");
	ok(r[0].ts == -5 && r[0].size == 5, "says timestamp and size");
	is(applied(tfs_mutation_write(on(t, TFS_S("row")), &w), 0, r), 0, "write");
	is(tfs_read(t, TFS_S("row"), "f", TFS_S("q"), TFS_AUTO, 0, p, sizeof(p), &got, &info), 0, "tfs_read");
	ok(got == 10 && memcmp(p, "hXY\0\0\0!end", 10) == 0 && info.ts == r[0].ts && info.size == 10 &&
			info.expires_us == INT64_MAX,
		"base, cut, ranges, end");
	is(tfs_read(t, TFS_S("row"), "f", TFS_S("q"), TFS_AUTO, 7, p, SIZE_MAX / 2, &got, NULL), 0, "more than any value has");
	ok(got == 3 && memcmp(p, "end", 3) == 0, "gives the value's end");
	is(tfs_read(t, TFS_S("row"), "f", TFS_S("q"), TFS_AUTO, 70, p, sizeof(p), &got, NULL), 0, "behind the end");
	ok(got == 0, "nothing");
	is(tfs_stat(t, TFS_S("row"), "f", TFS_S("q"), tfs_at(-5), &info), 0, "tfs_stat");
	ok(info.ts == -5 && info.size == 5, "of a version");
	is(tfs_stat(t, TFS_S("row"), "f", TFS_S("none"), TFS_AUTO, &info), -ENOENT, "of none");
	is(tfs_stat(t, TFS_S("row"), "x", TFS_S("q"), TFS_AUTO, &info), -EINVAL, "of no family");
	is(tfs_stat(t, TFS_S(""), "f", TFS_S("q"), TFS_AUTO, &info), -EINVAL, "of no row");
	is(applied(tfs_mutation_put(on(t, TFS_S("row")), "x", TFS_S("q"), TFS_AUTO, TFS_S("")), 0, NULL), -EINVAL,
		"put in no family");
	is(applied(tfs_mutation_put(on(t, TFS_S("row")), NULL, TFS_S("q"), TFS_AUTO, TFS_S("")), 0, NULL), -EINVAL,
		"NULL for a family");
	is(applied(tfs_mutation_put(on(t, TFS_S("")), "f", TFS_S("q"), TFS_AUTO, TFS_S("")), 0, NULL), -EINVAL, "put in no row");
	is(applied(tfs_mutation_put(on(t, tfs_bytes_of(row, sizeof(row))), "f", TFS_S("q"), TFS_AUTO, TFS_S("")), 0, NULL), -EINVAL,
		"a row that is too long");
	is(applied(tfs_mutation_put(on(t, tfs_bytes_of(row, TFS_ROW_MAX)), "f", TFS_S("q"), TFS_AUTO, TFS_S("")), 0, NULL), 0,
		"one that is just not");
	is(applied(tfs_mutation_put(on(t, TFS_S("row")), "f", tfs_bytes_of(row, TFS_QUALIFIER_MAX + 1), TFS_AUTO, TFS_S("")), 0,
		   NULL),
		-EINVAL, "a qualifier that is too long");
	is(applied(tfs_mutation_put(on(t, TFS_S("row")), "f", TFS_S("big"), TFS_AUTO, tfs_bytes_of(big, TFS_VALUE_MAX + 1)), 0,
		   NULL),
		-EFBIG, "a value that is too large");
	is(applied(tfs_mutation_put(on(t, TFS_S("row")), "f", TFS_S("big"), TFS_AUTO, tfs_bytes_of(big, TFS_VALUE_MAX)), 0, NULL),
		0, "one that is just not");
	is(applied(tfs_mutation_put(on(t, TFS_S("row")), "f", TFS_S("none"), TFS_AUTO, tfs_bytes_of(NULL, 0)), 0, NULL), 0,
		"NULL, 0: no bytes");
	is(tfs_stat(t, TFS_S("row"), "f", TFS_S("none"), TFS_AUTO, &info), 0, "are a value");
	is(applied(tfs_mutation_put(on(t, TFS_S("row")), "f", TFS_S("q"), TFS_AUTO, TFS_S("")), 4, NULL), -EINVAL, "no such flag");
	is(applied(0 * (on(t, TFS_S("row")) == NULL), 0, NULL), 0, "no operation");
	is(applied(tfs_mutation_increment(on(t, TFS_S("row")), "n", TFS_S("c"), 41), 0, r), 0, "increment");
	is(applied(tfs_mutation_increment(on(t, TFS_S("row")), "n", TFS_S("c"), 1), 0, r), 0, "increment");
	is(r[0].counter, 42, "says the value");
	is(applied(tfs_mutation_increment(on(t, TFS_S("row")), "n", TFS_S("c"), INT64_MAX), 0, r), -EOVERFLOW, "past the end");
	is(applied(tfs_mutation_increment(on(t, TFS_S("row")), "f", TFS_S("q"), 1), 0, r), -EINVAL, "of what is not a number");
	is(applied(tfs_mutation_move(on(t, TFS_S("row")), "f", TFS_S("q"), TFS_AUTO, "f", TFS_S("moved"), TFS_AUTO, true), 0, r), 0,
		"move");
	is(tfs_stat(t, TFS_S("row"), "f", TFS_S("moved"), tfs_at(-5), &info), 0, "every version");
	is(applied(tfs_mutation_move(on(t, TFS_S("row")), "f", TFS_S("q"), TFS_AUTO, "f", TFS_S("x"), TFS_AUTO, true), 0, r),
		-ENOENT, "again");
	is(applied(tfs_mutation_move(on(t, TFS_S("row")), "f", TFS_S("none"), TFS_AUTO, "f", TFS_S("moved"), TFS_AUTO, true), 0, r),
		-EEXIST, "onto another, not to replace it");
	is(applied(tfs_mutation_set_time(on(t, TFS_S("row")), "f", TFS_S("moved"), -5), 0, r), -EINVAL,
		"set_time onto another version");
	is(applied(tfs_mutation_set_time(on(t, TFS_S("row")), "f", TFS_S("moved"), 99), 0, r), 0, "set_time");
	is(r[0].ts, 99, "says it");
	is(applied(tfs_mutation_delete_version(on(t, TFS_S("row")), "f", TFS_S("moved"), 99), 0, NULL), 0, "delete_version");
	is(applied(tfs_mutation_delete_version(on(t, TFS_S("row")), "f", TFS_S("moved"), 99), 0, NULL), 0, "again");
	is(applied(tfs_mutation_check(on(t, TFS_S("row")), TFS_CHECK_NEWEST_IS, "f", TFS_S("moved"), tfs_at(-5), TFS_S("")), 0,
		   NULL),
		0, "check: the newest now");
	is(applied(tfs_mutation_check(on(t, TFS_S("row")), TFS_CHECK_VALUE, "f", TFS_S("moved"), TFS_AUTO, TFS_S("hello")), 0,
		   NULL),
		0, "check: its value");
	is(applied(tfs_mutation_check(on(t, TFS_S("row")), TFS_CHECK_ABSENT, "f", TFS_S("moved"), TFS_AUTO, TFS_S("")), 0, NULL),
		-ECANCELED, "check: that fails");
	is(applied(tfs_mutation_check(on(t, TFS_S("row")), (enum tfs_check)99, "f", TFS_S("moved"), TFS_AUTO, TFS_S("")), 0, NULL),
		-EINVAL, "check: of no kind");
	w.base = (enum tfs_base)99;
	is(applied(tfs_mutation_write(on(t, TFS_S("row")), &w), 0, NULL), -EINVAL, "write: of no base");
	w.base = TFS_BASE_VERSION;
	w.base_ts = 12345;
	is(applied(tfs_mutation_write(on(t, TFS_S("row")), &w), 0, NULL), -ENOENT, "write: from a version that is not there");
	is(applied(tfs_mutation_delete_column(on(t, TFS_S("row")), "f", TFS_S("big")), 0, NULL), 0, "delete_column");
	is(applied(tfs_mutation_delete_family(on(t, TFS_S("row")), "n"), 0, NULL), 0, "delete_family");
	is(applied(tfs_mutation_delete_row(on(t, tfs_bytes_of(row, TFS_ROW_MAX))), 0, NULL), 0, "delete_row");
	tfs_mutation_free(NULL);
}

static int cells(struct tfs_table *t, const struct tfs_scan_spec *spec, struct tfs_cell *last)
{
	struct tfs_scan *s;
	struct tfs_cell c;
	int n = 0, err = tfs_scan_new(t, spec, &s);

	if (err)
		return err;
	while ((err = tfs_scan_next(s, &c)) > 0) {
		*last = c;
		n++;
	}
	if (err == 0)
		err = tfs_scan_next(s, &c); /* the end stays the end */
	tfs_scan_free(s);
	return err ? err : n;
}

static int same_bytes(struct tfs_bytes a, struct tfs_bytes b)
{
	return a.n == b.n && !a.p == !b.p && (!a.p || memcmp(a.p, b.p, a.n) == 0);
}

/* Compares tfs_scan_fill, with at most `max` cells and n bytes for them, with tfs_scan_next.  Returns the number of cells. */
static int filled(struct tfs_table *t, const struct tfs_scan_spec *spec, int max, size_t n)
{
	struct tfs_cell v[16], c;
	struct tfs_scan *one, *many;
	char *p = malloc(TFS_CELL_MAX);
	int count = 0, got = 0, good = p && max <= 16 && !tfs_scan_new(t, spec, &one) && !tfs_scan_new(t, spec, &many);

	while (good && (got = tfs_scan_fill(many, v, max, p, n)) != 0) {
		if (got == -ENOBUFS)
			got = tfs_scan_fill(many, v, 1, p, TFS_CELL_MAX);
		good = good && got > 0 && got <= max;
		for (int i = 0; good && i < got; i++, count++)
			good = tfs_scan_next(one, &c) == 1 && same_bytes(c.row, v[i].row) &&
				same_bytes(c.qualifier, v[i].qualifier) && same_bytes(c.value, v[i].value) &&
				!c.family == !v[i].family && (!c.family || strcmp(c.family, v[i].family) == 0) && c.ts == v[i].ts &&
				c.size == v[i].size && c.sequence == v[i].sequence &&
				(!i || c.row.n != v[i - 1].row.n || memcmp(c.row.p, v[i - 1].row.p, c.row.n) != 0 ||
					v[i].row.p == v[i - 1].row.p);
	}
	good = good && tfs_scan_next(one, &c) == 0 && tfs_scan_fill(many, v, max, p, n) == 0;
	tfs_scan_free(one);
	tfs_scan_free(many);
	free(p);
	return good ? count : -1;
}

static void scans(struct tfs_table *t)
{
	const char *const f[] = {"f"}, *const twice[] = {"f", "f"}, *const none[] = {"x"};
	struct tfs_scan_spec spec = {.what = TFS_SCAN_CELLS};
	struct tfs_cell c;
	bool exists = true;

	for (int i = 0; i < 30; i++) {
		char row[8];

		snprintf(row, sizeof(row), "s%02d", i / 3);
		(void)!applied(
			tfs_mutation_put(on(t, tfs_str(row)), "f", tfs_bytes_of("abc" + i % 3, 1), tfs_at(i), TFS_S("v")), 0, NULL);
	}
	spec.row_from = TFS_S("s");
	is(cells(t, &spec, &c), 30, "tfs_scan: cells");
	is(filled(t, &spec, 16, 4096), 30, "tfs_scan_fill returns the same cells");
	is(filled(t, &spec, 16, 9), 30, "with little memory, some cells at a time");
	is(filled(t, &spec, 2, 2), 30, "with too little, one at a time after -ENOBUFS");
	spec.row_to = TFS_S("s05");
	is(cells(t, &spec, &c), 15, "to a row");
	spec.row_from = TFS_S("s03");
	spec.row_from_after = true;
	is(cells(t, &spec, &c), 3, "after a row");
	spec = (struct tfs_scan_spec){.what = TFS_SCAN_KEYS,
		.row_from = TFS_S("s04"),
		.one_row = true,
		.families = f,
		.family_count = 1,
		.qualifier_from = TFS_S("b")};
	is(cells(t, &spec, &c), 2, "one row, from a qualifier");
	ok(strcmp(c.family, "f") == 0 && c.ts == 14 && c.size == 1 && !c.value.p, "keys have no value");
	spec.families = twice;
	spec.family_count = 2;
	is(cells(t, &spec, &c), 2, "a family named twice");
	spec.families = none;
	spec.family_count = 1;
	is(cells(t, &spec, &c), -EINVAL, "no such family");
	spec = (struct tfs_scan_spec){.what = TFS_SCAN_ROWS, .row_from = TFS_S("s"), .limit = 4};
	is(cells(t, &spec, &c), 4, "rows, four at most");
	is(filled(t, &spec, 3, 4096), 4, "tfs_scan_fill of rows");
	ok(!c.family && c.row.n == 3, "rows have no family");
	spec = (struct tfs_scan_spec){.what = TFS_SCAN_FAMILIES, .row_from = TFS_S("s")};
	is(cells(t, &spec, &c), 10, "families");
	spec = (struct tfs_scan_spec){.what = TFS_SCAN_CELLS, .row_from = TFS_S("s"), .has_times = true, .since = 10, .until = 20};
	is(cells(t, &spec, &c), 10, "times");
	spec = (struct tfs_scan_spec){.what = TFS_SCAN_CELLS, .row_from = TFS_S("t"), .row_to = TFS_S("s")};
	is(cells(t, &spec, &c), 0, "upside down");
	spec = (struct tfs_scan_spec){.what = (enum tfs_scan_what)9};
	is(cells(t, &spec, &c), -EINVAL, "no such kind");
	spec = (struct tfs_scan_spec){.what = TFS_SCAN_CELLS, .one_row = true};
	is(cells(t, &spec, &c), -EINVAL, "one row without a row");
	is(tfs_row_exists(t, TFS_S("s03"), NULL, &exists), 0, "tfs_row_exists");
	ok(exists, "it does");
	is(tfs_row_exists(t, TFS_S("s03"), "n", &exists), 0, "a family in it");
	ok(!exists, "does not");
	is(tfs_row_exists(t, TFS_S("s03"), "x", &exists), -EINVAL, "no such family");
	tfs_scan_free(NULL);
}

static int note_tablet(void *arg, const struct tfs_tablet *tablet)
{
	int *n = arg;

	++*n;
	return tablet->server && tablet->state && !tablet->end.p ? 0 : -EINVAL;
}

static int stop(void *arg, const struct tfs_tablet *tablet)
{
	return -EINTR;
}

static int note_server(void *arg, const struct tfs_server *server)
{
	int *n = arg;

	++*n;
	return 0;
}

static void tablets(struct tfs_store *s, struct tfs_table *t)
{
	struct tfs_usage u;
	uint64_t total, available;
	char *text;
	int n = 0;

	is(tfs_flush(t), 0, "tfs_flush");
	is(tfs_compact(t), 0, "tfs_compact");
	is(tfs_usage(t, NULL, &u), 0, "tfs_usage");
	ok(u.cells >= 30 && u.disk_bytes > 0, "counts");
	is(tfs_usage(t, "n", &u), 0, "of a family");
	is(tfs_usage(t, "x", &u), -EINVAL, "of none");
	is(tfs_tablets(t, note_tablet, &n), 0, "tfs_tablets");
	is(n, 1, "one");
	is(tfs_tablets(t, stop, NULL), -EINTR, "what fn says ends it");
	n = 0;
	is(tfs_servers(s, note_server, &n), 0, "tfs_servers");
	is(n, 1, "one");
	is(tfs_sync(s), 0, "tfs_sync");
	is(tfs_space(s, &total, &available), 0, "tfs_space");
	ok(total >= available && total > 0, "counts");
	is(tfs_status(s, &text), 0, "tfs_status");
	ok(strstr(text, "incarnation 1") != NULL, "lines");
	free(text);
	is(tfs_metrics(s, &text), 0, "tfs_metrics");
	ok(strstr(text, "# TYPE tabletfs_") != NULL, "a page");
	free(text);
}

static void complain(void *arg, struct tfs_bytes row, int err)
{
	*(int *)arg += err == -ECANCELED && row.n == 4 && memcmp(row.p, "b007", 4) == 0;
}

/* As the header's example has it. */
static void batches(struct tfs_table *t)
{
	int complaints = 0, err;
	struct tfs_batch *b;
	char row[8], value[8];
	size_t got;

	err = tfs_batch_new(t, &(struct tfs_batch_options){.failed = complain, .arg = &complaints, .sync = true}, &b);
	for (int i = 0; !err && i < 100; i++) {
		struct tfs_mutation *m;

		snprintf(row, sizeof(row), "b%03d", i);
		m = tfs_mutation_new(t, tfs_str(row));
		err = tfs_mutation_put(m, "f", TFS_S(""), TFS_AUTO, tfs_str(row));
		if (!err && i == 7)
			err = tfs_mutation_check(m, TFS_CHECK_EXISTS, "f", TFS_S("none"), TFS_AUTO, TFS_S(""));
		if (!err)
			err = tfs_batch_add(b, m);
		tfs_mutation_free(m);
	}
	is(err, 0, "a batch");
	is(tfs_batch_close(b), -ECANCELED, "tfs_batch_close");
	is(tfs_read(t, TFS_S("b099"), "f", TFS_S(""), TFS_AUTO, 0, value, sizeof(value), &got, NULL), 0, "what it wrote is there");
	ok(got == 4 && memcmp(value, "b099", 4) == 0, "as it was written");
	is(complaints, 1, "and who failed was told");
	is(tfs_batch_new(t, &(struct tfs_batch_options){.threads = 65}, &b), -EINVAL, "65 threads");
}

int main(int argc, char **argv)
{
	struct tfs_info info;
	struct tfs_store *s;
	struct tfs_table *t;

	if (argc != 2)
		return 2;
	ok(tfs_version()[0] >= '0' && tfs_version()[0] <= '9', "tfs_version");
	options(argv[1]);
	s = opened(argv[1]);
	opening(argv[1], s);
	tables(s);
	is(tfs_table_open(s, "a", &t), 0, "tfs_table_open");
	schemas(t);
	mutations(t);
	scans(t);
	batches(t);
	tablets(s, t);
	is(tfs_table_drop(s, "a"), -ENOTEMPTY, "tfs_table_drop with cells");
	tfs_table_close(t);
	is(tfs_close(s), 0, "tfs_close");
	s = opened(argv[1]);
	is(tfs_table_open(s, "a", &t), 0, "what was made is there");
	is(tfs_stat(t, TFS_S("row"), "f", TFS_S("moved"), tfs_at(-5), &info), 0, "what was written is there");
	tfs_table_close(t);
	is(tfs_close(s), 0, "tfs_close");
	printf("1..%d\n", count);
	return failed != 0;
}
