/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A block file: one logical, append-only file of blocks (LevelDB's, with their
 * trailers, and its footer), and units of values beside it.  Each block and unit is
 * stored compressed and with a CRC-32C.  Dictionary, filters, properties, map and
 * trailer follow.  blockfile_format.h describes the bytes.
 *
 * Threads: a writer belongs to one thread; a reader is shared freely.
 * Errors: as in sstable.h.  Damage is logged here, once per block and opening,
 * with the file's name and the physical offset.
 */
#ifndef TFS_SSTABLE_BLOCKFILE_H
#define TFS_SSTABLE_BLOCKFILE_H

#include "engine/base/bytes.h"
#include "engine/sstable/blockfile_format.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- writing ---- */
struct blockfile_writer;
/*
 * Creates path (O_EXCL).  Of o it reads codec, level, sample, twice and
 * no_dictionary.  Trains the dictionary on a sample.
 */
int blockfile_writer_new(const char *path, const struct sst_options *o, struct blockfile_writer **out) TFS_MUST;
/* Trains the dictionary of zstd-dict on units (coder_train).  Before the first unit and block. */
int blockfile_writer_train(
	struct blockfile_writer *w, struct tfs_bytes raw, const uint32_t *lengths, size_t n, uint64_t expect) TFS_MUST;
/*
 * Compresses and writes a unit.  keep: it becomes base number keep, because later units
 * may resemble it; 0 also drops all earlier bases.  against: it is compressed against
 * that base if that halves its size.  Only for zstd-dict.
 */
#define BLOCKFILE_NO_BASE UINT32_MAX
struct blockfile_unit {
	uint64_t offset; /* its offset in the file */
	uint32_t stored; /* bytes */
};
int blockfile_writer_unit(
	struct blockfile_writer *w, struct tfs_bytes raw, uint32_t keep, uint32_t against, struct blockfile_unit *unit) TFS_MUST;
/* Describes the block being built.  has_values: values are a large part of it, so it is compressed as units are. */
void blockfile_writer_note(struct blockfile_writer *w, bool has_values);
/* Adds to the block being built.  After an error every call returns it. */
int blockfile_writer_append(struct blockfile_writer *w, const void *p, size_t n) TFS_MUST;
/* Ends the block: compresses it.  Does nothing without a block. */
int blockfile_writer_end_block(struct blockfile_writer *w) TFS_MUST;
/* Returns the bytes stored so far. */
uint64_t blockfile_writer_bytes(const struct blockfile_writer *w);
/*
 * Writes the pending units and blocks, the sections and the trailer, then calls fdatasync.
 * filters: as encoded, or empty.
 */
int blockfile_writer_finish(struct blockfile_writer *w, uint64_t keys, uint64_t partitions, struct tfs_bytes filters,
	struct tfs_bytes properties, uint64_t *bytes) TFS_MUST;
/* Unlinks the file unless finish succeeded.  NULL is allowed. */
void blockfile_writer_free(struct blockfile_writer *w);

/* ---- reading ---- */
struct blockfile;
struct blockfile_counters {   /* added to atomically, shared by the files of one cache */
	uint64_t blocks_read; /* blocks of data that were read */
	uint64_t bytes_read;  /* bytes of the blocks and sections that were read */
};
/*
 * Opens, reads and checks trailer, map and dictionary.  `bytes` is the size that
 * the file should have, or 0 if that is unknown.  The trailer is looked for
 * where it is in a file of this size, so bytes after its end do not matter, and
 * one of two copies may be cut off.  A file whose identity (bff_identity) is not
 * the identity of its path is damaged.  counters may be NULL and must outlive
 * the file.  -ENOENT; otherwise, as in all reading, -EBADMSG, -ENOMEM, or -EIO
 * for every other failure.
 */
int blockfile_open(const char *path, uint64_t bytes, struct blockfile_counters *counters, struct blockfile **out) TFS_MUST;
/*
 * Opens a file that may be damaged.  `as` is the path at which it belongs;
 * `bytes` as in blockfile_open.  Without a good trailer or map it finds the
 * blocks in order by their checksums, past damaged bytes.  Without a
 * good dictionary, blocks that need it are unreadable.  *data_blocks: how many
 * blocks of the map may contain pairs.  *whole: the map has all blocks.
 */
