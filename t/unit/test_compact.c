/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compactions keep every visible cell, drop all other cells, and keep exactly the
 * files and redo sets that are needed: with tombstones, rules that change, clipped
 * and regrouped files, and writers and readers during background work.  Failures
 * are tested in test_compact_faults.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "engine/base/counter.h"
#include "engine/compact/compact_internal.h"
#include "t/lib/file_faults.h"
#include "t/unit/compact_lib.h"

static void test_major_leaves_nothing_dead(void **state)
{
	static struct lib l;
	struct tablet_stats st;
	struct op del = {.kind = OP_DELETE_ROW};
	struct op delf = {.kind = OP_DELETE_FAMILY, .family = 1};
	char row[16];

	start(&l, 2);
	for (int i = 0; i < 10; i++) {
		snprintf(row, sizeof row, "r%d", i);
		for (int ts = 1; ts < 5; ts++) {
			LIB(lib_put(&l, row, 1, "q", ts, tfs_str("one")));
			LIB(lib_put(&l, row, 2, "q", ts, tfs_str("two")));
		}
	}
	LIB(tablet_flush(l.t));
	LIB(lib_op(&l, "r3", &del, NULL));
	LIB(lib_op(&l, "r4", &delf, NULL));
	LIB(tablet_flush(l.t));
	/* the row delete was written to both groups, because both have files */
	assert_int_equal(l.file_count, 4);
	expect(&l, "r3", 1, "q", 4, NULL);
	expect(&l, "r3", 2, "q", INT64_MIN, NULL);
	expect(&l, "r4", 1, "q", INT64_MIN, NULL);
	expect(&l, "r4", 2, "q", INT64_MIN, "two");
	LIB(lib_put(&l, "r3", 1, "q", 2, tfs_str("new"))); /* below the deleted, and seen */
	expect(&l, "r3", 1, "q", INT64_MIN, "new");
	LIB(tablet_compact(l.t));
	tablet_get_stats(l.t, &st);
	assert_int_equal(st.tombstones, 0);
	assert_int_equal(st.files, 2);
	assert_int_equal(st.cells, 8 * 4 + 9 * 2 + 1);
	assert_int_equal(lib_disk_files(&l), 2);
	assert_int_equal(count_cells(&l), 8 * 4 + 9 * 2 + 1);
	expect(&l, "r3", 1, "q", INT64_MIN, "new");
	LIB(tablet_family_stats(l.t, 2, &st));
	assert_int_equal(st.cells, 18);
	/* all cells are removed, so no file remains */
	for (int i = 0; i < 10; i++) {
		snprintf(row, sizeof row, "r%d", i);
		LIB(lib_op(&l, row, &del, NULL));
	}
	LIB(tablet_compact(l.t));
	assert_int_equal(l.file_count, 0);
	assert_int_equal(lib_disk_files(&l), 0);
	assert_int_equal(count_cells(&l), 0);
	end(&l);
}

static void test_files_stay_few(void **state)
{
	static struct lib l;
	char q[16];
	bool did;

	start(&l, 1);
	for (int i = 0; i < 60; i++) {
		snprintf(q, sizeof q, "q%03d", i);
		LIB(lib_put(&l, "row", 1, q, 1, tfs_str("v")));
		LIB(tablet_flush(l.t));
		do {
			did = false;
			LIB(tablet_compact_step(l.t, &did));
		} while (did);
		assert_true(l.file_count <= 8);
		assert_int_equal(lib_disk_files(&l), l.file_count);
	}
	assert_int_equal(count_cells(&l), 60);
	end(&l);
}

