/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The SSTable's formats from any bytes.  The first byte of an input selects the
 * target:
 *   0 stored block  1 map  2 filters  3 trailer  4 decoders of each codec
 *   5 a whole file image, unchanged
 *   6 a whole file image whose trailer, section and block checksums are
 *     corrected first, so that damage reaches LevelDB's own structures
 * The decoded parts must lie inside the input.  A file is verified, scanned and
 * searched.
 */
#include "engine/base/file.h"
#include "engine/base/msg.h"
#include "engine/sstable/blockfile_format.h"
#include "engine/sstable/codec.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t fuzz_example(unsigned i, const uint8_t **data);

static void must(bool x)
{
	if (!x)
		abort();
}

static void inside(struct tfs_bytes outer, struct tfs_bytes inner)
{
	must(inner.n == 0 || (inner.p >= outer.p && inner.n <= outer.n && inner.p + inner.n <= outer.p + outer.n));
}

static void try_block(struct tfs_bytes s)
{
	uint8_t *copy = malloc(s.n + 1);
	struct bff_block b;

	must(copy);
	memcpy(copy, s.p, s.n);
	for (unsigned mend = 0; mend < 2; mend++) {
		struct tfs_bytes in = tfs_bytes_of(copy, s.n);

		if (bff_block_decode(in, 12345, &b) == 0) {
			inside(in, b.payload);
			must(sst_is_codec(b.codec) && b.raw_bytes <= BFF_RAW_MAX);
		}
		if (s.n >= BFF_BLOCK_HEADER_BYTES)
			bff_block_header(copy, 12345, copy[4], load_be32(copy + 8),
				tfs_bytes_of(copy + BFF_BLOCK_HEADER_BYTES, s.n - BFF_BLOCK_HEADER_BYTES));
	}
	free(copy);
}

static void try_map(struct tfs_bytes s)
{
	struct reader r = reader_of(s);
	uint64_t blocks, raw, stored;
	struct bff_map m;
	struct tfs_bytes rest;

	if (!get_varint(&r, &blocks) || !get_varint(&r, &raw) || !get_varint(&r, &stored))
		return;
	rest = tfs_bytes_of(r.p, reader_left(&r));
	if (bff_map_decode(rest, blocks, raw, stored, &m))
		return;
	must(m.n == blocks && m.at[m.n].logical == raw && m.at[m.n].physical == stored && m.at[m.n].before <= stored);
	for (size_t i = 0; i < m.n; i++) {
		must(m.at[i].logical < m.at[i + 1].logical && m.at[i].physical + m.at[i].stored <= m.at[i + 1].physical);
		must(!m.at[i].copy ||
			(m.at[i].copy >= m.at[i].stored && m.at[i].physical + m.at[i].copy + m.at[i].stored <= stored));
		must(bff_map_find(&m, m.at[i].logical) == (int64_t)i);
		must(bff_map_find(&m, m.at[i + 1].logical - 1) == (int64_t)i);
	}
	must(bff_map_find(&m, raw) == -1);
	bff_map_fini(&m);
}

static void try_filters(struct tfs_bytes s)
{
	struct reader r = reader_of(s);
	struct bff_filters f;
	uint64_t n;

	if (!get_varint(&r, &n) || bff_filters_decode(s, n, &f))
		return;
	must(f.n == n);
	for (size_t i = 0; i < f.n; i++) {
		inside(s, f.part[i].first);
		inside(s, f.part[i].filter);
	}
	inside(s, f.last);
	bff_filters_fini(&f);
}

static void try_trailer(struct tfs_bytes s)
{
	uint8_t copy[BFF_TRAILER_BYTES], again[BFF_TRAILER_BYTES];
	struct bff_trailer t;
	uint64_t size;

	if (s.n < sizeof(copy) + 8)
		return;
	size = load_be64(s.p);
	memcpy(copy, s.p + 8, sizeof(copy));
	put_be32(copy + BFF_TRAILER_BYTES - 12, crc32c(0, copy, BFF_TRAILER_BYTES - 12));
	memcpy(copy + BFF_TRAILER_BYTES - 8, "TFSSST01", 8);
	if (bff_trailer_decode(tfs_bytes_of(copy, sizeof(copy)), size, &t))
		return;
	for (unsigned i = 0; i < BFF_SECTIONS; i++)
		must(t.section[i].offset <= size && t.section[i].bytes <= size - t.section[i].offset);
	bff_trailer_encode(again, &t);
	must(bff_trailer_decode(tfs_bytes_of(again, sizeof(again)), size, &t) == 0);
}

