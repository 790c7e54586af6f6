/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tablet's usage figures agree with counts made by hand: two families in two groups,
 * overwrites and every kind of delete, in memory, after flushes, after a major
 * compaction, reopened; and the parts of two children that share files, whose sum
 * is the whole.
 *
 * A read of one family reads no other group's files unless they have deletes of
 * rows, also after the family has changed groups.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "t/unit/tablet_lib.h"

enum {
	ROWS = 100,
	KEY = 4 + 2 + 2 + 1 + 2 + 8 + 8 + 1, /* "rNNN", a family, "q", timestamp, sequence, kind */
	COMMIT = 7,                          /* a live version's time of commit, beside a timestamp near 0 */
	WIDE = 4 + 2 + 2 + 2 + 8 + 8 + 1,    /* the bytes of a row or family delete */
	SMALL = 10,
	LARGE = 1000,
};
static struct lib l;

static void del(enum op_kind kind, unsigned row, uint16_t family, int64_t ts)
{
	struct op o = {.kind = kind, .family = family, .w.qualifier = tfs_str("q"), .w.place = {false, ts}};
	char name[16];

	snprintf(name, sizeof name, "r%03u", row);
	LIB(lib_op(&l, name, &o, NULL));
}

static void put(unsigned row, uint16_t family, int64_t ts)
{
	static uint8_t bytes[LARGE];
	char name[16];

	for (unsigned i = 0; i < LARGE; i++)
		bytes[i] = (uint8_t)(row * 2654435761u >> (i * 7 % 25));
	snprintf(name, sizeof name, "r%03u", row);
	LIB(lib_put(&l, name, family, "q", ts, tfs_bytes_of(bytes, family == 1 ? SMALL : LARGE)));
}

static uint64_t on_disk(void)
{
	char cmd[200];
	unsigned long long n = 0;
	FILE *f;

	snprintf(cmd, sizeof cmd, "find '%s/sst' -name '*.sst' -printf '%%s\\n' | awk '{ n += $1 } END { print n + 0 }'", l.dir);
	f = popen(cmd, "r");
	if (!f || fscanf(f, "%llu", &n) != 1)
		abort();
	pclose(f);
	return n;
}

/* The families' own numbers, and the row deletes', come to the table's. */
static struct tablet_stats total(void)
{
	struct tablet_family *v;
	struct tablet_stats st, sum = {0};
	unsigned n;

	tablet_get_stats(l.t, &st);
	LIB(tablet_families(l.t, &v, &n));
	for (unsigned i = 0; i < n; i++) {
		assert_true(!i || v[i].id > v[i - 1].id);
		sum.disk_bytes += v[i].disk_bytes;
		sum.raw_bytes += v[i].raw_bytes;
		sum.memory_bytes += v[i].memory_bytes;
		sum.cells += v[i].cells;
		sum.tombstones += v[i].tombstones;
	}
	free(v);
	assert_int_equal(sum.disk_bytes, st.disk_bytes);
	assert_int_equal(sum.raw_bytes, st.raw_bytes);
	assert_int_equal(sum.cells, st.cells);
	assert_int_equal(sum.tombstones, st.tombstones);
	assert_true(sum.memory_bytes == 0 || st.memory_bytes - sum.memory_bytes < 8192); /* but for an additional empty memtable */
	assert_int_equal(st.disk_bytes, on_disk());
	return st;
}

static struct tablet_stats family(uint16_t id)
{
	struct tablet_stats st;

	LIB(tablet_family_stats(l.t, id, &st));
	return st;
}

static void holds(uint16_t id, uint64_t cells, uint64_t tombstones, uint64_t raw)
{
	struct tablet_stats st = id ? family(id) : total();

	assert_int_equal(st.cells, cells);
	assert_int_equal(st.tombstones, tombstones);
	assert_int_equal(st.raw_bytes, raw);
}

