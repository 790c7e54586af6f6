/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the blocks of a block file without its map.  Each place of the file is tried: a
 * unit, else the block at the next logical offset, else the second copy of a block, else
 * the walk continues a byte further.  The checksum of a piece depends on its place, so
 * a match is the right piece.
 */
#include "engine/sstable/pieces.h"

#include <errno.h>
#include <stdlib.h>

#include "engine/sstable/codec.h"
#include "engine/sstable/table_format.h"

/*
 * *length: the length of the stored piece at `from`: the first length with a
 * right checksum for this place, or 0 if there is no such piece.  A checksum
 * that is right by chance is detected if the bytes can be decompressed without
 * dictionary and base.  *raw_bytes: the raw length in the header, 0 if this
 * cannot be a header.
 */
static int stored_length(const struct pieces *b, uint64_t from, uint64_t place, struct buf *bytes, struct buf *raw, size_t *length,
	size_t *raw_bytes)
{
	uint64_t left = b->file_bytes - from;
	struct bff_block block;
	uint8_t where[8];
	uint32_t crc;
	size_t n;
	int err;

	*length = *raw_bytes = 0;
	buf_reset(bytes);
	err = buf_reserve(bytes, BFF_BLOCK_HEADER_BYTES);
	if (err || left <= BFF_BLOCK_HEADER_BYTES)
		return err;
	n = BFF_BLOCK_HEADER_BYTES;
	err = b->read(b->arg, bytes->p, &n, from);
	if (err || n < BFF_BLOCK_HEADER_BYTES)
		return err;
	n = load_be32(bytes->p + 8);
	if (n == 0 || n > BFF_RAW_MAX || bytes->p[4] > BFF_CODEC_AGAINST || bytes->p[5] || bytes->p[6] || bytes->p[7])
		return 0;
	*raw_bytes = n;
	n += BFF_BLOCK_HEADER_BYTES + 16; /* no payload is longer than the raw bytes, except for the place of a base */
	n = n < left ? n : (size_t)left;
	err = buf_reserve(bytes, n);
	if (!err)
		err = b->read(b->arg, bytes->p, &n, from);
	if (err || n < BFF_BLOCK_HEADER_BYTES)
		return err;
	put_be64(where, b->identity + place);
	crc = crc32c(crc32c(0, where, sizeof(where)), bytes->p + 4, BFF_BLOCK_HEADER_BYTES - 4);
	for (size_t i = BFF_BLOCK_HEADER_BYTES; i < n; i++) {
		crc = crc32c(crc, bytes->p + i, 1);
		if (crc != load_be32(bytes->p) || bff_block_decode(tfs_bytes_of(bytes->p, i + 1), b->identity + place, &block))
			continue;
		buf_reset(raw);
		err = buf_reserve(raw, block.raw_bytes);
		if (err)
			return err;
		if (block.codec != SST_ZSTD_DICT && !block.back &&
			codec_decode(block.codec, block.payload, NULL, raw->p, block.raw_bytes))
			continue;
		*length = i + 1;
		return 0;
	}
	return 0;
}

static int add_block(struct bff_map *m, uint64_t physical, size_t stored, size_t raw)
{
	struct bff_place *at = realloc(m->at, (m->n + 2) * sizeof(*at));

	if (!at)
		return -ENOMEM;
	m->at = at;
	at += m->n++;
	at->physical = physical;
	at->stored = (uint32_t)stored;
	at[1] = (struct bff_place){.logical = at->logical + raw, .physical = physical + stored, .before = at->before + stored};
	return 0;
}

/* A walk over the pieces of a file without a map. */
struct search {
	const struct pieces *file;
	struct buf bytes, raw; /* the stored and the raw bytes of the piece that is tried */
	struct bff_map m;
	uint64_t bad_at;
	size_t bad;  /* raw bytes of what may be a damaged block at bad_at; 0: there is none */
	size_t copy; /* the block whose second copy may come next */
	bool copied; /* its run has a second copy */
	bool whole;  /* LevelDB's footer was found */
};

/* *n: the stored bytes of block i of the map, if its second copy is here; else 0. */
static int find_copy(struct search *s, uint64_t at, size_t i, size_t *n)
{
	struct bff_place *p = &s->m.at[i];
	size_t raw_bytes;
	int err = stored_length(s->file, at, p->logical, &s->bytes, &s->raw, n, &raw_bytes);

	if (*n != p->stored || at - p->physical > UINT32_MAX)
		*n = 0;
	if (*n)
		p->copy = (uint32_t)(at - p->physical);
	return err;
}

/* *n: the stored bytes of the next block, if it is here, else 0.  It may follow a damaged one. */
static int find_block(struct search *s, uint64_t at, size_t *n)
{
	uint64_t next = s->m.at[s->m.n].logical;
	size_t raw_bytes;
	int err = stored_length(s->file, at, next, &s->bytes, &s->raw, n, &raw_bytes);

	if (!err && !*n && s->bad) {
		err = stored_length(s->file, at, next + s->bad, &s->bytes, &s->raw, n, &raw_bytes);
		if (!err && *n)
			err = add_block(&s->m, s->bad_at, (size_t)(at - s->bad_at), s->bad);
	}
	if (err || !*n)
		return err;
	if (s->copied)
		s->copy = s->m.n;
	s->copied = false;
	s->bad = 0;
	err = add_block(&s->m, at, *n, raw_bytes);
	s->whole = !err && raw_bytes == TABLE_FOOTER_BYTES && table_footer_good(tfs_bytes_of(s->raw.p, raw_bytes), &s->m);
	return err;
}

/* *n: the stored bytes of the piece here; 0 if there is none. */
static int find_piece(struct search *s, uint64_t at, size_t *n)
{
	size_t raw_bytes;
	int err = stored_length(s->file, at, BFF_UNIT_PLACE + at, &s->bytes, &s->raw, n, &raw_bytes);

	if (err || !raw_bytes)
		return err;
	if (*n) {
		s->copy = s->m.n;
		return 0;
	}
	err = find_block(s, at, n);
	if (err || *n)
		return err;
	if (s->copy < s->m.n) {
		err = find_copy(s, at, s->copy, n);
		s->copied |= *n != 0;
		s->copy += *n != 0;
	}
	if (!*n && !s->bad) {
		s->bad = raw_bytes;
		s->bad_at = at;
	}
	return err;
}

int pieces_find(const struct pieces *b, struct bff_map *out, bool *whole)
{
	struct search s = {.file = b, .m = {.at = calloc(1, sizeof(*s.m.at))}};
	uint64_t at = 0;
	size_t n;
	int err = s.m.at ? 0 : -ENOMEM;

	for (; !err && !s.whole && at < b->file_bytes; at += n ? n : 1)
		err = find_piece(&s, at, &n);
	for (size_t i = s.copy; i < s.m.n && s.whole && !err && at < b->file_bytes; at += s.m.at[i].stored, i++) {
		err = find_copy(&s, at, i, &n);
		s.copied |= n != 0;
	}
	if (s.whole && s.copied)
		s.m.at[s.m.n].physical = at;
	*whole = s.whole;
	buf_fini(&s.bytes);
	buf_fini(&s.raw);
	*out = s.m;
	return err;
}
