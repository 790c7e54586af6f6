/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of the two services from any bytes.  The first byte selects request or
 * answer, tablet or master, and the method of an answer.  A message that unpacks must
 * pack, and the result must unpack and pack to the same bytes.
 */
#include "engine/rpc/master_service.h"
#include "engine/rpc/tablet_service.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t fuzz_example(unsigned i, const uint8_t **data);

#define CHECK(x)                                                                                                                   \
	do {                                                                                                                       \
		if (!(x))                                                                                                          \
			abort();                                                                                                   \
	} while (0)
#define OPS 3u

static void ts_request(struct tfs_bytes in)
{
	struct arena a1 = {0}, a2 = {0};
	struct buf x = {0}, y = {0};
	struct ts_request q, again;

	if (ts_request_unpack(in, &a1, &q) == 0) {
		CHECK(ts_request_pack(&q, &x) == 0);
		CHECK(ts_request_unpack(buf_bytes(&x), &a2, &again) == 0);
		CHECK(ts_request_pack(&again, &y) == 0);
		CHECK(bytes_eq(buf_bytes(&x), buf_bytes(&y)));
	}
	arena_fini(&a1);
	arena_fini(&a2);
	buf_fini(&x);
	buf_fini(&y);
}

static void ts_answer(unsigned method, struct tfs_bytes in)
{
	static uint8_t into[1000];
	const struct row_mutation rows[OPS] = {{.op_count = OPS}};
	const struct ts_request q = {.method = (enum ts_method)(1 + method % (TS_METHODS - 1)),
		.rows = rows,
		.row_count = method / (TS_METHODS - 1) % 2 ? 1 : OPS,
		.into = into,
		.length = sizeof into};
	struct tfs_result results[OPS] = {0};
	int row_errs[OPS] = {0};
	struct ts_answer a = {.results = results, .row_errs = row_errs}, again = a;
	struct buf x = {0}, y = {0};

	if (ts_answer_unpack(in, &q, &a) == 0) {
		CHECK(ts_answer_pack(&q, &a, &x) == 0);
		CHECK(ts_answer_unpack(buf_bytes(&x), &q, &again) == 0);
		CHECK(ts_answer_pack(&q, &again, &y) == 0);
		CHECK(bytes_eq(buf_bytes(&x), buf_bytes(&y)));
	}
	ts_answer_fini(&a);
	ts_answer_fini(&again);
	buf_fini(&x);
	buf_fini(&y);
}

static void ms_request(struct tfs_bytes in)
{
	struct arena a1 = {0}, a2 = {0};
	struct buf x = {0}, y = {0};
	struct ms_request q, again;

	if (ms_request_unpack(in, &a1, &q) == 0) {
		CHECK(ms_request_pack(&q, &x) == 0);
		CHECK(ms_request_unpack(buf_bytes(&x), &a2, &again) == 0);
		CHECK(ms_request_pack(&again, &y) == 0);
		CHECK(bytes_eq(buf_bytes(&x), buf_bytes(&y)));
	}
	arena_fini(&a1);
	arena_fini(&a2);
	buf_fini(&x);
	buf_fini(&y);
}

static void ms_answer(struct tfs_bytes in)
{
	const struct ms_request q = {.method = MS_TABLE_DROP};
	struct ms_answer a = {0}, again = {0};
	struct buf x = {0}, y = {0};

	if (ms_answer_unpack(in, &q, &a) == 0) {
		CHECK(ms_answer_pack(&q, &a, &x) == 0);
		CHECK(ms_answer_unpack(buf_bytes(&x), &q, &again) == 0);
		CHECK(ms_answer_pack(&q, &again, &y) == 0);
		CHECK(bytes_eq(buf_bytes(&x), buf_bytes(&y)));
	}
	ms_answer_fini(&a);
	ms_answer_fini(&again);
	buf_fini(&x);
	buf_fini(&y);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct tfs_bytes rest;

	if (!size)
		return 0;
	rest = tfs_bytes_of(data + 1, size - 1);
	if (data[0] % 4 == 0)
		ts_request(rest);
	else if (data[0] % 4 == 1)
		ts_answer(data[0] / 4, rest);
	else if (data[0] % 4 == 2)
		ms_request(rest);
	else
		ms_answer(rest);
	return 0;
}

