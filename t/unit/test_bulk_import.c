/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Imports and exports: random cells return exactly in each format, in pieces of
 * any size, and a second time; each malformed record is refused with its number
 * and reason, and the records after it are stored.
 */
#include "engine/bulk/import.h"
#include "engine/bulk/line.h"
#include "engine/bulk/stream.h"
#include "engine/bulk/tar_stream.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static struct tfs_store *store;

static struct tfs_table *table_new(const char *name)
{
	struct tfs_table *t;

	assert_int_equal(tfs_table_create(store, name, 0, 0, 0755), 0);
	assert_int_equal(tfs_table_open(store, name, &t), 0);
	assert_int_equal(
		tfs_schema_set_text(t,
			TFS_S("families = ({ name = \"f\"; }, { name = \"g.2\"; }, { name = \"n\"; type = \"counter\"; });"),
			TFS_NO_TIME, NULL),
		0);
	return t;
}

static void table_end(struct tfs_table *t, const char *name)
{
	struct tfs_scan_spec spec = {.what = TFS_SCAN_ROWS};
	struct tfs_scan *scan;
	struct tfs_cell c;

	assert_int_equal(tfs_scan_new(t, &spec, &scan), 0);
	while (tfs_scan_next(scan, &c) > 0) {
		struct tfs_mutation *m = tfs_mutation_new(t, c.row);

		assert_int_equal(tfs_mutation_delete_row(m), 0);
		assert_int_equal(tfs_apply(m, 0, NULL), 0);
		tfs_mutation_free(m);
	}
	tfs_scan_free(scan);
	tfs_table_close(t);
	assert_int_equal(tfs_table_drop(store, name), 0);
}

/* Random bytes, likely such that formats treat specially. */
static void random_bytes(uint8_t *p, size_t n)
{
	static const char special[] = "\t\n\r\\\"/.%@:-0{}=\0\x7f\x1f\xff\xc3\xbc\xe2\x82\xac";

	for (size_t i = 0; i < n; i++)
		p[i] = (uint8_t)(rand() % 2  ? special[(size_t)rand() % (sizeof(special) - 1)]
				: rand() % 4 ? 'a' + rand() % 26
					     : rand());
}

static void put_random_cell(struct tfs_table *t)
{
	static const size_t sizes[] = {0, 1, 2, 3, 10, 100, 250, 254, 255, 256, 600, 5000};
	static const int64_t times[] = {0, 1, -1, INT64_MAX, INT64_MIN, 1300000000000000, 1300000000123456, -999999};
	uint8_t row[5000], qualifier[5000];
	size_t row_n = 1 + sizes[(size_t)rand() % 11], qualifier_n = sizes[(size_t)rand() % 12];
	size_t value_n = rand() % 50 ? sizes[(size_t)rand() % 12] : TFS_INLINE_MAX + (size_t)rand() % 300000;
	uint8_t *value = malloc(value_n + 1);
	struct tfs_mutation *m;
	char number[24];
	struct tfs_bytes v = tfs_bytes_of(value, value_n);
	const char *family = rand() % 4 ? "f" : rand() % 2 ? "g.2" : "n";

	random_bytes(row, row_n);
	random_bytes(qualifier, qualifier_n);
	random_bytes(value, value_n);
	if (*family == 'n' && rand() % 2)
		v = tfs_bytes_of(number, (size_t)snprintf(number, sizeof(number), "%d\n", rand() - rand()));
	m = tfs_mutation_new(t, tfs_bytes_of(row, row_n));
	assert_int_equal(
		tfs_mutation_put(m, family, tfs_bytes_of(qualifier, qualifier_n), tfs_at(times[(size_t)rand() % 8]), v), 0);
	assert_int_equal(tfs_apply(m, 0, NULL), 0);
	tfs_mutation_free(m);
	free(value);
}