static void try_codecs(struct tfs_bytes s)
{
	ZSTD_DDict *dict = NULL;
	size_t n, dict_n;
	uint8_t *out;

	if (s.n < 4)
		return;
	n = 1 + (size_t)(s.p[0] << 8 | s.p[1]);
	dict_n = s.p[2] * 4u < s.n - 4 ? s.p[2] * 4u : 0;
	out = malloc(n);
	must(out);
	if (dict_n && !(s.p[3] & 1))
		dict = ZSTD_createDDict(s.p + 4, dict_n);
	else if (dict_n && codec_load_dict(tfs_bytes_of(s.p + 4, dict_n), &dict))
		dict = NULL;
	for (unsigned codec = 0; codec <= SST_CODECS; codec++) {
		int err = codec_decode((enum sst_codec)codec, tfs_bytes_of(s.p + 4 + dict_n, s.n - 4 - dict_n), dict, out, n);

		must(err == 0 || err == -EBADMSG);
	}
	{
		int err = codec_decode_against(
			tfs_bytes_of(s.p + 4 + dict_n, s.n - 4 - dict_n), tfs_bytes_of(s.p + 4, dict_n), out, n);

		must(err == 0 || err == -EBADMSG);
	}
	ZSTD_freeDDict(dict);
	free(out);
}

/* Sets the checksums of the image, as far as the trailer and the map show which bytes they cover. */
static void mend(uint8_t *p, size_t n)
{
	struct bff_trailer t;
	struct bff_map m;
	uint8_t *end = p + n - BFF_TRAILER_BYTES;

	for (unsigned pass = 0; pass < 2; pass++) {
		put_be32(end + BFF_TRAILER_BYTES - 12, crc32c(0, end, BFF_TRAILER_BYTES - 12));
		if (bff_trailer_decode(tfs_bytes_of(end, BFF_TRAILER_BYTES), n, &t))
			return;
		for (unsigned i = 0; i < BFF_SECTIONS; i++)
			t.section[i].crc = t.section[i].bytes ? crc32c(0, p + t.section[i].offset, t.section[i].bytes) : 0;
		bff_trailer_encode(end, &t);
	}
	if (bff_map_decode(tfs_bytes_of(p + t.section[BFF_MAP].offset, t.section[BFF_MAP].bytes), t.blocks, t.raw_bytes,
		    t.section[BFF_DICTIONARY].offset, &m))
		return;
	for (size_t i = 0; i < m.n; i++) {
		uint8_t *b = p + m.at[i].physical;
		size_t stored = m.at[i].stored;

		bff_block_header(b, m.at[i].logical, b[4], load_be32(b + 8),
			tfs_bytes_of(b + BFF_BLOCK_HEADER_BYTES, stored - BFF_BLOCK_HEADER_BYTES));
	}
	bff_map_fini(&m);
}

