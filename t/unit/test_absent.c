/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A read of an absent row, column or version reads neither index nor block, except for
 * false positives of the filters: beside deletes of every kind, in several files
 * and groups.  A read of the newest version reads no file that is older than the file
 * that has it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "t/unit/tablet_lib.h"

enum { ROWS = 4000, ASKED = 4000, WRONG = ASKED / 33 /* 3%: 10 bits a probe give 1, and some reads ask two probes */ };
static struct lib l;

static const char *row_name(unsigned i)
{
	static char name[24];

	snprintf(name, sizeof name, "row%06u", i);
	return name;
}

static void fill(unsigned step)
{
	static uint8_t value[500];

	for (unsigned i = 0; i < ROWS; i += step) {
		for (unsigned k = 0; k < sizeof value; k++)
			value[k] = (uint8_t)((i + 1) * 2654435761u >> (k * 5 % 25));
		LIB(lib_put(&l, row_name(2 * i), 1, "q", 5, tfs_bytes_of(value, sizeof value)));
		LIB(lib_put(&l, row_name(2 * i), 2, "q", 5, tfs_bytes_of(value, sizeof value)));
	}
}

static void del(enum op_kind kind, unsigned i)
{
	struct op o = {.kind = kind, .family = kind == OP_DELETE_ROW ? 0 : 1, .w.qualifier = tfs_str("q"), .w.place = {false, 5}};

	LIB(lib_op(&l, row_name(2 * i), &o, NULL));
}

struct seen {
	uint64_t blocks, looked;
};
static struct seen now(void)
{
	struct sst_cache_stats st;

	sst_cache_get_stats(l.cache, &st);
	/* a block that was in the cache was touched, too */
	return (struct seen){st.block_hits + st.block_misses, st.cell_misses};
}

/* Odd rows were never written; nor was any "z".  Not in order: one block has the keys of many rows. */
static void ask(bool one_row, bool odd, const char *qualifier, bool newest)
{
	for (unsigned i = 0; i < ASKED; i++) {
		unsigned row = 2 * (i * 1787 % ROWS) + odd;
		bool exists;

		if (one_row) {
			LIB(tablet_row_exists(l.t, tfs_str(row_name(row)), (uint16_t)(i % 3), &exists));
			assert_false(exists);
		} else {
			assert_int_equal(tablet_read(l.t, tfs_str(row_name(row)), (uint16_t)(1 + i % 2), tfs_str(qualifier),
						 (struct tfs_ts){newest, 7}, 0, NULL, 0, NULL, NULL),
				-ENOENT);
		}
	}
}

static void touches_nothing(const char *when)
{
	for (unsigned i = 0; i < 5; i++) {
		static const char *const what[] = {
			"absent rows", "their versions", "scans of absent rows", "absent columns", "their versions"};
		struct seen before = now(), after;

		ask(i == 2, i < 3, i < 3 ? "q" : "z", i % 3 == 0);
		after = now();
		print_message("# %s: %s: %llu of %u touched a block\n", when, what[i],
			(unsigned long long)(after.blocks - before.blocks), ASKED);
		assert_true(after.blocks - before.blocks <= WRONG);
		assert_true(after.looked - before.looked <= WRONG);
	}
}

static void filters(void **state)
{
	static const char *const rules[] = {"", ""};

	lib_init(&l, "/tmp");
	l.schema = lib_schema(rules, 2, 2);
	lib_start(&l);
	fill(1);
	LIB(tablet_flush(l.t));
	touches_nothing("a file for each group");
	fill(3);
	LIB(tablet_flush(l.t));
	for (unsigned i = 0; i < 40; i++) {
		del(OP_DELETE_ROW, 10 * i);
		del(OP_DELETE_FAMILY, 10 * i + 1);
		del(OP_DELETE_COLUMN, 10 * i + 2);
		del(OP_DELETE_VERSION, 10 * i + 3);
	}
	LIB(tablet_flush(l.t));
	touches_nothing("three, and deletes");
	LIB(tablet_compact(l.t));
	touches_nothing("compacted");
	lib_stop(&l);
	lib_fini(&l);
}

