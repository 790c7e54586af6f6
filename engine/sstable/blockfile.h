/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A block file: one logical, append-only file of units (what LevelDB's table
 * builder appends between two flushes), each stored compressed and under a
 * CRC-32C, and after them dictionary, filters, properties, map and trailer.
 * blockfile_format.h has the bytes.
 *
 * Threads: a writer belongs to one thread; a reader is shared freely.
 * Errors: those of sstable.h.  What is damaged is logged here, once per
 * block and opening, with the file's name and the physical offset.
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
/* Creates path (O_EXCL).  train: with zstd-dict a dictionary is made. */
int blockfile_writer_new(const char *path, enum sst_codec codec, int level, bool train, struct blockfile_writer **out) TFS_MUST;
/*
 * Before the first unit: with zstd-dict the dictionary is trained on s.
 * Without this it is trained on the first units, held back for that.
 */
int blockfile_writer_train(struct blockfile_writer *w, const struct sst_sample *s) TFS_MUST;
/* Before finish: the file holds all of it twice (base/copies.h). */
void blockfile_writer_twice(struct blockfile_writer *w);
/*
 * Of the unit being built, which ends next: others may look like it, or it
 * may look like one said that of.  keep: it is base number keep (0: and all
 * earlier ones are forgotten); against: it is compressed against that base,
 * if that halves it.  Only zstd-dict heeds them.
 */
#define BLOCKFILE_NO_BASE UINT32_MAX
void blockfile_writer_note(struct blockfile_writer *w, uint32_t keep, uint32_t against);
/* Bytes of the unit being built; an error sticks. */
int blockfile_writer_append(struct blockfile_writer *w, const void *p, size_t n) TFS_MUST;
/* Ends the unit: compresses and writes it.  Nothing pending: nothing happens. */
int blockfile_writer_end_unit(struct blockfile_writer *w) TFS_MUST;
/* Stored so far, what is still held back for training a dictionary included (uncompressed). */
uint64_t blockfile_writer_bytes(const struct blockfile_writer *w);
/*
 * Writes what is pending, the sections and the trailer, then fdatasync.
 * filters: as encoded, or empty.
 */
int blockfile_writer_finish(struct blockfile_writer *w, uint64_t keys, uint64_t partitions, struct slice filters,
	struct slice properties, uint64_t *bytes) TFS_MUST;
/* Unlinks the file unless finish succeeded.  NULL is allowed. */
void blockfile_writer_free(struct blockfile_writer *w);

/* ---- reading ---- */
struct blockfile;
struct blockfile_counters {   /* added to atomically, shared by the files of one cache */
	uint64_t blocks_read; /* of data */
	uint64_t bytes_read;  /* of these and everything else */
};
/*
 * Opens, reads and checks trailer, map and dictionary.  counters may be NULL
 * and must outlive the file.  -ENOENT; otherwise, as in all reading, -EBADMSG,
 * -ENOMEM, or -EIO for every other failure.
 */
int blockfile_open(const char *path, struct blockfile_counters *counters, struct blockfile **out) TFS_MUST;
/*
 * The same of a file that may be damaged.  Without a good trailer or map, the
 * blocks are found one after another by their checksums, up to the first one
 * that is damaged.  Without a good dictionary, blocks that need it cannot be read.
 * *data_blocks: of the map, how many blocks may hold pairs.  *whole: the map has all blocks.
 */
int blockfile_open_damaged(const char *path, struct blockfile **out, size_t *data_blocks, bool *whole) TFS_MUST;
/* One section alone, without what an open file holds: reads the trailer and it.  bytes: the size the file must have; 0: is not known. */
int blockfile_peek(
	const char *path, uint64_t bytes, struct blockfile_counters *counters, enum bff_section_id id, struct buf *out) TFS_MUST;
/* Is the file as long as it must be?  Logs it if not: every checksum of one SSTable is right in the place of another, too. */
int blockfile_check_size(const struct blockfile *b, uint64_t bytes) TFS_MUST;
void blockfile_close(struct blockfile *b);
const char *blockfile_path(const struct blockfile *b);
const struct bff_trailer *blockfile_trailer(const struct blockfile *b);
const struct bff_map *blockfile_map(const struct blockfile *b);
uint64_t blockfile_file_bytes(const struct blockfile *b);
/*
 * Bytes of one copy in a file of two, else 0.  In such a file, each read that
 * finds one copy damaged takes the other, and the first one logs it.
 */
uint64_t blockfile_copy_bytes(const struct blockfile *b);
/* Block i as it is stored, checked, appended to out. */
int blockfile_stored(struct blockfile *b, size_t i, struct buf *out) TFS_MUST;
/* The blocks that hold pairs are the first so many; behind them LevelDB's meta index, index and footer. */
size_t blockfile_data_blocks(const struct blockfile *b);
size_t blockfile_data_block_max(const struct blockfile *b); /* bytes of the largest of them, raw */
size_t blockfile_memory(const struct blockfile *b);
/* The unit that begins at this logical offset and is n bytes long, into dst.  -EBADMSG also where there is none. */
int blockfile_read(struct blockfile *b, uint64_t logical, size_t n, void *dst) TFS_MUST;
/* What was read there has the right checksum and is no block of a table: logs that once, returns -EBADMSG. */
int blockfile_unsound(struct blockfile *b, uint64_t logical);
/* A section's bytes, checked, appended to out. */
int blockfile_section(struct blockfile *b, enum bff_section_id id, struct buf *out) TFS_MUST;
/* Logical to physical, for sizes. */
uint64_t blockfile_physical(const struct blockfile *b, uint64_t logical);

#ifdef __cplusplus
}
#endif
#endif
