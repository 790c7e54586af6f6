/* SPDX-License-Identifier: Apache-2.0 */
/* The reference model: mutations, rules, reads and scans of rows. */
#include "t/unit/test_model.h"

#define assert_row(w, want) assert_string_equal(show_row(w, "r"), want)

static struct tfs_mutation *on_r(struct world *w)
{
	return tfs_mutation_new(w->table, TFS_S("r"));
}

static void order_and_overwrite(void **state)
{
	struct world *w = *state;

	assert_int_equal(put(w, "r", "b", "q", 1, "x"), 0);
	assert_int_equal(put(w, "r", "a", "q2", 1, "x"), 0);
	assert_int_equal(put(w, "r", "a", "q1", -5, "neg"), 0);
	assert_int_equal(put(w, "r", "a", "q1", 3, "one"), 0);
	assert_int_equal(put(w, "r", "a", "q1", 3, "two"), 0); /* at an equal timestamp the last value stays */
	assert_int_equal(put(w, "r", "a", "", 9, ""), 0);
	assert_row(w, "a:@9= a:q1@3=two a:q1@-5=neg a:q2@1=x b:q@1=x");
}

static void back_dated_is_not_current(void **state)
{
	struct world *w = *state;
	struct tfs_info info;

	put(w, "r", "a", "q", 10, "new");
	put(w, "r", "a", "q", 5, "old");
	assert_int_equal(tfs_stat(w->table, TFS_S("r"), "a", TFS_S("q"), TFS_AUTO, &info), 0);
	assert_int_equal(info.ts, 10);
	assert_int_equal(info.expires_us, INT64_MAX);
	assert_int_equal(tfs_stat(w->table, TFS_S("r"), "a", TFS_S("q"), tfs_at(5), &info), 0);
	assert_int_equal(tfs_stat(w->table, TFS_S("r"), "a", TFS_S("q"), tfs_at(6), &info), -ENOENT);
}

static void assigned_times(void **state)
{
	struct world *w = *state;
	struct tfs_result res;
	int64_t one, two;

	put_auto(w, "r", "a", "q", "1", &one);
	put_auto(w, "r", "a", "p", "2", &two);
	assert_true(one >= test_clock_us && two > one); /* strictly rising with a clock that does not move */
	put(w, "r", "a", "q", two + 1000, "future");
	put_auto(w, "r", "a", "q", "3", &two);
	struct tfs_info info;
	assert_int_equal(tfs_stat(w->table, TFS_S("r"), "a", TFS_S("q"), TFS_AUTO, &info), 0);
	assert_int_equal(info.ts, two); /* reads return the written values */
	/* a floor: taken as it is above the newest, else newest + 1 */
	struct tfs_mutation *m = on_r(w);
	tfs_mutation_put(m, "a", TFS_S("f"), (struct tfs_ts){TFS_NEWEST, 50}, TFS_S("x"));
	tfs_mutation_put(m, "a", TFS_S("f"), (struct tfs_ts){TFS_NEWEST, 20}, TFS_S("y"));
	struct tfs_result both[2];
	assert_int_equal(done(m, both), 0);
	assert_int_equal(both[0].ts, 50);
	assert_int_equal(both[1].ts, 51);
	put(w, "r", "a", "m", INT64_MAX, "last");
	m = on_r(w);
	tfs_mutation_put(m, "a", TFS_S("m"), TFS_AUTO, TFS_S("x"));
	assert_int_equal(done(m, &res), -EOVERFLOW);
}

static void unknown_family_refuses_all(void **state)
{
	struct world *w = *state;
	struct tfs_mutation *m = on_r(w);

	tfs_mutation_put(m, "a", TFS_S("q"), tfs_at(1), TFS_S("x"));
	tfs_mutation_delete_column(m, "nope", TFS_S("q"));
	assert_int_equal(done(m, NULL), -EINVAL);
	assert_row(w, "");
	struct tfs_info info;
	assert_int_equal(tfs_stat(w->table, TFS_S("r"), "nope", TFS_S("q"), TFS_AUTO, &info), -EINVAL);
	m = on_r(w);
	tfs_mutation_move(m, "a", TFS_S("q"), TFS_AUTO, "nope", TFS_S("q"), TFS_AUTO, false);
	assert_int_equal(done(m, NULL), -EINVAL);
}