static void counts(void **state)
{
	static const char *const rules[] = {"", ""};
	struct tablet_stats whole, part[2];
	struct sst_cache_stats before, after;
	struct tablet *child[2];
	uint64_t raw1, raw2;

	lib_init(&l, "/tmp");
	l.schema = lib_schema(rules, 2, 2);
	lib_start(&l);
	holds(0, 0, 0, 0);
	for (unsigned i = 0; i < ROWS; i++) {
		put(i, 1, 5);
		put(i, 2, 5);
	}
	for (unsigned i = 0; i < 10; i++)
		put(i, 1, 5); /* in the place of the first one */
	for (unsigned i = 10; i < 30; i++)
		put(i, 1, 6); /* beside it */
	for (unsigned i = 10; i < 15; i++)
		del(OP_DELETE_VERSION, i, 1, 6);
	for (unsigned i = 20; i < 22; i++)
		del(OP_DELETE_COLUMN, i, 1, 0);
	for (unsigned i = 30; i < 33; i++)
		del(OP_DELETE_FAMILY, i, 2, 0);
	del(OP_DELETE_ROW, 40, 0, 0);

	/* in memory every entry is there, even if it is masked */
	holds(1, 130, 7, 0);
	holds(2, 100, 3, 0);
	holds(0, 230, 11, 0);
	assert_true(family(1).memory_bytes > 130 * (KEY + SMALL) && family(2).memory_bytes > 100 * (KEY + LARGE));
	assert_true(family(2).memory_bytes > 10 * family(1).memory_bytes);

	/* a minor compaction drops cells that are masked within it, and a row delete that there is no file for */
	LIB(tablet_flush(l.t));
	raw1 = 110 * (KEY + COMMIT + SMALL) + 7 * KEY;
	raw2 = 96 * (KEY + COMMIT + LARGE) + 3 * WIDE;
	holds(1, 130 - 10 - 5 - 4 - 1, 7, raw1);
	holds(2, 100 - 3 - 1, 3, raw2);
	holds(0, 206, 10, raw1 + raw2);
	assert_int_equal(family(1).memory_bytes + family(2).memory_bytes, 0);
	assert_int_equal(family(1).files + family(2).files, 2); /* a group each */

	/* the second row delete is in both groups' files, and is no family's */
	del(OP_DELETE_ROW, 41, 0, 0);
	LIB(tablet_flush(l.t));
	holds(1, 110, 7, raw1);
	holds(2, 96, 3, raw2);
	holds(0, 206, 12, raw1 + raw2 + 2 * WIDE);

	/* written down, and read again without opening a table */
	lib_stop(&l);
	lib_start(&l);
	sst_cache_get_stats(l.cache, &before);
	holds(1, 110, 7, raw1);
	holds(2, 96, 3, raw2);
	holds(0, 206, 12, raw1 + raw2 + 2 * WIDE);
	sst_cache_get_stats(l.cache, &after);
	assert_int_equal(after.table_opens, before.table_opens);
	assert_true(after.bytes_read > before.bytes_read);
	before = after;
	holds(0, 206, 12, raw1 + raw2 + 2 * WIDE);
	sst_cache_get_stats(l.cache, &after);
	assert_int_equal(after.bytes_read, before.bytes_read); /* once */

	/* in addition to the cells in memory */
	put(50, 1, 7);
	holds(1, 111, 7, raw1);

	/* a major compaction leaves the live cells */
	LIB(tablet_compact(l.t));
	raw1 = (98 - 2 + 5 + 8 + 1) * (KEY + COMMIT + SMALL);
	raw2 = 95 * (KEY + COMMIT + LARGE);
	holds(1, 98 - 2 + 5 + 8 + 1, 0, raw1);
	holds(2, 95, 0, raw2);
	holds(0, 110 + 95, 0, raw1 + raw2);

	/* two children share the files */
	whole = total();
	for (unsigned i = 0; i < 2; i++) {
		struct tablet_params p = {
			.env = &l.env,
			.table = LIB_TABLE,
			.begin = i ? tfs_str("r050") : tfs_str(""),
			.end = i ? tfs_bytes_of(NULL, 0) : tfs_str("r050"),
			.schema = l.schema,
			.files = l.files,
			.file_count = l.file_count,
			.seq_mark = l.seq_mark,
			.major_us = l.major_us,
			.rank_edit = RANK_TABLET_EDIT_USER,
			.commit = lib_commit,
			.commit_arg = &l,
		};

		LIB(tablet_new(&p, &child[i]));
		tablet_get_stats(child[i], &part[i]);
	}
	assert_int_equal(part[0].disk_bytes + part[1].disk_bytes, whole.disk_bytes);
	assert_int_equal(part[0].raw_bytes + part[1].raw_bytes, whole.raw_bytes);
	assert_int_equal(part[0].cells + part[1].cells, whole.cells);
	for (unsigned i = 0; i < 2; i++) /* to a block, and the filters at the end */
		assert_true(part[i].raw_bytes > whole.raw_bytes / 3 && part[i].disk_bytes > whole.disk_bytes / 4);
	for (uint16_t id = 1; id <= 2; id++) {
		for (unsigned i = 0; i < 2; i++)
			LIB(tablet_family_stats(child[i], id, &part[i]));
		assert_int_equal(part[0].cells + part[1].cells, family(id).cells);
		assert_int_equal(part[0].raw_bytes + part[1].raw_bytes, family(id).raw_bytes);
	}
	for (unsigned i = 0; i < 2; i++)
		tablet_free(child[i]);
	lib_stop(&l);
	lib_fini(&l);
}

