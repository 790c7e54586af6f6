/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of a block file, and the only code that touches them.
 *
 * LevelDB sees one logical file of uncompressed blocks (each with its 5-byte
 * trailer; last the footer), whose values are entries (value.h).  Values of 64 bytes
 * and more are in units, outside the logical file.  On media each block and each unit
 * is a stored piece; after the last piece are four sections and a trailer of fixed
 * size. Integers are big-endian; varint is LEB128; lstr is varint length and bytes.
 *
 *   stored piece:  u32 crc32c of (u64 place plus the file's identity, the rest of
 *                  the piece)
 *                  u8 codec (enum sst_codec, or BFF_CODEC_AGAINST), 3 bytes 0
 *                  u32 raw length
 *                  payload; of BFF_CODEC_AGAINST: varint distance in bytes back to the
 *                  base, varint stored bytes of the base, and a zstd frame with the
 *                  base's raw bytes as its prefix.  Only units have this codec, and a
 *                  base is a unit that does not have it
 *     The place of a block is its logical offset.  The place of a unit is its offset in the file plus BFF_UNIT_PLACE. The place itself is not stored: a piece read from the wrong
 *     place, or in another file, fails its checksum.
 *   section dictionary: a zstd frame of the input of ZSTD_createDDict; empty
 *                  without a dictionary
 *   section filters:    varint partitions; for each lstr first key, lstr
 *                  filter (LevelDB's, over the 8 big-endian bytes of
 *                  hash64(probe, 0)); lstr last key of the table.
 *                  Empty when the table has no filters
 *   section properties: opaque
 *   section map:   varint units, varint raw bytes of all units; for each block
 *                  varint raw length, varint stored length, varint bytes of the file
 *                  between it and the block before it, varint distance to its second
 *                  copy (0: it has none), varint stored bytes of the units to which it
 *                  refers first.  The last block or its second copy ends where the
 *                  sections begin
 *   trailer (128 bytes, the end of the file):
 *                  u32 version: 3; u32 codec asked for
 *                  u64 blocks, u64 raw bytes, u64 keys, u64 filter partitions
 *                  4 times u64 offset, u32 length, u32 crc32c: dictionary,
 *                  filters, properties, map
 *                  u32 largest raw block, u64 identity
 *                  u32 crc32c of the trailer before it
 *                  "TFSSST01"
 *
 * Nothing here does I/O or logs.  Decoders accept hostile input: they return
 * -EBADMSG for any violation, and bytes only of the input.
 */
#ifndef TFS_SSTABLE_BLOCKFILE_FORMAT_H
#define TFS_SSTABLE_BLOCKFILE_FORMAT_H

#include "engine/base/bytes.h"
#include "engine/sstable/sstable.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
	BFF_VERSION = 3,
	BFF_CODEC_AGAINST =
		5, /* the codec of a unit compressed against a base; no codec of tables (enum sst_codec) has this number */
	BFF_BLOCK_HEADER_BYTES = 12,
	BFF_TRAILER_BYTES = 128,
	BFF_PROPERTIES_MAX = 1 << 20,
	BFF_RAW_MAX = 1 << 30,   /* the most raw bytes of one block; an index of 64 KiB keys over 10 GB is smaller */
	BFF_UNIT_MAX = 17 << 20, /* the most raw bytes of one unit: four times the largest block_size, and a value */
};
#define BFF_UNIT_PLACE (UINT64_C(1) << 63)

/* ---- stored blocks ---- */
struct bff_block {
	enum sst_codec codec;
	uint64_t back;        /* if not 0, the payload is a zstd frame against an earlier unit, at this distance in bytes */
	uint32_t base_stored; /* the stored bytes of that unit */
	uint32_t raw_bytes;
	struct tfs_bytes payload; /* borrowed */
};
/* place: plus the identity of the file.  Fills the header of a payload.  codec: enum sst_codec or BFF_CODEC_AGAINST. */
void bff_block_header(
	uint8_t header[BFF_BLOCK_HEADER_BYTES], uint64_t place, uint8_t codec, uint32_t raw_bytes, struct tfs_bytes payload);