static void test_scan_outlives_its_files(void **state)
{
	static struct lib l;
	struct scan_spec spec = {.pub.what = TFS_SCAN_CELLS, .pub.batch_bytes = 1};
	struct tablet_scan *s;
	struct scan_batch b = {0};
	unsigned n = 0;
	char row[16];

	start(&l, 1);
	for (int i = 0; i < 50; i++) {
		snprintf(row, sizeof row, "%03d", i);
		LIB(lib_put(&l, row, 1, "q", 1, tfs_str("v")));
	}
	LIB(tablet_flush(l.t));
	LIB(tablet_scan_new(l.t, &spec, &s));
	LIB(tablet_scan_fill(s, &b));
	n += b.count;
	LIB(lib_put(&l, "999", 1, "q", 1, tfs_str("later")));
	LIB(tablet_compact(l.t));
	assert_int_equal(lib_disk_files(&l), 2);
	while (!b.done) {
		LIB(tablet_scan_fill(s, &b));
		n += b.count;
	}
	assert_int_equal(n, 50);
	tablet_scan_free(s);
	assert_int_equal(lib_disk_files(&l), 1);
	/* with a view past its time, whole rows and later writes */
	l.env.scan_view_us = 1;
	n = 0;
	spec.pub.batch_bytes = 300;
	LIB(tablet_scan_new(l.t, &spec, &s));
	do {
		LIB(tablet_scan_fill(s, &b));
		n += b.count;
		if (n == 1)
			LIB(lib_put(&l, "zz", 1, "q", 1, tfs_str("seen")));
	} while (!b.done);
	assert_true(n >= 51);
	tablet_scan_free(s);
	scan_batch_fini(&b);
	end(&l);
}

/* A filter rejects more cells of a row than one fill reads, between two that it admits, and views are left at once. */
static void test_rejected_cells_repeat_none(void **state)
{
	static struct lib l;
	struct scan_batch b = {0};
	char q[16];

	start(&l, 1);
	for (int i = 0; i < 2500; i++) {
		snprintf(q, sizeof q, "q%04d", i);
		LIB(lib_put(&l, "a", 1, q, 1, tfs_str("v")));
	}
	LIB(tablet_flush(l.t));
	LIB(lib_put(&l, "b", 1, "q0000", 1, tfs_str("v")));
	l.env.scan_view_us = 1;
	for (int reverse = 0; reverse < 2; reverse++) {
		struct scan_spec spec = {.pub.what = TFS_SCAN_KEYS,
			.pub.batch_bytes = 1,
			.pub.reverse = reverse,
			.pub.qualifier_regex = tfs_str("q0000|q2400")};
		struct buf seen = {0};
		struct tablet_scan *s;

		LIB(tablet_scan_new(l.t, &spec, &s));
		for (unsigned fills = 0; fills < 100; fills++) {
			LIB(tablet_scan_fill(s, &b));
			for (uint32_t i = 0; i < b.count; i++)
				LIB(buf_printf(&seen, "%.*s %.*s;", (int)b.cells[i].row.n, (const char *)b.cells[i].row.p,
					(int)b.cells[i].qualifier.n, (const char *)b.cells[i].qualifier.p));
			if (b.done)
				break;
		}
		assert_true(b.done);
		LIB(buf_u8(&seen, 0));
		assert_string_equal((const char *)seen.p, reverse ? "b q0000;a q0000;a q2400;" : "a q0000;a q2400;b q0000;");
		buf_fini(&seen);
		tablet_scan_free(s);
	}
	scan_batch_fini(&b);
	end(&l);
}

