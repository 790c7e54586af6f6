/* SPDX-License-Identifier: Apache-2.0 */
/* A block file's bytes and the codecs: round trips, and each byte damaged in turn. */
#include "engine/sstable/blockfile_format.h"
#include "engine/sstable/codec.h"
#include "engine/sstable/value.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static void block_round_trip(void **state)
{
	uint8_t stored[BFF_BLOCK_HEADER_BYTES + 100];
	struct bff_block b;

	for (unsigned i = 0; i < 100; i++)
		stored[BFF_BLOCK_HEADER_BYTES + i] = (uint8_t)(i * 7);
	bff_block_header(stored, 4096, SST_LZ4, 777, tfs_bytes_of(stored + BFF_BLOCK_HEADER_BYTES, 100));
	assert_int_equal(bff_block_decode(tfs_bytes_of(stored, sizeof(stored)), 4096, &b), 0);
	assert_int_equal(b.codec, SST_LZ4);
	assert_int_equal(b.raw_bytes, 777);
	assert_int_equal(b.payload.n, 100);
	assert_ptr_equal(b.payload.p, stored + BFF_BLOCK_HEADER_BYTES);
	/* read from the wrong place */
	assert_int_equal(bff_block_decode(tfs_bytes_of(stored, sizeof(stored)), 4097, &b), -EBADMSG);
	for (size_t n = 0; n < sizeof(stored); n++)
		assert_int_equal(bff_block_decode(tfs_bytes_of(stored, n), 4096, &b), -EBADMSG);
	for (size_t bit = 0; bit < sizeof(stored) * 8; bit++) {
		stored[bit / 8] ^= (uint8_t)(1u << (bit % 8));
		assert_int_equal(bff_block_decode(tfs_bytes_of(stored, sizeof(stored)), 4096, &b), -EBADMSG);
		stored[bit / 8] ^= (uint8_t)(1u << (bit % 8));
	}
}

/* A good checksum does not make a bad header good. */
static void block_hostile(void **state)
{
	uint8_t stored[BFF_BLOCK_HEADER_BYTES + 8] = {0};
	struct tfs_bytes payload = tfs_bytes_of(stored + BFF_BLOCK_HEADER_BYTES, 8);
	struct bff_block b;

	bff_block_header(stored, 0, BFF_CODEC_AGAINST + 1, 8, payload);
	assert_int_equal(bff_block_decode(tfs_bytes_of(stored, sizeof(stored)), 0, &b), -EBADMSG);
	/* against itself; against one before all */
	bff_block_header(stored, 0, BFF_CODEC_AGAINST, 8, payload);
	assert_int_equal(bff_block_decode(tfs_bytes_of(stored, sizeof(stored)), 0, &b), -EBADMSG);
	memset(stored + BFF_BLOCK_HEADER_BYTES, 0xff, 8);
	bff_block_header(stored, 0, BFF_CODEC_AGAINST, 8, payload);
	assert_int_equal(bff_block_decode(tfs_bytes_of(stored, sizeof(stored)), 0, &b), -EBADMSG);
	stored[BFF_BLOCK_HEADER_BYTES] = 30;
	stored[BFF_BLOCK_HEADER_BYTES + 1] = 31; /* a base that ends behind the unit */
	bff_block_header(stored, 0, BFF_CODEC_AGAINST, 8, payload);
	assert_int_equal(bff_block_decode(tfs_bytes_of(stored, sizeof(stored)), 0, &b), -EBADMSG);
	stored[BFF_BLOCK_HEADER_BYTES + 1] = 12;
	bff_block_header(stored, 0, BFF_CODEC_AGAINST, 8, payload);
	assert_int_equal(bff_block_decode(tfs_bytes_of(stored, sizeof(stored)), 0, &b), 0);
	assert_int_equal(b.back, 30);
	assert_int_equal(b.base_stored, 12);
	assert_int_equal(b.codec, SST_ZSTD);
	assert_int_equal(b.payload.n, 6);
	bff_block_header(stored, 0, SST_NONE, 9, payload);
	assert_int_equal(bff_block_decode(tfs_bytes_of(stored, sizeof(stored)), 0, &b), -EBADMSG);
	bff_block_header(stored, 0, SST_ZSTD, UINT32_MAX, payload);
	assert_int_equal(bff_block_decode(tfs_bytes_of(stored, sizeof(stored)), 0, &b), -EBADMSG);
}

