/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In a salted table with a damaged block, only reads of that block fail.  The rows of
 * a block are neighbours by salted key, so they are scattered in the order of a
 * scan.  Before its error a scan must return the beginning of the table without
 * a gap; after it, all readable rows in order.
 */
#include "t/engine/lib.h"

#include <dirent.h>

#define ROWS 900
#define VALUE 60 /* in the blocks of keys */
#define FLIPS 12

static uint8_t values[ROWS][VALUE];
static bool deleted[ROWS], readable[ROWS];

static void row_of(unsigned i, char row[16])
{
	snprintf(row, 16, "row%05u", i);
}

/* Makes two files and a memtable.  The newer file has the second cell of each third row, the memtable a delete of each 50th row. */
static void fill(void)
{
	char row[16];
	uint64_t x = 1;

	options.no_background = true;
	open_store();
	assert_int_equal(tfs_schema_set_text(
				 table, TFS_S("salt = 3; families = ( { name = \"f\"; }, { name = \"g\"; } );"), TFS_NO_TIME, NULL),
		0);
	for (unsigned i = 0; i < ROWS; i++) {
		for (unsigned k = 0; k < VALUE; k++)
			values[i][k] = (uint8_t)((x = x * 6364136223846793005u + 1442695040888963407u) >> 56);
		row_of(i, row);
		assert_int_equal(put(row, "q", 5, tfs_bytes_of(values[i], VALUE), false), 0);
	}
	assert_int_equal(tfs_compact(table), 0);
	for (unsigned i = 0; i < ROWS; i += 3) {
		row_of(i, row);
		assert_int_equal(put(row, "r", 5, tfs_bytes_of(values[i], VALUE), false), 0);
	}
	assert_int_equal(tfs_flush(table), 0);
	for (unsigned i = 0; i < ROWS; i += 50) {
		row_of(i, row);
		assert_int_equal(store_delete_row(table, tfs_str(row)), 0);
		deleted[i] = true;
	}
	close_store();
}

/* The rows that point reads return completely, and correctly. */
static unsigned read_points(void)
{
	uint8_t got[VALUE];
	unsigned lost = 0;
	char row[16];
	size_t n;

	for (unsigned i = 0; i < ROWS; i++) {
		row_of(i, row);
		readable[i] = true;
		for (unsigned k = 0; k < 2; k++) {
			int err = tfs_read(table, tfs_str(row), "f", tfs_str(k ? "r" : "q"), tfs_at(5), 0, got, VALUE, &n, NULL);

			if (err == -EBADMSG) {
				readable[i] = false;
			} else if (deleted[i] || (k && i % 3)) {
				assert_int_equal(err, -ENOENT);
			} else {
				assert_int_equal(err, 0);
				assert_memory_equal(got, values[i], VALUE);
			}
		}
		lost += !readable[i];
	}
	return lost;
}

static unsigned number_of(const struct tfs_cell *c)
{
	char row[16] = "";
	unsigned i;

	assert_int_equal(c->row.n, 8);
	memcpy(row, c->row.p, 8);
	assert_int_equal(sscanf(row, "row%05u", &i), 1);
	assert_true(i < ROWS);
	return i;
}

/* The next existing row, from i on. */
static unsigned there_from(unsigned i)
{
	while (i < ROWS && deleted[i])
		i++;
	return i;
}

/* A scan that does not skip damage returns all cells before it.  Returns the row at which it failed. */
static unsigned scan_strictly(enum tfs_scan_what what, size_t batch)
{
	struct tfs_scan_spec spec = {.what = what, .batch_bytes = batch};
	unsigned next = there_from(0), cells = 0;
	struct tfs_scan *s;
	struct tfs_cell c;
	int n;

	assert_int_equal(tfs_scan_new(table, &spec, &s), 0);
	while ((n = tfs_scan_next(s, &c)) > 0) {
		const unsigned i = number_of(&c);
		const bool second = what == TFS_SCAN_CELLS && ((const char *)c.qualifier.p)[0] == 'r';

		assert_int_equal(i, next);
		assert_false(c.unsure);
		if (what == TFS_SCAN_CELLS) {
			assert_int_equal(second, cells);
			assert_memory_equal(c.value.p, values[i], VALUE);
		}
		cells = what == TFS_SCAN_CELLS && !second && i % 3 == 0;
		if (!cells)
			next = there_from(i + 1);
	}
	assert_int_equal(n, -EBADMSG);
	assert_int_equal(tfs_scan_next(s, &c), -EBADMSG); /* again and again */
	tfs_scan_free(s);
	return next;
}