static void test_redo_set(void **state)
{
	static struct lib l;
	uint64_t first, lsn;

	start(&l, 1);
	assert_int_equal(tablet_redo_lsn(l.t, l.env.incarnation), UINT64_MAX);
	l.edit_fail = 1;
	assert_int_equal(lib_put(&l, "r", 1, "q", 1, tfs_str("v")), -EIO);
	expect(&l, "r", 1, "q", INT64_MIN, NULL);
	LIB(lib_put(&l, "r", 1, "q", 1, tfs_str("v")));
	assert_int_equal(l.redo_count, 1);
	first = tablet_redo_lsn(l.t, l.env.incarnation);
	LIB(lib_put(&l, "r", 1, "q", 2, tfs_str("w")));
	lsn = log_next_lsn(l.env.log);
	LIB(tablet_flush(l.t));
	/* nothing is unflushed, so the log may be removed */
	assert_int_equal(l.redo_count, 0);
	assert_int_equal(tablet_redo_lsn(l.t, l.env.incarnation), UINT64_MAX);
	LIB(lib_put(&l, "r", 1, "q", 3, tfs_str("x")));
	assert_true(tablet_redo_lsn(l.t, l.env.incarnation) >= lsn && lsn > first);
	/* replayed mutations keep their redo point until they are flushed after the replay */
	lib_stop(&l);
	lib_start(&l);
	assert_int_equal(l.redo_count, 1);
	expect(&l, "r", 1, "q", INT64_MIN, "x");
	LIB(lib_put(&l, "r", 1, "q", 4, tfs_str("y")));
	assert_int_equal(l.redo_count, 2);
	lib_stop(&l);
	lib_start(&l);
	expect(&l, "r", 1, "q", INT64_MIN, "y");
	LIB(tablet_flush(l.t));
	assert_int_equal(l.redo_count, 0);
	lib_stop(&l);
	lib_start(&l);
	expect(&l, "r", 1, "q", INT64_MIN, "y");
	expect(&l, "r", 1, "q", 1, "v");
	end(&l);
}

/* Two children share their parent's files, each clipped to its rows. */
static void test_split_by_hand(void **state)
{
	static struct lib l;
	struct tablet_file shared;
	char row[16];

	start(&l, 1);
	for (int i = 0; i < 40; i++) {
		snprintf(row, sizeof row, "%02d", i);
		LIB(lib_put(&l, row, 1, "q", 1, tfs_str(row)));
	}
	LIB(tablet_flush(l.t));
	lib_stop(&l);
	LIB(tablet_file_copy(&shared, &l.files[0]));
	l.keep_files = true; /* the sibling uses the shared one */
	for (int upper = 0; upper < 2; upper++) {
		struct tablet_file *f = &l.files[0];

		tablet_file_fini(f);
		LIB(tablet_file_copy(f, &shared));
		buf_fini(&f->begin);
		buf_fini(&f->end);
		LIB(buf_append(upper ? &f->begin : &f->end, "20", 2));
		l.begin = tfs_bytes_of("20", upper ? 2 : 0);
		l.end = upper ? tfs_bytes_of(NULL, 0) : tfs_str("20");
		lib_start(&l);
		assert_int_equal(count_cells(&l), 20);
		expect(&l, "19", 1, "q", INT64_MIN, upper ? NULL : "19");
		expect(&l, "20", 1, "q", INT64_MIN, upper ? "20" : NULL);
		assert_int_equal(lib_put(&l, upper ? "19" : "20", 1, "q", 1, tfs_str("no")), -TABLET_MOVED);
		LIB(tablet_compact(l.t));
		assert_int_equal(count_cells(&l), 20);
		assert_int_equal(l.file_count, 1);
		assert_int_equal(l.files[0].cells, 20);
		assert_int_equal(lib_disk_files(&l), 2 + upper); /* and the shared one */
		lib_stop(&l);
	}
	tablet_file_fini(&shared);
	lib_fini(&l);
}

/* Mostly deleted cells since a split are mostly deleted: the file's other rows are another tablet's. */
static void test_much_deleted_of_a_part(void **state)
{
	static struct lib l;
	struct op del = {.kind = OP_DELETE_ROW};
	struct tablet_file *f = &l.files[0];
	char row[16];
	int64_t now;

	start(&l, 1);
	now = clock_now(l.clock);
	for (int i = 0; i < 12000; i++) {
		snprintf(row, sizeof row, "%05d", i);
		LIB(lib_put(&l, row, 1, "q", 1, tfs_str(row)));
	}
	LIB(tablet_flush(l.t));
	lib_stop(&l);
	LIB(buf_append(&f->begin, "09000", 5));
	l.begin = tfs_str("09000");
	lib_start(&l);
	for (int i = 0; i < 2000; i++) {
		snprintf(row, sizeof row, "%05d", 9000 + i);
		LIB(lib_op(&l, row, &del, NULL));
		if (i == 1000) {
			LIB(tablet_flush(l.t)); /* a third of the tablet, but not a quarter and a thousand more */
			assert_int_equal(compact_major_late(l.t->view, l.schema, now, now, now, 1000000), -1);
		}
	}
	LIB(tablet_flush(l.t));
	assert_int_equal(compact_major_late(l.t->view, l.schema, now, now, now, 1000000), 0);
	LIB(tablet_compact(l.t));
	assert_int_equal(count_cells(&l), 1000);
	assert_int_equal(compact_major_late(l.t->view, l.schema, now, now, now, 1000000), -1);
	end(&l);
}

