/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The byte layout of block files (see the header for the table).
 *
 * The trailer is at the end.  A file is whole if its last 128 bytes have the
 * right checksum and describe all bytes before them without a gap: blocks and units
 * from 0 to the first section, the sections in order, the trailer.  Each byte is
 * covered by a checksum.
 *
 * Rejected: offsets in the map, because sums of lengths cannot overlap or run
 * backwards; a checksum for each filter partition, because a table without
 * filters is slower but correct.
 */
#include "engine/sstable/blockfile_format.h"
#include <errno.h>
#include <stdlib.h>

static const uint8_t magic[8] = {'T', 'F', 'S', 'S', 'S', 'T', '0', '1'};

#define CODEC_DIFFERS(upper, number, ...) _Static_assert(number != BFF_CODEC_AGAINST, "the number of blocks against another block");
SST_CODEC_LIST(CODEC_DIFFERS)

static uint32_t block_crc(uint64_t place, const uint8_t *after_crc, struct tfs_bytes payload)
{
	uint8_t where[8];
	uint32_t crc;

	put_be64(where, place);
	crc = crc32c(0, where, sizeof(where));
	crc = crc32c(crc, after_crc, BFF_BLOCK_HEADER_BYTES - 4);
	return crc32c(crc, payload.p, payload.n);
}

void bff_block_header(
	uint8_t header[BFF_BLOCK_HEADER_BYTES], uint64_t place, uint8_t codec, uint32_t raw_bytes, struct tfs_bytes payload)
{
	header[4] = codec;
	memset(header + 5, 0, 3);
	put_be32(header + 8, raw_bytes);
	put_be32(header, block_crc(place, header + 4, payload));
}

int bff_block_decode(struct tfs_bytes stored, uint64_t place, struct bff_block *out)
{
	struct tfs_bytes payload;

	if (stored.n < BFF_BLOCK_HEADER_BYTES)
		return -EBADMSG;
	payload = tfs_bytes_of(stored.p + BFF_BLOCK_HEADER_BYTES, stored.n - BFF_BLOCK_HEADER_BYTES);
	if (load_be32(stored.p) != block_crc(place, stored.p + 4, payload))
		return -EBADMSG;
	if (stored.p[4] != BFF_CODEC_AGAINST && !sst_is_codec(stored.p[4]))
		return -EBADMSG;
	if (stored.p[5] || stored.p[6] || stored.p[7] || load_be32(stored.p + 8) > BFF_RAW_MAX)
		return -EBADMSG;
	*out = (struct bff_block){.codec = (enum sst_codec)stored.p[4], .raw_bytes = load_be32(stored.p + 8), .payload = payload};
	if (stored.p[4] == BFF_CODEC_AGAINST) {
		struct reader r = reader_of(payload);

		uint64_t base;

		if (!get_varint(&r, &out->back) || out->back == 0 || !get_varint(&r, &base) || base < BFF_BLOCK_HEADER_BYTES ||
			base > out->back || base > BFF_RAW_MAX)
			return -EBADMSG;
		out->base_stored = (uint32_t)base;
		out->codec = SST_ZSTD;
		out->payload = tfs_bytes_of(payload.p + payload.n - reader_left(&r), reader_left(&r));
	}
	if (out->codec == SST_NONE && payload.n != out->raw_bytes)
		return -EBADMSG;
	return 0;
}

int bff_block_back(struct buf *out, uint64_t back, uint32_t base_stored)
{
	return buf_varint(out, back) || buf_varint(out, base_stored) ? -ENOMEM : 0;
}

int bff_map_encode(const struct bff_map *m, struct buf *out)
{
	uint64_t end = 0;

	if (buf_varint(out, m->units) || buf_varint(out, m->unit_bytes))
		return -ENOMEM;
	for (size_t i = 0; i < m->n; i++) {
		const struct bff_place *at = &m->at[i];

		if (buf_varint(out, at[1].logical - at->logical) || buf_varint(out, at->stored) ||
			buf_varint(out, at->physical - end) || buf_varint(out, at->copy) ||
			buf_varint(out, at[1].before - at->before - at->stored))
			return -ENOMEM;
		end = at->physical + at->stored;
	}
	return 0;
}

