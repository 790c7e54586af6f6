/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SSTables (paper, section 4): immutable files of sorted (key, value) pairs.
 *
 * The contents are in LevelDB's table format, written by leveldb::TableBuilder
 * and read by leveldb::Table (binding.cc, the only C++ file).  They are stored
 * in a block file (blockfile.h), which compresses each block and checks it by
 * CRC-32C.  Bloom filters and a properties blob follow the blocks.  Keys are
 * opaque here and sorted bytewise.
 *
 * Errors: -EBADMSG a damaged file or block (logged here once, with file and
 * offset), -EIO, -ENOMEM, -ENOSPC.
 * Threads: a writer and an iterator belong to one thread; struct sst and
 * struct sst_cache are shared freely.
 */
#ifndef TFS_SSTABLE_H
#define TFS_SSTABLE_H

#include "engine/base/bytes.h"
#include "engine/base/iter.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The compressions: X(enumerator, number, name, whether a level has an effect).  The
 * numbers are on disk, in blocks, trailers and schemas; 5 is BFF_CODEC_AGAINST
 * (blockfile_format.h).  coder_encode() and codec_decode() in codec.c have a case
 * for each; codec_is_slow() (engine/compact/compact_internal.h) has the codecs that
 * flushes do not use.  Unless BFF_VERSION rises too, an older program reports a file
 * of a new codec as damaged.
 */
#define SST_CODEC_LIST(X)                                                                                                          \
	X(NONE, 0, "none", false)                                                                                                  \
	X(SNAPPY, 1, "snappy", false)                                                                                              \
	X(LZ4, 2, "lz4", false)                                                                                                    \
	X(ZSTD, 3, "zstd", true)                                                                                                   \
	X(ZSTD_DICT, 4, "zstd-dict", true)

#define SST_CODEC_ENUMERATOR(upper, number, ...) SST_##upper = number,
enum sst_codec { SST_CODEC_LIST(SST_CODEC_ENUMERATOR) SST_CODECS /* no number is larger */ };
struct sst_codec_kind {
	const char *name; /* NULL: no codec has this number */
	bool levels;
};
extern const struct sst_codec_kind sst_codec_kinds[SST_CODECS];
static inline bool sst_is_codec(uint32_t number)
{
	return number < SST_CODECS && sst_codec_kinds[number].name;
}
/* Returns an enum sst_codec, or -1. */
int sst_codec_by_name(const char *name);

struct sst_sample;
struct sst_options {
	enum sst_codec codec;
	int level;            /* if the codec has levels */
	uint32_t block_bytes; /* the target size of an uncompressed unit of values or, if `twice` is set, of a block; 0: 2 KiB */
	int bloom_bits;       /* per probe; 0: no filters */
	bool in_memory;       /* blocks go to the in-memory cache */
	const struct sst_sample *sample; /* trains the dictionary, in sst_writer_new; NULL: the beginning of the table trains it */
	bool twice;                      /* the file contains two copies; a damaged piece is read from the second */
	bool no_dictionary;              /* zstd-dict without a dictionary, because the table is soon written again */
};

/* ---- writing ---- */
struct sst_writer;
/*
 * Creates path (O_EXCL).  Durable steps, all in sst_writer_finish: 1 the
 * last blocks and trailer are written, 2 fdatasync.  The caller fsyncs the
 * directory.  A crash before 2 leaves a file that nothing refers to.
 */
int sst_writer_new(const char *path, const struct sst_options *o, struct sst_writer **out) TFS_MUST;
/*
 * Adds the entry of the iterator, which stays there.  Keys rise strictly.  again: an older
 * version of the previous key's column.  With zstd-dict the versions of a
 * column stay in one unit of up to four times the target size, and further
 * ones are compressed against the first.  A value that cannot be read is an error of the
 * writer, too.
 */
int sst_writer_add_from(struct sst_writer *w, struct iter *it, bool again) TFS_MUST;
/* Adds an entry in memory, as sst_writer_add_from does. */
int sst_writer_add(struct sst_writer *w, struct tfs_bytes key, struct tfs_bytes value, bool again) TFS_MUST;
/*
 * Adds a probe to the filter partition of the next added key.  A partition has
 * 65,536 keys.  sst_writer_partition returns the partition of the next key, so
 * that the caller can repeat the probes of a row that continues in it.  Equal
 * consecutive probes count once.
 */