static void export_all(struct tfs_table *t, enum bulk_format format, struct buf *out)
{
	struct tfs_scan_spec spec = {.what = TFS_SCAN_CELLS};
	struct buf piece = {0};
	struct line_stream *lines = NULL;
	struct tar_stream *tar = NULL;
	struct tfs_scan *scan;
	int r;

	assert_int_equal(tfs_scan_new(t, &spec, &scan), 0);
	if (format == BULK_TAR)
		assert_int_equal(tar_stream_new(t, scan, &tar), 0);
	else
		assert_int_equal(line_stream_new(t, scan, format == BULK_TSV ? LINE_TSV : LINE_JSON, &lines), 0);
	do {
		size_t enough = 1 + (size_t)rand() % 100000;

		buf_reset(&piece);
		r = tar ? tar_stream_read(tar, enough, &piece) : line_stream_read(lines, enough, &piece);
		assert_true(r >= 0);
		assert_int_equal(buf_append_bytes(out, buf_bytes(&piece)), 0);
	} while (r > 0);
	line_stream_free(lines);
	tar_stream_free(tar);
	buf_fini(&piece);
}

struct refusals {
	struct buf text;
	int result;
};

static int note_refused(void *arg, uint64_t number, int err, const char *reason)
{
	struct refusals *f = arg;

	assert_int_equal(buf_printf(&f->text, "%llu %d %s\n", (unsigned long long)number, err, reason), 0);
	return f->result;
}

static int take_schema(void *arg, struct tfs_bytes text, int64_t mtime_us, const char **why)
{
	return 0;
}

static int feed_pieces(struct import *im, struct tfs_bytes in, size_t most)
{
	int err = 0;

	while (in.n && !err) {
		size_t n = 1 + (size_t)rand() % most;
		uint8_t *copy;

		n = n < in.n ? n : in.n;
		copy = malloc(n); /* so that a read after its end, or after the call, is found */
		memcpy(copy, in.p, n);
		err = import_feed(im, copy, n);
		free(copy);
		in = tfs_bytes_of(in.p + n, in.n - n);
	}
	return err ? err : import_end(im);
}

/* Imports, and returns what import_end returns. */
static int import_all(struct tfs_table *t, enum bulk_format format, struct tfs_bytes in, size_t most, struct refusals *f)
{
	struct import *im;
	int err;

	assert_int_equal(
		import_new(format, &(struct import_options){.table = t, .arg = f, .refused = note_refused, .schema = take_schema},
			&im),
		0);
	err = feed_pieces(im, in, most);
	import_free(im);
	return err;
}

static void random_cells_return(void **state)
{
	for (enum bulk_format format = BULK_TSV; format <= BULK_TAR; format++) {
		for (unsigned seed = 0; seed < 3; seed++) {
			struct tfs_table *from, *to;
			struct buf first = {0}, second = {0};
			struct refusals f = {0};
			size_t most = seed % 3 == 0 ? 1 << 20 : seed % 3 == 1 ? 5000 : 61;

			srand(seed + 1);
			from = table_new("from");
			to = table_new("to");
			for (int i = 0; i < 100; i++)
				put_random_cell(from);
			export_all(from, format, &first);
			for (int again = 0; again < 2; again++) {
				assert_int_equal(import_all(to, format, buf_bytes(&first), most, &f), 0);
				assert_int_equal(f.text.n, 0);
				buf_reset(&second);
				export_all(to, BULK_TSV, &second);
			}
			buf_reset(&first);
			export_all(from, BULK_TSV, &first);
			assert_true(bytes_eq(buf_bytes(&first), buf_bytes(&second)));
			table_end(from, "from");
			table_end(to, "to");
			buf_fini(&first);
			buf_fini(&second);
		}
	}
}

static void expect_import(enum bulk_format format, const char *in, int err, const char *refused, const char *stored)
{
	static const size_t pieces[] = {1, 3, 10000};

	for (size_t i = 0; i < 3; i++) {
		struct tfs_table *t = table_new("t");
		struct refusals f = {0};
		struct buf out = {0};

		assert_int_equal(import_all(t, format, tfs_str(in), pieces[i], &f), err);
		assert_int_equal(buf_u8(&f.text, 0), 0);
		assert_string_equal((const char *)f.text.p, refused);
		export_all(t, BULK_TSV, &out);
		assert_int_equal(buf_u8(&out, 0), 0);
		assert_string_equal((const char *)out.p, stored);
		buf_fini(&out);
		buf_fini(&f.text);
		table_end(t, "t");
	}
}