static void limits(void **state)
{
	struct world *w = *state;
	char *big = calloc(1, TFS_VALUE_MAX + 1);
	struct tfs_mutation *m = tfs_mutation_new(w->table, TFS_S(""));

	assert_int_equal(done(m, NULL), -EINVAL);
	assert_int_equal(done(tfs_mutation_new(w->table, tfs_bytes_of(big, TFS_ROW_MAX + 1)), NULL), -EINVAL);
	m = tfs_mutation_new(w->table, tfs_bytes_of(big, TFS_ROW_MAX));
	tfs_mutation_put(m, "a", tfs_bytes_of(big, TFS_QUALIFIER_MAX), tfs_at(1), TFS_S("x"));
	assert_int_equal(done(m, NULL), 0);
	m = on_r(w);
	tfs_mutation_put(m, "a", tfs_bytes_of(big, TFS_QUALIFIER_MAX + 1), tfs_at(1), TFS_S("x"));
	assert_int_equal(done(m, NULL), -EINVAL);
	m = on_r(w);
	tfs_mutation_put(m, "a", TFS_S("q"), tfs_at(1), tfs_bytes_of(big, TFS_VALUE_MAX + 1));
	assert_int_equal(done(m, NULL), -EFBIG);
	m = on_r(w);
	for (int i = 0; i < 5; i++)
		tfs_mutation_put(m, "a", TFS_S("q"), tfs_at(i), tfs_bytes_of(big, TFS_VALUE_MAX));
	assert_int_equal(done(m, NULL), -E2BIG);
	/* a range far out, a cut far out, an append that passes the limit */
	struct tfs_range far[] = {{UINT64_MAX, TFS_S("xx")}, {TFS_VALUE_MAX, TFS_S("x")}, {TFS_VALUE_MAX - 1, TFS_S("x")}};
	for (int i = 0; i < 5; i++) {
		struct tfs_write wr = {.family = "a",
			.qualifier = TFS_S("q"),
			.place = TFS_AUTO,
			.truncate_to = UINT64_MAX,
			.ranges = i < 3 ? &far[i] : NULL,
			.range_count = i < 3,
			.append = i == 4 ? TFS_S("x") : TFS_S("")};
		if (i == 3)
			wr.truncate_to = (uint64_t)TFS_VALUE_MAX + 1;
		if (i == 4) {
			wr.truncate_to = TFS_VALUE_MAX;
			wr.base = TFS_BASE_NEWEST;
		}
		m = on_r(w);
		tfs_mutation_write(m, &wr);
		assert_int_equal(done(m, NULL), i == 2 ? 0 : -EFBIG);
	}
	free(big);
	assert_int_equal(done(on_r(w), NULL), 0); /* no operations */
}

static void deletes(void **state)
{
	struct world *w = *state;
	struct tfs_mutation *m;

	put(w, "r", "a", "q", 1, "1");
	put(w, "r", "a", "q", 2, "2");
	put(w, "r", "a", "p", 2, "p");
	put(w, "r", "b", "q", 2, "b");
	assert_int_equal(delete_version(w, "r", "a", "q", 7), 0); /* absent: fine */
	assert_int_equal(delete_version(w, "r", "a", "q", 2), 0);
	assert_row(w, "a:p@2=p a:q@1=1 b:q@2=b");
	m = on_r(w);
	tfs_mutation_delete_column(m, "a", TFS_S("q"));
	assert_int_equal(done(m, NULL), 0);
	put(w, "r", "a", "q", 1, "again"); /* written after the delete: seen, whatever its time */
	assert_row(w, "a:p@2=p a:q@1=again b:q@2=b");
	m = on_r(w);
	tfs_mutation_delete_family(m, "a");
	tfs_mutation_put(m, "a", TFS_S("z"), tfs_at(0), TFS_S("kept"));
	assert_int_equal(done(m, NULL), 0);
	assert_row(w, "a:z@0=kept b:q@2=b");
	m = on_r(w);
	tfs_mutation_put(m, "a", TFS_S("y"), tfs_at(0), TFS_S("gone"));
	tfs_mutation_delete_row(m);
	tfs_mutation_put(m, "b", TFS_S("y"), tfs_at(0), TFS_S("kept"));
	assert_int_equal(done(m, NULL), 0);
	assert_row(w, "b:y@0=kept");
	m = on_r(w);
	tfs_mutation_delete_row(m);
	assert_int_equal(done(m, NULL), 0);
	bool exists = true;
	assert_int_equal(tfs_row_exists(w->table, TFS_S("r"), NULL, &exists), 0);
	assert_false(exists);
	assert_int_equal(tfs_table_empty(w->table, &exists), 0);
	assert_true(exists);
}

