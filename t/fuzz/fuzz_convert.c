/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lock service's file convert/TABLE from any bytes.  What decodes lies
 * inside the input, rises, and encodes to the same bytes (varints have one
 * form).
 */
#include "master/convert_format.h"

#include <errno.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t fuzz_example(unsigned i, const uint8_t **data);

#define CHECK(x)                 \
	do {                     \
		if (!(x))        \
			abort(); \
	} while (0)

static void inside(struct slice outer, struct slice inner)
{
	CHECK(inner.n == 0 || (inner.p >= outer.p && inner.p + inner.n <= outer.p + outer.n));
}

static bool rising(const uint8_t *ids, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		if (load_be16(ids + 2 * i) <= (i ? load_be16(ids + 2 * i - 2) : 0))
			return false;
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct slice in = slice_of(data, size), families;
	struct reader r = reader_of(in);
	struct convert_key k = {0}, before;
	struct buf again = {0};
	uint16_t *ids;
	unsigned count;
	bool salt;
	int n;

	if (convert_head_decode(&r, &salt, &families, &count)) {
		unsigned n_ids = size < 2 ? 0 : load_be16(data) & ~CONVERT_SALT;

		CHECK(size < 2 || load_be16(data) == 0 || size < 2u + 2u * n_ids || !rising(data + 2, n_ids));
		return 0;
	}
	CHECK((count > 0 || salt) && families.n == 2 * (size_t)count && rising(families.p, count));
	inside(in, families);
	ids = malloc(families.n + 1);
	CHECK(ids);
	for (unsigned i = 0; i < count; i++)
		ids[i] = load_be16(families.p + 2 * i);
	CHECK(convert_head_encode(salt, ids, count, &again) == 0);
	for (before = k; (n = convert_twin_decode(&r, &k)) > 0; before = k) {
		CHECK(convert_key_cmp(&before, &k) < 0 && convert_key_cmp(&k, &before) > 0);
		inside(in, k.row);
		inside(in, k.qualifier);
		CHECK(convert_twin_encode(&k, &again) == 0);
	}
	CHECK(n == 0 || n == -EBADMSG);
	CHECK(again.n <= size && memcmp(again.p, data, again.n) == 0 && (n < 0 || again.n == size));
	free(ids);
	buf_fini(&again);
	return 0;
}

size_t fuzz_example(unsigned i, const uint8_t **data)
{
	static const uint16_t families[] = {1, 700};
	struct convert_key k = {.family = 700, .row = slice_str("com.cnn.www"), .qualifier = slice_str("visits"), .ts = -5};
	static struct buf b;

	*data = NULL;
	if (i > 4)
		return 0;
	buf_reset(&b);
	CHECK(convert_head_encode(i > 2, families, i == 3 ? 0 : i ? 2 : 1, &b) == 0);
	for (unsigned n = 0; n < i && i != 3; n++, k.ts--)
		CHECK(convert_twin_encode(&k, &b) == 0);
	*data = b.p;
	return b.n;
}
