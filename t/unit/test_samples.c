/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dictionaries hold bytes of what they were trained on: of what a major
 * compaction removes there may be none in them, and of what stays, from all
 * over the tablet, there is much.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <zstd.h>

#include "engine/sstable/blockfile.h"
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

static struct slice value(char kind, unsigned seed)
{
	static char v[VALUE];
	uint32_t x = seed * 747796405u + (uint32_t)(unsigned char)kind;

	for (unsigned at = 0; at + 8 <= sizeof v; at += 8) {
		x = x * 1664525u + 1013904223u;
		word(v + at, kind, (x >> 12) % WORDS);
	}
	return slice_of(v, sizeof v);
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
	LIB(blockfile_open(path, NULL, &b));
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

	(void)state;
	lib_init(&l, "/tmp");
	l.schema = lib_schema(rules, 3, 1);
	l.schema->groups[0].sst.codec = SST_ZSTD_DICT;
	lib_start(&l);
	for (unsigned i = 0; i < ROWS; i++) {
		put(i, 1, 1, 'H');          /* hidden by the rule, soon */
		put(i, 2, 1, 'R');          /* replaced at the same time */
		put(i, 3, 1, 'F');          /* of a family that goes */
		put(ROWS + i, 2, 1, 'D');   /* deleted with their rows */
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

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(only_what_stays)};

	msg_to_nowhere();
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