/* A family moves to another group while files of the old one live. */
static void test_groups_change(void **state)
{
	static struct lib l;
	struct store_schema *s;
	struct op del = {.kind = OP_DELETE_VERSION, .family = 1, .w.qualifier = tfs_str("q"), .w.place = {false, 2}};
	struct op row = {.kind = OP_DELETE_ROW};
	bool did;

	start(&l, 2);
	LIB(lib_put(&l, "a", 1, "q", 1, tfs_str("v1")));
	LIB(lib_put(&l, "a", 1, "q", 2, tfs_str("v2")));
	LIB(lib_put(&l, "b", 1, "q", 2, tfs_str("b2")));
	LIB(lib_put(&l, "b", 2, "q", 2, tfs_str("b3")));
	LIB(tablet_flush(l.t));
	assert_int_equal(l.file_count, 2);
	s = lib_schema(plain, 2, 2);
	s->families[0].group = s->families[1].group;
	tablet_set_schema(l.t, s);
	store_schema_put(s);
	LIB(lib_op(&l, "a", &del, NULL));
	LIB(lib_op(&l, "b", &row, NULL));
	LIB(tablet_flush(l.t));
	expect(&l, "a", 1, "q", INT64_MIN, "v1");
	expect(&l, "b", 1, "q", INT64_MIN, NULL);
	LIB(tablet_compact_step(l.t, &did));
	expect(&l, "a", 1, "q", INT64_MIN, "v1");
	LIB(tablet_compact(l.t));
	assert_int_equal(l.file_count, 1);
	expect(&l, "a", 1, "q", INT64_MIN, "v1");
	expect(&l, "a", 1, "q", 2, NULL);
	assert_int_equal(count_cells(&l), 1);
	end(&l);
}

/*
 * The newest version is deleted while no rule hides anything; the rule that
 * comes then must not make a merge of the older files, which does not see
 * the delete, count that version as live.
 */
static void test_deleted_under_older_rules(void **state)
{
	static const char *const strict[2] = {"maxversions=1", "maxversions=1"};
	static struct lib l;
	struct store_schema *s;
	struct op del = {.kind = OP_DELETE_VERSION, .family = 1, .w.qualifier = tfs_str("q"), .w.place = {false, 4}};
	bool did = false;

	start(&l, 1);
	for (int i = 1; i <= 4; i++) {
		LIB(lib_put(&l, "r", 1, "q", i, tfs_str(i == 3 ? "three" : "v")));
		LIB(tablet_flush(l.t));
	}
	LIB(lib_op(&l, "r", &del, NULL));
	s = lib_schema(strict, 2, 1);
	tablet_set_schema(l.t, s);
	store_schema_put(s);
	expect(&l, "r", 1, "q", INT64_MIN, "three");
	LIB(tablet_compact_step(l.t, &did));
	assert_true(did);
	expect(&l, "r", 1, "q", INT64_MIN, "three");
	LIB(tablet_compact(l.t));
	expect(&l, "r", 1, "q", INT64_MIN, "three");
	expect(&l, "r", 1, "q", 2, NULL);
	assert_int_equal(l.files[0].cells, 1);
	end(&l);
}

static void set_strict(struct lib *l)
{
	static const char *const strict[2] = {"maxversions=1", "maxversions=1"};
	struct store_schema *s = lib_schema(strict, 2, 1);

	tablet_set_schema(l->t, s);
	store_schema_put(s);
}