static void map_round_trip(void **state)
{
	/* a unit of 30 bytes in front of the second block, which has all of them as its share.  It and the third have a second copy */
	struct bff_place at[] = {{0, 0, 0, 22, 0}, {10, 52, 22, 30, 30}, {300, 112, 82, 2444, 2444}, {1 << 20, 5000, 2526, 0, 0}};
	const struct bff_map m = {at, 3, 1, 70};
	struct bff_map d;
	struct buf b = {0};

	assert_int_equal(bff_map_encode(&m, &b), 0);
	assert_int_equal(bff_map_decode(buf_bytes(&b), 3, 1 << 20, 5000, &d), 0);
	assert_int_equal(d.n, 3);
	assert_int_equal(d.units, 1);
	assert_int_equal(d.unit_bytes, 70);
	for (size_t i = 0; i <= d.n; i++) {
		assert_int_equal(d.at[i].logical, at[i].logical);
		assert_int_equal(d.at[i].physical, at[i].physical);
		assert_int_equal(d.at[i].before, at[i].before);
		assert_int_equal(d.at[i].stored, at[i].stored);
		assert_int_equal(d.at[i].copy, at[i].copy);
	}
	assert_int_equal(bff_map_find(&d, 0), 0);
	assert_int_equal(bff_map_find(&d, 9), 0);
	assert_int_equal(bff_map_find(&d, 10), 1);
	assert_int_equal(bff_map_find(&d, 299), 1);
	assert_int_equal(bff_map_find(&d, (1 << 20) - 1), 2);
	assert_int_equal(bff_map_find(&d, 1 << 20), -1);
	assert_int_equal(bff_map_find(&d, UINT64_MAX), -1);
	bff_map_fini(&d);
	assert_int_equal(bff_map_find(&d, 0), -1);
	/* sums, counts, lengths that do not fit */
	assert_int_equal(bff_map_decode(buf_bytes(&b), 3, (1 << 20) + 1, 5000, &d), -EBADMSG);
	assert_int_equal(bff_map_decode(buf_bytes(&b), 3, 1 << 20, 5001, &d), -EBADMSG);
	assert_int_equal(bff_map_decode(buf_bytes(&b), 3, 1 << 20, 4999, &d), -EBADMSG);
	assert_int_equal(bff_map_decode(buf_bytes(&b), 2, 1 << 20, 5000, &d), -EBADMSG);
	assert_int_equal(bff_map_decode(buf_bytes(&b), 4, 1 << 20, 5000, &d), -EBADMSG);
	assert_int_equal(bff_map_decode(buf_bytes(&b), UINT64_MAX, 1 << 20, 5000, &d), -EBADMSG);
	for (size_t n = 0; n < b.n; n++)
		assert_int_equal(bff_map_decode(tfs_bytes_of(b.p, n), 3, 1 << 20, 5000, &d), -EBADMSG);
	buf_fini(&b);
	/* a block of no bytes, one larger than may be, one that makes the sum wrap, a gap that does, a share that does, a second copy in the first, one behind the end */
	{
		static const struct {
			uint64_t raw, stored, gap, copy, units, raw_bytes, stored_bytes;
			bool good;
		} cases[] = {{8, 12, 0, 0, 0, 8, 12, true}, {8, 12, 5, 0, 0, 8, 17, true}, {8, 12, 5, 12, 0, 8, 29, true},
			{8, 12, 5, 11, 0, 8, 28, false}, {8, 12, 5, 13, 0, 8, 29, false}, {8, 12, 0, UINT64_MAX, 0, 8, 11, false},
			{0, 12, 0, 0, 0, 0, 12, false},
			{(uint64_t)BFF_RAW_MAX + 1, 12, 0, 0, 0, (uint64_t)BFF_RAW_MAX + 1, 12, false},
			{8, UINT64_MAX, 0, 0, 0, 8, UINT64_MAX, false}, {8, 12, UINT64_MAX - 5, 0, 0, 8, 6, false},
			{8, 12, 0, 0, UINT64_MAX, 8, 12, false}, {8, 12, 0, 0, 13, 8, 12, false}};

		for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
			const uint64_t v[] = {0, 0, cases[i].raw, cases[i].stored, cases[i].gap, cases[i].copy, cases[i].units};
			int err;

			buf_reset(&b);
			for (size_t k = 0; k < sizeof(v) / sizeof(*v); k++)
				assert_int_equal(buf_varint(&b, v[k]), 0);
			err = bff_map_decode(buf_bytes(&b), 1, cases[i].raw_bytes, cases[i].stored_bytes, &d);
			assert_int_equal(err, cases[i].good ? 0 : -EBADMSG);
			if (!err)
				bff_map_fini(&d);
		}
	}
	buf_fini(&b);
}

