/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines of cells: the exact text of each format; a stream of a scan equals the
 * lines of its cells, whatever the sizes of values and reads; large values are
 * the same in pieces.
 */
#include "engine/bulk/json.h"
#include "engine/bulk/line.h"
#include "engine/bulk/stream_count.h"
#include "engine/bulk/tar_format.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static struct tfs_cell cell_of(const char *row, const char *qualifier, int64_t ts, const char *value, size_t n)
{
	return (struct tfs_cell){.row = tfs_str(row),
		.family = "f",
		.qualifier = tfs_str(qualifier),
		.ts = ts,
		.size = n,
		.value = tfs_bytes_of(value, n)};
}

static void expect_line(enum line_format format, struct tfs_cell c, const char *text)
{
	struct buf out = {0};

	assert_int_equal(line_append(format, &c, &out), 0);
	assert_int_equal(buf_u8(&out, 0), 0);
	assert_string_equal((const char *)out.p, text);
	buf_fini(&out);
}

static void each_format_has_its_text(void **state)
{
	expect_line(LINE_TSV, cell_of("r", "q", 5, "v", 1), "r\tf:q\t5\tv\n");
	expect_line(LINE_TSV, cell_of("r\t", "", INT64_MIN, "\0\xff\n", 3), "r\\t\tf:\t-9223372036854775808\t\\x00\\xFF\\n\n");
	expect_line(LINE_TSV, cell_of("gr\xc3\xbc\xc3\x9f", "a:b", 0, "", 0), "gr\xc3\xbc\xc3\x9f\tf:a:b\t0\t\n");
	expect_line(LINE_JSON, cell_of("r", "q", -5, "v", 1),
		"{\"row\":\"r\",\"family\":\"f\",\"qualifier\":\"q\",\"timestamp\":-5,\"value\":\"v\"}\n");
	expect_line(LINE_JSON, cell_of("r\"\\\x01\x7f", "\xff", 1, "\xfe\xfd", 2),
		"{\"row\":\"r\\\"\\\\\\u0001\\u007f\",\"family\":\"f\",\"qualifier_base64\":\"/w==\",\"timestamp\":1,\"value_base64\":\"/v0=\"}\n");
}

/* Counts the text, cut into pieces of `piece` bytes. */
static void expect_count(enum bulk_format format, struct tfs_bytes text, size_t piece, uint64_t cells, uint64_t rows)
{
	struct stream_count c = {.format = format};

	for (size_t at = 0; at < text.n; at += piece)
		assert_int_equal(stream_count_add(&c, tfs_bytes_of(text.p + at, text.n - at < piece ? text.n - at : piece)), 0);
	assert_int_equal(c.cells, cells);
	assert_int_equal(c.rows, rows);
	stream_count_fini(&c);
}

static void add_entry(struct buf *out, const char *path, uint64_t size)
{
	struct tar_entry e = {
		.path = tfs_str(path), .is_dir = path[strlen(path) - 1] == '/', .mode = 0644, .size = size, .mtime_us = 1000001};

	assert_int_equal(tar_append_header(out, &e), 0);
	for (uint64_t i = 0; i < size; i++)
		assert_int_equal(buf_u8(out, '5'), 0);
	assert_int_equal(tar_append_padding(out, size), 0);
}

