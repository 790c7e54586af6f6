/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A damaged block makes only those reads and mutations fail that need it.  Two tablets
 * have the same history, and one has a flipped byte in one of its files.  Its answers
 * are the second one's, or an error if the block may have mattered.
 */
#include "t/unit/compact_lib.h"

enum { ROWS = 3, QUALIFIERS = 12, FLIPS = 40, FLIPS_SANITIZED = 8 };

static const char *const rows[ROWS] = {"a", "b", "c"};
static const char *const qualifiers[QUALIFIERS] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"};
static uint32_t seed_state;
static unsigned columns, times; /* few columns of many versions, or many of few */

static uint32_t rnd(uint32_t below)
{
	seed_state = seed_state * 1664525 + 1013904223;
	return (seed_state >> 8) % below;
}

/* ---- the same to both ---- */
static struct lib sound, hurt;
static unsigned written;

/* Values of one number that compress badly, so that there are many blocks. */
static struct tfs_bytes value_of(unsigned n)
{
	static uint8_t bytes[900];
	uint64_t x = n * 0x9e3779b97f4a7c15u + 1;

	for (size_t i = 0; i < sizeof bytes; i++) {
		x = x * 6364136223846793005u + 1442695040888963407u;
		bytes[i] = (uint8_t)(x >> 56);
	}
	return tfs_bytes_of(bytes, sizeof bytes);
}

/* Refused by the damaged one, it is done to neither. */
static int both(const char *row, const struct op *o)
{
	int err = lib_op(&hurt, row, o, NULL);

	if (err) {
		assert_int_equal(err, -EBADMSG);
		return err;
	}
	LIB(lib_op(&sound, row, o, NULL));
	return 0;
}

static int put(const char *row, const char *q, int64_t ts)
{
	struct op o = {.kind = OP_WRITE,
		.family = 1,
		.w.qualifier = tfs_str(q),
		.w.place = {false, ts},
		.value = value_of(written++),
		.w.truncate_to = UINT64_MAX};

	return both(row, &o);
}

static void change(bool deletes)
{
	struct op o = {.family = 1, .w.qualifier = tfs_str(qualifiers[rnd(columns)]), .w.place = {false, 1 + (int64_t)rnd(times)}};
	const char *row = rows[rnd(ROWS)];
	unsigned what = deletes ? rnd(120) : 119;
	int err;

	if (what < 8)
		o.kind = OP_DELETE_VERSION;
	else if (what < 12)
		o.kind = OP_DELETE_COLUMN;
	else if (what == 12)
		o.kind = OP_DELETE_FAMILY;
	else if (what == 13)
		o.kind = OP_DELETE_ROW;
	else
		what = 119;
	err = what == 119 ? put(row, (const char *)o.w.qualifier.p, o.w.place.us) : both(row, &o);
	assert_true(!err || err == -EBADMSG);
}

static void open_both(bool deletes)
{
	static const char *const none[] = {""};

	lib_init(&sound, "/dev/shm");
	lib_init(&hurt, "/dev/shm");
	for (unsigned i = 0; i < 2; i++) {
		struct lib *l = i ? &hurt : &sound;

		l->schema = lib_schema(none, 1, 1);
		lib_start(l);
	}
	for (unsigned f = 0; f < 4; f++) {
		for (unsigned i = 0; i < 80; i++)
			change(deletes);
		if (f < 3) {
			LIB(tablet_flush(sound.t));
			LIB(tablet_flush(hurt.t));
		}
	}
}

static void close_both(void)
{
	end(&sound);
	end(&hurt);
}

/* Flips a bit of the damaged one's file in its data blocks, or back. */
static void flip(unsigned file, uint64_t offset)
{
	const struct tablet_file *m = &hurt.files[file];
	char *path = tablet_file_path(hurt.dir, LIB_TABLE, m->incarnation, m->number);
	uint8_t byte = 0;
	struct file *f;
	size_t got;

	lib_stop(&hurt);
	LIB(file_open(path, FILE_READWRITE, &f));
	LIB(file_pread(f, &byte, 1, offset, &got));
	byte ^= 0x40;
	LIB(file_pwrite(f, &byte, 1, offset));
	file_close(f);
	free(path);
	lib_start(&hurt);
}