/* The entries of keys: what was encoded, and what no writer encodes. */
static void entries(void **state)
{
	static const uint8_t lengths[] = {1, 0x80, 2, 3};
	const struct value_ref refs[] = {
		{.place = VALUE_INLINE, .size = 3, .bytes = (const uint8_t *)"abc"},
		{.place = VALUE_INLINE, .size = 0, .bytes = (const uint8_t *)""},
		{.place = VALUE_IN_UNIT, .size = 70, .unit = UINT64_C(1) << 40, .stored = 900, .at = 1000},
		{.place = VALUE_LARGE, .size = 2 * VALUE_UNIT_BYTES + 1, .unit = 5000, .stored_each = {lengths, sizeof(lengths)}},
	};
	struct buf b = {0};
	struct value_ref v;
	uint64_t offset;
	uint32_t stored;

	for (size_t i = 0; i < sizeof(refs) / sizeof(*refs); i++) {
		buf_reset(&b);
		assert_int_equal(value_encode(&b, &refs[i]), 0);
		assert_true(value_decode(buf_bytes(&b), &v));
		assert_int_equal(v.place, refs[i].place);
		assert_int_equal(v.size, refs[i].size);
		assert_int_equal(v.unit, refs[i].unit);
		assert_int_equal(v.stored, refs[i].stored);
		assert_int_equal(v.at, refs[i].at);
		if (v.place == VALUE_INLINE)
			assert_memory_equal(v.bytes, refs[i].bytes, v.size);
		for (size_t n = 0; n < b.n && v.place == VALUE_IN_UNIT; n++)
			assert_false(value_decode(tfs_bytes_of(b.p, n), &v));
	}
	assert_true(value_unit(&v, 0, &offset, &stored) && offset == 5000 && stored == 1);
	assert_true(value_unit(&v, 2, &offset, &stored) && offset == 5001 + 256 && stored == 3);
	assert_false(value_unit(&v, 3, &offset, &stored));
	assert_false(value_decode(tfs_bytes_of(NULL, 0), &v));
	assert_false(value_decode(tfs_bytes_of("\3abc", 4), &v));
	assert_false(value_decode(tfs_bytes_of("\1\x05\x06\x07\x00", 5), &v)); /* no bytes */
	assert_false(value_decode(tfs_bytes_of("\2\x05\x06\x07", 4), &v));     /* 6 bytes are not a large value */
	buf_fini(&b);
}

/* Blocks of one size, with a large block at the end or at the beginning, and of growing sizes. */
static void map_finds_each_block(void **state)
{
	static const struct {
		size_t large;
		uint64_t growth;
	} kinds[] = {{100, 0}, {99, 0}, {0, 0}, {100, 5000}};
	struct bff_place at[101] = {{0}};
	const struct bff_map m = {.at = at, .n = 100};

	for (size_t kind = 0; kind < sizeof(kinds) / sizeof(*kinds); kind++) {
		for (size_t i = 0; i < m.n; i++)
			at[i + 1].logical = at[i].logical + (i == kinds[kind].large ? 1 << 20 : 40 + i * kinds[kind].growth);
		for (size_t i = 0; i < m.n; i++) {
			assert_int_equal(bff_map_find(&m, at[i].logical), (int64_t)i);
			assert_int_equal(bff_map_find(&m, at[i + 1].logical - 1), (int64_t)i);
		}
		assert_int_equal(bff_map_find(&m, at[m.n].logical), -1);
	}
	(void)state;
}