static void cells_and_rows_of_an_export_are_counted(void **state)
{
	static const char tsv[] = "a\tf:q\t1\tx\na\tf:r\t1\t\nab\tf:q\t1\ta\\tb\nb\tf:q\t1\ty\n";
	static const char json[] = "{\"row\":\"a\\\"b\",\"family\":\"f\"}\n{\"row\":\"a\\\"b\",\"family\":\"g\"}\n"
				   "{\"row\":\"a\\\"c\",\"family\":\"f\"}\n{\"row_base64\":\"/w==\",\"family\":\"f\"}\n";
	static const char csv[] = "key,\"f:a,b\",f:c\n\"a\n\",,\"x,\n\"\"\"\nb,1,\"\"\nc,\"\n\",\n";
	static const size_t pieces[] = {1, 7, 100, 1000, 1 << 20};
	char part[258], row[300], family[320], cell[330];
	struct buf tar = {0};

	/* A row whose name has a part, and the paths of which are in extended headers. */
	memset(part, 'p', sizeof(part));
	memcpy(part, "./", 2);
	memcpy(part + 250, "%/", 3);
	snprintf(row, sizeof(row), "%srest/", part);
	snprintf(family, sizeof(family), "%sf/", row);
	snprintf(cell, sizeof(cell), "%sq@1", family);
	add_entry(&tar, "./", 0);
	add_entry(&tar, "./.schema", 600);
	add_entry(&tar, "./a/", 0);
	add_entry(&tar, "./a/f/", 0);
	add_entry(&tar, "./a/f/q@1", 512);
	add_entry(&tar, "./a/f/q@0", 0);
	add_entry(&tar, part, 0);
	add_entry(&tar, row, 0);
	add_entry(&tar, family, 0);
	add_entry(&tar, cell, 1025);
	assert_int_equal(tar_append_end(&tar, tar.n), 0);
	for (size_t i = 0; i < sizeof(pieces) / sizeof(*pieces); i++) {
		expect_count(BULK_TSV, tfs_str(tsv), pieces[i], 4, 3);
		expect_count(BULK_JSONL, tfs_str(json), pieces[i], 4, 3);
		expect_count(BULK_CSV, tfs_str(csv), pieces[i], 4, 3);
		expect_count(BULK_TAR, buf_bytes(&tar), pieces[i], 3, 2);
	}
	buf_fini(&tar);
}

static void base64_is_that_of_the_rfc(void **state)
{
	static const char *const pairs[][2] = {{"", ""}, {"f", "Zg=="}, {"fo", "Zm8="}, {"foo", "Zm9v"}, {"foob", "Zm9vYg=="},
		{"fooba", "Zm9vYmE="}, {"foobar", "Zm9vYmFy"}};

	for (size_t i = 0; i < sizeof(pairs) / sizeof(*pairs); i++) {
		struct buf out = {0};

		assert_int_equal(base64_encode(&out, tfs_str(pairs[i][0])), 0);
		assert_true(bytes_eq(buf_bytes(&out), tfs_str(pairs[i][1])));
		buf_fini(&out);
	}
}

static void unfinished_characters_are_found(void **state)
{
	assert_int_equal(utf8_unfinished(tfs_str("a\xc3")), 1);
	assert_int_equal(utf8_unfinished(tfs_str("\xe2\x82")), 2);
	assert_int_equal(utf8_unfinished(tfs_str("\xf0\x9f\x98")), 3);
	assert_int_equal(utf8_unfinished(tfs_str("\xe2\x82\xac")), 0);
	assert_int_equal(utf8_unfinished(tfs_str("\x80\x80\x80\x80")), 0);
	assert_int_equal(utf8_unfinished(tfs_bytes_of("", 0)), 0);
	assert_true(utf8_valid(tfs_str("plain text \xe2\x82\xac and more")));
	assert_false(utf8_valid(tfs_str("plain text and more \xe2\x82")));
	assert_false(utf8_valid(tfs_str("12345678\xed\xa0\x80")));
}

/* Random text; binary: any bytes. */
static void fill(uint8_t *p, size_t n, bool binary)
{
	size_t i = 0;

	while (i < n) {
		if (binary) {
			p[i++] = (uint8_t)rand();
		} else if (rand() % 3 == 0 && n - i >= 3) {
			memcpy(p + i, "\xe2\x82\xac", 3);
			i += 3;
		} else {
			p[i++] = (uint8_t)("\t\n\\\"aZ \x01"[rand() % 8]);
		}
	}
}

static struct tfs_table *table_with_values(struct tfs_store **s)
{
	static const size_t sizes[] = {0, 1, 999, TFS_INLINE_MAX - 1, TFS_INLINE_MAX, TFS_INLINE_MAX + 1, 3 * TFS_INLINE_MAX + 17};
	struct tfs_table *t;