static void example_request(struct buf *b)
{
	static const struct tfs_range range = {5, {(const uint8_t *)"bytes", 5}};
	static const uint16_t families[] = {1, 700};
	const struct op ops[] = {{.kind = OP_WRITE,
					 .family = 3,
					 .w.qualifier = tfs_str("q"),
					 .w.place = {.when = TFS_NEWEST, .us = -1},
					 .w.base = TFS_BASE_NEWEST,
					 .w.truncate_to = UINT64_MAX,
					 .w.ranges = &range,
					 .w.range_count = 1,
					 .w.append = tfs_str("more")},
		{.kind = OP_MOVE,
			.family = 3,
			.to_family = 4,
			.w.qualifier = tfs_str("q"),
			.to_qualifier = tfs_str("r"),
			.noreplace = true},
		{.kind = OP_INCREMENT, .family = 1, .by = -7, .value = tfs_str("")}};
	const struct row_mutation rows[] = {{tfs_str("r1"), ops, 2, 4}, {tfs_str("r2"), ops + 2, 1, 5}};
	const struct scan_spec spec = {.pub.what = TFS_SCAN_HASHES,
		.pub.row_from = tfs_str("a"),
		.family_ids = families,
		.pub.family_count = 2,
		.pub.limit = 9};
	const struct ts_request q = {.method = TS_MUTATE,
		.table = 16,
		.row = tfs_str("com.cnn.www"),
		.token = {1, 2, 3},
		.epoch = 4,
		.assignment = 5,
		.time_left_us = 6,
		.term = 7,
		.spec = &spec,
		.length = 100,
		.rows = rows,
		.row_count = 2};

	CHECK(buf_u8(b, 0) == 0 && ts_request_pack(&q, b) == 0);
}

static void example_mutated(struct buf *b)
{
	const struct row_mutation row = {.op_count = OPS};
	const struct ts_request q = {.method = TS_MUTATE, .rows = &row, .row_count = 1};
	struct tfs_result results[OPS] = {
		{.ts = 5, .counter = -1, .size = 9, .replaced = true}, {.ts = INT64_MIN}, {.size = UINT64_MAX}};
	const struct ts_answer a = {.results = results};

	CHECK(buf_u8(b, 1 + 4 * (TS_MUTATE - 1)) == 0 && ts_answer_pack(&q, &a, b) == 0);
}

static void example_rows(struct buf *b)
{
	const struct ts_request q = {.method = TS_MUTATE, .row_count = OPS};
	int row_errs[OPS] = {0, -2, -78};
	const struct ts_answer a = {.row_errs = row_errs};

	CHECK(buf_u8(b, 1 + 4 * (TS_MUTATE - 1)) == 0 && ts_answer_pack(&q, &a, b) == 0);
}

static void example_info(struct buf *b)
{
	const struct ts_request q = {.method = TS_TABLET_INFO};
	const struct ts_answer a = {.tablet = {.begin = tfs_str("a"),
					    .end = tfs_str("m"),
					    .disk_bytes = 5,
					    .raw_bytes = 6,
					    .memory_bytes = 7,
					    .cells = 8,
					    .tombstones = 9,
					    .files = 10,
					    .memtables = 1,
					    .server = tfs_str("local"),
					    .state = tfs_str("serving")}};

	CHECK(buf_u8(b, 1 + 4 * (TS_TABLET_INFO - 1)) == 0 && ts_answer_pack(&q, &a, b) == 0);
}

static void example_answer(struct buf *b)
{
	static uint8_t into[10] = "123456789";
	struct tfs_cell cells[] = {
		{.row = tfs_str("r"), .qualifier = tfs_str(""), .value = tfs_str("v"), .family_id = 1, .ts = 5, .size = 1},
		{.row = tfs_str("r"), .qualifier = tfs_str("q"), .family_id = 2, .size = 1 << 20}};
	const struct ts_request q = {.method = TS_READ, .into = into, .length = sizeof into};
	const struct ts_answer a = {.got = 5,
		.ts = 9,
		.size = 50,
		.exists = true,
		.scan = 7,
		.tablet_end = tfs_str("m"),
		.batch = {.cells = cells, .count = 2, .cap = 2}};

	CHECK(buf_u8(b, 1 + 4 * (TS_READ - 1)) == 0 && ts_answer_pack(&q, &a, b) == 0);
}

static void example_master(struct buf *b, bool answer)
{
	static const struct tfs_schema_edit edit = {.op = TFS_SCHEMA_FAMILY_GC, .name = "f", .value = "maxversions=1"};
	const struct ms_request q = {
		.method = MS_SCHEMA_CHANGE, .name = "webtable", .to = "", .text = tfs_str("salt = 0;"), .edit = &edit};
	char why[] = "line 3";
	struct ms_answer a = {.err = -22, .why = why};
	struct schema *s;

	CHECK(buf_u8(b, answer ? 3 : 2) == 0);
	if (!answer) {
		CHECK(ms_request_pack(&q, b) == 0);
		return;
	}
	CHECK(schema_new("t", 16, 0, 0, 0755, 1, &s) == 0);
	a.schema = s;
	CHECK(ms_answer_pack(&q, &a, b) == 0);
	schema_put(s);
}

size_t fuzz_example(unsigned i, const uint8_t **data)
{
	static struct buf b;

	buf_reset(&b);
	if (i == 0)
		example_request(&b);
	else if (i == 1)
		example_answer(&b);
	else if (i < 4)
		example_master(&b, i == 3);
	else if (i == 4)
		example_mutated(&b);
	else if (i == 5)
		example_info(&b);
	else if (i == 6)
		example_rows(&b);
	else
		return 0;
	*data = b.p;
	return b.n;
}