/* A rule changes between the check of a delete and its record: the rule then also hides the cells of the delete. */
static void test_rules_change_under_a_delete(void **state)
{
	static struct lib l;

	for (int heavy = 0; heavy < 2; heavy++) {
		struct op ops[2] = {
			{.kind = OP_DELETE_VERSION, .family = 1, .w.qualifier = tfs_str("q"), .w.place = {false, 2}},
			{.kind = OP_CHECK,
				.family = 1,
				.w.qualifier = tfs_str("q"),
				.w.place = {false, 2},
				.check = TFS_CHECK_EXISTS},
		};

		start(&l, 1);
		LIB(lib_put(&l, "r", 1, "q", 1, tfs_str("v")));
		LIB(lib_put(&l, "r", 1, "q", 2, tfs_str("w")));
		LIB(tablet_flush(l.t));
		l.on_edit = set_strict; /* the first write after a flush enters the redo set */
		LIB(lib_mutate(&l, "r", ops, 1u + (unsigned)heavy, false, NULL));
		assert_null(l.on_edit);
		expect(&l, "r", 1, "q", INT64_MIN, NULL);
		LIB(tablet_compact(l.t));
		expect(&l, "r", 1, "q", INT64_MIN, NULL);
		end(&l);
	}
}

/* Overwritten again and again, a column stays small without any major compaction. */
static void test_flushes_and_merges_drop_hidden(void **state)
{
	static const char *const strict[2] = {"maxversions=1", "maxversions=1"};
	static struct lib l;
	uint64_t cells = 0;
	bool did;

	lib_init(&l, "/dev/shm");
	l.schema = lib_schema(strict, 2, 1);
	lib_start(&l);
	for (int i = 1; i <= 64; i++) {
		LIB(lib_put(&l, "r", 1, "q", i, tfs_str("v")));
		if (i % 8)
			continue;
		LIB(tablet_flush(l.t));
		LIB(tablet_compact_step(l.t, &did));
	}
	for (unsigned i = 0; i < l.file_count; i++)
		cells += l.files[i].cells;
	assert_int_equal(cells, l.file_count);
	end(&l);
}

/* When the background wants a major compaction, and from when it counts. */
static void test_wants_major(void **state)
{
	static const char *const aged[2] = {"maxage=100s", ""}, *const both[2] = {"maxversions=2 and maxage=100s", ""};
	static const int64_t day = INT64_C(86400) * 1000000, half = INT64_C(43200) * 1000000;
	static struct lib l;
	struct store_schema *old = lib_schema(aged, 2, 1), *two = lib_schema(both, 2, 1), *none = lib_schema(plain, 1, 1),
			    *by_count = lib_schema(plain, 2, 1);
	int64_t now, counted_from;
	uint64_t number;

	start(&l, 1);
	now = clock_now(l.clock);
	LIB(lib_put(&l, "r", 1, "q", now, tfs_str("v")));
	assert_int_equal(l.major_us, 0);
	LIB(tablet_flush(l.t));
	counted_from = l.major_us;
	assert_true(counted_from >= now - day && counted_from <= clock_now(l.clock));
	/* the rules that it was written by are not recorded */
	lib_stop(&l);
	lib_start(&l);
	/* one file: nothing in it may be removed, then a cell by its age, but not before the time has come */
	assert_int_equal(compact_major_late(l.t->view, none, now - day, now + 50000000, now + 50000000, half), -1);
	assert_int_equal(compact_major_late(l.t->view, old, now - day, now + 50000000, now + 50000000, half), -1);
	assert_int_equal(compact_major_late(l.t->view, two, now - day, now + 50000000, now + 50000000, half), -1);
	assert_true(compact_major_late(l.t->view, old, now - day, now + 200000000, now + 200000000, half) >= 0);
	assert_true(compact_major_late(l.t->view, two, now - day, now + 200000000, now + 200000000, half) >= 0);
	assert_int_equal(compact_major_late(l.t->view, old, now, now + 200000000, now + 200000000, half), -1);
	/* Where versions are counted there may be more than the rule lets.  A look through it shows that there are not: nothing is written. */
	assert_true(compact_major_late(l.t->view, by_count, now - day, now, now, half) >= 0);
	assert_int_equal(compact_major_late(l.t->view, by_count, now, now, now, half), -1);
	tablet_set_schema(l.t, by_count);
	number = l.files[0].number;
	LIB(compact_major(l.t, true));
	assert_int_equal(l.file_count, 1);
	assert_int_equal(l.files[0].number, number);
	assert_true(l.major_us > counted_from);
	assert_int_equal(compact_major_late(l.t->view, by_count, now - day, now, now, half), -1);
	by_count->generation++;
	assert_true(compact_major_late(l.t->view, by_count, now - day, now, now, half) >= 0);
	by_count->generation--;
	counted_from = l.major_us;
	tablet_set_schema(l.t, l.schema);
	/* closing and opening begins no new half day */
	lib_stop(&l);
	lib_start(&l);
	assert_int_equal(l.t->major_us, counted_from);
	LIB(lib_put(&l, "r", 1, "q", now + 1, tfs_str("v")));
	LIB(tablet_flush(l.t));
	assert_int_equal(l.major_us, counted_from);
	assert_true(compact_major_late(l.t->view, none, now - day, now, now, half) >= 0); /* two: only together they are too much */
	LIB(tablet_compact(l.t));
	assert_true(l.major_us > counted_from);
	/* one file again, but of other rules than are now, or not where its family is now */
	assert_true(compact_major_late(l.t->view, old, now - day, now, now, half) >= 0);
	assert_int_equal(compact_major_late(l.t->view, none, now - day, now, now, half), -1);
	none->groups[0].id++;
	none->families[0].group = none->groups[0].id;
	assert_true(compact_major_late(l.t->view, none, now - day, now, now, half) >= 0);
	assert_int_equal(compact_major_late(l.t->view, none, now, now, now, half), -1);
	store_schema_put(by_count);
	store_schema_put(old);
	store_schema_put(two);
	store_schema_put(none);
	end(&l);
}