	assert_int_equal(tfs_open("unused", NULL, s, NULL), 0);
	assert_int_equal(tfs_table_create(*s, "t", 0, 0, 0755), 0);
	assert_int_equal(tfs_table_open(*s, "t", &t), 0);
	assert_int_equal(tfs_schema_set_text(t, TFS_S("families = ({ name = \"f\"; });"), TFS_NO_TIME, NULL), 0);
	for (size_t i = 0; i < 2 * sizeof(sizes) / sizeof(*sizes); i++) {
		size_t n = sizes[i / 2];
		uint8_t *value = malloc(n + 1), row[2] = {'r', (uint8_t)('a' + i)};
		struct tfs_mutation *m = tfs_mutation_new(t, tfs_bytes_of(row, 2));

		fill(value, n, i % 2);
		assert_int_equal(tfs_mutation_put(m, "f", TFS_S("q"), tfs_at((int64_t)i), tfs_bytes_of(value, n)), 0);
		assert_int_equal(tfs_apply(m, 0, NULL), 0);
		tfs_mutation_free(m);
		free(value);
	}
	return t;
}

static size_t lines_in(struct tfs_bytes text)
{
	size_t n = 0;

	for (size_t i = 0; i < text.n; i++)
		n += text.p[i] == '\n';
	return n;
}

/* The lines of all cells, each value read at once. */
static void expected_lines(struct tfs_table *t, enum line_format format, struct buf *out)
{
	struct tfs_scan_spec spec = {.what = TFS_SCAN_CELLS};
	uint8_t *value = malloc(4 * TFS_INLINE_MAX);
	struct tfs_scan *scan;
	struct tfs_cell c;

	assert_int_equal(tfs_scan_new(t, &spec, &scan), 0);
	while (tfs_scan_next(scan, &c) > 0) {
		size_t n;

		assert_int_equal(
			tfs_read(t, c.row, c.family, c.qualifier, tfs_at(c.ts), 0, value, 4 * TFS_INLINE_MAX, &n, NULL), 0);
		assert_int_equal(n, c.size);
		c.value = tfs_bytes_of(value, n);
		assert_int_equal(line_append(format, &c, out), 0);
	}
	tfs_scan_free(scan);
	free(value);
}

static void streams_equal_their_lines(void **state)
{
	struct tfs_store *store;
	struct tfs_table *t = table_with_values(&store);

	for (enum line_format format = LINE_TSV; format <= LINE_JSON; format++) {
		struct buf expected = {0}, all = {0}, piece = {0};
		struct tfs_scan_spec spec = {.what = TFS_SCAN_CELLS};
		struct line_stream *s;
		struct tfs_scan *scan;
		int r;

		expected_lines(t, format, &expected);
		assert_int_equal(tfs_scan_new(t, &spec, &scan), 0);
		assert_int_equal(line_stream_new(t, scan, format, &s), 0);
		do {
			buf_reset(&piece);
			r = line_stream_read(s, 1 + (size_t)rand() % 100000, &piece);
			assert_true(r >= 0);
			assert_true(piece.n < 2500000);
			assert_int_equal(buf_append_bytes(&all, buf_bytes(&piece)), 0);
		} while (r > 0);
		assert_int_equal(lines_in(buf_bytes(&all)), 14);
		assert_true(bytes_eq(buf_bytes(&all), buf_bytes(&expected)));
		line_stream_free(s);
		buf_fini(&expected);
		buf_fini(&all);
		buf_fini(&piece);
	}
	tfs_table_close(t);
	assert_int_equal(tfs_close(store), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_format_has_its_text),
		cmocka_unit_test(cells_and_rows_of_an_export_are_counted),
		cmocka_unit_test(base64_is_that_of_the_rfc),
		cmocka_unit_test(unfinished_characters_are_found),
		cmocka_unit_test(streams_equal_their_lines),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