static void hidden_versions_never_return(void **state)
{
	struct world *w = *state;
	struct tfs_mutation *m;

	for (int i = 1; i <= 4; i++)
		put(w, "r", "v2", "q", i, "x");
	assert_row(w, "v2:q@4=x v2:q@3=x");
	delete_version(w, "r", "v2", "q", 4); /* 2 and 1 are removed with it */
	assert_row(w, "v2:q@3=x");
	put(w, "r", "v2", "q", 1, "low");
	put(w, "r", "v2", "q", 2, "mid");
	assert_row(w, "v2:q@3=x v2:q@2=mid");
	/* judged on the row before the mutation: 1 is hidden there, 2 is not, though the put pushes it out */
	m = on_r(w);
	tfs_mutation_put(m, "v2", TFS_S("q"), tfs_at(9), TFS_S("new"));
	tfs_mutation_delete_version(m, "v2", TFS_S("q"), 9);
	assert_int_equal(done(m, NULL), 0);
	assert_row(w, "v2:q@3=x v2:q@2=mid");
	/* one written in the mutation at a hidden timestamp is not hidden */
	put(w, "r", "v2", "q", 1, "low");
	m = on_r(w);
	tfs_mutation_put(m, "v2", TFS_S("q"), tfs_at(1), TFS_S("back"));
	tfs_mutation_delete_version(m, "v2", TFS_S("q"), 3);
	assert_int_equal(done(m, NULL), 0);
	assert_row(w, "v2:q@2=mid v2:q@1=back");
}

static void rules_by_age(void **state)
{
	struct world *w = *state;
	struct tfs_info info;
	int64_t ts;

	put_auto(w, "r", "old", "q", "x", &ts);
	assert_int_equal(tfs_stat(w->table, TFS_S("r"), "old", TFS_S("q"), TFS_AUTO, &info), 0);
	assert_int_equal(info.expires_us, ts + 10000000);
	test_clock_us = ts + 9999999;
	assert_int_equal(tfs_stat(w->table, TFS_S("r"), "old", TFS_S("q"), TFS_AUTO, &info), 0);
	test_clock_us++;
	assert_int_equal(tfs_stat(w->table, TFS_S("r"), "old", TFS_S("q"), TFS_AUTO, &info), -ENOENT);
	test_clock_us -= 5000000; /* expiry follows the clock */
	assert_int_equal(tfs_stat(w->table, TFS_S("r"), "old", TFS_S("q"), TFS_AUTO, &info), 0);
	test_clock_us += 5000000;
	bool empty = false;
	assert_int_equal(tfs_table_empty(w->table, &empty), 0);
	assert_true(empty);
}

static void rules_combined(void **state)
{
	struct world *w = *state;

	schema(w,
		"families = ( { name = \"u\"; gc = \"maxversions=2 or maxage=10s\"; },\n"
		"{ name = \"i\"; gc = \"maxversions=1 and maxage=10s\"; },\n"
		"{ name = \"m\"; gc = \"(maxversions=1 and maxage=10s) or maxage=20s\"; } );");
	const char *family[] = {"u", "i", "m"};
	for (int f = 0; f < 3; f++)
		for (int age = 5; age <= 25; age += 10)
			put(w, "r", family[f], "q", test_clock_us - age * 1000000LL, "x");
	put(w, "r", "i", "q", test_clock_us - 6000000, "x");
	assert_row(w, "u:q@995000000=x i:q@995000000=x i:q@994000000=x m:q@995000000=x");
	test_clock_us += 6000000;
	/* at 11 s the union hides its last version, the intersection keeps one for ever */
	assert_row(w, "i:q@995000000=x m:q@995000000=x");
	test_clock_us += 9000000;
	assert_row(w, "i:q@995000000=x");
}

