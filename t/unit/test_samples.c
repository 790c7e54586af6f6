/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A dictionary has no byte of data that its major compaction removes, and many bytes
 * of the remaining data, from all parts of the tablet.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <zstd.h>

#include "engine/sstable/blockfile.h"
#include "engine/compact/compact_internal.h"
#include "t/unit/tablet_lib.h"

enum { ROWS = 6000, WORDS = 300, VALUE = 1000 };
static struct lib l;

/* The words of one kind of value, eight letters each, are in no other kind's. */
static void word(char *out, char kind, unsigned i)
{
	uint32_t x = (uint32_t)(unsigned char)kind * 2654435761u + i * 40503u + 1;

	out[0] = kind;
	for (unsigned k = 1; k < 8; k++) {
		x = x * 1664525u + 1013904223u;
		out[k] = (char)('a' + (x >> 16) % 26);
	}
}

static struct tfs_bytes value(char kind, unsigned seed)
{
	static char v[VALUE];
	uint32_t x = seed * 747796405u + (uint32_t)(unsigned char)kind;

	for (unsigned at = 0; at + 8 <= sizeof v; at += 8) {
		x = x * 1664525u + 1013904223u;
		word(v + at, kind, (x >> 12) % WORDS);
	}
	return tfs_bytes_of(v, sizeof v);
}

static void put(unsigned i, uint16_t family, int64_t ts, char kind)
{
	char row[24];

	snprintf(row, sizeof row, "row%06u", i);
	LIB(lib_put(&l, row, family, "q", ts, value(kind, i)));
}

/* How many words of the kind are in it. */
static unsigned words_in(const char *p, size_t n, char kind)
{
	unsigned found = 0;

	for (unsigned i = 0; i < WORDS; i++) {
		char w[8];

		word(w, kind, i);
		found += memmem(p, n, w, sizeof w) != NULL;
	}
	return found;
}

/* The dictionary of the only file, unpacked; to be freed. */
static char *dictionary(size_t *n)
{
	struct buf packed = {0};
	struct blockfile *b;
	char *path, *raw;

	assert_int_equal(l.file_count, 1);
	path = tablet_file_path(l.dir, l.files[0].table, l.files[0].incarnation, l.files[0].number);
	LIB(blockfile_open(path, 0, NULL, &b));
	LIB(blockfile_section(b, BFF_DICTIONARY, &packed));
	blockfile_close(b);
	assert_true(packed.n > 0);
	*n = (size_t)ZSTD_getFrameContentSize(packed.p, packed.n);
	raw = malloc(*n);
	assert_int_equal(ZSTD_decompress(raw, *n, packed.p, packed.n), *n);
	buf_fini(&packed);
	free(path);
	return raw;
}

static void only_what_stays(void **state)
{
	static const char *const rules[] = {"maxversions=1", "", ""};
	struct store_schema *fewer;
	struct op del = {.kind = OP_DELETE_ROW};
	size_t n;
	char *d;

	lib_init(&l, "/tmp");
	l.schema = lib_schema(rules, 3, 1);
	l.schema->groups[0].sst.codec = SST_ZSTD_DICT;
	lib_start(&l);
	for (unsigned i = 0; i < ROWS; i++) {
		put(i, 1, 1, 'H');        /* hidden by the rule, soon */
		put(i, 2, 1, 'R');        /* replaced at the same time */
		put(i, 3, 1, 'F');        /* this cell's family is removed */
		put(ROWS + i, 2, 1, 'D'); /* deleted with their rows */
	}
	LIB(tablet_flush(l.t));
	for (unsigned i = 0; i < ROWS; i++) {
		char row[24];

		put(i, 1, 2, i < ROWS / 2 ? 'L' : 'M');
		put(i, 2, 1, 'S');
		snprintf(row, sizeof row, "row%06u", ROWS + i);
		LIB(lib_op(&l, row, &del, NULL));
	}
	LIB(tablet_flush(l.t));
	fewer = lib_schema(rules, 2, 1);
	fewer->groups[0].sst.codec = SST_ZSTD_DICT;
	tablet_set_schema(l.t, fewer);
	store_schema_put(fewer);
	LIB(tablet_compact(l.t));
	d = dictionary(&n);
	assert_int_equal(words_in(d, n, 'H'), 0);
	assert_int_equal(words_in(d, n, 'R'), 0);
	assert_int_equal(words_in(d, n, 'F'), 0);
	assert_int_equal(words_in(d, n, 'D'), 0);
	assert_true(words_in(d, n, 'L') > WORDS / 2);
	assert_true(words_in(d, n, 'M') > WORDS / 2);
	assert_true(words_in(d, n, 'S') > WORDS / 2);
	free(d);
	lib_stop(&l);
	lib_fini(&l);
}

