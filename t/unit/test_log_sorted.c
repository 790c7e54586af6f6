/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sorted segments of a sealed log contain exactly its records, in memory and in files.  A
 * reader of a part gets the records of its rows.  Damaged bytes are found.
 */
#include "t/unit/log_lib.h"

#include "engine/log/log_sorted.h"

#include <fcntl.h>
#include <sys/stat.h>

enum { RECORDS = 1200, ROWS = 40, TABLES = 3 };

static char dead[80];
static struct log_seal seal;
static bool there[RECORDS + 1]; /* by LSN */
static uint32_t table_of[RECORDS + 1];
static unsigned row_of[RECORDS + 1];

static struct tfs_bytes row_name(char name[16], unsigned row)
{
	snprintf(name, 16, "row%03u", row);
	return tfs_str(name);
}

/* A sealed log of several segments, with records of random tables, rows and sizes. */
static void make_log(struct env *e, uint64_t seed)
{
	struct log_options o = {
		.incarnation = 1, .segment_bytes = 60000, .sync_interval_us = 3600000000u, .mark_us = 3600000000u, .pool = e->pool};
	char dir[80], name[16], *why;
	static uint8_t batch[3000];

	snprintf(dir, sizeof(dir), "%s/1", e->dir);
	snprintf(dead, sizeof(dead), "%s/1.dead", e->dir);
	assert_int_equal(file_mkdir(dir), 0);
	o.dir = dir;
	assert_int_equal(log_new(&o, &e->log), 0);
	for (uint64_t i = 1; i <= RECORDS; i++) {
		struct log_ticket t;
		struct log_record r = {.seq = i};

		seed = seed * 6364136223846793005u + 1442695040888963407u;
		table_of[i] = (uint32_t)(seed >> 33) % TABLES;
		row_of[i] = (unsigned)(seed >> 40) % ROWS;
		put_be64(batch, i);
		r.table = table_of[i];
		r.row_from = r.row_to = row_name(name, row_of[i]);
		r.batch = tfs_bytes_of(batch, 8 + (seed >> 45) % (i % 100 ? 300 : 2900));
		assert_int_equal(log_submit(e->log, &r, i == RECORDS, &t), 0);
		assert_int_equal(log_wait(e->log, &t), 0);
	}
	assert_int_equal(log_free(e->log), 0);
	assert_int_equal(log_seal_make(e->dir, 1, &seal, &why), 0);
	assert_true(seal.count > 4);
}

static void remove_all(void)
{
	empty_dir(dead);
	assert_int_equal(file_rmdir(dead), 0);
	log_seal_fini(&seal);
}

static struct log_sorted **sort_all(size_t run_bytes, const char *tmp_dir)
{
	struct log_sorted **v = calloc(seal.count, sizeof(*v));

	for (size_t i = 0; i < seal.count; i++) {
		char *why;

		assert_int_equal(log_sort_segment(dead, &seal, i, run_bytes, tmp_dir, &v[i], &why), 0);
	}
	return v;
}

static void free_all(struct log_sorted **v)
{
	for (size_t i = 0; i < seal.count; i++)
		log_sorted_free(v[i]);
	free(v);
}

/* The wanted part: of one table the rows from..to - 1; to 0: everything. */
static struct {
	uint32_t table;
	unsigned from, to, blocks, wanted;
	uint64_t last_lsn;
} part;

static bool wants(void *arg, uint32_t table, struct tfs_bytes row, uint32_t to_table, struct tfs_bytes to_row)
{
	char from[16], to[16];
	bool is;

	(void)arg;
	part.blocks++;
	is = !part.to ||
		(table <= part.table && to_table >= part.table &&
			!(table == part.table && bytes_cmp(row, row_name(to, part.to)) >= 0) &&
			(to_table > part.table || !to_row.p || bytes_cmp(to_row, row_name(from, part.from)) >= 0));
	part.wanted += is;
	return is;
}

/* The previous record of the run, and the highest LSN of earlier runs. */
static uint64_t before, ended;