int sst_writer_probe(struct sst_writer *w, struct tfs_bytes probe) TFS_MUST;
unsigned sst_writer_partition(const struct sst_writer *w);
uint64_t sst_writer_bytes(const struct sst_writer *w); /* file size so far, an estimate */
/* properties: opaque bytes stored in the file, at most 1 MiB.  *bytes: the file's size. */
int sst_writer_finish(struct sst_writer *w, struct tfs_bytes properties, uint64_t *bytes) TFS_MUST;
/* Closes; unlinks the file unless finish succeeded.  NULL is allowed. */
void sst_writer_free(struct sst_writer *w);

/* ---- reading ---- */
/*
 * The caches of one server: one for uncompressed blocks and cells that
 * sst_find returned, a second one for in-memory groups (a quarter of
 * block_bytes, in addition to it), and the open tables (index, filters) in an
 * LRU bounded in bytes and in descriptors (500).
 */
struct sst_cache;
struct sst_cache_stats {
	uint64_t block_bytes, cell_bytes, memory_bytes, table_bytes,
		tables_open; /* the part of the first two numbers that is in in-memory groups */
	uint64_t block_bytes_max, table_bytes_max;
	uint64_t cell_hits, cell_misses;   /* sst_find took the cell from the cache, or searched the table */
	uint64_t block_hits, block_misses; /* searches of the block cache; an iterator on the block needs none */
	uint64_t blocks_read;              /* blocks of keys, and units, that were read from disk */
	uint64_t bytes_read;               /* bytes of SSTables read from disk: the blocks above, and reads when files are opened */
	uint64_t table_opens, probes, probe_misses; /* searches of filters, and those without a match */
};
int sst_cache_new(size_t block_bytes, size_t table_bytes, struct sst_cache **out) TFS_MUST;
/* Changes both bounds, and evicts the entries above them. */
void sst_cache_resize(struct sst_cache *c, size_t block_bytes, size_t table_bytes);
void sst_cache_free(struct sst_cache *c); /* after every sst is put */
/*
 * fn is called with the path of each retired SSTable (sst_retire) after its last
 * put, by the thread of that put.  Call this before the first SSTable.
 */
typedef void sst_retired_fn(void *arg, const char *path);
void sst_cache_on_retired(struct sst_cache *c, sst_retired_fn *fn, void *arg);
/* Bytes of all SSTables that have an object, each counted once. */
uint64_t sst_cache_file_bytes(const struct sst_cache *c);
void sst_cache_get_stats(struct sst_cache *c, struct sst_cache_stats *s);

/* One SSTable file, opened at first use and perhaps closed again by the cache. */
struct sst;
/*
 * Does no I/O.  The path is copied.  There is one object for a path: further
 * calls return references to it.
 */
int sst_new(struct sst_cache *c, const char *path, bool in_memory, struct sst **out) TFS_MUST;
/* Returns true if there is an object for the path. */
bool sst_in_use(struct sst_cache *c, const char *path);
/* The size that the file should have, before the first use. */
void sst_expect_bytes(struct sst *s, uint64_t bytes);
/* The last put frees the object and, after sst_retire, reports the file (sst_cache_on_retired). */
void sst_put(struct sst *s);
/* A tablet's list no longer has the file, durably, or never had it. */
void sst_retire(struct sst *s);
/* by: 1 when a tablet lists the file, -1 when it drops it. sst_shared returns true if more than one tablet lists it. */
void sst_share(struct sst *s, int by);
bool sst_shared(const struct sst *s);
unsigned sst_shares(const struct sst *s); /* the number of tablets that list it, at least 1 */
const char *sst_path(const struct sst *s);
/* An iterator over the whole table, perhaps a reused one.  It has a reference to s. */
int sst_iter_new(struct sst *s, struct iter **out) TFS_MUST;
/*
 * Makes an iterator, as sst_iter_new does, for a reader of many rows.  After a
 * few blocks in order the next blocks are read and decompressed ahead.  The
 * blocks of a file larger than half of the block cache do not enter the cache.
 */
int sst_walk_new(struct sst *s, struct iter **out) TFS_MUST;
/*
 * The reader of an iterator of sst_walk_new will take about this many bytes, so no block
 * beyond is read ahead, until the reader has taken more.  The units of a scan that is
 * short beside the block cache enter the cache.
 */