/* A flush compresses with lz4 where the group has zstd.  A merge does not; a file that is not merged is rewritten in its time. */
static void test_flush_compresses_fast(void **state)
{
	static const int64_t day = INT64_C(86400) * 1000000, half = INT64_C(43200) * 1000000;
	static const enum sst_codec slow[] = {SST_ZSTD, SST_ZSTD_DICT}, as_set[] = {SST_NONE, SST_SNAPPY, SST_LZ4};
	static struct lib l;
	const struct view *v;
	int64_t now;

	for (unsigned i = 0; i < sizeof(as_set) / sizeof(*as_set); i++) {
		start(&l, 1);
		l.schema->groups[0].sst.codec = as_set[i];
		LIB(lib_put(&l, "r", 1, "q", 1, tfs_str("v")));
		LIB(tablet_flush(l.t));
		now = clock_now(l.clock);
		assert_int_equal(vfile_codec(l.t->view->files[0]), as_set[i]);
		assert_int_equal(compact_major_late(l.t->view, l.schema, now - day, now, now, half), -1);
		end(&l);
	}
	for (unsigned i = 0; i < sizeof(slow) / sizeof(*slow); i++) {
		start(&l, 1);
		l.schema->groups[0].sst.codec = slow[i];
		l.schema->groups[0].sst.level = 3;
		LIB(lib_put(&l, "r", 1, "q", 1, tfs_str("v")));
		LIB(tablet_flush(l.t));
		now = clock_now(l.clock);
		v = l.t->view;
		assert_int_equal(vfile_codec(v->files[0]), SST_LZ4);
		assert_int_equal(compact_major_late(v, l.schema, now, now, now, half), -1);
		assert_true(compact_major_late(v, l.schema, now - day, now, now, half) >= 0);
		LIB(compact_major(l.t, true)); /* writes it, although it drops nothing */
		v = l.t->view;
		assert_int_equal(v->file_count, 1);
		assert_int_equal(vfile_codec(v->files[0]), slow[i]);
		assert_int_equal(compact_major_late(v, l.schema, now - day, now, now, half), -1);
		for (int ts = 2; ts < 6; ts++) {
			bool did;

			LIB(lib_put(&l, "r", 1, "q", ts, tfs_str("v")));
			LIB(tablet_flush(l.t));
			LIB(tablet_compact_step(l.t, &did));
			v = l.t->view;
			assert_int_equal(vfile_codec(v->files[0]), did ? slow[i] : SST_LZ4);
		}
		assert_true(v->file_count < 5);
		end(&l);
	}
}