int bff_map_decode(struct tfs_bytes s, uint64_t blocks, uint64_t raw_bytes, uint64_t stored_bytes, struct bff_map *out)
{
	struct reader r = reader_of(s);
	struct bff_map m = {0};

	/* An entry has at least five bytes, which bounds the allocation by a multiple of the input. */
	if (blocks > s.n / 5 || !get_varint(&r, &m.units) || !get_varint(&r, &m.unit_bytes))
		return -EBADMSG;
	m.at = calloc((size_t)blocks + 1, sizeof(*m.at));
	if (!m.at)
		return -ENOMEM;
	m.n = (size_t)blocks;
	for (size_t i = 0; i < m.n; i++) {
		struct bff_place *at = &m.at[i];
		uint64_t raw, stored, gap, copy, units;

		if (!get_varint(&r, &raw) || !get_varint(&r, &stored) || !get_varint(&r, &gap) || !get_varint(&r, &copy) ||
			!get_varint(&r, &units))
			goto bad;
		if (raw == 0 || raw > BFF_RAW_MAX || stored < BFF_BLOCK_HEADER_BYTES ||
			stored > (uint64_t)BFF_RAW_MAX + BFF_BLOCK_HEADER_BYTES)
			goto bad;
		if (gap > stored_bytes - at->physical || stored > stored_bytes - at->physical - gap ||
			raw > raw_bytes - at->logical || units > stored_bytes)
			goto bad;
		at->physical += gap;
		if (copy && (copy < stored || copy > UINT32_MAX || copy > stored_bytes - at->physical - stored))
			goto bad;
		at->copy = (uint32_t)copy;
		at->stored = (uint32_t)stored;
		at[1].logical = at->logical + raw;
		at[1].physical = at->physical + stored;
		at[1].before = at->before + stored + units;
		if (at[1].before > stored_bytes)
			goto bad;
	}
	if (m.n)
		m.at[m.n].physical += m.at[m.n - 1].copy;
	if (reader_left(&r) || m.at[m.n].logical != raw_bytes || m.at[m.n].physical != stored_bytes)
		goto bad;
	*out = m;
	return 0;
bad:
	bff_map_fini(&m);
	return -EBADMSG;
}

void bff_map_fini(struct bff_map *m)
{
	free(m->at);
	*m = (struct bff_map){0};
}

/*
 * Begins at the block that would contain the offset if all blocks had one size,
 * and gallops from there.  Blocks of data differ little in size, so the block is
 * near, and the places read are neighbours in memory.  The last blocks are not
 * counted for the size, because the index is one large block.
 */
int64_t bff_map_find(const struct bff_map *m, uint64_t logical)
{
	size_t lo, hi, step = 1, most = m->n - m->n / 8;

	if (m->n == 0 || logical >= m->at[m->n].logical)
		return -1;
	lo = (size_t)((double)logical / (double)m->at[most].logical * (double)most);
	if (lo >= m->n)
		lo = m->n - 1;
	for (hi = lo + 1; m->at[lo].logical > logical; step *= 2) {
		hi = lo;
		lo -= step < lo ? step : lo;
	}
	for (; m->at[hi].logical <= logical; step *= 2) {
		lo = hi;
		hi += step < m->n - hi ? step : m->n - hi;
	}
	while (hi - lo > 1) { /* at[lo] <= logical < at[hi] */
		size_t mid = lo + (hi - lo) / 2;

		if (m->at[mid].logical <= logical)
			lo = mid;
		else
			hi = mid;
	}
	return (int64_t)lo;
}

int bff_filters_add(struct buf *parts, struct tfs_bytes first, struct tfs_bytes filter)
{
	return buf_lstr(parts, first) || buf_lstr(parts, filter) ? -ENOMEM : 0;
}

int bff_filters_encode(struct buf *out, uint64_t partitions, struct tfs_bytes parts, struct tfs_bytes last)
{
	return buf_varint(out, partitions) || buf_append_bytes(out, parts) || buf_lstr(out, last) ? -ENOMEM : 0;
}

int bff_filters_decode(struct tfs_bytes s, uint64_t partitions, struct bff_filters *out)
{
	struct reader r = reader_of(s);
	struct bff_filters f = {0};
	uint64_t n;

	if (!get_varint(&r, &n) || n != partitions || n > s.n / 2)
		return -EBADMSG;
	f.part = calloc((size_t)n + 1, sizeof(*f.part));
	if (!f.part)
		return -ENOMEM;
	f.n = (size_t)n;
	for (size_t i = 0; i < f.n; i++) {
		if (!get_lstr(&r, &f.part[i].first) || !get_lstr(&r, &f.part[i].filter))
			goto bad;
		if (i && bytes_cmp(f.part[i - 1].first, f.part[i].first) >= 0)
			goto bad;
	}
	if (!get_lstr(&r, &f.last) || reader_left(&r))
		goto bad;
	if (f.n && bytes_cmp(f.part[f.n - 1].first, f.last) > 0)
		goto bad;
	*out = f;
	return 0;
bad:
	bff_filters_fini(&f);
	return -EBADMSG;
}