static void write_base_and_ranges(void **state)
{
	struct world *w = *state;
	struct tfs_range two[] = {{1, TFS_S("BC")}, {8, TFS_S("!")}};
	struct tfs_write wr = {.family = "a",
		.qualifier = TFS_S("q"),
		.base = TFS_BASE_VERSION,
		.base_ts = 5,
		.truncate_to = UINT64_MAX,
		.place = tfs_at(6)};
	struct tfs_mutation *m = on_r(w);
	struct tfs_result res;

	tfs_mutation_write(m, &wr);
	assert_int_equal(done(m, NULL), -ENOENT);
	put(w, "r", "a", "q", 5, "abcdef");
	wr.truncate_to = 4;
	wr.ranges = two;
	wr.range_count = 2;
	wr.append = TFS_S("end");
	m = on_r(w);
	tfs_mutation_write(m, &wr);
	assert_int_equal(done(m, &res), 0);
	assert_int_equal(res.size, 12);
	char got[16];
	size_t n;
	struct tfs_info info;
	assert_int_equal(tfs_read(w->table, TFS_S("r"), "a", TFS_S("q"), TFS_AUTO, 0, got, sizeof(got), &n, &info), 0);
	assert_int_equal(n, 12);
	assert_memory_equal(got, "aBCd\0\0\0\0!end", 12);
	assert_int_equal(tfs_read(w->table, TFS_S("r"), "a", TFS_S("q"), tfs_at(5), 4, got, 1, &n, NULL), 0);
	assert_int_equal(n, 1);
	assert_int_equal(got[0], 'e');
	assert_int_equal(tfs_read(w->table, TFS_S("r"), "a", TFS_S("q"), tfs_at(5), 600, got, 1, &n, NULL), 0);
	assert_int_equal(n, 0);
	/* an append to no column starts from nothing; a later append of the mutation sees it */
	struct tfs_write app = {.family = "b",
		.qualifier = TFS_S("log"),
		.base = TFS_BASE_NEWEST,
		.truncate_to = UINT64_MAX,
		.append = TFS_S("x"),
		.place = {TFS_NEWEST, 1}};
	m = on_r(w);
	tfs_mutation_write(m, &app);
	tfs_mutation_write(m, &app);
	assert_int_equal(done(m, NULL), 0);
	struct tfs_scan_spec spec = {.row_from = TFS_S("r"), .one_row = true, .families = (const char *[]){"b"}, .family_count = 1};
	assert_string_equal(show(w, &spec), "b:log@2=xx b:log@1=x");
}

static int replace(struct world *w, int64_t replace_ts, struct tfs_ts where, struct tfs_result *res)
{
	struct tfs_mutation *m = on_r(w);
	struct tfs_write wr = {.family = "a",
		.qualifier = TFS_S("q"),
		.truncate_to = UINT64_MAX,
		.append = TFS_S("new"),
		.place = where,
		.replace = true,
		.replace_ts = replace_ts};

	tfs_mutation_write(m, &wr);
	return done(m, res);
}

static void write_replaces(void **state)
{
	struct world *w = *state;
	struct tfs_result res;

	put(w, "r", "a", "q", 5, "5");
	put(w, "r", "a", "q", 9, "9");
	assert_int_equal(replace(w, 9, TFS_AUTO, &res), 0); /* in its place */
	assert_true(res.replaced);
	assert_row(w, "a:q@9=new a:q@5=5");
	assert_int_equal(replace(w, 9, (struct tfs_ts){TFS_NEWEST, 7}, &res), 0); /* moved down, still above 5 */
	assert_row(w, "a:q@7=new a:q@5=5");
	assert_int_equal(replace(w, 7, (struct tfs_ts){TFS_NEWEST, 2}, &res), 0); /* just above the lower bound */
	assert_int_equal(res.ts, 6);
	assert_row(w, "a:q@6=new a:q@5=5");
	assert_int_equal(replace(w, 6, (struct tfs_ts){TFS_NEWEST, 5}, &res), 0); /* never onto it */
	assert_row(w, "a:q@6=new a:q@5=5");
	assert_int_equal(replace(w, 5, (struct tfs_ts){TFS_NEWEST, 1}, &res), 0); /* no longer the newest: a new version */
	assert_false(res.replaced);
	assert_row(w, "a:q@7=new a:q@6=new a:q@5=5");
	assert_int_equal(replace(w, 7, tfs_at(3), &res), 0); /* exactly there */
	assert_true(res.replaced);
	assert_row(w, "a:q@6=new a:q@5=5 a:q@3=new");
}