/* Past it: in order, all that can be read, nothing that is not there but unsure; and the error in the place of the end. */
static void scan_past(enum tfs_scan_what what, size_t batch, unsigned from, uint64_t limit, bool damage)
{
	char row[16];
	struct tfs_scan_spec spec = {.what = what, .batch_bytes = batch, .past_damage = true, .limit = limit};
	bool seen[ROWS][2] = {0};
	unsigned least = 0, given = 0;
	struct tfs_scan *s;
	struct tfs_cell c;
	int n;

	row_of(from, row);
	spec.row_from = tfs_str(row);
	assert_int_equal(tfs_scan_new(table, &spec, &s), 0);
	while ((n = tfs_scan_next(s, &c)) > 0) {
		const unsigned i = number_of(&c);
		const bool second = what == TFS_SCAN_CELLS && ((const char *)c.qualifier.p)[0] == 'r';

		assert_true(i >= from && i >= least);
		least = what == TFS_SCAN_CELLS && !second ? i : i + 1; /* a second cell may follow, or a limit before it */
		assert_false(seen[i][second]);
		seen[i][second] = true;
		if (what == TFS_SCAN_CELLS)
			assert_memory_equal(c.value.p, values[i], VALUE);
		if (deleted[i])
			assert_true(c.unsure);
		given++;
	}
	assert_true(n == -EBADMSG || (n == 0 && (!damage || limit)));
	assert_true(!limit || given <= limit);
	if (!limit || given < limit) /* else all up to the last one given */
		least = ROWS;
	for (unsigned i = from; i < least; i++)
		if (readable[i] && !deleted[i]) {
			assert_true(seen[i][0]);
			assert_true(what != TFS_SCAN_CELLS || i % 3 || seen[i][1]);
		}
	tfs_scan_free(s);
}

static void flip(const char *path, uint64_t at)
{
	struct file *f;
	uint8_t byte = 0;
	size_t got;

	assert_int_equal(file_open(path, FILE_READWRITE, &f), 0);
	assert_int_equal(file_pread(f, &byte, 1, at, &got), 0);
	byte ^= 0x20;
	assert_int_equal(file_pwrite(f, &byte, 1, at), 0);
	file_close(f);
}

static bool log_names(const char *path)
{
	struct buf ring = {0};
	bool named;

	assert_int_equal(msg_ring(&ring), 0);
	assert_int_equal(buf_u8(&ring, 0), 0);
	named = strstr((char *)ring.p, path + strlen(test_dir)) != NULL;
	buf_fini(&ring);
	return named;
}

static void look_at_all(bool damage, unsigned lost)
{
	static const size_t batches[] = {0, 1, 20000};
	static const enum tfs_scan_what what[] = {TFS_SCAN_CELLS, TFS_SCAN_KEYS, TFS_SCAN_ROWS};
	unsigned ended = 0;

	for (unsigned b = 0; b < 3; b++)
		for (unsigned w = 0; w < 3; w++) {
			if (damage && what[w] != TFS_SCAN_KEYS)
				ended += scan_strictly(what[w], batches[b]);
			if (what[w] == TFS_SCAN_KEYS)
				continue;
			scan_past(what[w], batches[b], 0, 0, damage);
			scan_past(what[w], batches[b], ROWS / 2 + 7 * b, 0, false);
			for (uint64_t limit = 1; limit < 40; limit += 13)
				scan_past(what[w], batches[b], 31 * b, limit, false);
		}
	if (damage)
		print_message("# %u of %u rows cannot be read; a scan comes to row %u\n", lost, ROWS, ended / 6);
}

/* SSTables of the table, and their sizes. */
static unsigned find_files(char path[4][700], uint64_t bytes[4])
{
	DIR *d = opendir(in_dir("store/sst/17"));
	unsigned n = 0;

	assert_non_null(d);
	for (struct dirent *e; (e = readdir(d));) {
		if (e->d_name[0] == '.')
			continue;
		assert_true(n < 4);
		snprintf(path[n], sizeof(path[n]), "%s/%s", in_dir("store/sst/17"), e->d_name);
		assert_int_equal(file_stat_size(path[n], &bytes[n]), 0);
		n++;
	}
	closedir(d);
	return n;
}

static void test_block(void **state)
{
	char path[4][700];
	uint64_t bytes[4];
	unsigned n, lost;

	fill();
	hooks.no_flush = true;
	n = find_files(path, bytes);
	assert_true(n >= 2);
	open_store();
	assert_int_equal(read_points(), 0);
	look_at_all(false, 0);
	close_store();
	for (unsigned i = 0; i < FLIPS; i++) {
		const unsigned f = i % n;
		/* The blocks of keys fill nearly all of each file except the file of deletes. */
		const uint64_t at = i < n ? 40 : (bytes[f] - bytes[f] / 5) / FLIPS * i;

		if (i >= n && bytes[f] < 15000)
			continue;
		flip(path[f], at);
		msg_to_nowhere();
		open_store();
		lost = read_points();
		assert_true(lost > 0 && lost < ROWS / 4);
		look_at_all(true, lost);
		assert_true(log_names(path[f]));
		close_store();
		flip(path[f], at);
	}
	open_store();
	assert_int_equal(read_points(), 0);
	close_store();
	check_is_clean();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_block, setup_options, test_dir_teardown),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