static void filters_round_trip(void **state)
{
	struct bff_filters f;
	struct buf b = {0}, parts = {0};

	assert_int_equal(bff_filters_add(&parts, tfs_str("a"), tfs_str("FILTER1")), 0);
	assert_int_equal(bff_filters_add(&parts, tfs_str("m"), tfs_bytes_of(NULL, 0)), 0);
	assert_int_equal(bff_filters_encode(&b, 2, buf_bytes(&parts), tfs_str("z")), 0);
	assert_int_equal(bff_filters_decode(buf_bytes(&b), 2, &f), 0);
	assert_int_equal(f.n, 2);
	assert_true(bytes_eq(f.part[0].filter, tfs_str("FILTER1")));
	assert_true(bytes_eq(f.part[1].first, tfs_str("m")));
	assert_int_equal(f.part[1].filter.n, 0);
	assert_true(bytes_eq(f.last, tfs_str("z")));
	bff_filters_fini(&f);
	assert_int_equal(bff_filters_decode(buf_bytes(&b), 3, &f), -EBADMSG);
	for (size_t n = 0; n < b.n; n++)
		assert_int_equal(bff_filters_decode(tfs_bytes_of(b.p, n), 2, &f), -EBADMSG);
	assert_int_equal(buf_u8(&b, 0), 0);
	assert_int_equal(bff_filters_decode(buf_bytes(&b), 2, &f), -EBADMSG);
	buf_reset(&b);
	buf_reset(&parts);
	assert_int_equal(bff_filters_add(&parts, tfs_str("m"), tfs_str("1")), 0);
	assert_int_equal(bff_filters_add(&parts, tfs_str("a"), tfs_str("2")), 0);
	assert_int_equal(bff_filters_encode(&b, 2, buf_bytes(&parts), tfs_str("z")), 0);
	assert_int_equal(bff_filters_decode(buf_bytes(&b), 2, &f), -EBADMSG); /* out of order */
	buf_reset(&b);
	buf_reset(&parts);
	assert_int_equal(bff_filters_add(&parts, tfs_str("m"), tfs_str("1")), 0);
	assert_int_equal(bff_filters_encode(&b, 1, buf_bytes(&parts), tfs_str("a")), 0);
	assert_int_equal(bff_filters_decode(buf_bytes(&b), 1, &f), -EBADMSG); /* last before first */
	buf_fini(&b);
	buf_fini(&parts);
}

static struct bff_trailer a_trailer(uint64_t *file_bytes)
{
	struct bff_trailer t = {.version = BFF_VERSION,
		.codec = SST_ZSTD,
		.blocks = 7,
		.raw_bytes = 1ull << 33,
		.keys = 99,
		.partitions = 1,
		.max_raw_block = 65541};
	uint64_t at = 1ull << 32;

	for (unsigned i = 0; i < BFF_SECTIONS; i++) {
		t.section[i] = (struct bff_section){at, 100 * i, i};
		at += 100 * i;
	}
	*file_bytes = at + BFF_TRAILER_BYTES;
	return t;
}