static void write_drops_newer(void **state)
{
	struct world *w = *state;
	struct tfs_write wr = {.family = "v2",
		.qualifier = TFS_S("q"),
		.truncate_to = UINT64_MAX,
		.append = TFS_S("x"),
		.place = tfs_at(3),
		.drop_newer = true};

	for (int i = 1; i <= 6; i++)
		put(w, "r", "v2", "q", i, "o"); /* 6 and 5 are live */
	struct tfs_mutation *m = on_r(w);
	tfs_mutation_write(m, &wr);
	assert_int_equal(done(m, NULL), 0);
	assert_row(w, "v2:q@3=x"); /* 4, 2 and 1 were hidden and do not come back */
}

static int set_time(struct world *w, const char *q, int64_t to)
{
	struct tfs_mutation *m = on_r(w);

	tfs_mutation_set_time(m, "a", tfs_str(q), to);
	return done(m, NULL);
}

static void times_move(void **state)
{
	struct world *w = *state;

	assert_int_equal(set_time(w, "q", 3), -ENOENT);
	put(w, "r", "a", "q", 5, "5");
	put(w, "r", "a", "q", 9, "9");
	assert_int_equal(set_time(w, "q", 5), -EINVAL);
	assert_int_equal(set_time(w, "q", 4), -EINVAL);
	assert_int_equal(set_time(w, "q", 9), 0);
	assert_int_equal(set_time(w, "q", 6), 0);
	assert_row(w, "a:q@6=9 a:q@5=5");
	assert_int_equal(set_time(w, "q", INT64_MAX), 0);
	assert_row(w, "a:q@9223372036854775807=9 a:q@5=5");
}

static int move(struct world *w, const char *from, struct tfs_ts from_ts, const char *to_family, const char *to,
	struct tfs_ts to_ts, bool noreplace, struct tfs_result *res)
{
	struct tfs_mutation *m = on_r(w);

	tfs_mutation_move(m, "a", tfs_str(from), from_ts, to_family, tfs_str(to), to_ts, noreplace);
	return done(m, res);
}

static void moves(void **state)
{
	struct world *w = *state;
	struct tfs_result res = {0};

	assert_int_equal(move(w, "p", TFS_AUTO, "a", "q", TFS_AUTO, false, NULL), -ENOENT);
	put(w, "r", "a", "p", 1, "p1");
	put(w, "r", "a", "p", 2, "p2");
	assert_int_equal(move(w, "p", tfs_at(7), "a", "q", TFS_AUTO, false, NULL), -ENOENT);
	assert_int_equal(move(w, "p", TFS_AUTO, "b", "q", TFS_AUTO, true, &res), 0); /* all versions, another family */
	assert_int_equal(res.ts, 2);
	assert_row(w, "b:q@2=p2 b:q@1=p1");
	put(w, "r", "a", "p", 1, "s");
	assert_int_equal(move(w, "p", TFS_AUTO, "b", "q", TFS_AUTO, true, NULL), -EEXIST);
	assert_int_equal(move(w, "p", TFS_AUTO, "b", "q", TFS_AUTO, false, &res), 0); /* becomes the newest, history kept */
	assert_int_equal(res.ts, 3);
	assert_row(w, "b:q@3=s b:q@2=p2 b:q@1=p1");
	put(w, "r", "a", "p", 8, "8");
	put(w, "r", "a", "p", 9, "9");
	assert_int_equal(move(w, "p", TFS_AUTO, "a", "q", tfs_at(4), false, NULL), 0); /* column to version */
	assert_row(w, "a:q@4=9 b:q@3=s b:q@2=p2 b:q@1=p1");
	assert_int_equal(move(w, "q", tfs_at(4), "b", "q", tfs_at(2), true, NULL), -EEXIST);
	assert_int_equal(move(w, "q", tfs_at(4), "b", "q", tfs_at(2), false, NULL), 0); /* replaces the present value */
	assert_row(w, "b:q@3=s b:q@2=9 b:q@1=p1");
	put(w, "r", "a", "p", 2, "v");
	assert_int_equal(move(w, "p", tfs_at(2), "b", "q", TFS_AUTO, false, &res), 0); /* version to column */
	assert_int_equal(res.ts, 4);
	assert_row(w, "b:q@4=v b:q@3=s b:q@2=9 b:q@1=p1");
}