/* Appends the beginning of a payload of BFF_CODEC_AGAINST. */
int bff_block_back(struct buf *out, uint64_t back, uint32_t base_stored) TFS_MUST;
/* stored: header and payload.  -EBADMSG: too short, checksum, codec. */
int bff_block_decode(struct tfs_bytes stored, uint64_t place, struct bff_block *out) TFS_MUST;

/* ---- map ---- */
/*
 * Entry n is the end: block i is at [at[i].logical, at[i+1].logical) of LevelDB's file,
 * and its `stored` bytes begin at `physical`.  copy is the distance to a second copy of
 * these bytes; 0 if there is none. before is the sum of the stored bytes of the blocks
 * before it, without second copies, and of the units to which these blocks refer.
 */
struct bff_place {
	uint64_t logical, physical, before;
	uint32_t stored, copy;
};
struct bff_map {
	struct bff_place *at; /* n + 1 entries, owned */
	size_t n;
	uint64_t units, unit_bytes; /* unit_bytes: raw */
};
int bff_map_encode(const struct bff_map *m, struct buf *out) TFS_MUST;
/* -EBADMSG also if the blocks have not raw_bytes in all, or do not end at stored_bytes. */
int bff_map_decode(struct tfs_bytes s, uint64_t blocks, uint64_t raw_bytes, uint64_t stored_bytes, struct bff_map *out) TFS_MUST;
void bff_map_fini(struct bff_map *m);
/* Returns the block that contains this logical offset, or -1. */
int64_t bff_map_find(const struct bff_map *m, uint64_t logical);
/* Returns the raw bytes of block i. */
static inline size_t bff_map_raw(const struct bff_map *m, size_t i)
{
	return (size_t)(m->at[i + 1].logical - m->at[i].logical);
}

/* ---- filters ---- */
struct bff_partition {
	struct tfs_bytes first; /* borrowed from the section */
	struct tfs_bytes filter;
};
struct bff_filters {
	struct bff_partition *part; /* owned */
	size_t n;
	struct tfs_bytes last; /* last key of the table, borrowed */
};
/* Appends a partition to parts. */
int bff_filters_add(struct buf *parts, struct tfs_bytes first, struct tfs_bytes filter) TFS_MUST;
/* last: the last key of the table. */
int bff_filters_encode(struct buf *out, uint64_t partitions, struct tfs_bytes parts, struct tfs_bytes last) TFS_MUST;
int bff_filters_decode(struct tfs_bytes s, uint64_t partitions, struct bff_filters *out) TFS_MUST;
void bff_filters_fini(struct bff_filters *f);

/* ---- trailer ---- */
enum bff_section_id { BFF_DICTIONARY, BFF_FILTERS, BFF_PROPERTIES, BFF_MAP, BFF_SECTIONS };
struct bff_section {
	uint64_t offset;
	uint32_t bytes, crc;
};
struct bff_trailer {
	uint32_t version;
	enum sst_codec codec;
	uint64_t blocks, raw_bytes, keys, partitions;
	struct bff_section section[BFF_SECTIONS];
	uint32_t max_raw_block;
	uint64_t identity; /* 0: none */
};
/*
 * The identity of an SSTable: a hash of its name, TABLE/INCARNATION-NUMBER.sst,
 * which is the end of its path.  0 for other names.
 */
uint64_t bff_identity(const char *path);
void bff_trailer_encode(uint8_t out[BFF_TRAILER_BYTES], const struct bff_trailer *t);
/*
 * s: the last BFF_TRAILER_BYTES of a file of file_bytes.  -EBADMSG: magic,
 * checksum, a section outside the file or overlapping; -EPROTONOSUPPORT: a
 * newer version, with a good checksum.
 */
int bff_trailer_decode(struct tfs_bytes s, uint64_t file_bytes, struct bff_trailer *out) TFS_MUST;
/* Returns true if bytes have the length and checksum of the section. */
bool bff_section_good(const struct bff_section *sec, struct tfs_bytes bytes);

#ifdef __cplusplus
}
#endif
#endif
