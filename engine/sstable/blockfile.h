/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A block file: one logical, append-only file of units (LevelDB's blocks with
 * their trailers, and its footer).  Each unit is stored compressed and with a
 * CRC-32C.  Dictionary, filters, properties, map and trailer follow.
 * blockfile_format.h describes the bytes.
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
 * no_dictionary.  Without a sample the dictionary of zstd-dict is trained on
 * the first units, which are kept in memory until then.
 */
int blockfile_writer_new(const char *path, const struct sst_options *o, struct blockfile_writer **out) TFS_MUST;
/*
 * Describes the unit being built.  keep: it becomes base number keep, because
 * later units may resemble it; 0 also drops all earlier bases.  against: it is
 * compressed against that base if that halves its size.  Only for zstd-dict.
 */
#define BLOCKFILE_NO_BASE UINT32_MAX
void blockfile_writer_note(struct blockfile_writer *w, uint32_t keep, uint32_t against);
/* Adds to the unit being built.  After an error every call returns it. */
int blockfile_writer_append(struct blockfile_writer *w, const void *p, size_t n) TFS_MUST;
/* Ends the unit: compresses and writes it.  Does nothing without a unit. */
int blockfile_writer_end_unit(struct blockfile_writer *w) TFS_MUST;
/* Returns the bytes stored so far, plus the raw bytes of units that wait for the training of the dictionary. */
uint64_t blockfile_writer_bytes(const struct blockfile_writer *w);
/*
 * Writes pending blocks, the sections and the trailer, then calls fdatasync.
 * filters: as encoded, or empty.
 */
int blockfile_writer_finish(struct blockfile_writer *w, uint64_t keys, uint64_t partitions, struct tfs_bytes filters,
	struct tfs_bytes properties, uint64_t *bytes) TFS_MUST;
/* Unlinks the file unless finish succeeded.  NULL is allowed. */
void blockfile_writer_free(struct blockfile_writer *w);

/* ---- reading ---- */
struct blockfile;
struct blockfile_counters {   /* added to atomically, shared by the files of one cache */
	uint64_t blocks_read; /* of data */
	uint64_t bytes_read;  /* of blocks and sections */
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
 * blocks in order by their checksums, up to the first damaged one.  Without a
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
/* Appends block i as stored to out, after checking it. */
int blockfile_stored(struct blockfile *b, size_t i, struct buf *out) TFS_MUST;
/* Returns how many blocks contain pairs.  LevelDB's meta index, index and footer follow them. */
size_t blockfile_data_blocks(const struct blockfile *b);
size_t blockfile_data_block_max(const struct blockfile *b); /* raw bytes of the largest of them */
size_t blockfile_memory(const struct blockfile *b);
/* Reads the unit at this logical offset, n bytes, into dst.  -EBADMSG also if there is no such unit. */
int blockfile_read(struct blockfile *b, uint64_t logical, size_t n, void *dst) TFS_MUST;
/* The unit there has the right checksum but is not a block of a table: logs that once, returns -EBADMSG. */
int blockfile_unsound(struct blockfile *b, uint64_t logical);
/* Appends a section to out, after checking it. */
int blockfile_section(struct blockfile *b, enum bff_section_id id, struct buf *out) TFS_MUST;
/* Returns the physical offset of a logical one, for sizes. */
uint64_t blockfile_physical(const struct blockfile *b, uint64_t logical);

#ifdef __cplusplus
}
#endif
#endif
