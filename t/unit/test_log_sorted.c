/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sorted copies of the segments of a sealed log contain exactly its records.  A reader
 * of a part gets the records of its rows.  Damaged copies are found.
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

static struct slice row_name(char name[16], unsigned row)
{
	snprintf(name, 16, "row%03u", row);
	return slice_str(name);
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
		r.batch = slice_of(batch, 8 + (seed >> 45) % (i % 100 ? 300 : 2900));
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

static unsigned sort_all(size_t run_bytes)
{
	unsigned n = 0;

	for (size_t i = 0; i < seal.count; i++) {
		bool read;
		char *why;

		assert_int_equal(log_sort_segment(dead, &seal, i, run_bytes, 5, &read, &why), 0);
		n += read;
	}
	return n;
}

/* The wanted part: of one table the rows from..to - 1; to 0: everything. */
static struct {
	uint32_t table;
	unsigned from, to, blocks, wanted;
	uint64_t last_lsn;
} part;

static bool wants(void *arg, uint32_t table, struct slice row, uint32_t to_table, struct slice to_row)
{
	char from[16], to[16];
	bool is;

	(void)arg;
	part.blocks++;
	is = !part.to ||
		(table <= part.table && to_table >= part.table &&
			!(table == part.table && slice_cmp(row, row_name(to, part.to)) >= 0) &&
			(to_table > part.table || !to_row.p || slice_cmp(to_row, row_name(from, part.from)) >= 0));
	part.wanted += is;
	return is;
}

static int take(void *arg, const struct log_record *const *v, size_t count)
{
	char name[16];
	uint64_t most = 0;

	(void)arg;
	for (size_t i = 0; i < count; i++) {
		const uint64_t lsn = v[i]->lsn;

		assert_in_range(lsn, 1, RECORDS);
		assert_false(there[lsn]);
		there[lsn] = true;
		assert_int_equal(load_be64(v[i]->batch.p), lsn);
		assert_int_equal(v[i]->table, table_of[lsn]);
		assert_true(slice_eq(v[i]->row_from, row_name(name, row_of[lsn])));
		assert_true(slice_eq(v[i]->row_to, v[i]->row_from));
		assert_int_equal(v[i]->seq, lsn);
		assert_true(lsn > part.last_lsn); /* runs rise */
		most = lsn > most ? lsn : most;
		if (!i)
			continue;
		assert_true(v[i - 1]->table <= v[i]->table);
		if (v[i - 1]->table == v[i]->table) {
			const int c = slice_cmp(v[i - 1]->row_from, v[i]->row_from);

			assert_true(c < 0 || (c == 0 && v[i - 1]->lsn < lsn));
		}
	}
	part.last_lsn = most;
	return 0;
}

static void read_part(uint32_t table, unsigned from, unsigned to)
{
	memset(there, 0, sizeof(there));
	memset(&part, 0, sizeof(part));
	part.table = table;
	part.from = from;
	part.to = to;
	for (size_t i = 0; i < seal.count; i++) {
		struct log_sorted *s;

		assert_int_equal(log_sorted_open(dead, &seal, i, &s), 0);
		assert_int_equal(log_sorted_read(s, wants, take, NULL), 0);
		log_sorted_close(s);
	}
	for (unsigned i = 1; i <= RECORDS; i++)
		if (!to || (table_of[i] == table && row_of[i] >= from && row_of[i] < to))
			assert_true(there[i]);
}

static void test_copies_have_every_record(void **state)
{
	static const size_t run_bytes[] = {1, 5000, 20000, 16 << 20};

	for (unsigned k = 0; k < 4; k++) {
		make_log(*state, k + 1);
		assert_int_equal(sort_all(run_bytes[k]), seal.count);
		assert_int_equal(sort_all(run_bytes[k]), 0); /* once */
		read_part(0, 0, 0);
		for (unsigned t = 0; t < TABLES; t++)
			for (unsigned from = 0; from < ROWS; from += 7)
				read_part(t, from, from + 7);
		remove_all();
	}
}

/* A part of a large run is not read as a whole. */
static void test_a_reader_skips_other_blocks(void **state)
{
	struct env *e = *state;
	struct log_options o = {.incarnation = 1, .segment_bytes = 8 << 20, .sync_interval_us = 3600000000u, .pool = e->pool};
	static uint8_t batch[8000];
	char dir[80], name[16], *why;
	struct log_sorted *s;
	bool read;

	snprintf(dir, sizeof(dir), "%s/1", e->dir);
	snprintf(dead, sizeof(dead), "%s/1.dead", e->dir);
	assert_int_equal(file_mkdir(dir), 0);
	o.dir = dir;
	assert_int_equal(log_new(&o, &e->log), 0);
	for (unsigned i = 1; i <= 400; i++) {
		struct log_ticket t;
		struct log_record r = {.table = 1, .seq = i, .batch = slice_of(batch, sizeof(batch))};

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
	assert_int_equal(log_sort_segment(dead, &seal, 0, 16 << 20, 5, &read, &why), 0);
	memset(there, 0, sizeof(there));
	memset(&part, 0, sizeof(part));
	part.table = 1;
	part.from = 10;
	part.to = 12;
	assert_int_equal(log_sorted_open(dead, &seal, 0, &s), 0);
	assert_int_equal(log_sorted_read(s, wants, take, NULL), 0);
	log_sorted_close(s);
	for (unsigned i = 1; i <= 400; i++)
		assert_true(there[i] || row_of[i] < 10 || row_of[i] >= 12);
	assert_true(part.blocks > 15);
	assert_true(part.wanted <= 4);
	remove_all();
}

static int any(void *arg, const struct log_record *const *v, size_t count)
{
	(void)arg, (void)v, (void)count;
	return 0;
}

static bool all(void *arg, uint32_t table, struct slice row, uint32_t to_table, struct slice to_row)
{
	(void)arg, (void)table, (void)row, (void)to_table, (void)to_row;
	return true;
}

static void test_damaged_copies_are_found(void **state)
{
	char path[128];
	struct buf good = {0};
	struct log_sorted *s;
	bool read;
	char *why;
	int err;

	make_log(*state, 77);
	assert_int_equal(log_sorted_open(dead, &seal, 0, &s), -ENOENT);
	assert_int_equal(sort_all(20000), seal.count);
	snprintf(path, sizeof(path), "%s/%010llu.sorted", dead, (unsigned long long)seal.segments[1].number);
	assert_int_equal(file_read_all(path, 1 << 24, &good), 0);
	for (size_t at = 0; at < good.n; at += 1 + at % 37) {
		good.p[at] ^= 0x10;
		write_image(path, good.p, good.n);
		err = log_sorted_open(dead, &seal, 1, &s);
		if (!err) {
			err = log_sorted_read(s, all, any, NULL);
			log_sorted_close(s);
			if (err)
				assert_int_equal(access(path, F_OK), -1); /* so that the segment is read next time */
		}
		assert_int_equal(err, -EBADMSG);
		good.p[at] ^= 0x10;
		if (access(path, F_OK)) {
			int fd = creat(path, 0600);

			assert_true(fd >= 0);
			close(fd);
		}
	}
	for (size_t n = 0; n < good.n; n += 1 + good.n / 50) {
		write_image(path, good.p, n);
		assert_int_equal(log_sorted_open(dead, &seal, 1, &s), -EBADMSG);
	}
	/* A copy of another segment. */
	write_image(path, good.p, good.n);
	assert_int_equal(log_sorted_open(dead, &seal, 1, &s), 0);
	log_sorted_close(s);
	{
		char other[128];

		snprintf(other, sizeof(other), "%s/%010llu.sorted", dead, (unsigned long long)seal.segments[2].number);
		assert_int_equal(file_rename(path, other), 0);
		assert_int_equal(log_sorted_open(dead, &seal, 2, &s), -EBADMSG);
	}
	assert_int_equal(log_sort_segment(dead, &seal, 1, 20000, 6, &read, &why), 0);
	assert_true(read);
	buf_fini(&good);
	remove_all();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_copies_have_every_record, setup, teardown),
		cmocka_unit_test_setup_teardown(test_a_reader_skips_other_blocks, setup, teardown),
		cmocka_unit_test_setup_teardown(test_damaged_copies_are_found, setup, teardown),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