static void try_file(const uint8_t *data, size_t n, bool mended)
{
	static int fd = -1;
	char path[64], *why = NULL;
	uint8_t *copy;
	struct sst_cache *c;
	struct sst *s = NULL;
	struct tfs_bytes value;
	struct iter *it;
	struct buf props = {0};
	uint64_t keys, off;

	if (n < BFF_TRAILER_BYTES || n > 1 << 20)
		return;
	copy = malloc(n);
	must(copy);
	memcpy(copy, data, n);
	if (mended)
		mend(copy, n);
	if (fd < 0)
		fd = memfd_create("sst", 0);
	must(fd >= 0 && ftruncate(fd, 0) == 0 && pwrite(fd, copy, n, 0) == (ssize_t)n);
	free(copy);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (sst_verify(path, 0, &keys, &why) == 0)
		must(!why);
	free(why);
	must(sst_cache_new(1 << 20, 1 << 20, &c) == 0 && sst_new(c, path, false, &s) == 0);
	if (sst_iter_new(s, &it) == 0) {
		unsigned steps = 0;

		for (iter_seek(it, tfs_bytes_of("", 0)); it->valid && steps < 10000; iter_next(it), steps++)
			if (it->size <= 1 << 20)
				(void)!iter_value(it, &value);
		iter_seek(it, tfs_str("key0000000020"));
		if (it->valid)
			iter_next(it);
		iter_free(it);
	}
	(void)sst_may_contain(s, tfs_str("key0"), tfs_str("key9"), tfs_str("probe"));
	(void)!sst_offset_of(s, tfs_str("key0000000020"), &off);
	(void)!sst_properties(s, &props);
	buf_fini(&props);
	sst_put(s);
	sst_cache_free(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct tfs_bytes rest;

	msg_to_nowhere();
	if (size == 0)
		return 0;
	rest = tfs_bytes_of(data + 1, size - 1);
	switch (data[0] % 7) {
	case 0:
		try_block(rest);
		break;
	case 1:
		try_map(rest);
		break;
	case 2:
		try_filters(rest);
		break;
	case 3:
		try_trailer(rest);
		break;
	case 4:
		try_codecs(rest);
		break;
	case 5:
		try_file(rest.p, rest.n, false);
		break;
	default:
		try_file(rest.p, rest.n, true);
		break;
	}
	return 0;
}

/* Whole files of each codec as inputs of target 5 and 6, and their parts for 0 to 4. */
size_t fuzz_example(unsigned i, const uint8_t **data)
{
	static struct buf b;
	char path[64];
	struct sst_options o = {(enum sst_codec)(i / 7 % SST_CODECS), 3, 256, 10, false};
	struct sst_writer *w;
	struct buf file = {0};
	struct bff_trailer t;
	uint64_t bytes;

	*data = NULL;
	if (!sst_is_codec(o.codec))
		o.codec = SST_NONE;
	if (i >= 7 * SST_CODECS) {
		buf_fini(&b);
		return 0;
	}
	snprintf(path, sizeof(path), "/tmp/fuzz_blockfile.%ld", (long)getpid());
	must(sst_writer_new(path, &o, &w) == 0);
	for (unsigned k = 0; k < 64; k++) {
		char key[16], value[80];

		snprintf(key, sizeof(key), "key%010u", k);
		snprintf(value, sizeof(value), "value %u of a cell, of a cell, of a cell, of a cell", k * k);
		must(sst_writer_probe(w, tfs_str(key)) == 0 && sst_writer_add(w, tfs_str(key), tfs_str(value), false) == 0);
	}
	must(sst_writer_finish(w, tfs_str("properties"), &bytes) == 0);
	sst_writer_free(w);
	must(file_read_all(path, 1 << 20, &file) == 0 && file_unlink(path) == 0);
	must(bff_trailer_decode(tfs_bytes_of(file.p + file.n - BFF_TRAILER_BYTES, BFF_TRAILER_BYTES), file.n, &t) == 0);
	buf_reset(&b);
	must(buf_u8(&b, (uint8_t)(i % 7)) == 0);
	switch (i % 7) {
	case 0:
		must(buf_append(&b, file.p, 200) == 0);
		break;
	case 1:
		must(buf_varint(&b, t.blocks) == 0 && buf_varint(&b, t.raw_bytes) == 0 &&
			buf_varint(&b, t.section[BFF_DICTIONARY].offset) == 0 &&
			buf_append(&b, file.p + t.section[BFF_MAP].offset, t.section[BFF_MAP].bytes) == 0);
		break;
	case 2:
		must(buf_append(&b, file.p + t.section[BFF_FILTERS].offset, t.section[BFF_FILTERS].bytes) == 0);
		break;
	case 3:
		must(buf_be64(&b, file.n) == 0 && buf_append(&b, file.p + file.n - BFF_TRAILER_BYTES, BFF_TRAILER_BYTES) == 0);
		break;
	case 4:
		must(buf_be32(&b, 0x04000000) == 0 && buf_append(&b, file.p + BFF_BLOCK_HEADER_BYTES, 200) == 0);
		break;
	default:
		must(buf_append(&b, file.p, file.n) == 0);
		break;
	}
	buf_fini(&file);
	*data = b.p;
	return b.n;
}