int blockfile_open_damaged(
	const char *path, const char *as, uint64_t bytes, struct blockfile **out, size_t *data_blocks, bool *whole) TFS_MUST;
/* Reads one section of a file that is not open.  bytes, counters: as blockfile_open. */
int blockfile_peek(
	const char *path, uint64_t bytes, struct blockfile_counters *counters, enum bff_section_id id, struct buf *out) TFS_MUST;
void blockfile_close(struct blockfile *b);
const char *blockfile_path(const struct blockfile *b);
const struct bff_trailer *blockfile_trailer(const struct blockfile *b);
const struct bff_map *blockfile_map(const struct blockfile *b);
uint64_t blockfile_file_bytes(const struct blockfile *b);
/*
 * Returns the bytes of one copy in a file of two copies, else 0.  A read that
 * finds one copy damaged reads the second copy; the first such read logs it.
 */
uint64_t blockfile_copy_bytes(const struct blockfile *b);
/* mend.c: *agree is set if the two copies are equal or the file has one copy. */
int blockfile_copies_agree(struct blockfile *b, bool *agree) TFS_MUST;
/* Appends n bytes of the file as they are to out. */
int blockfile_bytes(struct blockfile *b, uint64_t offset, size_t n, struct buf *out) TFS_MUST;
/* *agree is set if block i has one copy, or two equal ones. */
int blockfile_block_agrees(struct blockfile *b, size_t i, bool *agree) TFS_MUST;
/* Appends block i as stored to out, after checking it. */
int blockfile_stored(struct blockfile *b, size_t i, struct buf *out) TFS_MUST;
/* Returns how many blocks contain pairs.  LevelDB's meta index, index and footer follow them. */
size_t blockfile_data_blocks(const struct blockfile *b);
size_t blockfile_data_block_max(const struct blockfile *b); /* raw bytes of the largest of them */
size_t blockfile_memory(const struct blockfile *b);
/* Reads the block at this logical offset, n bytes, into dst.  -EBADMSG also if there is no such block. */
int blockfile_read(struct blockfile *b, uint64_t logical, size_t n, void *dst) TFS_MUST;
/* The block there has the right checksum but is not a block of a table: logs that once, returns -EBADMSG. */
int blockfile_unsound(struct blockfile *b, uint64_t logical);
/*
 * The bytes of a file's units that one reader has read.  After two units in order, further
 * units are read from the file in advance.
 */
struct blockfile_window {
	struct buf raw, ahead;
	uint64_t unit;     /* the offset of the unit in `raw`, plus 1; 0 if there is none */
	uint64_t ahead_at; /* the offset of the bytes in ahead */
	uint64_t next;     /* the end of the last unit */
	uint32_t step;     /* how many bytes are read ahead next; 0 if the last two units were not in order */
	uint64_t asked;    /* the offset of the unit that was last asked for */
};
void blockfile_window_fini(struct blockfile_window *w);
/* Makes w->raw the raw bytes of the unit at this offset of the file. */
int blockfile_read_unit(struct blockfile *b, struct blockfile_window *w, uint64_t offset, uint32_t stored) TFS_MUST;
/* The unit there has the right checksum but not the value that an entry says it has: logs that once, returns -EBADMSG. */
int blockfile_unit_unsound(struct blockfile *b, uint64_t offset);
/* Appends a section to out, after checking it. */
int blockfile_section(struct blockfile *b, enum bff_section_id id, struct buf *out) TFS_MUST;
/* Returns the physical offset of the block at a logical one. */
uint64_t blockfile_physical(const struct blockfile *b, uint64_t logical);
/* Returns the stored bytes of the blocks before a logical offset, and of their units: for shares of a file. */
uint64_t blockfile_before(const struct blockfile *b, uint64_t logical);

#ifdef __cplusplus
}
#endif
#endif