static void trailer_round_trip(void **state)
{
	uint8_t b[BFF_TRAILER_BYTES];
	uint64_t size;
	struct bff_trailer t = a_trailer(&size), d = {0};

	bff_trailer_encode(b, &t);
	assert_int_equal(bff_trailer_decode(tfs_bytes_of(b, sizeof(b)), size, &d), 0);
	assert_int_equal(d.codec, t.codec);
	assert_int_equal(d.blocks, t.blocks);
	assert_int_equal(d.raw_bytes, t.raw_bytes);
	assert_int_equal(d.keys, t.keys);
	assert_int_equal(d.partitions, t.partitions);
	assert_int_equal(d.max_raw_block, t.max_raw_block);
	assert_memory_equal(d.section, t.section, sizeof(d.section));
	/* the file is longer or shorter than its trailer states */
	assert_int_equal(bff_trailer_decode(tfs_bytes_of(b, sizeof(b)), size + 1, &d), -EBADMSG);
	assert_int_equal(bff_trailer_decode(tfs_bytes_of(b, sizeof(b)), size - 1, &d), -EBADMSG);
	assert_int_equal(bff_trailer_decode(tfs_bytes_of(b, sizeof(b)), 100, &d), -EBADMSG);
	assert_int_equal(bff_trailer_decode(tfs_bytes_of(b, sizeof(b) - 1), size, &d), -EBADMSG);
	for (size_t bit = 0; bit < sizeof(b) * 8; bit++) {
		b[bit / 8] ^= (uint8_t)(1u << (bit % 8));
		assert_int_equal(bff_trailer_decode(tfs_bytes_of(b, sizeof(b)), size, &d), -EBADMSG);
		b[bit / 8] ^= (uint8_t)(1u << (bit % 8));
	}
}

static void trailer_hostile(void **state)
{
	uint8_t b[BFF_TRAILER_BYTES];
	uint64_t size;
	struct bff_trailer t = a_trailer(&size), d;

	t.version = BFF_VERSION + 1;
	bff_trailer_encode(b, &t);
	assert_int_equal(bff_trailer_decode(tfs_bytes_of(b, sizeof(b)), size, &d), -EPROTONOSUPPORT);
	t = a_trailer(&size);
	t.section[BFF_FILTERS].offset--; /* overlaps the previous block, leaves a gap */
	bff_trailer_encode(b, &t);
	assert_int_equal(bff_trailer_decode(tfs_bytes_of(b, sizeof(b)), size, &d), -EBADMSG);
	t = a_trailer(&size);
	t.section[BFF_DICTIONARY].bytes = UINT32_MAX;
	t.section[BFF_DICTIONARY].offset = t.section[BFF_FILTERS].offset - UINT32_MAX;
	bff_trailer_encode(b, &t);
	assert_int_equal(bff_trailer_decode(tfs_bytes_of(b, sizeof(b)), size, &d), 0); /* inside the file: its CRC detects that */
	t.section[BFF_DICTIONARY].offset = UINT64_MAX - 5;
	bff_trailer_encode(b, &t);
	assert_int_equal(bff_trailer_decode(tfs_bytes_of(b, sizeof(b)), size, &d), -EBADMSG);
	t = a_trailer(&size);
	t.codec = SST_CODECS;
	bff_trailer_encode(b, &t);
	assert_int_equal(bff_trailer_decode(tfs_bytes_of(b, sizeof(b)), size, &d), -EBADMSG);
	t.codec = (enum sst_codec)BFF_CODEC_AGAINST; /* of blocks only */
	bff_trailer_encode(b, &t);
	assert_int_equal(bff_trailer_decode(tfs_bytes_of(b, sizeof(b)), size, &d), -EBADMSG);
	assert_false(sst_is_codec(BFF_CODEC_AGAINST));
}

static uint32_t next_random(uint32_t *s)
{
	*s = *s * 1664525u + 1013904223u;
	return *s >> 16;
}

static void fill(uint8_t *p, size_t n, bool noise, uint32_t seed)
{
	static const char *const words[] = {"tablet ", "memtable ", "commit ", "log ", "row ", "the ", "of ", "\n"};
	size_t i = 0;

	while (i < n) {
		const char *w = words[next_random(&seed) % 8];

		if (noise)
			p[i++] = (uint8_t)next_random(&seed);
		else
			for (; *w && i < n; w++)
				p[i++] = (uint8_t)*w;
	}
}

