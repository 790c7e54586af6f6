/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The structure of LevelDB's table format, checked before LevelDB reads it.
 * LevelDB's reader adds 32-bit lengths without a check for overflow and
 * allocates any size that a handle names.  A right checksum does not prove
 * that this program wrote the bytes.
 *
 *   block:  entries, restart offsets (u32 LE each), their number (u32 LE);
 *           then 1 byte type (0), 4 bytes of LevelDB's checksum, not checked
 *   entry:  varint32 shared, varint32 unshared, varint32 value length,
 *           unshared bytes of key, value
 *   handle: varint64 offset, varint64 size without the 5 bytes
 *   footer: handles of meta index and index, zeros up to 40 bytes, 8 of magic
 *
 * Nothing here does I/O or logs; all functions accept hostile input.
 */
#ifndef TFS_SSTABLE_TABLE_FORMAT_H
#define TFS_SSTABLE_TABLE_FORMAT_H

#include "engine/sstable/blockfile_format.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { TABLE_FOOTER_BYTES = 48, TABLE_UNITS = 3 /* meta index, index, footer: the last units of a file */ };

/* unit is a block with its 5 bytes: each entry is inside it, and each restart is an entry that shares nothing. */
bool table_block_good(struct tfs_bytes unit);
/*
 * Checks as table_block_good, and calls fn for each entry: its key is the first
 * `shared` bytes of the previous key, then unshared.  Returns false also if fn
 * does.
 */
typedef bool table_entry_fn(void *arg, uint32_t shared, struct tfs_bytes unshared, struct tfs_bytes value);
bool table_block_each(struct tfs_bytes unit, table_entry_fn *fn, void *arg);
/* Returns true for a good block whose values are the handles of the data blocks of the map. */
bool table_index_good(struct tfs_bytes unit, const struct bff_map *m);
/* Returns true if the footer has the handles of the two units before it. */
bool table_footer_good(struct tfs_bytes unit, const struct bff_map *m);

#ifdef __cplusplus
}
#endif
#endif