/* 0: both agree; 1: the damaged one cannot be counted. */
static int same(const char *row, const char *q, int64_t ts)
{
	static char is[1000], said[1000];
	int want = read_ts(&sound, row, 1, q, ts, is, sizeof is), err = read_ts(&hurt, row, 1, q, ts, said, sizeof said);

	if (err == -EBADMSG)
		return 1;
	assert_int_equal(err, want);
	if (!want)
		assert_memory_equal(said, is, 900);
	return 0;
}

/* Counts unknown versions and unknown live versions; newest versions have counts of their own. */
static void compare(unsigned *newest, unsigned *there, unsigned *absent)
{
	static char is[1000];

	*newest = *there = *absent = 0;
	for (unsigned r = 0; r < ROWS; r++) {
		for (unsigned q = 0; q < columns; q++) {
			*newest += same(rows[r], qualifiers[q], INT64_MIN);
			for (int64_t ts = 1; ts <= (int64_t)times + 2; ts++) {
				bool exists = !read_ts(&sound, rows[r], 1, qualifiers[q], ts, is, sizeof is);

				*(exists ? there : absent) += same(rows[r], qualifiers[q], ts);
			}
		}
	}
}

/* Returns how many answers were withheld. */
static unsigned run(bool deletes, uint32_t seed)
{
	unsigned newest, there, absent, undecided = 0, most = 0;

	seed_state = seed;
	columns = seed % 2 ? QUALIFIERS : 2;
	times = seed % 2 ? 12 : 60;
	open_both(deletes);
	compare(&newest, &there, &absent);
	assert_int_equal(newest + there + absent, 0);
	for (unsigned i = 0; i < (getenv("SANITIZED") ? FLIPS_SANITIZED : FLIPS); i++) {
		unsigned file = rnd(hurt.file_count);
		uint64_t at = rnd((uint32_t)hurt.files[file].bytes * 8 / 10);
		const char *row = rows[rnd(ROWS)], *q = qualifiers[rnd(columns)];

		flip(file, at);
		compare(&newest, &there, &absent);
		undecided += newest + there + absent;
		most = there > most ? there : most;

		/* Cells written over the damage are read. */
		LIB(put(row, q, times + 1));
		assert_int_equal(same(row, q, times + 1), 0);
		assert_int_equal(same(row, q, INT64_MIN), 0);
		/* Cells that are deleted completely are absent. */
		if (deletes && rnd(16) == 0) {
			struct op all = {.kind = OP_DELETE_ROW};

			LIB(both(row, &all));
			for (unsigned k = 0; k < columns; k++) {
				assert_int_equal(same(row, qualifiers[k], INT64_MIN), 0);
				assert_int_equal(same(row, qualifiers[k], 3), 0);
			}
		}
		for (unsigned n = 0; n < 6; n++)
			change(deletes);
		compare(&newest, &there, &absent);
		flip(file, at);
		compare(&newest, &there, &absent);
		assert_int_equal(newest + there + absent, 0);
	}
	/* Without deletes only the versions in the unit are lost, and a block of keys has a second copy. */
	if (!deletes)
		assert_in_range(most, 0, 16);
	print_message("# %s deletes: %u answers withheld, at most %u versions at a time\n", deletes ? "with" : "without", undecided,
		most);
	close_both();
	return undecided;
}

static void test_one_block(void **state)
{
	unsigned withheld = 0;

	for (uint32_t seed = 1; seed <= 2; seed++)
		withheld += run(false, seed);
	assert_true(withheld > 0);
}

static void test_one_block_with_deletes(void **state)
{
	unsigned withheld = 0;

	for (uint32_t seed = 11; seed <= 16; seed++)
		withheld += run(true, seed);
	assert_true(withheld > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_block),
		cmocka_unit_test(test_one_block_with_deletes),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	msg_to_nowhere();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