#define OK_LINE "r\tf:q\t7\tv\n"
static void bad_lines_of_tsv_are_refused(void **state)
{
	static const char *const cases[][2] = {
		{"r\tf:q\t7\n", "0 it has fewer than four fields: ROW, FAMILY:QUALIFIER, TIMESTAMP, VALUE, with tabs between them"},
		{"\n", "0 it has fewer than four fields: ROW, FAMILY:QUALIFIER, TIMESTAMP, VALUE, with tabs between them"},
		{"r\tf:q\t7\tv\tw\n", "0 it has more than four fields; a tab in a value is written \\t"},
		{"r\tfq\t7\tv\n", "0 the second field is not FAMILY:QUALIFIER"},
		{"r\tf:q\t07\tv\n", "0 the third field is not a timestamp: a decimal number of 64 bits, or empty"},
		{"r\tf:q\t9223372036854775808\tv\n", "0 the third field is not a timestamp: a decimal number of 64 bits, or empty"},
		{"r\tf:q\t7\tv\r\n", "0 it contains a carriage return, which is written \\r"},
		{"r\tf:q\t7\tv\\q\n", "0 a backslash begins no escape"},
		{"r\tf:q\t7\tv\\xg0\n", "0 a backslash begins no escape"},
		{"r\tf:q\t7\tv\\\n", "0 a backslash begins no escape"},
		{"r\tf:q\t7\tv\\x4\n", "0 a backslash begins no escape"},
		{"\tf:q\t7\tv\n", "0 the row key is empty"},
		{"r\t:q\t7\tv\n", "0 not the name of a family: it matches [A-Za-z0-9_][A-Za-z0-9_.-]{0,63}"},
		{"r\tno:q\t7\tv\n", "-2 the table has no such family"},
		{"r\tn:q\t\tv\n", "0 the value of a counter is one decimal number"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		char in[200], refused[200];

		snprintf(in, sizeof(in), OK_LINE "%s" OK_LINE "s\tf:\t8\tlast", cases[i][0]);
		snprintf(refused, sizeof(refused), "2 %s\n", cases[i][1]);
		expect_import(BULK_TSV, in, 0, refused, OK_LINE "s\tf:\t8\tlast\n");
	}
}

#define OK_JSON "{\"row\":\"r\",\"family\":\"f\",\"qualifier\":\"q\",\"timestamp\":7,\"value\":\"v\"}\n"
static void bad_lines_of_json_are_refused(void **state)
{
	static const char rest[] = "\"family\":\"f\",\"qualifier\":\"q\",\"timestamp\":7,\"value\":\"v\"}\n";
	static const char *const cases[][2] = {
		{"{\"row\":\"r\",", "0 it is not one object of JSON"},
		{"[]\n", "0 it is not one object of JSON"},
		{"{}\n", "0 it has no member row"},
		{"{\"row\":\"r\",\"family\":\"f\",\"qualifier\":\"q\",\"timestamp\":7}\n", "0 it has no member value"},
		{"{\"row\":\"r\",\"family\":\"f\",\"qualifier\":\"q\",\"timestamp\":7.5,\"value\":\"v\"}\n",
			"0 the timestamp is not a whole number of 64 bits"},
		{"{\"row\":\"r\",\"family\":\"f\",\"qualifier\":\"q\",\"timestamp\":\"7\",\"value\":\"v\"}\n",
			"0 the timestamp is not a number"},
		{"{\"row\":\"r\",\"row\":\"r\",", "0 a member occurs twice"},
		{"{\"row\":\"r\",\"row_base64\":\"cg==\",", "0 a member occurs twice"},
		{"{\"rows\":\"r\",",
			"0 it has a member that is none of row, family, qualifier, timestamp, value and their _base64"},
		{"{\"row\":7,", "0 a member is not a string"},
		{"{\"row\":\"\\q\",", "0 a backslash begins no escape of JSON"},
		{"{\"row\":\"\\u00\",", "0 \\u is not followed by a character in four hexadecimal digits"},
		{"{\"row\":\"\\udc00\",", "0 \\u is not followed by a character in four hexadecimal digits"},
		{"{\"row\":\"\\ud800\\u0041\",", "0 a surrogate \\uD800 to \\uDBFF is not followed by its second half"},
		{"{\"row\":\"\xff\",", "0 a string is not valid UTF-8; other bytes are written in a member _base64"},
		{"{\"row\":\"\t\",", "0 a string contains a control byte that is not escaped"},
		{"{\"row_base64\":\"cg\",", "0 a member _base64 is not base64"},
		{"{\"row_base64\":\"cg=a\",", "0 a member _base64 is not base64"},
		{"{\"row_base64\":\"ch==\",", "0 a member _base64 is not base64"},
		{"{\"row_base64\":\"c*==\",", "0 a member _base64 is not base64"},
		{"{\"row\":\"r\"}", "0 it is not one object of JSON"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		bool whole = cases[i][0][strlen(cases[i][0]) - 1] == '\n';
		char in[700], refused[200];

		snprintf(in, sizeof(in), OK_JSON "%s%s" OK_JSON, cases[i][0], whole ? "" : rest);
		snprintf(refused, sizeof(refused), "2 %s\n", cases[i][1]);
		if (i > 0)
			expect_import(BULK_JSONL, in, 0, refused, OK_LINE);
	}
	expect_import(BULK_JSONL,
		" { \"value\" : \"\\u00fc\\ud83d\\ude00\\n\\/\" , \"timestamp\" : -3 , \"qualifier_base64\" : \"/w==\" , \"family\":\"f\", "
		"\"row\":\"a\\tb\"} \n",
		0, "", "a\\tb\tf:\\xFF\t-3\t\xc3\xbc\xf0\x9f\x98\x80\\n/\n");
}

static bool stop_first(void *arg)
{
	unsigned *asked = arg;

	return (*asked)++ == 0;
}

/* The first scan of CSV finds a cell each time, and is interrupted nevertheless. */
static void wide_csv_can_be_interrupted(void **state)
{
	struct tfs_table *t = table_new("t");
	unsigned asked = 0;
	struct tfs_scan_spec spec = {.stop = stop_first, .stop_arg = &asked};
	struct bulk_stream *s;
	struct buf out = {0};
	size_t lines = 0;
	int r;

	for (int i = 0; i < 3000; i++) {
		char row[16];
		struct tfs_mutation *m = tfs_mutation_new(t, tfs_bytes_of(row, (size_t)snprintf(row, sizeof(row), "%d", i)));

		assert_int_equal(tfs_mutation_put(m, "f", TFS_S("q"), tfs_at(1), TFS_S("v")), 0);
		assert_int_equal(tfs_apply(m, 0, NULL), 0);
		tfs_mutation_free(m);
	}
	assert_int_equal(bulk_stream_new(t, BULK_CSV, &spec, &s), 0);
	assert_int_equal(bulk_stream_read(s, 100, &out), -EINTR);
	assert_int_equal(out.n, 0);
	do
		r = bulk_stream_read(s, out.n + 1000, &out);
	while (r > 0);
	assert_int_equal(r, 0);
	assert_true(bytes_has_prefix(buf_bytes(&out), TFS_S("key,f:q\n0,v\n1,v\n")));
	for (size_t i = 0; i < out.n; i++)
		lines += out.p[i] == '\n';
	assert_int_equal(lines, 3001);
	bulk_stream_free(s);
	buf_fini(&out);
	table_end(t, "t");
}

static void cells_without_timestamp_are_new(void **state)
{
	struct tfs_table *t = table_new("t");
	struct refusals f = {0};
	struct tfs_info info;

	assert_int_equal(import_all(t, BULK_TSV, tfs_str("r\tf:q\t\tv\n"), 100, &f), 0);
	assert_int_equal(tfs_stat(t, TFS_S("r"), "f", TFS_S("q"), TFS_AUTO, &info), 0);
	assert_true(info.ts > 1600000000000000);
	assert_int_equal(
		import_all(t, BULK_JSONL, tfs_str("{\"row\":\"s\",\"family\":\"f\",\"qualifier\":\"\",\"value\":\"v\"}"), 100, &f),
		0);
	assert_int_equal(tfs_stat(t, TFS_S("s"), "f", TFS_S(""), TFS_AUTO, &info), 0);
	assert_true(info.ts > 1600000000000000);
	table_end(t, "t");
}

static void a_refusal_may_end_the_import(void **state)
{
	struct tfs_table *t = table_new("t");
	struct refusals f = {.result = -EINVAL};
	struct buf out = {0};

	assert_int_equal(import_all(t, BULK_TSV, tfs_str(OK_LINE "wrong\ns\tf:q\t7\tv\n"), 100, &f), -EINVAL);
	export_all(t, BULK_TSV, &out);
	assert_true(bytes_eq(buf_bytes(&out), tfs_str(OK_LINE)));
	buf_fini(&out);
	buf_fini(&f.text);
	table_end(t, "t");
}

/* An archive that is cut off anywhere is refused, and the cells before the cut are stored. */
static void archives_that_are_cut_off_are_refused(void **state)
{
	struct tfs_table *from = table_new("from");
	struct buf all = {0};

	srand(3);
	for (int i = 0; i < 5; i++)
		put_random_cell(from);
	export_all(from, BULK_TAR, &all);
	assert_int_equal(all.n % 10240, 0);
	while (all.n && !all.p[all.n - 1])
		all.n--;
	for (size_t n = 1; n < all.n; n += 511) {
		struct tfs_table *to = table_new("to");
		struct refusals f = {0};

		assert_int_equal(import_all(to, BULK_TAR, tfs_bytes_of(all.p, n), 1000, &f), -EBADMSG);
		assert_true(f.text.n > 0);
		buf_fini(&f.text);
		table_end(to, "to");
	}
	buf_fini(&all);
	table_end(from, "from");
}

static void bad_archives_are_refused(void **state)
{
	static const char text[] = "this is not an archive of tar at all; it is a text of a length that is more than one block "
				   "of an archive, which has five hundred and twelve bytes, so that the reader of archives has "
				   "enough of it to know.  It repeats: this is not an archive of tar at all; it is a text of a "
				   "length that is more than one block of an archive, which has five hundred and twelve bytes, so "
				   "that the reader of archives has enough of it to know.  It repeats: this is not an archive of "
				   "tar at all; it is a text of a length that is more than one block of an archive.";
	struct tfs_table *t = table_new("t");
	struct refusals f = {0};

	assert_int_equal(import_all(t, BULK_TAR, tfs_str(text), 10000, &f), -EBADMSG);
	assert_true(f.text.n > 0);
	buf_fini(&f.text);
	assert_int_equal(import_all(t, BULK_TAR, tfs_bytes_of(NULL, 0), 10000, &f), 0);
	assert_int_equal(f.text.n, 0);
	table_end(t, "t");
}

static int open_store(void **state)
{
	return tfs_open("unused", NULL, &store, NULL);
}

static int close_store(void **state)
{
	return tfs_close(store);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_cells_return),
		cmocka_unit_test(bad_lines_of_tsv_are_refused),
		cmocka_unit_test(bad_lines_of_json_are_refused),
		cmocka_unit_test(wide_csv_can_be_interrupted),
		cmocka_unit_test(cells_without_timestamp_are_new),
		cmocka_unit_test(a_refusal_may_end_the_import),
		cmocka_unit_test(archives_that_are_cut_off_are_refused),
		cmocka_unit_test(bad_archives_are_refused),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, open_store, close_store);
}
