/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The frame reader and the messages of connections from any bytes.  The first byte is the
 * size of the parts that arrive; if it is even, answers in pieces are joined.  A frame has the length that its header states, and a reader never
 * has more memory than has arrived.  A message that unpacks must pack, and unpack to the
 * same again.
 */
#include "engine/rpc/frame.h"
#include "engine/rpc/hello.h"
#include "engine/rpc/store_service.h"

#include <errno.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t fuzz_example(unsigned i, const uint8_t **data);

#define CHECK(x)                                                                                                                   \
	do {                                                                                                                       \
		if (!(x))                                                                                                          \
			abort();                                                                                                   \
	} while (0)

static void hello(struct tfs_bytes in)
{
	struct arena a = {0};
	struct hello h = {0}, again = {0};
	struct buf x = {0}, y = {0};

	if (hello_unpack(in, &a, &h) == 0) {
		CHECK(hello_pack(&h, &x) == 0);
		CHECK(hello_unpack(buf_bytes(&x), &a, &again) == 0);
		CHECK(hello_pack(&again, &y) == 0);
		CHECK(bytes_eq(buf_bytes(&x), buf_bytes(&y)));
	}
	arena_fini(&a);
	buf_fini(&x);
	buf_fini(&y);
}

static void notice(struct tfs_bytes in)
{
	struct arena a = {0};
	struct notice n = {0};
	struct buf x = {0};

	if (notice_unpack(in, &a, &n) == 0)
		CHECK(notice_pack(&n, &x) == 0);
	arena_fini(&a);
	buf_fini(&x);
}

static void store(struct tfs_bytes in, bool answer)
{
	struct arena a = {0};
	struct ss_request q = {0};
	struct ss_answer sa = {0};
	struct buf x = {0}, copy = {0};

	if (answer) {
		CHECK(buf_append_bytes(&copy, in) == 0);
		if (ss_answer_unpack(&copy, &sa) == 0)
			CHECK(ss_answer_pack(&sa, &x) == 0);
		ss_answer_fini(&sa);
		buf_fini(&copy);
	} else if (ss_request_unpack(in, &a, &q) == 0) {
		CHECK(ss_request_pack(&q, &x) == 0);
	}
	arena_fini(&a);
	buf_fini(&x);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct frame_reader r = {.most = FRAME_SMALL_MAX, .joins = size && data[0] % 2 == 0};
	const size_t piece = size ? data[0] + 1u : 1;
	int got = 0;

	for (size_t at = 1; at < size && got >= 0; at += piece) {
		struct tfs_bytes in = {data + at, size - at < piece ? size - at : piece};

		while (in.n && (got = frame_read(&r, &in)) >= 0) {
			CHECK(r.frame.body.cap <= 2 * size + 64);
			if (got != 1)
				continue;
			CHECK(r.frame.body.n == r.frame.length);
			if (r.frame.kind == FRAME_HELLO)
				hello(buf_bytes(&r.frame.body));
			else if (r.frame.kind == FRAME_NOTICE)
				notice(buf_bytes(&r.frame.body));
			else if (r.frame.service == FRAME_STORE)
				store(buf_bytes(&r.frame.body), r.frame.kind == FRAME_ANSWER);
			buf_fini(&r.frame.body);
		}
	}
	frame_reader_fini(&r);
	return 0;
}

static void add(struct buf *b, enum frame_kind kind, enum frame_service service, struct buf *body)
{
	uint8_t h[FRAME_HEADER];

	frame_header(h, kind, service, 5, (uint32_t)body->n);
	CHECK(buf_append(b, h, sizeof(h)) == 0 && buf_append_bytes(b, buf_bytes(body)) == 0);
	buf_fini(body);
}

/* Two answers in pieces, by turns. */
static void add_pieces(struct buf *b)
{
	static const uint8_t piece[FRAME_PIECE];

	for (unsigned i = 0; i < 4; i++) {
		const uint32_t left = i < 2 ? FRAME_PIECE + 9 : 9;
		uint8_t h[FRAME_HEADER];

		frame_header(h, FRAME_ANSWER, FRAME_STORE, i % 2, left);
		CHECK(buf_append(b, h, sizeof(h)) == 0 && buf_append(b, piece, frame_piece(FRAME_ANSWER, left)) == 0);
	}
}

size_t fuzz_example(unsigned i, const uint8_t **data)
{
	static struct buf b;
	const struct hello h = {
		.version = HELLO_VERSION, .store = tfs_str("0123456789abcdef"), .server = 9, .client = UINT64_MAX, .program = "p"};
	const struct notice_row rows[] = {{16, tfs_str("row"), 3}, {.table = 300}};
	const struct notice n = {.rows = rows, .row_count = 2, .schemas = true};
	const struct ss_request requests[] = {
		{.method = SS_LOCATE, .table = 16, .row = tfs_str("row")}, {.method = SS_PROBE, .probe = {UINT64_MAX, 7, 8, 15}}};
	const struct ss_name names[] = {{"a"}, {"b"}};
	const struct ss_location at = {.begin = tfs_str(""), .server = 3, .assignment = 4};
	const struct ss_answer a = {.names = names,
		.name_count = 2,
		.tablets = &at,
		.tablet_count = 1,
		.bytes = tfs_str("x"),
		.probe_err = -ENOENT,
		.why = "fewer bytes"};
	struct buf body = {0};

	if (i > 4)
		return 0;
	buf_reset(&b);
	CHECK(buf_u8(&b, (uint8_t)(i * 7)) == 0);
	CHECK(hello_pack(&h, &body) == 0);
	add(&b, FRAME_HELLO, 0, &body);
	if (i > 0)
		add(&b, FRAME_PING, 0, &body);
	CHECK(notice_pack(&n, &body) == 0);
	if (i > 1)
		add(&b, FRAME_NOTICE, 0, &body);
	buf_fini(&body);
	CHECK(ss_request_pack(&requests[i % 2], &body) == 0);
	add(&b, FRAME_REQUEST, FRAME_STORE, &body);
	CHECK(ss_answer_pack(&a, &body) == 0);
	if (i > 2)
		add(&b, FRAME_ANSWER, FRAME_STORE, &body);
	buf_fini(&body);
	if (i > 3)
		add_pieces(&b);
	*data = b.p;
	return b.n;
}