static void moves_onto_itself(void **state)
{
	struct world *w = *state;

	for (int i = 1; i <= 3; i++)
		put(w, "r", "a", "q", i, i == 1 ? "1" : i == 2 ? "2" : "3");
	assert_int_equal(move(w, "q", TFS_AUTO, "a", "q", TFS_AUTO, false, NULL), 0);
	assert_int_equal(move(w, "q", tfs_at(3), "a", "q", TFS_AUTO, false, NULL), 0);
	assert_int_equal(move(w, "q", tfs_at(2), "a", "q", tfs_at(2), false, NULL), 0);
	assert_int_equal(move(w, "q", tfs_at(2), "a", "q", tfs_at(2), true, NULL), -EEXIST);
	assert_row(w, "a:q@3=3 a:q@2=2 a:q@1=1");
	assert_int_equal(move(w, "q", tfs_at(1), "a", "q", TFS_AUTO, false, NULL), 0);
	assert_row(w, "a:q@4=1 a:q@3=3 a:q@2=2");
	assert_int_equal(move(w, "q", tfs_at(3), "a", "q", tfs_at(9), false, NULL), 0);
	assert_row(w, "a:q@9=3 a:q@4=1 a:q@2=2");
	assert_int_equal(move(w, "q", TFS_AUTO, "a", "q", tfs_at(2), false, NULL), 0);
	assert_row(w, "a:q@2=3");
	put(w, "r", "a", "top", INT64_MAX, "x");
	assert_int_equal(move(w, "q", TFS_AUTO, "a", "top", TFS_AUTO, false, NULL), -EOVERFLOW);
	assert_row(w, "a:q@2=3 a:top@9223372036854775807=x");
}

static int increment(struct world *w, const char *q, int64_t by, struct tfs_result *res)
{
	struct tfs_mutation *m = on_r(w);

	tfs_mutation_increment(m, "n", tfs_str(q), by);
	return done(m, res);
}

static void counters(void **state)
{
	struct world *w = *state;
	struct tfs_result res;
	char text[8];
	size_t n;

	assert_int_equal(increment(w, "c", -3, &res), 0);
	assert_int_equal(res.counter, -3);
	assert_int_equal(increment(w, "c", 261, &res), 0);
	assert_int_equal(res.counter, 258);
	assert_int_equal(res.size, 3);
	assert_int_equal(tfs_read(w->table, TFS_S("r"), "n", TFS_S("c"), tfs_at(res.ts), 0, text, sizeof(text), &n, NULL), 0);
	assert_int_equal(n, 3);
	assert_memory_equal(text, "258", 3);
	assert_int_equal(increment(w, "max", INT64_MAX, &res), 0);
	assert_int_equal(increment(w, "max", 1, &res), -EOVERFLOW);
	put(w, "r", "n", "bad", 1, "seven..");
	struct tfs_mutation *m = on_r(w);
	tfs_mutation_increment(m, "n", TFS_S("c"), 1);
	tfs_mutation_increment(m, "n", TFS_S("bad"), 1);
	assert_int_equal(done(m, NULL), -EINVAL); /* as a whole */
	assert_int_equal(increment(w, "c", 0, &res), 0);
	assert_int_equal(res.counter, 258);
}

static int check(struct world *w, enum tfs_check what, struct tfs_ts ts, const char *value)
{
	struct tfs_mutation *m = on_r(w);

	tfs_mutation_put(m, "a", TFS_S("other"), tfs_at(1), TFS_S("x"));
	tfs_mutation_delete_column(m, "a", TFS_S("q"));
	tfs_mutation_check(m, what, "a", TFS_S("q"), ts, tfs_str(value)); /* last, and yet sees the row before */
	tfs_mutation_delete_column(m, "a", TFS_S("other"));
	tfs_mutation_put(m, "a", TFS_S("q"), tfs_at(5), TFS_S("v"));
	struct tfs_result res[5];
	return done(m, res);
}