static void codecs(void **state)
{
	static const size_t sizes[] = {1, 48, 1000, 65536 + 5, 1600000};

	for (unsigned codec = 0; codec < SST_CODECS; codec++) {
		struct coder *c;

		if (!sst_is_codec(codec))
			continue;
		assert_int_equal(coder_new((enum sst_codec)codec, 3, &c), 0);
		for (unsigned i = 0; i < 2 * sizeof(sizes) / sizeof(sizes[0]); i++) {
			size_t n = sizes[i / 2];
			uint8_t *raw = malloc(n), *back = malloc(n), *less = n > 1 ? malloc(n - 1) : NULL;
			enum sst_codec used;
			struct tfs_bytes s;

			fill(raw, n, i & 1, i);
			assert_int_equal(coder_encode(c, (enum sst_codec)codec, tfs_bytes_of(raw, n), &used, &s), 0);
			assert_true(s.n <= n);
			if (codec != SST_NONE && n >= 1000 && !(i & 1))
				assert_true(s.n < n / 2);
			if (i & 1)
				assert_int_equal(used, SST_NONE);
			/* exact memory: a byte too many is seen by ASan */
			assert_int_equal(codec_decode(used, s, NULL, back, n), 0);
			assert_memory_equal(back, raw, n);
			if (less)
				assert_int_equal(codec_decode(used, s, NULL, less, n - 1), -EBADMSG);
			free(raw);
			free(back);
			free(less);
		}
		coder_free(c);
	}
}

/* Damage that a checksum would have caught must still not crash a decoder. */
static void codecs_hostile(void **state)
{
	uint8_t raw[3000], bad[4000], back[3000];
	uint32_t seed = 5;

	fill(raw, sizeof(raw), false, 1);
	for (unsigned codec = 0; codec < SST_CODECS; codec++) {
		enum sst_codec used;
		struct coder *c;
		struct tfs_bytes s;

		if (!sst_is_codec(codec))
			continue;
		assert_int_equal(coder_new((enum sst_codec)codec, 1, &c), 0);
		assert_int_equal(coder_encode(c, (enum sst_codec)codec, tfs_bytes_of(raw, sizeof(raw)), &used, &s), 0);
		for (unsigned i = 0; i < 2000; i++) {
			int err;

			memcpy(bad, s.p, s.n);
			bad[next_random(&seed) % s.n] ^= (uint8_t)(1 + next_random(&seed) % 255);
			bad[next_random(&seed) % s.n] ^= (uint8_t)(1 + next_random(&seed) % 255);
			err = codec_decode(used, tfs_bytes_of(bad, next_random(&seed) % 4 ? s.n : next_random(&seed) % s.n), NULL,
				back, sizeof(back));
			assert_true(err == 0 || err == -EBADMSG);
		}
		assert_int_equal(codec_decode(used, tfs_bytes_of(bad, 0), NULL, back, sizeof(back)), -EBADMSG);
		coder_free(c);
	}
	assert_int_equal(codec_decode(SST_ZSTD_DICT, tfs_bytes_of(raw, 10), NULL, back, 10), -EBADMSG);
	assert_int_equal(codec_decode(SST_CODECS, tfs_bytes_of(raw, 10), NULL, back, 10), -EBADMSG);
}

static void scratch(void **state)
{
	uint8_t *p;

	assert_non_null(codec_scratch(SCRATCH_STORED, 1));
	p = codec_scratch(SCRATCH_STORED, 5 << 20);
	assert_non_null(p);
	memset(p, 1, 5 << 20);
	p = codec_scratch(SCRATCH_STORED, 100);
	assert_non_null(p);
	memset(p, 1, 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(block_round_trip),
		cmocka_unit_test(block_hostile),
		cmocka_unit_test(map_round_trip),
		cmocka_unit_test(entries),
		cmocka_unit_test(map_finds_each_block),
		cmocka_unit_test(filters_round_trip),
		cmocka_unit_test(trailer_round_trip),
		cmocka_unit_test(trailer_hostile),
		cmocka_unit_test(codecs),
		cmocka_unit_test(codecs_hostile),
		cmocka_unit_test(scratch),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