static int take(void *arg, const struct log_record *r)
{
	char name[16];
	const uint64_t lsn = r->lsn;

	(void)arg;
	assert_in_range(lsn, 1, RECORDS);
	assert_false(there[lsn]);
	there[lsn] = true;
	assert_int_equal(load_be64(r->batch.p), lsn);
	assert_int_equal(r->table, table_of[lsn]);
	assert_true(bytes_eq(r->row_from, row_name(name, row_of[lsn])));
	assert_true(bytes_eq(r->row_to, r->row_from));
	assert_int_equal(r->seq, lsn);
	assert_true(lsn > ended); /* runs rise */
	if (before)
		assert_true(table_of[before] < r->table ||
			(table_of[before] == r->table &&
				(row_of[before] < row_of[lsn] || (row_of[before] == row_of[lsn] && before < lsn))));
	before = lsn;
	part.last_lsn = lsn > part.last_lsn ? lsn : part.last_lsn;
	return 0;
}

/* Returns the number of answers. */
static unsigned read_segment(const struct log_sorted *s, size_t i, size_t bytes)
{
	uint64_t place = 0;
	unsigned n = 0;

	do {
		struct buf b = {0};
		bool run_ended = false;

		assert_int_equal(log_sorted_read(s, bytes, wants, NULL, &place, &run_ended, &b), 0);
		assert_true(b.n || !place); /* so a reader gets on */
		assert_true(run_ended || place);
		assert_int_equal(log_sorted_decode(&seal, i, buf_bytes(&b), take, NULL), 0);
		if (run_ended) {
			before = 0;
			ended = part.last_lsn;
		}
		buf_fini(&b);
		n++;
	} while (place);
	return n;
}

static void read_part(struct log_sorted **v, size_t bytes, uint32_t table, unsigned from, unsigned to)
{
	memset(there, 0, sizeof(there));
	memset(&part, 0, sizeof(part));
	before = ended = 0;
	part.table = table;
	part.from = from;
	part.to = to;
	for (size_t i = 0; i < seal.count; i++)
		(void)read_segment(v[i], i, bytes);
	for (unsigned i = 1; i <= RECORDS; i++)
		if (!to || (table_of[i] == table && row_of[i] >= from && row_of[i] < to))
			assert_true(there[i]);
}

static void test_segments_have_every_record(void **state)
{
	static const size_t run_bytes[] = {1, 5000, 20000, 16 << 20}, bytes[] = {1, 20000, 1 << 20};

	for (unsigned k = 0; k < 4; k++) {
		make_log(*state, k + 1);
		for (unsigned in_file = 0; in_file < 2; in_file++) {
			struct log_sorted **v = sort_all(run_bytes[k], in_file ? "/dev/shm" : NULL);

			for (unsigned i = 0; i < 3; i++) {
				read_part(v, bytes[i], 0, 0, 0);
				for (unsigned t = 0; t < TABLES; t++)
					for (unsigned from = 0; from < ROWS; from += 7)
						read_part(v, bytes[i], t, from, from + 7);
			}
			free_all(v);
		}
		remove_all();
	}
}

/* One segment of 400 records. */
static void make_segment(struct env *e)
{
	struct log_options o = {.incarnation = 1, .segment_bytes = 8 << 20, .sync_interval_us = 3600000000u, .pool = e->pool};
	static uint8_t batch[8000];
	char dir[80], name[16], *why;

	snprintf(dir, sizeof(dir), "%s/1", e->dir);
	snprintf(dead, sizeof(dead), "%s/1.dead", e->dir);
	assert_int_equal(file_mkdir(dir), 0);
	o.dir = dir;
	assert_int_equal(log_new(&o, &e->log), 0);
	for (unsigned i = 1; i <= 400; i++) {
		struct log_ticket t;
		struct log_record r = {.table = 1, .seq = i, .batch = tfs_bytes_of(batch, sizeof(batch))};

		table_of[i] = 1;
		row_of[i] = i * 7 % ROWS;
		put_be64(batch, i);
		r.row_from = r.row_to = row_name(name, row_of[i]);
		assert_int_equal(log_submit(e->log, &r, i == 400, &t), 0);
		assert_int_equal(log_wait(e->log, &t), 0);
	}
	assert_int_equal(log_free(e->log), 0);
	assert_int_equal(log_seal_make(e->dir, 1, &seal, &why), 0);
	assert_int_equal(seal.count, 1);
}

static void reset_part(unsigned from, unsigned to)
{
	memset(there, 0, sizeof(there));
	memset(&part, 0, sizeof(part));
	before = ended = 0;
	part.table = 1;
	part.from = from;
	part.to = to;
}

