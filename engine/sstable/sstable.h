/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SSTables (paper, section 4): immutable files of sorted (key, value) pairs.
 *
 * Inside it is LevelDB's own table format, written by leveldb::TableBuilder
 * and read by leveldb::Table (binding.cc, the only C++ file), lying on a
 * block file (blockfile.h) that compresses each block and checks it by
 * CRC-32C; after the blocks come Bloom filters and a properties blob.  Keys
 * are opaque here and sorted bytewise.
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

enum sst_codec { SST_NONE, SST_SNAPPY, SST_LZ4, SST_ZSTD, SST_ZSTD_DICT, SST_CODECS };
extern const char *const sst_codec_names[SST_CODECS]; /* none snappy lz4 zstd zstd-dict */

struct sst_sample;
struct sst_options {
	enum sst_codec codec;
	int level;            /* zstd */
	uint32_t block_bytes; /* target of an uncompressed block */
	int bloom_bits;       /* per probe; 0: no filters */
	bool in_memory;       /* blocks go to the in-memory cache */
	const struct sst_sample
		*sample;    /* while the writer is made: what to train a dictionary on; NULL: on the table's beginning */
	bool twice;         /* the file holds all of it twice: damage of one copy is read around */
	bool no_dictionary; /* zstd-dict without one: the table is soon written again */
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
 * Keys strictly rising.  SST_CHUNK: the value is a piece of a large value; it
 * gets a block of its own.  Otherwise blocks end at the target size, but not
 * before 16 keys (64 KiB keys would otherwise make an index larger than the
 * data) or 16 times the bytes of the block's longest key, whichever is first.
 * SST_AGAIN: not a chunk, and an older version of what the keys before it
 * are, the chunks that follow included: with zstd-dict those stay in one
 * block up to four times its size, and beyond are compressed against the
 * first.
 */
enum { SST_CHUNK = 1, SST_AGAIN = 2 };
int sst_writer_add(struct sst_writer *w, struct slice key, struct slice value, unsigned flags) TFS_MUST;
/*
 * Adds a probe to the filter partition that the next added key falls in.
 * Partitions end every 65,536 keys; sst_writer_partition tells the number of
 * the one that the next key falls in, so that the caller can repeat the
 * probes of a row that crosses into it.  Equal consecutive probes count once.
 */
int sst_writer_probe(struct sst_writer *w, struct slice probe) TFS_MUST;
unsigned sst_writer_partition(const struct sst_writer *w);
uint64_t sst_writer_bytes(const struct sst_writer *w); /* file size so far, an estimate */
uint64_t sst_writer_keys(const struct sst_writer *w);
/* properties: opaque bytes kept in the file (at most 1 MiB).  *bytes: the file's size. */
int sst_writer_finish(struct sst_writer *w, struct slice properties, uint64_t *bytes) TFS_MUST;
/* Closes; unlinks the file unless finish succeeded.  NULL is allowed. */
void sst_writer_free(struct sst_writer *w);

/* ---- reading ---- */
/*
 * The caches of one server: uncompressed blocks and cells that sst_find gave,
 * a bounded one of the same kind for in-memory groups, and the open tables
 * (index, filters) in a weighted LRU bounded in bytes and in descriptors (at
 * most 500).
 */
struct sst_cache; /* in-memory groups: up to a quarter of block_bytes, on top of it */
struct sst_cache_stats {
	uint64_t block_bytes, cell_bytes, memory_bytes, table_bytes,
		tables_open; /* memory_bytes: what of the first two is in-memory groups' */
	uint64_t block_bytes_max, table_bytes_max;
	uint64_t cell_hits, cell_misses;            /* sst_find had the cell remembered, or looked for it in the table */
	uint64_t block_hits, block_misses;          /* look-ups of a block; an iterator that has it in hand needs none */
	uint64_t blocks_read;                       /* of data, from disk */
	uint64_t bytes_read;                        /* of SSTables, from disk: these, and what opening one reads */
	uint64_t table_opens, probes, probe_misses; /* filter asked; said no */
};
int sst_cache_new(size_t block_bytes, size_t table_bytes, struct sst_cache **out) TFS_MUST;
void sst_cache_free(struct sst_cache *c); /* after every sst is put */
void sst_cache_get_stats(const struct sst_cache *c, struct sst_cache_stats *s);

/* One SSTable file, opened at first use and perhaps closed again by the cache. */
struct sst;
/*
 * Takes no I/O.  The path is copied.  There is one object for a path: whoever
 * asks while others have it gets a reference to theirs.
 */
int sst_new(struct sst_cache *c, const char *path, bool in_memory, struct sst **out) TFS_MUST;
/* Has anybody an object for the path? */
bool sst_in_use(struct sst_cache *c, const char *path);
/* Before the first use: a file of another size is another file, and damage. */
void sst_expect_bytes(struct sst *s, uint64_t bytes);
struct sst *sst_get(struct sst *s);
/*
 * The last put frees it; with sst_doom set before, also unlinks the file
 * (so files still read by a scan are not removed under it).
 */
void sst_put(struct sst *s);
void sst_doom(struct sst *s);
const char *sst_path(const struct sst *s);
/* An iterator over the whole table, from a pool; holds a reference on s. */
int sst_iter_new(struct sst *s, struct iter **out) TFS_MUST;
/*
 * The same for a reader of many rows: once it has passed through a few blocks
 * the next ones are read and decompressed ahead; and if the file is larger
 * than half the block cache they displace nothing there.
 */
int sst_walk_new(struct sst *s, struct iter **out) TFS_MUST;
/* The same for one pass over everything (compaction, export): the blocks it reads displace no cached ones. */
int sst_scan_new(struct sst *s, struct iter **out) TFS_MUST;
/* False: no key in [from, to] was added with this probe.  True on any doubt, failure to open included. */
bool sst_may_contain(struct sst *s, struct slice from, struct slice to, struct slice probe);
/*
 * What a point read asks of one table: *out is an iterator on the first key
 * that begins with prefix, or NULL when there is none.  to: above all keys
 * with the prefix; probe: what the filter is asked for.  Small cells that it
 * had to look for far from the last ones are remembered, and then need
 * neither filter nor index nor block; the iterator looks those up when it is
 * moved.  It holds no reference on s.
 */
int sst_find(struct sst *s, struct slice prefix, struct slice to, struct slice probe, struct iter **out) TFS_MUST;
/* ---- samples of tables, to train the dictionary of the one that takes their place ---- */
struct sst_sample {
	struct buf raw;
	uint32_t *lengths; /* of units as large as blocks, in raw */
	size_t n;
	uint64_t of_bytes; /* raw bytes that the table will have, about */
};
int sst_sample_add(struct sst_sample *sample, struct slice unit) TFS_MUST;
void sst_sample_fini(struct sst_sample *sample);
/* A copy of the properties blob.  A table that is not open stays so. */
int sst_properties(struct sst *s, struct buf *out) TFS_MUST;
/* Reads the whole file past the caches and checks every checksum and the order of keys.  On damage *why (free it) names the offset. */
int sst_verify(const char *path, uint64_t *keys, char **why) TFS_MUST;
/*
 * Writes a file of two copies (sst_options.twice) again if one of them is
 * damaged, and logs that; readers that have it open keep the old one.  What
 * cannot be mended stays as it is.
 */
void sst_mend(const char *path);
/*
 * Reads what can be read of a damaged file: fn for each entry, keys strictly
 * rising, and with key.p NULL for each stretch that cannot be read.  A
 * non-zero return of fn stops and is passed on.
 */
typedef int sst_salvage_fn(void *arg, struct slice key, struct slice value);
int sst_salvage(const char *path, sst_salvage_fn *fn, void *arg) TFS_MUST;
/* The approximate file offset at which key would lie (for shares of a clipped table). */
int sst_offset_of(struct sst *s, struct slice key, uint64_t *offset) TFS_MUST;
/* The first key of the block that lies at about this offset of the file; -ENOENT: the table is empty. */
int sst_key_near(struct sst *s, uint64_t offset, struct buf *out) TFS_MUST;
/* The first key of the next block that can be read, behind the one that would hold key; -ENOENT: there is none. */
int sst_key_behind(struct sst *s, struct slice key, struct buf *out) TFS_MUST;
/* Sizes for tabletctl dump: blocks, index, filters. */
struct sst_layout {
	uint64_t file_bytes, raw_bytes, blocks, filter_bytes, filter_partitions, map_bytes;
	enum sst_codec codec;
};
int sst_layout(struct sst *s, struct sst_layout *l) TFS_MUST;

#ifdef __cplusplus
}
#endif
#endif
