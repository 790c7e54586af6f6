/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A scan for hashes has the sums of the hashes of the cells that another scan returns, whatever
 * the parts, tablets, salt, ids of families and age of its view, also if it is lost; and refuses what it does not have.
 */
#include "engine/server/requests/requests.h"
#include "t/engine/lib.h"
#include "t/lib/xorshift.h"

#include <xxhash.h>

enum { TABLES = 3, ROWS = 400, LARGE = 300000 };
static struct tfs_table *tables[TABLES];
static uint8_t *large;
static bool forgets; /* the server forgets a scan when another one begins */
static unsigned split_count;
static bool splits; /* the tablet of the scan is split behind its third entry */

struct sums {
	uint64_t cells[2], bytes[2], low[2], high[2]; /* of f and g */
	unsigned entries;
};

static void make_tables(void)
{
	static const char *const schemas[TABLES] = {"families = ({name = \"f\";}, {name = \"g\"; gc = \"maxversions=2\";});",
		"salt = 16; families = ({name = \"g\"; gc = \"maxversions=2\";}, {name = \"other\";}, {name = \"f\";});",
		"families = ({name = \"g\"; gc = \"maxversions=2\";}, {name = \"f\";});"};

	open_store();
	for (unsigned i = 0; i < TABLES; i++) {
		const char name[] = {(char)('a' + i), 0};

		assert_int_equal(tfs_table_create(store, name, 0, 0, 0755), 0);
		assert_int_equal(tfs_table_open(store, name, &tables[i]), 0);
		assert_int_equal(tfs_schema_set_text(tables[i], tfs_str(schemas[i]), TFS_NO_TIME, NULL), 0);
	}
}

static void row_of(uint64_t n, char *out, size_t room)
{
	snprintf(out, room, "%s%03u", n % 3 ? "row" : "r", (unsigned)(n % ROWS));
}

/* The same changes of all tables. */
static void fill(uint64_t *random)
{
	for (unsigned i = 0; i < 3 * ROWS; i++) {
		const uint64_t n = xorshift(random);
		const char *family = n >> 8 & 1 ? "f" : "g", q[] = {(char)('a' + (n >> 16) % 4), 0};
		const int64_t ts = (int64_t)(n >> 24) % 5;
		const size_t size = (n >> 32) % 200 == 0 ? LARGE : (n >> 32) % 50 == 1 ? 70000 : (n >> 40) % 40;
		char row[16];

		row_of(n, row, sizeof(row));
		memset(large, (int)(n >> 50), 100);
		for (unsigned t = 0; t < TABLES; t++)
			assert_int_equal(
				store_put(tables[t], tfs_str(row), family, tfs_str(q), tfs_at(ts), tfs_bytes_of(large, size), 0),
				0);
		for (unsigned t = 0; t < TABLES && (n >> 60) % 8 == 0; t++)
			assert_int_equal(store_delete_row(tables[t], tfs_str(row)), 0);
		if (i == ROWS)
			assert_int_equal(tfs_flush(tables[1]), 0);
		if (i == 2 * ROWS)
			assert_int_equal(tfs_split(tables[2], TFS_S("row100")), 0);
	}
}

static void add(struct buf *key, const void *p, size_t n)
{
	const uint8_t size[] = {(uint8_t)(n >> 24), (uint8_t)(n >> 16), (uint8_t)(n >> 8), (uint8_t)n};

	assert_int_equal(buf_append(key, size, sizeof(size)), 0);
	assert_int_equal(buf_append(key, p, n), 0);
}

/* The sums by a scan of the cells. */
static struct sums from_cells(struct tfs_table *t, struct tfs_scan_spec spec)
{
	struct sums s = {0};
	struct buf key = {0};
	struct tfs_scan *scan;
	struct tfs_cell c;
	int n;

	spec.what = TFS_SCAN_KEYS;
	spec.batch_bytes = 0;
	assert_int_equal(tfs_scan_new(t, &spec, &scan), 0);
	while ((n = tfs_scan_next(scan, &c)) > 0) {
		const unsigned of = *c.family == 'g';
		XXH128_hash_t h;
		size_t got;

		assert_int_equal(tfs_read(t, c.row, c.family, c.qualifier, tfs_at(c.ts), 0, large, LARGE, &got, NULL), 0);
		h = XXH3_128bits(large, got);
		buf_reset(&key);
		add(&key, c.row.p, c.row.n);
		add(&key, c.qualifier.p, c.qualifier.n);
		assert_int_equal(buf_be64(&key, (uint64_t)c.ts), 0);
		assert_int_equal(buf_be64(&key, h.low64), 0);
		assert_int_equal(buf_be64(&key, h.high64), 0);
		h = XXH3_128bits(key.p, key.n);
		s.cells[of]++;
		s.bytes[of] += c.qualifier.n + c.size;
		s.low[of] += h.low64;
		s.high[of] += h.high64;
	}
	assert_int_equal(n, 0);
	tfs_scan_free(scan);
	buf_fini(&key);
	return s;
}