void sst_iter_expect(struct iter *it, uint64_t bytes);
/* Makes an iterator, as sst_iter_new does, for one pass over the table (compaction, export): its blocks do not enter the cache. */
int sst_scan_new(struct sst *s, struct iter **out) TFS_MUST;
/* Returns false if no key in [from, to] was added with this probe.  Returns true if that is unknown, also after an error. */
bool sst_may_contain(struct sst *s, struct tfs_bytes from, struct tfs_bytes to, struct tfs_bytes probe);
/*
 * A point read of one table.  *out is an iterator on the first key that begins
 * with prefix, or NULL if there is none.  `to` is above all keys with the
 * prefix; `probe` is searched for in the filter.  A small cell found far from
 * the previous one enters the cell cache; then it is found without filter,
 * index and block.  The iterator has no reference to s.
 */
int sst_find(struct sst *s, struct tfs_bytes prefix, struct tfs_bytes to, struct tfs_bytes probe, struct iter **out) TFS_MUST;
/* ---- samples of tables, to train the dictionary of the table that replaces them ---- */
struct sst_sample {
	struct buf raw;
	struct buf lengths; /* the lengths, each a uint32_t, of the units in `raw`, which are as large as blocks */
	uint64_t of_bytes;  /* approximate raw bytes of the new table */
};
int sst_sample_add(struct sst_sample *sample, struct tfs_bytes unit) TFS_MUST;
void sst_sample_fini(struct sst_sample *sample);
/* *out: a copy of the properties blob.  A closed table stays closed. */
int sst_properties(struct sst *s, struct buf *out) TFS_MUST;
/*
 * `bytes` is the size that the file should have, or 0 if that is unknown.  Reads the whole
 * file without the caches and checks each checksum and the order of keys.  If it is
 * damaged, *why (the caller frees it) names the offset.  A part that cannot be read is
 * damage; -EIO: the file itself cannot be opened.
 */
int sst_verify(const char *path, uint64_t bytes, uint64_t *keys, char **why) TFS_MUST;
/*
 * Writes a file of two copies (sst_options.twice) again if a copy is damaged,
 * cut short or followed by other bytes, and logs that.  Open readers continue
 * with the old file.  A file with the same piece damaged in both copies is not
 * changed.
 */
void sst_mend(const char *path, uint64_t bytes);
/*
 * Reads the readable entries of a damaged file: calls fn for each, keys
 * strictly rising, and with key.p NULL for each unreadable stretch,
 * with value.p NULL if only the value cannot be read.  A non-zero
 * return of fn ends the call and is returned.  `as` is the path at which the
 * file belongs, normally `path`; `bytes` as in sst_verify.
 */
typedef int sst_salvage_fn(void *arg, struct tfs_bytes key, struct tfs_bytes value);
int sst_salvage(const char *path, const char *as, uint64_t bytes, sst_salvage_fn *fn, void *arg) TFS_MUST;
/* Returns the identity (bff_identity) of the path at which the undamaged trailer says that the file belongs; 0: unknown. */
uint64_t sst_identity(const char *path);
/* Returns true if the trailer says that the file belongs at another path. */
bool sst_is_another(const char *path);
/*
 * *offset: the stored bytes of the keys below this key and of their values, an estimate, for the shares of a table
 * that several tablets use.
 */
int sst_offset_of(struct sst *s, struct tfs_bytes key, uint64_t *offset) TFS_MUST;
/* *out: a key at about this offset, as sst_offset_of counts offsets.  -ENOENT if the table is empty. */
int sst_key_near(struct sst *s, uint64_t offset, struct buf *out) TFS_MUST;
/* Sets *out to the first key of the next readable block after the block that may contain key.  -ENOENT if there is none. */
int sst_key_behind(struct sst *s, struct tfs_bytes key, struct buf *out) TFS_MUST;
/* Sizes for tabletctl dump: blocks, index, filters. */
struct sst_layout {
	uint64_t file_bytes, raw_bytes, blocks, units, filter_bytes, filter_partitions, map_bytes;
	enum sst_codec codec;
};
int sst_layout(struct sst *s, struct sst_layout *l) TFS_MUST;

#ifdef __cplusplus
}
#endif
#endif