/* Without filters these reads need more look-ups, so the numbers above mean something. */
static void without(void **state)
{
	static const char *const rules[] = {"", ""};
	struct seen before, after;

	lib_init(&l, "/tmp");
	l.schema = lib_schema(rules, 2, 2);
	for (unsigned i = 0; i < l.schema->group_count; i++)
		l.schema->groups[i].sst.bloom_bits = 0;
	lib_start(&l);
	fill(1);
	LIB(tablet_flush(l.t));
	for (unsigned i = 0; i < 2; i++) {
		before = now();
		ask(false, i == 0, i ? "z" : "q", true);
		after = now();
		assert_true(after.looked - before.looked >= ASKED - 1); /* the last row lies beyond the file */
		assert_true(after.blocks - before.blocks > ASKED / 2);
	}
	lib_stop(&l);
	lib_fini(&l);
}

static void write_all(int64_t ts, unsigned row_step, char what)
{
	for (unsigned i = 0; i < 1000; i += row_step)
		LIB(lib_put(&l, row_name(i), 1, "q", ts, tfs_bytes_of(&what, 1)));
}

/* The newest value of all rows is `what`, or `other` in every step-th; reading that took `looks` searches of files. */
static void newest(char what, unsigned step, char other, int64_t ts, uint64_t looks)
{
	struct seen before = now();

	for (unsigned i = 0; i < 1000; i++) {
		struct tfs_info info;
		size_t got;
		char c = 0;

		LIB(tablet_read(l.t, tfs_str(row_name(i)), 1, tfs_str("q"), (struct tfs_ts){TFS_NEWEST, 0}, 0, &c, 1, &got, &info));
		assert_int_equal(c, step && i % step == 0 ? other : what);
		if (!step)
			assert_int_equal(info.ts, ts);
	}
	assert_in_range(now().looked - before.looked, looks, looks + 1000 / 33); /* filters err */
}

static void replaced(void **state)
{
	static const char *const rules[] = {""};
	char c = 0;

	lib_init(&l, "/tmp");
	l.cache_bytes = 1; /* nothing is remembered: each look counts */
	l.schema = lib_schema(rules, 1, 1);
	lib_start(&l);
	write_all(10, 1, 'a');
	LIB(tablet_flush(l.t));
	newest('a', 0, 0, 10, 1000);
	write_all(20, 1, 'b');
	LIB(tablet_flush(l.t));
	newest('b', 0, 0, 20, 1000); /* one file each, of the two that hold it */
	write_all(30, 2, 'c');
	newest('b', 2, 'c', 0, 500); /* rows in the memtable take none */
	LIB(tablet_flush(l.t));
	newest('b', 2, 'c', 0, 1000);
	/* Written last, and older: seen nowhere, and no reason to look into it. */
	write_all(5, 1, 'd');
	LIB(tablet_flush(l.t));
	newest('b', 2, 'c', 0, 1000);
	/* At an equal time the later write wins, and both files are searched. */
	write_all(30, 2, 'e');
	LIB(tablet_flush(l.t));
	newest('b', 2, 'e', 0, 1500);
	/* A file that holds deletes is looked into whatever its times. */
	LIB(lib_op(&l, row_name(0),
		&(struct op){.kind = OP_DELETE_VERSION, .family = 1, .w.qualifier = tfs_str("q"), .w.place = {false, 30}}, NULL));
	LIB(tablet_flush(l.t));
	LIB(tablet_read(l.t, tfs_str(row_name(0)), 1, tfs_str("q"), (struct tfs_ts){TFS_NEWEST, 0}, 0, &c, 1, NULL, NULL));
	assert_int_equal(c, 'b');
	lib_stop(&l);
	lib_fini(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(filters), cmocka_unit_test(without), cmocka_unit_test(replaced)};

	msg_to_nowhere();
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
