/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A mutation's result from any bytes; the first byte is the number of its
 * operations.  Results that were decoded, encoded and decoded again are the same.
 */
#include "engine/tablet/tokens_format.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t fuzz_example(unsigned i, const uint8_t **data);

#define CHECK(x)                                                                                                                   \
	do {                                                                                                                       \
		if (!(x))                                                                                                          \
			abort();                                                                                                   \
	} while (0)
#define OPS 8u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct tfs_result results[OPS] = {0}, again[OPS] = {0};
	const uint32_t count = size ? data[0] % (OPS + 1) : 0;
	struct buf b = {0};
	uint32_t failed, failed2;
	int err, err2;

	if (!size || token_result_decode(tfs_bytes_of(data + 1, size - 1), &err, &failed, results, count))
		return 0;
	CHECK(err <= 0);
	CHECK(token_result_decode(tfs_bytes_of(data + 1, size - 1), &err2, &failed2, NULL, count) == 0 && err2 == err);
	CHECK(token_result_encode(results, count, &b) == 0);
	token_result_set_commit(&b, count ? results[0].commit_us : 0);
	if (err)
		token_result_fail(&b, err, failed);
	CHECK(token_result_decode(buf_bytes(&b), &err2, &failed2, again, count) == 0 && err2 == err && failed2 == failed);
	for (uint32_t i = 0; i < count; i++)
		CHECK(results[i].ts == again[i].ts && results[i].counter == again[i].counter && results[i].size == again[i].size &&
			results[i].commit_us == again[i].commit_us && results[i].replaced == again[i].replaced);
	buf_fini(&b);
	return 0;
}

size_t fuzz_example(unsigned i, const uint8_t **data)
{
	static const struct tfs_result results[] = {
		{.ts = -5, .counter = 70, .size = 1u << 20}, {.ts = INT64_MAX, .replaced = true}};
	static struct buf b, result;

	if (i > 1)
		return 0;
	buf_reset(&b);
	CHECK(token_result_encode(results, 2, &result) == 0);
	token_result_set_commit(&result, 1307099848000000);
	if (i)
		token_result_fail(&result, -125, 2);
	CHECK(buf_u8(&b, 2) == 0 && buf_append_bytes(&b, buf_bytes(&result)) == 0);
	*data = b.p;
	return b.n;
}
