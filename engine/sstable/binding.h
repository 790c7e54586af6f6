/* SPDX-License-Identifier: Apache-2.0 */
/*
 * LevelDB's table layer for C.  Only binding.cc includes LevelDB's headers, and
 * no C++ exception leaves it.
 *
 * Errors: as in blockfile.h, and -EBADMSG, -EIO; -ENOMEM for std::bad_alloc.
 * Threads: a builder and a cursor belong to one thread at a time; tables
 * and caches are shared.
 */
#ifndef TFS_SSTABLE_BINDING_H
#define TFS_SSTABLE_BINDING_H

#include "engine/base/bytes.h"
#include "engine/base/iter.h"
#include "engine/sstable/ahead.h"
#include "engine/sstable/blockfile.h"
#include "engine/sstable/lru.h"
#include "engine/sstable/value.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- building ---- */
struct ldb_builder;
/* Writes to w, which must outlive it. */
int ldb_builder_new(struct blockfile_writer *w, struct ldb_builder **out) TFS_MUST;
/* Keys rise strictly; the caller has checked that. */
int ldb_builder_add(struct ldb_builder *b, struct tfs_bytes key, struct tfs_bytes value) TFS_MUST;
int ldb_builder_end_block(struct ldb_builder *b) TFS_MUST;
/* From now on every n-th key is stored whole.  LevelDB searches those by bisection and the keys between linearly. */
int ldb_builder_restart_every(struct ldb_builder *b, int n) TFS_MUST;
/* Writes index and footer.  The last call before free. */
int ldb_builder_finish(struct ldb_builder *b) TFS_MUST;
void ldb_builder_free(struct ldb_builder *b);

/* ---- tables ---- */
/* The lru_drop_fn of LevelDB's blocks; without `how` the block is freed. */
void ldb_block_drop(struct tfs_bytes key, void *block, void (*how)(void));
struct ldb_table;
/* Takes b, also on error.  cache may be NULL; file: the file's number in it, the same at each opening. */
int ldb_table_open(struct blockfile *b, struct lru *cache, uint64_t file, struct ldb_table **out) TFS_MUST;
void ldb_table_close(struct ldb_table *t); /* after all cursors */
struct blockfile *ldb_table_file(struct ldb_table *t);
/* Logical offset; never fails. */
uint64_t ldb_table_offset_of(struct ldb_table *t, struct tfs_bytes key);

/* ---- cursors ---- */
/*
 * An iterator of engine/base/iter.h; the embedder supplies ops->free.  After an
 * error LevelDB's iterator returns that error for ever and has skipped the bad
 * block, so the next seek makes a new one.
 */
struct ldb_cursor {
	struct iter it;         /* first */
	void *ldb;              /* leveldb::Iterator, NULL until the first seek and after an error */
	struct value_ref value; /* the value of the current key */
	struct ldb_table *table;
	bool fill_cache;
	bool rising; /* the last seek moved to the next entry */
	bool read;   /* the last seek read a block that was not in the cache */
	unsigned char seeks;
	struct walk *walk; /* reads its blocks ahead; may be NULL */
};
void ldb_cursor_seek(struct iter *it, struct tfs_bytes target);
void ldb_cursor_next(struct iter *it);
void ldb_cursor_seek_before(struct iter *it, struct tfs_bytes target);
/* Frees LevelDB's iterator and with it the block it pins. */
void ldb_cursor_fini(struct ldb_cursor *c);

/* ---- filters: LevelDB's policy over hashes of probes ---- */
/* Appends the filter to out. */
int ldb_filter_create(const uint64_t *hashes, size_t n, int bits, struct buf *out) TFS_MUST;
bool ldb_filter_match(uint64_t hash, struct tfs_bytes filter);

#ifdef __cplusplus
}
#endif
#endif