/* ---- during a major compaction ---- */

static struct lib *beside;
static unsigned beside_rounds;

/* In the major compaction's own thread, when it makes its output: it holds no lock there. */
static int work_beside(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	struct op del = {.kind = OP_DELETE_VERSION, .family = 1, .w.qualifier = tfs_str("old"), .w.place = {false, 2}};
	struct lib *l = beside;
	char q[16];
	bool did = false;

	if (!l || op != FILE_OP_CREATE || !strstr(path, ".sst"))
		return 0;
	beside = NULL;
	LIB(lib_op(l, "r", &del, NULL));
	for (unsigned i = 0; i < 20; i++) {
		snprintf(q, sizeof q, "new%02u", i);
		LIB(lib_put(l, "r", 1, q, 1, tfs_str("v")));
		LIB(tablet_flush(l->t));
		LIB(tablet_compact_step(l->t, &did));
		beside_rounds += did;
		assert_true(l->t->debt <= 8);
	}
	return 0;
}

/* Newer files are merged during it, and the tombstones that the merges keep still mask its output. */
static void test_merges_beside_a_major_compaction(void **state)
{
	static struct lib l;

	for (int in_doubt = 0; in_doubt < 2; in_doubt++) {
		start(&l, 1);
		for (int ts = 1; ts <= 3; ts++) {
			LIB(lib_put(&l, "r", 1, "old", ts, tfs_str(ts == 1 ? "one" : "v")));
			LIB(tablet_flush(l.t));
		}
		beside = &l;
		beside_rounds = 0;
		file_set_hook(work_beside, NULL);
		LIB(tablet_compact(l.t));
		file_set_hook(NULL, NULL);
		assert_null(beside);
		assert_true(beside_rounds > 3);
		assert_true(l.file_count > 1 && l.file_count <= 9);
		assert_int_equal(lib_disk_files(&l), l.file_count);
		for (int again = 0; again < 2; again++) {
			assert_int_equal(count_cells(&l), 22);
			expect(&l, "r", 1, "old", 2, NULL);
			expect(&l, "r", 1, "old", 3, "v");
			expect(&l, "r", 1, "old", 1, "one");
			if (in_doubt && !again) {
				l.edit_doubt = 1;
				assert_int_equal(tablet_compact(l.t), -EIO);
			}
			LIB(tablet_compact(l.t));
			assert_int_equal(l.file_count, 1);
			assert_int_equal(lib_disk_files(&l), 1);
		}
		end(&l);
	}
}

/* ---- many at once ---- */

struct work {
	struct lib *l;
	unsigned id, rounds;
	_Atomic bool *stop;
};

/* Each mutation writes both families of a row alike and counts; a row is never seen half. */
static void *writer_main(void *arg)
{
	struct work *w = arg;
	char row[16], value[600];

	memset(value, 'x', sizeof value);
	for (unsigned i = 0; i < w->rounds; i++) {
		int n = snprintf(value, 30, "%u.%u", w->id, i);
		struct op ops[3] = {
			{.kind = OP_WRITE,
				.family = 1,
				.w.qualifier = tfs_str("q"),
				.w.place = {true, INT64_MIN},
				.w.truncate_to = UINT64_MAX},
			{.kind = OP_WRITE,
				.family = 2,
				.w.qualifier = tfs_str("q"),
				.w.place = {true, INT64_MIN},
				.w.truncate_to = UINT64_MAX},
			{.kind = OP_INCREMENT, .family = 1, .w.qualifier = tfs_str("count"), .by = 1},
		};

		value[n] = 'x';
		ops[0].value = ops[1].value = tfs_bytes_of(value, sizeof value);
		snprintf(row, sizeof row, "r%u", i % 7);
		LIB(lib_mutate(w->l, row, ops, 3, i % 16 == 0, NULL));
	}
	return NULL;
}