/* ---- failing memory, and blocks that cannot be read ---- */
static _Thread_local long countdown; /* 0 if none fails; this thread's only */
static bool failed;

static bool fails(void)
{
	if (!countdown || --countdown)
		return false;
	failed = true;
	return true;
}

#include "t/unit/wrap_alloc.h"

enum { FEW = 250 };

/* Two files of the same rows: the second one's cells replace the first one's. */
static void start_small(void)
{
	static const char *const none[] = {""};

	lib_init(&l, "/dev/shm");
	l.schema = lib_schema(none, 1, 1);
	l.schema->groups[0].sst.codec = SST_ZSTD_DICT;
	lib_start(&l);
	for (unsigned k = 0; k < 2; k++) {
		for (unsigned i = 0; i < FEW; i++)
			put(i, 1, 1, k ? 'S' : 'R');
		LIB(tablet_flush(l.t));
	}
	l.env.sample_least_bytes = 100000;
}

static void end_small(void)
{
	lib_stop(&l);
	lib_fini(&l);
}

/* 0, or the error of a row that is not as it was written; how many are. */
static unsigned whole_rows(void)
{
	static char got[VALUE];
	unsigned whole = 0;
	char row[24];
	size_t n;

	for (unsigned i = 0; i < FEW; i++) {
		int err;

		snprintf(row, sizeof row, "row%06u", i);
		err = tablet_read(l.t, tfs_str(row), 1, tfs_str("q"), (struct tfs_ts){TFS_NEWEST, 0}, 0, got, sizeof got, &n, NULL);
		if (err == -EBADMSG)
			continue;
		LIB(err);
		assert_int_equal(n, VALUE);
		assert_memory_equal(got, value('S', i).p, VALUE);
		whole++;
	}
	return whole;
}

static void expect_dictionary(void)
{
	size_t n;
	char *d = dictionary(&n);

	assert_int_equal(words_in(d, n, 'R'), 0);
	assert_true(words_in(d, n, 'S') > WORDS / 4);
	free(d);
}

/* How many allocations a compaction makes until one fails it no more; each once, but for the far ones. */
static long compact_failing(void)
{
	long n = 0;
	int err;

	do {
		n += 1 + n / 60;
		failed = false;
		countdown = n;
		err = tablet_compact(l.t);
		countdown = 0;
		assert_true(err == 0 || (err == -ENOMEM && failed));
		if (n % 10 == 0)
			assert_int_equal(whole_rows(), FEW);
	} while (err);
	return n;
}

static void failing_memory(void **state)
{
	long with, without;

	start_small();
	with = compact_failing();
	expect_dictionary();
	assert_int_equal(whole_rows(), FEW);
	end_small();
	start_small();
	l.env.sample_least_bytes = UINT64_MAX;
	without = compact_failing();
	assert_int_equal(whole_rows(), FEW);
	end_small();
	print_message("# %ld allocations with samples, %ld without\n", with, without);
	assert_true(with > without + 50);
}

/* A byte of the file flipped, or flipped back. */
static void flip(unsigned file, uint64_t at)
{
	const struct tablet_file *m = &l.files[file];
	char *path = tablet_file_path(l.dir, m->table, m->incarnation, m->number);
	uint8_t byte = 0;
	struct file *f;
	size_t got;

	lib_stop(&l);
	LIB(file_open(path, FILE_READWRITE, &f));
	LIB(file_pread(f, &byte, 1, at, &got));
	byte ^= 0x40;
	LIB(file_pwrite(f, &byte, 1, at));
	file_close(f);
	free(path);
	lib_start(&l);
}

/* The compaction is refused, and its files stay; mended, it trains on the remaining cells as ever. */
static void damaged_blocks(void **state)
{
	start_small();
	for (unsigned i = 0; i < 6; i++) {
		/* the first unit, where the first piece begins; one in the middle; the index, by which places are found */
		const unsigned file = l.files[0].seq_max < l.files[1].seq_max; /* the merge reads no value of the other file */
		const uint64_t bytes = l.files[file].bytes, at = i < 2 ? 20 : i < 4 ? bytes / 2 : bytes - bytes / 8;
		int err;

		flip(file, at);
		err = tablet_compact(l.t);
		if (i < 4)
			assert_int_equal(err, -EBADMSG);
		else
			assert_true(err == 0 || err == -EBADMSG);
		assert_true(i < 4 || err || l.file_count == 1);
		if (!err)
			break;
		assert_int_equal(l.file_count, 2);
		if (i < 4)
			assert_true(whole_rows() > FEW / 2);
		flip(file, at);
	}
	LIB(tablet_compact(l.t));
	expect_dictionary();
	assert_int_equal(whole_rows(), FEW);
	end_small();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_what_stays), cmocka_unit_test(failing_memory), cmocka_unit_test(damaged_blocks)};

	msg_to_nowhere();
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
