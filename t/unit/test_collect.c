/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A round of the collector removes files that neither METADATA nor a server refers
 * to.  Files that METADATA names, that are being written or read, or that are
 * foreign stay.
 */
#include "engine/meta/meta_format.h"
#include "master/internal.h"
#include "t/lib/file_faults.h"
#include "t/unit/server_lib.h"

static void rounds(unsigned n)
{
	while (n--)
		assert_int_equal(master_collect(hooks.master, true), 0);
}

/* How often the log has that text. */
static unsigned told(const char *text)
{
	struct buf ring = {0};
	unsigned n = 0;

	assert_int_equal(msg_ring(&ring), 0);
	assert_int_equal(buf_u8(&ring, 0), 0);
	for (const char *p = (const char *)ring.p; (p = strstr(p, text)); p++)
		n++;
	buf_fini(&ring);
	return n;
}

/* Copies one of table 16's SSTables to d/sst/NAME. */
static void plant(const char *name)
{
	char cmd[300];

	snprintf(cmd, sizeof(cmd), "cp $(ls d/sst/16/*.sst | head -1) d/sst/%s", name);
	shell(cmd);
}

static void planted(void **state)
{
	static const char *const others[] = {
		"16/notes.txt", "16/1-2.sst.bak", "16/1-02.sst", "16/-1-1.sst", "backup/1-1.sst", "016/1-1.sst", "16/99-7.sst"};
	struct tfs_table *t;
	char name[64];

	open_store();
	t = make_table("t");
	assert_int_equal(put(t, "r", "f", "v"), 0);
	assert_int_equal(tfs_flush(t), 0);
	tfs_table_close(t);
	close_store(true);
	open_store(); /* incarnation 2 */
	t = open_table("t");
	assert_int_equal(put(t, "s", "f", "w"), 0);
	assert_int_equal(tfs_flush(t), 0);
	shell("mkdir -p d/sst/backup d/sst/016");
	plant("16/1-12345.sst");
	plant("16/2-12345.sst");
	shell("printf half > d/sst/16/2-12346.sst");
	for (unsigned i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		plant(others[i]);
	assert_int_equal(master_collect(hooks.master, false), 0); /* lists nothing */
	assert_true(exists("d/sst/16/1-12345.sst") && exists("d/sst/16/2-12345.sst") && exists("d/sst/16/2-12346.sst"));
	rounds(1);
	assert_false(exists("d/sst/16/1-12345.sst") || exists("d/sst/16/2-12345.sst") || exists("d/sst/16/2-12346.sst"));
	rounds(2);
	for (unsigned i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		snprintf(name, sizeof(name), "d/sst/%s", others[i]);
		assert_true(exists(name));
	}
	assert_int_equal(look(t, "r"), 0);
	assert_int_equal(look(t, "s"), 0);
	assert_int_equal(tfs_compact(t), 0);
	rounds(2);
	assert_int_equal(look(t, "r"), 0);
	tfs_table_close(t);
	close_store(true);
}

/* While a listed file is missing, METADATA may be an old one: neither a start nor rounds remove the files that it does not list. */
static void listed_file_missing(void **state)
{
	struct tfs_table *t;

	open_store();
	t = make_table("t");
	assert_int_equal(put(t, "r", "f", "v"), 0);
	assert_int_equal(tfs_flush(t), 0);
	tfs_table_close(t);
	close_store(true);
	shell("cd d/sst/16 && ls 1-*.sst >../../name && mv 1-*.sst ../../kept && cp ../../kept 1-12345.sst");
	open_store();
	assert_int_equal(told("missing, though a tablet lists it"), 1);
	assert_true(exists("d/sst/16/1-12345.sst"));
	rounds(3);
	assert_true(exists("d/sst/16/1-12345.sst"));
	assert_int_equal(told("missing, though a tablet lists it"), 1);
	close_store(true);
	shell("mv d/kept d/sst/16/$(cat d/name); rm d/name");
	open_store();
	assert_false(exists("d/sst/16/1-12345.sst"));
	t = open_table("t");
	assert_int_equal(look(t, "r"), 0);
	tfs_table_close(t);
	close_store(true);
}

/* A scan keeps an input of a compaction until it ends.  One that cannot be unlinked is removed by the next round. */
static void read_by_a_scan(void **state)
{
	struct tfs_scan_spec spec = {0};
	struct tfs_scan *scan;
	struct tfs_table *t;
	struct tfs_cell cell;
	char value[2000], row[16];
	struct fault f = {FILE_OP_UNLINK, ".sst", 0, 0, -EIO};
	unsigned n = 1;

	memset(value, 'v', sizeof(value) - 1);
	value[sizeof(value) - 1] = '\0';
	open_store();
	t = make_table("t");
	for (unsigned i = 0; i < 1000; i++) {
		snprintf(row, sizeof(row), "r%03u", i);
		assert_int_equal(put(t, row, "f", value), 0);
	}
	assert_int_equal(tfs_flush(t), 0);
	assert_int_equal(tfs_scan_new(t, &spec, &scan), 0);
	assert_int_equal(tfs_scan_next(scan, &cell), 1);
	assert_int_equal(files_in("d/sst/16"), 1);
	assert_int_equal(tfs_compact(t), 0);
	assert_int_equal(files_in("d/sst/16"), 2);
	rounds(3);
	assert_int_equal(files_in("d/sst/16"), 2);
	while (tfs_scan_next(scan, &cell) > 0)
		n++;
	assert_int_equal(n, 1000);
	tfs_scan_free(scan);
	assert_int_equal(files_in("d/sst/16"), 2);
	f.times = 1;
	set_hook(fail_some, &f);
	assert_int_equal(master_collect(hooks.master, false), 0);
	set_hook(NULL, NULL);
	assert_int_equal(f.times, 0);
	assert_int_equal(files_in("d/sst/16"), 2);
	assert_int_equal(master_collect(hooks.master, false), 0);
	assert_int_equal(files_in("d/sst/16"), 1);
	assert_int_equal(look(t, "r999"), 0);
	tfs_table_close(t);
	close_store(true);
}

/* Rounds while a file is being written. */
static int rounds_in_write(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	struct fault *f = arg;

	if (op != f->op || !strstr(path, f->part) || f->times)
		return 0;
	f->times = 1; /* the rounds come here, too */
	rounds(3);
	f->seen++;
	return 0;
}

/* So much, and hard to compress, that a file is written in several pieces. */
static void put_much(struct tfs_table *t)
{
	static char value[60000];
	uint32_t x = 1;
	char row[16];

	for (unsigned i = 0; i < 60; i++) {
		for (size_t k = 0; k + 1 < sizeof(value); k++)
			value[k] = (char)(1 + (x = x * 1664525u + 1013904223u) % 255u % 251u);
		snprintf(row, sizeof(row), "m%02u", i);
		assert_int_equal(put(t, row, "f", value), 0);
	}
}

static void being_made(void **state)
{
	static const enum file_op ops[] = {FILE_OP_WRITE, FILE_OP_SYNC, FILE_OP_SYNCDIR};
	struct tfs_table *t;

	open_store();
	t = make_table("t");
	for (unsigned i = 0; i < 3; i++) {
		struct fault f = {ops[i], "sst/16", 0, 0, 0};

		assert_int_equal(put(t, i % 2 ? "r" : "s", "f", "v"), 0);
		put_much(t);
		set_hook(rounds_in_write, &f);
		assert_int_equal(i ? tfs_compact(t) : tfs_flush(t), 0);
		set_hook(NULL, NULL);
		assert_int_equal(f.seen, 1);
		rounds(2);
		assert_int_equal(look(t, "s"), 0);
		assert_int_equal(files_in("d/sst/16"), 1);
	}
	tfs_table_close(t);
	close_store(true);
	open_store();
	t = open_table("t");
	assert_int_equal(look(t, "r"), 0);
	tfs_table_close(t);
	close_store(true);
}

/* Named only by the edit that a merge has written so far, which no tablet here has seen. */
static void in_a_merge_column(void **state)
{
	struct tablet_file file = {.incarnation = 1, .number = 12345, .table = 16, .seq_max = 1};
	struct meta_tablet lower = {.table = 16};
	struct arena arena = {0};
	struct buf key = {0};
	struct op *ops;
	struct tfs_table *t;
	unsigned count;

	open_store();
	t = make_table("t");
	assert_int_equal(put(t, "r", "f", "v"), 0);
	assert_int_equal(tfs_flush(t), 0);
	plant("16/1-12345.sst");
	plant("16/1-12346.sst");
	assert_int_equal(buf_set(&lower.end, (const uint8_t *)"k", 1), 0);
	assert_int_equal(meta_files_add(&lower, &file, false), 0);
	assert_int_equal(meta_row_key(&key, 16, true, tfs_bytes_of(NULL, 0)), 0);
	assert_int_equal(meta_ops_merge(&lower, &arena, &ops, &count), 0);
	assert_int_equal(metadata_mutate(server_service(hooks.server), buf_bytes(&key), ops, count), 0);
	rounds(3);
	assert_true(exists("d/sst/16/1-12345.sst"));
	assert_false(exists("d/sst/16/1-12346.sst"));
	arena_fini(&arena);
	buf_fini(&key);
	meta_tablet_fini(&lower);
	tfs_table_close(t);
	close_store(false);
}

/* The two halves of a split name the file; one drops it, then the second. */
static void split(void **state)
{
	struct tfs_table *t;
	char row[16];

	open_store();
	t = make_table("t");
	for (unsigned i = 0; i < 100; i++) {
		snprintf(row, sizeof(row), "r%02u", i);
		assert_int_equal(put(t, row, "f", "v"), 0);
	}
	assert_int_equal(tfs_flush(t), 0);
	assert_int_equal(tfs_split(t, tfs_str("r50")), 0);
	plant("16/1-12345.sst");
	rounds(2);
	assert_int_equal(files_in("d/sst/16"), 1);
	assert_int_equal(tfs_compact(t), 0);
	rounds(2);
	assert_int_equal(files_in("d/sst/16"), 2);
	for (unsigned i = 0; i < 100; i++) {
		snprintf(row, sizeof(row), "r%02u", i);
		assert_int_equal(look(t, row), 0);
	}
	tfs_table_close(t);
	close_store(true);
}

/* The table's last tablet is freed, and its directory removed, before the round reaches it. */
static int drop_meanwhile(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	unsigned *met = arg;

	if (op == FILE_OP_LIST && strstr(path, "/sst/4000000")) {
		shell("rm -r d/sst/4000000");
		++*met;
	}
	return 0;
}

static void dropped_meanwhile(void **state)
{
	struct tfs_table *t;
	unsigned met = 0;

	open_store();
	t = make_table("t");
	assert_int_equal(put(t, "r", "f", "v"), 0);
	assert_int_equal(tfs_flush(t), 0);
	set_hook(drop_meanwhile, &met);
	for (unsigned i = 1; i <= 2; i++) { /* the leftover next to it is removed */
		shell("mkdir d/sst/4000000");
		if (i == 1) {
			plant("4000000/1-1.sst");
			plant("16/1-12345.sst");
		}
		rounds(1);
		assert_int_equal(met, i);
	}
	set_hook(NULL, NULL);
	assert_false(exists("d/sst/16/1-12345.sst"));
	tfs_table_close(t);
	close_store(true);
}

static int fail_log(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	return strstr(path, "/log/") && op != FILE_OP_UNLINK && op != FILE_OP_LIST ? -EIO : 0;
}

/* Without a log that accepts writes the contents of METADATA after a crash are unknown. */
static void no_log(void **state)
{
	struct tfs_table *t;

	open_store();
	t = make_table("t");
	assert_int_equal(put(t, "r", "f", "v"), 0);
	assert_int_equal(tfs_flush(t), 0);
	plant("16/1-12345.sst");
	set_hook(fail_log, NULL);
	assert_int_not_equal(put(t, "r", "f", "v"), 0);
	assert_int_not_equal(master_collect(hooks.master, true), 0);
	assert_int_not_equal(master_collect(hooks.master, true), 0);
	assert_true(exists("d/sst/16/1-12345.sst"));
	set_hook(NULL, NULL);
	tfs_table_close(t);
	close_store(false);
}

/* METADATA of which a round can read only `good` parts. */
struct faulty {
	struct tablet_service service; /* first */
	struct tablet_service *real;
	unsigned good; /* how many parts of a scan come through */
};

static int faulty_call(struct tablet_service *s, const struct ts_request *q, struct ts_answer *a)
{
	struct faulty *f = (struct faulty *)s;

	if (q->method == TS_SCAN_OPEN || q->method == TS_SCAN_NEXT) {
		if (!f->good)
			return a->err = -EIO;
		f->good--;
	}
	return ts_call(f->real, q, a);
}

/* Wherever a scan of METADATA fails, the round removes nothing. */
static void metadata_fails(void **state)
{
	static const struct tablet_service_ops ops = {.call = faulty_call};
	struct faulty faulty = {.service.ops = &ops};
	struct tfs_table *t;
	unsigned good = 0;
	int err;

	open_store();
	t = make_table("t");
	assert_int_equal(put(t, "r", "f", "v"), 0);
	assert_int_equal(tfs_flush(t), 0);
	plant("16/1-12345.sst");
	faulty.real = hooks.master->tablets;
	hooks.master->tablets = &faulty.service;
	do {
		faulty.good = good++;
		err = master_collect(hooks.master, true);
		assert_int_equal(files_in("d/sst/16"), err ? 2 : 1);
	} while (err == -EIO);
	assert_int_equal(err, 0);
	assert_true(good > 4); /* two scans of two tablets */
	hooks.master->tablets = faulty.real;
	assert_int_equal(look(t, "r"), 0);
	tfs_table_close(t);
	close_store(true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {T(metadata_fails), T(planted), T(listed_file_missing), T(read_by_a_scan), T(being_made),
		T(in_a_merge_column), T(split), T(dropped_meanwhile), T(no_log)};

	return RUN(tests);
}
