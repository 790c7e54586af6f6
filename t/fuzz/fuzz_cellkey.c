/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cell keys and GC rules from any bytes.  The first byte chooses: keys must
 * be canonical when they parse (encoding them again gives the same bytes),
 * and their lengths and prefixes agree; rules that parse must be monotone.
 */
#include <errno.h>
#include <stdlib.h>

#include "engine/store/cellkey.h"
#include "engine/store/gc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(x)                 \
	do {                     \
		if (!(x))        \
			abort(); \
	} while (0)

static void try_key(struct slice key)
{
	struct buf scratch = {0}, again = {0};
	size_t row_len = cellkey_row_len(key), column_len = cellkey_column_len(key);
	struct cellkey k;

	CHECK(row_len <= key.n && column_len <= key.n);
	if (cellkey_parse(key, &k, &scratch)) {
		enum cell_kind kind;
		uint64_t seq;
		int64_t ts;

		CHECK(row_len && column_len >= row_len + 4);
		CHECK(cellkey_append(&again, &k) == 0);
		CHECK(slice_eq(buf_slice(&again), key));
		CHECK(again.n <= cellkey_max_bytes(&k));
		cellkey_suffix(key, column_len, &ts, &seq, &kind);
		CHECK(ts == k.ts && seq == k.seq && kind == k.kind);
		buf_reset(&again);
		CHECK(cellkey_row_prefix(&again, k.row) == 0 && again.n == row_len);
		CHECK(slice_has_prefix(key, buf_slice(&again)));
		buf_reset(&again);
		CHECK(cellkey_row_after(&again, k.row) == 0);
		CHECK(slice_cmp(key, buf_slice(&again)) < 0);
	}
	buf_fini(&scratch);
	buf_fini(&again);
}

static void try_rule(const uint8_t *data, size_t size)
{
	struct gc_rule *r = NULL;
	const char *why = NULL;
	char *text = malloc(size + 1);
	int err;

	CHECK(text);
	memcpy(text, data, size);
	text[size] = 0;
	err = gc_parse(text, &r, &why);
	CHECK(err == 0 || (err == -EINVAL && why));
	if (!err) {
		for (uint64_t i = 0; i < 6; i++) {
			for (int64_t ts = -3; ts < 4; ts++) {
				bool h = gc_hides(r, i, ts, 2);

				CHECK(!h || (gc_hides(r, i + 1, ts, 2) && gc_hides(r, i, ts - 1, 2) && gc_hides(r, i, ts, 3)));
				CHECK(h || i < gc_max_versions(r));
			}
		}
	}
	gc_free(r);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	if (data[0] & 1)
		try_key(slice_of(data + 1, size - 1));
	else
		try_rule(data + 1, size - 1);
	return 0;
}