/* A reader does not get a large run as a whole, and gets it in several answers. */
static void test_a_reader_skips_other_blocks(void **state)
{
	struct log_sorted *s;
	char *why;

	make_segment(*state);
	assert_int_equal(log_sort_segment(dead, &seal, 0, 16 << 20, NULL, &s, &why), 0);
	reset_part(10, 12);
	assert_int_equal(read_segment(s, 0, 1 << 20), 1);
	for (unsigned i = 1; i <= 400; i++)
		assert_true(there[i] || row_of[i] < 10 || row_of[i] >= 12);
	assert_true(part.blocks > 100);
	assert_true(part.wanted <= 14);
	reset_part(0, 0);
	assert_in_range(read_segment(s, 0, 1 << 20), 3, 5);
	log_sorted_free(s);
	remove_all();
}

static _Atomic unsigned writes;

static int fail_later(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	(void)arg, (void)offset, (void)n, (void)number;
	return op == FILE_OP_WRITE && strstr(path, "tabletfs-sort") && ++writes > 1 ? -ENOSPC : 0;
}

/* Records that do not fit on the local disk stay in memory. */
static void test_a_full_disk_is_no_error(void **state)
{
	struct log_sorted *s;
	char *why;

	make_segment(*state);
	file_set_hook(fail_later, NULL);
	assert_int_equal(log_sort_segment(dead, &seal, 0, 16 << 20, "/dev/shm", &s, &why), 0);
	file_set_hook(NULL, NULL);
	assert_true(writes > 1);
	assert_in_range(log_sorted_memory(s), 1 << 20, 8 << 20);
	reset_part(0, 0);
	(void)read_segment(s, 0, 1 << 20);
	for (unsigned i = 1; i <= 400; i++)
		assert_true(there[i]);
	log_sorted_free(s);
	assert_int_equal(log_sort_segment(dead, &seal, 0, 16 << 20, "/dev/shm/nowhere", &s, &why), 0);
	assert_true(log_sorted_memory(s) > 400 * 8000);
	log_sorted_free(s);
	remove_all();
}

static int any(void *arg, const struct log_record *r)
{
	(void)arg, (void)r;
	return 0;
}

static void test_damaged_bytes_are_found(void **state)
{
	struct log_sorted **v;
	struct buf b = {0};
	uint64_t place = 0;
	bool run_ended;
	char path[128], *why;

	make_log(*state, 77);
	v = sort_all(20000, NULL);
	memset(&part, 0, sizeof(part));
	assert_int_equal(log_sorted_read(v[1], 1 << 20, wants, NULL, &place, &run_ended, &b), 0);
	assert_true(place && run_ended);
	assert_int_equal(log_sorted_decode(&seal, 1, buf_bytes(&b), any, NULL), 0);
	for (size_t at = 0; at < b.n; at += 1 + at % 37) {
		b.p[at] ^= 0x10;
		assert_int_equal(log_sorted_decode(&seal, 1, buf_bytes(&b), any, NULL), -EBADMSG);
		b.p[at] ^= 0x10;
	}
	assert_int_equal(log_sorted_decode(&seal, 1, tfs_bytes_of(b.p, b.n - 8), any, NULL), -EBADMSG);
	assert_int_equal(log_sorted_decode(&seal, 2, buf_bytes(&b), any, NULL), -EBADMSG); /* another segment */
	place++;
	assert_int_equal(log_sorted_read(v[1], 1 << 20, wants, NULL, &place, &run_ended, &b), -EINVAL);
	buf_fini(&b);
	free_all(v);
	/* A damaged segment is not sorted. */
	snprintf(path, sizeof(path), "%s/%010llu.log", dead, (unsigned long long)seal.segments[1].number);
	assert_int_equal(file_read_all(path, 1 << 24, &b), 0);
	b.p[seal.segments[1].end / 2] ^= 1;
	write_image(path, b.p, b.n);
	buf_fini(&b);
	{
		struct log_sorted *s;

		assert_int_equal(log_sort_segment(dead, &seal, 1, 20000, NULL, &s, &why), -EBADMSG);
		assert_non_null(strstr(why, "damaged"));
		free(why);
	}
	remove_all();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_segments_have_every_record, setup, teardown),
		cmocka_unit_test_setup_teardown(test_a_reader_skips_other_blocks, setup, teardown),
		cmocka_unit_test_setup_teardown(test_a_full_disk_is_no_error, setup, teardown),
		cmocka_unit_test_setup_teardown(test_damaged_bytes_are_found, setup, teardown),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
