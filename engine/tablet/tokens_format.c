/* SPDX-License-Identifier: Apache-2.0 */
/* The result of a mutation that a client may repeat, as bytes (tokens_format.h). */
#include "engine/tablet/tokens_format.h"

#include <errno.h>

#define COMMIT_BYTES 8u
#define ERRNO_MAX 4095u

static uint64_t zigzag(int64_t v)
{
	return (uint64_t)v << 1 ^ (uint64_t)(v >> 63);
}

static int64_t unzigzag(uint64_t v)
{
	return (int64_t)(v >> 1 ^ (0 - (v & 1)));
}

int token_result_encode(const struct tfs_result *results, uint32_t count, struct buf *out)
{
	static const uint8_t head[COMMIT_BYTES + 2]; /* no error, no failed operation */
	int err;

	buf_reset(out);
	err = buf_reserve(out, TOKEN_RESULT_LEAST + (size_t)count * 8);
	if (!err)
		err = buf_append(out, head, sizeof head);
	for (uint32_t i = 0; i < count && !err; i++)
		if (buf_varint(out, zigzag(results[i].ts)) || buf_varint(out, zigzag(results[i].counter)) ||
			buf_varint(out, results[i].size) || buf_u8(out, results[i].replaced))
			err = -ENOMEM;
	return err;
}

void token_result_set_commit(struct buf *b, int64_t commit_us)
{
	put_be64(b->p, (uint64_t)commit_us);
}

void token_result_fail(struct buf *b, int err, uint32_t failed_op)
{
	b->n = COMMIT_BYTES;
	memset(b->p, 0, b->n);
	(void)!buf_varint(b, (uint64_t)-err); /* within the capacity: 2 and 5 bytes */
	(void)!buf_varint(b, failed_op);
}

static bool result_get(struct reader *r, struct tfs_result *out)
{
	uint64_t ts, counter, size;
	uint8_t replaced;

	if (!get_varint(r, &ts) || !get_varint(r, &counter) || !get_varint(r, &size) || !get_u8(r, &replaced) || replaced > 1)
		return false;
	*out = (struct tfs_result){.ts = unzigzag(ts), .counter = unzigzag(counter), .size = size, .replaced = replaced};
	return true;
}

int token_result_decode(struct tfs_bytes in, int *err, uint32_t *failed_op, struct tfs_result *results, uint32_t count)
{
	struct reader r = reader_of(in);
	uint64_t commit, error, failed;
	uint32_t n = 0;

	if (!get_be64(&r, &commit) || !get_varint(&r, &error) || !get_varint(&r, &failed) || error > ERRNO_MAX ||
		failed > (error ? count : 0) || (error && reader_left(&r)))
		return -EBADMSG;
	for (; reader_left(&r); n++) {
		struct tfs_result one;

		if (n == count || !result_get(&r, &one))
			return -EBADMSG;
		one.commit_us = (int64_t)commit;
		if (results)
			results[n] = one;
	}
	if (!error && n && n != count)
		return -EBADMSG;
	if (!n && results)
		memset(results, 0, count * sizeof *results);
	*err = -(int)error;
	*failed_op = (uint32_t)failed;
	return 0;
}
