/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cell keys and GC rules from any bytes.  The first byte selects one.  A key that
 * parses must be canonical (encoded again it gives the same bytes), with
 * consistent lengths and prefixes.  A rule that parses must be monotone.
 */
#include <errno.h>
#include <stdlib.h>

#include "engine/cell/cellkey.h"
#include "engine/cell/gc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t fuzz_example(unsigned i, const uint8_t **data);

#define CHECK(x)                                                                                                                   \
	do {                                                                                                                       \
		if (!(x))                                                                                                          \
			abort();                                                                                                   \
	} while (0)

static void try_key(struct tfs_bytes key)
{
	struct buf scratch = {0}, again = {0};
	size_t row_len = cellkey_row_len(key), column_len = cellkey_column_len(key);
	struct cellkey k;

	CHECK(row_len <= key.n && column_len <= key.n);
	if (cellkey_decode(key, &k, &scratch) == 0) {
		enum cell_kind kind;
		uint64_t seq;
		int64_t ts, commit;

		CHECK(row_len && column_len >= row_len + 4);
		CHECK(cellkey_append(&again, &k) == 0);
		CHECK(bytes_eq(buf_bytes(&again), key));
		cellkey_suffix(key, column_len, &ts, &seq, &kind);
		CHECK(ts == k.ts && seq == k.seq && kind == k.kind);
		if (kind == CELL_VALUE)
			CHECK(cellkey_commit(key, column_len, ts, &commit) && commit == k.commit);
		buf_reset(&again);
		CHECK(cellkey_row_prefix(&again, k.row) == 0 && again.n == row_len);
		CHECK(bytes_has_prefix(key, buf_bytes(&again)));
		buf_reset(&again);
		CHECK(cellkey_row_after(&again, k.row) == 0);
		CHECK(bytes_cmp(key, buf_bytes(&again)) < 0);
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
		try_key(tfs_bytes_of(data + 1, size - 1));
	else
		try_rule(data + 1, size - 1);
	return 0;
}

size_t fuzz_example(unsigned i, const uint8_t **data)
{
	static const char *const rules[] = {
		"0maxversions=3",
		"0maxage=7d",
		"0maxversions=3 or maxage=12h",
		"0(maxversions=2 or maxage=3us) and maxage=1w",
		"0 maxversions = 1 and ( maxage=5ms or maxage=6m ) ",
	};
	static struct buf b;
	const unsigned rule_count = sizeof(rules) / sizeof(rules[0]);
	struct cellkey k = {.row = tfs_bytes_of("r\0\xffow", 5),
		.qualifier = tfs_bytes_of("q\0", 2),
		.family = 258,
		.ts = 7,
		.seq = 9,
		.commit = 1307099848000000};

	if (i < rule_count) {
		*data = (const uint8_t *)rules[i];
		return strlen(rules[i]);
	}
	*data = NULL;
	if (i - rule_count >= CELL_VALUE)
		return 0;
	k.kind = (enum cell_kind)(i - rule_count + 1);
	buf_reset(&b);
	CHECK(buf_u8(&b, 1) == 0 && cellkey_append(&b, &k) == 0);
	*data = b.p;
	return b.n;
}