void bff_filters_fini(struct bff_filters *f)
{
	free(f->part);
	*f = (struct bff_filters){0};
}

static bool skip_digits(const char **p)
{
	const char *from = *p;

	while (**p >= '0' && **p <= '9')
		(*p)++;
	return *p > from;
}

uint64_t bff_identity(const char *path)
{
	const char *name = path + strlen(path), *p;

	for (unsigned slashes = 0; name > path && slashes + (name[-1] == '/') < 2; name--)
		slashes += name[-1] == '/';
	p = name;
	if (!skip_digits(&p) || *p++ != '/' || !skip_digits(&p) || *p++ != '-' || !skip_digits(&p) || strcmp(p, ".sst") != 0)
		return 0;
	return hash64(tfs_str(name), 0);
}

void bff_trailer_encode(uint8_t out[BFF_TRAILER_BYTES], const struct bff_trailer *t)
{
	uint8_t *p = out;

	memset(out, 0, BFF_TRAILER_BYTES);
	put_be32(p, t->version);
	put_be32(p + 4, (uint32_t)t->codec);
	put_be64(p + 8, t->blocks);
	put_be64(p + 16, t->raw_bytes);
	put_be64(p + 24, t->keys);
	put_be64(p + 32, t->partitions);
	p += 40;
	for (unsigned i = 0; i < BFF_SECTIONS; i++, p += 16) {
		put_be64(p, t->section[i].offset);
		put_be32(p + 8, t->section[i].bytes);
		put_be32(p + 12, t->section[i].crc);
	}
	put_be32(p, t->max_raw_block);
	put_be64(p + 4, t->identity);
	put_be32(out + BFF_TRAILER_BYTES - 12, crc32c(0, out, BFF_TRAILER_BYTES - 12));
	memcpy(out + BFF_TRAILER_BYTES - 8, magic, sizeof(magic));
}

int bff_trailer_decode(struct tfs_bytes s, uint64_t file_bytes, struct bff_trailer *out)
{
	struct bff_trailer t = {0};
	const uint8_t *p = s.p;
	uint64_t end;

	if (s.n != BFF_TRAILER_BYTES || file_bytes < BFF_TRAILER_BYTES)
		return -EBADMSG;
	if (memcmp(p + BFF_TRAILER_BYTES - 8, magic, sizeof(magic)) != 0)
		return -EBADMSG;
	if (load_be32(p + BFF_TRAILER_BYTES - 12) != crc32c(0, p, BFF_TRAILER_BYTES - 12))
		return -EBADMSG;
	t.version = load_be32(p);
	if (t.version > BFF_VERSION)
		return -EPROTONOSUPPORT;
	if (t.version < BFF_VERSION || !sst_is_codec(load_be32(p + 4)))
		return -EBADMSG;
	t.codec = (enum sst_codec)load_be32(p + 4);
	t.blocks = load_be64(p + 8);
	t.raw_bytes = load_be64(p + 16);
	t.keys = load_be64(p + 24);
	t.partitions = load_be64(p + 32);
	p += 40;
	end = file_bytes - BFF_TRAILER_BYTES;
	for (unsigned i = 0; i < BFF_SECTIONS; i++, p += 16)
		t.section[i] = (struct bff_section){load_be64(p), load_be32(p + 8), load_be32(p + 12)};
	t.max_raw_block = load_be32(p);
	t.identity = load_be64(p + 4);
	/* The sections are in order, without gaps, and end at the trailer. */
	for (unsigned i = BFF_SECTIONS; i-- > 0;) {
		if (t.section[i].bytes > end || t.section[i].offset != end - t.section[i].bytes)
			return -EBADMSG;
		end = t.section[i].offset;
	}
	if (t.section[BFF_PROPERTIES].bytes > BFF_PROPERTIES_MAX)
		return -EBADMSG;
	*out = t;
	return 0;
}

bool bff_section_good(const struct bff_section *sec, struct tfs_bytes bytes)
{
	return bytes.n == sec->bytes && crc32c(0, bytes.p, bytes.n) == sec->crc;
}