static void checks(void **state)
{
	struct world *w = *state;

	assert_int_equal(check(w, TFS_CHECK_EXISTS, TFS_AUTO, ""), -ECANCELED);
	assert_row(w, "");
	assert_int_equal(check(w, TFS_CHECK_ABSENT, TFS_AUTO, ""), 0);
	assert_row(w, "a:q@5=v");
	assert_int_equal(check(w, TFS_CHECK_ABSENT, TFS_AUTO, ""), -ECANCELED);
	assert_int_equal(check(w, TFS_CHECK_EXISTS, tfs_at(4), ""), -ECANCELED);
	assert_int_equal(check(w, TFS_CHECK_EXISTS, tfs_at(5), ""), 0);
	assert_int_equal(check(w, TFS_CHECK_NEWEST_IS, tfs_at(5), ""), 0);
	assert_int_equal(check(w, TFS_CHECK_NEWEST_IS, tfs_at(6), ""), -ECANCELED);
	assert_int_equal(check(w, TFS_CHECK_VALUE, TFS_AUTO, "v"), 0);
	assert_int_equal(check(w, TFS_CHECK_VALUE, TFS_AUTO, "V"), -ECANCELED);
	assert_int_equal(check(w, TFS_CHECK_VALUE, TFS_AUTO, "vv"), -ECANCELED);
	assert_row(w, "a:q@5=v");
}

static void scans(void **state)
{
	struct world *w = *state;
	char q[2] = "a";

	for (; q[0] <= 'c'; q[0]++)
		for (int ts = 1; ts <= 3; ts++)
			put(w, "r1", "a", q, ts, "x");
	put(w, "r2", "b", "z", 1, "y");
	put(w, "r3", "v2", "z", 1, "y");
#define SCAN(...) show(w, &(struct tfs_scan_spec){.what = TFS_SCAN_KEYS, __VA_ARGS__})
	assert_string_equal(SCAN(.versions = 2), "r1/a:a@3 r1/a:a@2 r1/a:b@3 r1/a:b@2 r1/a:c@3 r1/a:c@2 r2/b:z@1 r3/v2:z@1");
	assert_string_equal(
		SCAN(.has_times = true, .since = 1, .until = 3, .versions = 1), "r1/a:a@2 r1/a:b@2 r1/a:c@2 r2/b:z@1 r3/v2:z@1");
	assert_string_equal(SCAN(.has_times = true, .since = 3, .until = 3), "");
	assert_string_equal(SCAN(.qualifier_from = TFS_S("b"), .qualifier_to = TFS_S("c"), .limit = 2), "r1/a:b@3 r1/a:b@2");
	assert_string_equal(SCAN(.row_from = TFS_S("r1"), .row_from_after = true, .row_to = TFS_S("r3")), "r2/b:z@1");
	assert_string_equal(SCAN(.row_from = TFS_S("r2"), .row_to = TFS_S("r2")), "");
	assert_string_equal(SCAN(.families = (const char *[]){"v2", "b"}, .family_count = 2), "r2/b:z@1 r3/v2:z@1");
	/* a scan that is resumed after any cell has the rest, with the same count of versions */
	assert_string_equal(SCAN(.row_from = TFS_S("r1"), .one_row = true, .families = (const char *[]){"a"}, .family_count = 1,
				    .after_cell = true, .qualifier_from = TFS_S("b"), .after_ts = 3, .versions = 2),
		"a:b@2 a:c@3 a:c@2");
	assert_string_equal(SCAN(.row_from = TFS_S("r1"), .one_row = true, .families = (const char *[]){"a"}, .family_count = 1,
				    .after_cell = true, .qualifier_from = TFS_S("b"), .after_ts = 2, .versions = 2),
		"a:c@3 a:c@2");
	assert_string_equal(SCAN(.row_from = TFS_S("r9"), .one_row = true), "");
	put(w, "r1", "b", "", 1, "");
#define LIST(w_, ...) show(w, &(struct tfs_scan_spec){.what = (w_), __VA_ARGS__})
	assert_string_equal(LIST(TFS_SCAN_ROWS, .row_to = TFS_S("")), "");
	assert_string_equal(LIST(TFS_SCAN_ROWS, .limit = 2), "r1 r2");
	assert_string_equal(LIST(TFS_SCAN_ROWS, .has_times = true, .since = 3, .until = 9), "r1");
	assert_string_equal(LIST(TFS_SCAN_FAMILIES, .limit = 0), "r1/a r1/b r2/b r3/v2");
	struct tfs_scan *sc;
	const char *unknown[] = {"nope"};
	struct tfs_scan_spec spec = {.families = unknown, .family_count = 1};
	assert_int_equal(tfs_scan_new(w->table, &spec, &sc), -EINVAL);
	spec = (struct tfs_scan_spec){.after_cell = true};
	assert_int_equal(tfs_scan_new(w->table, &spec, &sc), -EINVAL);
	spec = (struct tfs_scan_spec){.one_row = true};
	assert_int_equal(tfs_scan_new(w->table, &spec, &sc), -EINVAL);
}