/* Splits the tablet of a table without salt at the least key above the row. */
static void split_behind(struct tfs_table *t, struct tfs_bytes row)
{
	struct buf at = {0};
	int err;

	assert_int_equal(buf_append_bytes(&at, row), 0);
	assert_int_equal(buf_u8(&at, 0), 0);
	err = tfs_split(t, buf_bytes(&at));
	assert_true(err == 0 || err == -EEXIST || err == -EINVAL);
	split_count += !err;
	buf_fini(&at);
}

static struct sums hashes(struct tfs_table *t, struct tfs_scan_spec spec, bool in_order)
{
	struct sums s = {0};
	struct buf last = {0};
	struct tfs_scan *scan;
	struct tfs_cell c;
	int n;

	spec.what = TFS_SCAN_HASHES;
	assert_int_equal(tfs_scan_new(t, &spec, &scan), 0);
	while ((n = tfs_scan_next(scan, &c)) > 0) {
		const unsigned of = *c.family == 'g';

		assert_int_equal(c.value.n, 16);
		assert_true(c.size > 0);
		assert_true(!in_order || bytes_cmp(c.row, buf_bytes(&last)) >= 0);
		assert_true(!spec.row_to.p || bytes_cmp(c.row, spec.row_to) < 0);
		assert_int_equal(buf_set(&last, c.row.p, c.row.n), 0);
		if (++s.entries == 3 && splits)
			split_behind(t, c.row);
		s.cells[of] += c.size;
		s.bytes[of] += c.sequence;
		s.high[of] += load_be64(c.value.p);
		s.low[of] += load_be64(c.value.p + 8);
		if (forgets) {
			bool empty;

			assert_int_equal(tfs_table_empty(table, &empty), 0);
		}
	}
	assert_int_equal(n, 0);
	tfs_scan_free(scan);
	buf_fini(&last);
	return s;
}

static void expect_sums(struct tfs_scan_spec spec)
{
	const struct sums want = from_cells(tables[0], spec);

	for (unsigned t = 0; t < TABLES; t++) {
		struct sums got = hashes(tables[t], spec, t != 1);

		if (spec.batch_bytes == 1 && t != 1)
			assert_true(got.entries + 1 >= (want.cells[0] + want.cells[1]) / 20);
		got.entries = want.entries;
		assert_memory_equal(&got, &want, sizeof(want));
	}
}

static void test_sums(void **state)
{
	static const char *const only_f[] = {"f"};
	static const size_t parts[] = {0, 1, 500, 20000, SIZE_MAX};
	uint64_t random = 88172645463325252u;

	(void)state;
	large = calloc(1, LARGE);
	assert_non_null(large);
	make_tables();
	fill(&random);
	for (unsigned round = 0; round < 40; round++) {
		struct tfs_scan_spec spec = {.batch_bytes = parts[round % 5]};
		char from[16], to[16];

		if (round == 20) { /* each part leaves the view */
			for (unsigned t = 0; t < TABLES; t++)
				tfs_table_close(tables[t]);
			close_store();
			hooks.scan_view_us = 1;
			options.no_background = true;
			open_store();
			for (unsigned t = 0; t < TABLES; t++)
				assert_int_equal(tfs_table_open(store, (const char[]){(char)('a' + t), 0}, &tables[t]), 0);
		}
		splits = round > 20 && round < 25;
		if (round == 25) {
			hooks.server->scans->idle_us = 0;
			forgets = true;
		}
		row_of(xorshift(&random), from, sizeof(from));
		row_of(xorshift(&random), to, sizeof(to));
		if (round % 5 != round / 5 % 5) {
			spec.row_from = tfs_str(from);
			spec.row_from_after = round % 2;
			spec.row_to = tfs_str(to);
		}
		if (round % 7 == 0) {
			spec.families = only_f;
			spec.family_count = 1;
		}
		if (round % 11 == 0)
			spec.versions = 1;
		if (round % 13 == 0)
			spec.value_is = TFS_S("");
		expect_sums(spec);
	}
	assert_true(split_count > 0);
	for (unsigned t = 0; t < TABLES; t++)
		tfs_table_close(tables[t]);
	close_store();
	check_is_clean();
	free(large);
}

static void test_refusals(void **state)
{
	static const struct tfs_scan_spec refused[] = {{.reverse = true}, {.limit = 1}, {.row_limit = 1}, {.past_damage = true},
		{.what = TFS_SCAN_STORED_ROWS}, {.what = 77}};
	struct tfs_scan *scan;

	(void)state;
	open_store();
	for (unsigned i = 0; i < sizeof(refused) / sizeof(*refused); i++) {
		struct tfs_scan_spec spec = refused[i];

		spec.what = spec.what ? spec.what : TFS_SCAN_HASHES;
		assert_int_equal(tfs_scan_new(table, &spec, &scan), -EINVAL);
	}
	assert_int_equal(hashes(table, (struct tfs_scan_spec){0}, true).entries, 0);
	close_store();
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(test_sums, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(test_refusals, setup_options, test_dir_teardown)};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