/* Counts the live cells of the family, or of its row if one is named, by a scan. */
static unsigned scan(uint16_t id, const char *row)
{
	struct scan_spec spec = {.pub.what = TFS_SCAN_KEYS, .family_ids = &id, .pub.family_count = 1};
	struct scan_batch b = {0};
	struct tablet_scan *sc;
	unsigned n = 0;

	if (row) {
		spec.pub.row_from = tfs_str(row);
		spec.pub.one_row = true;
	}
	LIB(tablet_scan_new(l.t, &spec, &sc));
	do {
		LIB(tablet_scan_fill(sc, &b));
		for (unsigned i = 0; i < b.count; i++)
			assert_int_equal(b.cells[i].family_id, id);
		n += b.count;
	} while (!b.done);
	tablet_scan_free(sc);
	scan_batch_fini(&b);
	return n;
}

static int read_one(uint16_t id, unsigned row)
{
	char name[16];

	snprintf(name, sizeof name, "r%03u", row);
	return tablet_read(l.t, tfs_str(name), id, tfs_str("q"), (struct tfs_ts){TFS_NEWEST, 0}, 0, NULL, 0, NULL, NULL);
}

static uint64_t opens(void)
{
	struct sst_cache_stats st;

	sst_cache_get_stats(l.cache, &st);
	return st.table_opens;
}

static void one_group_alone(void **state)
{
	static const char *const rules[] = {"", ""};
	struct sst_cache_stats before, after;
	struct store_schema *moved;

	lib_init(&l, "/tmp");
	l.schema = lib_schema(rules, 2, 2);
	lib_start(&l);
	for (unsigned i = 0; i < ROWS; i++) {
		put(i, 1, 5);
		put(i, 2, 5);
	}
	LIB(tablet_flush(l.t));
	lib_stop(&l);
	lib_start(&l); /* nothing is open or known */
	assert_int_equal(scan(1, NULL), ROWS);
	assert_int_equal(scan(1, "r007"), 1);
	assert_int_equal(read_one(1, 8), 0);
	assert_int_equal(opens(), 1);
	sst_cache_get_stats(l.cache, &before);
	assert_int_equal(scan(1, NULL), ROWS);
	assert_int_equal(scan(1, "r017"), 1);
	assert_int_equal(read_one(1, 18), 0);
	sst_cache_get_stats(l.cache, &after);
	assert_true(after.bytes_read - before.bytes_read < family(1).disk_bytes + 100);
	assert_int_equal(scan(2, NULL), ROWS);
	assert_int_equal(opens(), 2);

	/* from now on the first family is in the second one's group: its old file concerns it as before */
	moved = lib_schema(rules, 2, 2);
	moved->families[0].group = moved->families[1].group;
	tablet_set_schema(l.t, moved);
	store_schema_put(l.schema);
	l.schema = moved;
	put(60, 1, 6);
	del(OP_DELETE_COLUMN, 61, 1, 0);
	del(OP_DELETE_FAMILY, 62, 1, 0);
	del(OP_DELETE_VERSION, 63, 1, 5);
	LIB(tablet_flush(l.t));
	assert_int_equal(scan(1, NULL), ROWS + 1 - 3);
	for (unsigned i = 60; i < 65; i++)
		assert_int_equal(read_one(1, i), i > 60 && i < 64 ? -ENOENT : 0);
	del(OP_DELETE_ROW, 70, 0, 0);
	LIB(tablet_flush(l.t));
	lib_stop(&l);
	lib_start(&l);
	for (uint16_t id = 1; id <= 2; id++) {
		assert_int_equal(read_one(id, 70), -ENOENT);
		assert_int_equal(scan(id, "r070"), 0);
	}
	assert_int_equal(scan(1, NULL), ROWS + 1 - 3 - 1);
	assert_int_equal(scan(2, NULL), ROWS - 1);
	LIB(tablet_compact(l.t));
	assert_int_equal(scan(1, NULL), ROWS + 1 - 3 - 1);
	assert_int_equal(scan(2, NULL), ROWS - 1);
	assert_int_equal(lib_disk_files(&l), 1); /* one group has both */
	lib_stop(&l);
	lib_fini(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(counts), cmocka_unit_test(one_group_alone)};

	msg_to_nowhere();
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