static void *reader_main(void *arg)
{
	struct work *w = arg;
	struct scan_batch b = {0};
	int64_t last[7] = {0}, count;
	char row[16];

	while (!*w->stop) {
		for (unsigned r = 0; r < 7; r++) {
			struct scan_spec spec = {.pub.what = TFS_SCAN_CELLS, .pub.one_row = true, .pub.versions = 1};
			struct tablet_scan *s;

			snprintf(row, sizeof row, "r%u", r);
			spec.pub.row_from = tfs_str(row);
			LIB(tablet_scan_new(w->l->t, &spec, &s));
			LIB(tablet_scan_fill(s, &b));
			if (b.count) {
				if (b.count != 3 || !bytes_eq(b.cells[1].value, b.cells[2].value) ||
					counter_parse(b.cells[0].value, &count)) {
					fprintf(stderr, "a row was seen in part\n");
					abort();
				}
				if (count < last[r]) {
					fprintf(stderr, "a row went back\n");
					abort();
				}
				last[r] = count;
			}
			tablet_scan_free(s);
		}
	}
	scan_batch_fini(&b);
	return NULL;
}

static void test_many_at_once(void **state)
{
	static struct lib l;
	_Atomic bool stop = false;
	struct work w[4];
	pthread_t th[4];
	const char *rounds = getenv("TFS_ROUNDS");
	int64_t sum = 0;
	char count[24];
	char row[16];
	size_t got;

	lib_init(&l, "/dev/shm");
	l.schema = lib_schema(plain, 2, 2);
	l.background = true;
	l.memtable_bytes = 300 * 1024;
	lib_start(&l);
	for (unsigned i = 0; i < 4; i++) {
		w[i] = (struct work){&l, i, rounds ? (unsigned)atoi(rounds) : 2000, &stop};
		if (pthread_create(&th[i], NULL, i < 2 ? writer_main : reader_main, &w[i]))
			abort();
	}
	for (int i = 0; i < 5; i++)
		LIB(tablet_compact(l.t));
	pthread_join(th[0], NULL);
	pthread_join(th[1], NULL);
	stop = true;
	pthread_join(th[2], NULL);
	pthread_join(th[3], NULL);
	for (int again = 0; again < 2; again++) {
		sum = 0;
		for (unsigned r = 0; r < 7; r++) {
			snprintf(row, sizeof row, "r%u", r);
			LIB(tablet_read(l.t, tfs_str(row), 1, tfs_str("count"), (struct tfs_ts){TFS_NEWEST, 0}, 0, count,
				sizeof(count) - 1, &got, NULL));
			count[got] = 0;
			sum += strtoll(count, NULL, 10);
		}
		assert_int_equal(sum, 2 * w[0].rounds);
		assert_true(l.memory_used < 3 * l.memtable_bytes);
		lib_stop(&l);
		assert_true(l.env.minor > 2);
		lib_start(&l);
	}
	end(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_major_leaves_nothing_dead),
		cmocka_unit_test(test_files_stay_few),
		cmocka_unit_test(test_scan_outlives_its_files),
		cmocka_unit_test(test_rejected_cells_repeat_none),
		cmocka_unit_test(test_redo_set),
		cmocka_unit_test(test_split_by_hand),
		cmocka_unit_test(test_much_deleted_of_a_part),
		cmocka_unit_test(test_groups_change),
		cmocka_unit_test(test_deleted_under_older_rules),
		cmocka_unit_test(test_rules_change_under_a_delete),
		cmocka_unit_test(test_flushes_and_merges_drop_hidden),
		cmocka_unit_test(test_wants_major),
		cmocka_unit_test(test_flush_compresses_fast),
		cmocka_unit_test(test_merges_beside_a_major_compaction),
		cmocka_unit_test(test_many_at_once),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	msg_to_nowhere();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