static void a_row_is_of_one_instant(void **state)
{
	struct world *w = *state;
	struct tfs_scan_spec spec = {0};
	struct tfs_scan *sc;
	struct tfs_cell c;

	put(w, "r1", "a", "p", 1, "old");
	put(w, "r1", "a", "q", 1, "old");
	put(w, "r2", "a", "q", 1, "old");
	assert_int_equal(tfs_scan_new(w->table, &spec, &sc), 0);
	assert_int_equal(tfs_scan_next(sc, &c), 1);
	struct tfs_mutation *m = tfs_mutation_new(w->table, TFS_S("r1"));
	tfs_mutation_delete_row(m);
	assert_int_equal(done(m, NULL), 0);
	put(w, "r2", "a", "q", 1, "new");
	assert_memory_equal(c.value.p, "old", 3);
	assert_int_equal(tfs_scan_next(sc, &c), 1);
	assert_memory_equal(c.value.p, "old", 3); /* the scan has the old row that it began */
	assert_int_equal(tfs_scan_next(sc, &c), 1);
	assert_memory_equal(c.value.p, "new", 3); /* a row begun later */
	assert_int_equal(tfs_scan_next(sc, &c), 0);
	assert_int_equal(tfs_scan_next(sc, &c), 0);
	tfs_scan_free(sc);
}

static void large_values_are_read_not_inlined(void **state)
{
	struct world *w = *state;
	char *big = malloc(TFS_INLINE_MAX + 1);
	struct tfs_scan_spec spec = {0};
	struct tfs_scan *sc;
	struct tfs_cell c;

	memset(big, 'x', TFS_INLINE_MAX + 1);
	struct tfs_mutation *m = on_r(w);
	tfs_mutation_put(m, "a", TFS_S("p"), tfs_at(1), tfs_bytes_of(big, TFS_INLINE_MAX));
	tfs_mutation_put(m, "a", TFS_S("q"), tfs_at(1), tfs_bytes_of(big, TFS_INLINE_MAX + 1));
	tfs_mutation_put(m, "a", TFS_S("z"), tfs_at(1), TFS_S(""));
	assert_int_equal(done(m, NULL), 0);
	free(big);
	assert_int_equal(tfs_scan_new(w->table, &spec, &sc), 0);
	assert_int_equal(tfs_scan_next(sc, &c), 1);
	assert_int_equal(c.value.n, TFS_INLINE_MAX);
	assert_int_equal(tfs_scan_next(sc, &c), 1);
	assert_null(c.value.p);
	assert_int_equal(c.size, TFS_INLINE_MAX + 1);
	assert_int_equal(tfs_scan_next(sc, &c), 1);
	assert_non_null(c.value.p);
	tfs_scan_free(sc);
}

const struct CMUnitTest row_tests[] = {
	cmocka_unit_test(order_and_overwrite),
	cmocka_unit_test(back_dated_is_not_current),
	cmocka_unit_test(assigned_times),
	cmocka_unit_test(unknown_family_refuses_all),
	cmocka_unit_test(limits),
	cmocka_unit_test(deletes),
	cmocka_unit_test(hidden_versions_never_return),
	cmocka_unit_test(rules_by_age),
	cmocka_unit_test(rules_combined),
	cmocka_unit_test(write_base_and_ranges),
	cmocka_unit_test(write_replaces),
	cmocka_unit_test(write_drops_newer),
	cmocka_unit_test(times_move),
	cmocka_unit_test(moves),
	cmocka_unit_test(moves_onto_itself),
	cmocka_unit_test(counters),
	cmocka_unit_test(checks),
	cmocka_unit_test(scans),
	cmocka_unit_test(a_row_is_of_one_instant),
	cmocka_unit_test(large_values_are_read_not_inlined),
};
const size_t row_test_count = sizeof(row_tests) / sizeof(row_tests[0]);
