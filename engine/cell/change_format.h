/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes: the entries that a table with `changes` keeps beside its cells, one for each
 * cell and each delete of a row mutation.
 *
 * A change is a key and the new value.  The key is that of a cell (cellkey.h), so memtables, merges and SSTables
 * need no other form:
 *	row        nine digits of the time of commit, then the row key
 *	family     1
 *	qualifier  five digits of the index of the change in its commit, then
 *	           kind u8, family u16, timestamp u64 (two's complement), qualifier
 *	timestamp  0; the sequence number is that of the cell; the kind is CELL_VALUE
 * A digit is a byte with 7 bits and the highest bit set, the most significant digit first.  So no digit needs an
 * escape, and the order of keys is that of times of commit, then of row keys, then of indexes.
 *
 * The position of a change is the beginning of its key up to the index.  Positions of all tablets of a table differ.
 */
#ifndef TFS_CELL_CHANGE_FORMAT_H
#define TFS_CELL_CHANGE_FORMAT_H

#include "engine/cell/cellkey.h"

enum { CHANGE_STAMP_BYTES = 9, CHANGE_INDEX_BYTES = 5 };

struct change {
	int64_t stamp; /* the time of commit */
	uint32_t index;
	enum cell_kind kind;
	uint16_t family; /* 0: a delete of the row */
	int64_t ts;
	struct tfs_bytes row, qualifier;
};
/* Appends the key, with a time of commit and a sequence number of 0. */
int change_key_append(struct buf *out, const struct change *c) TFS_MUST;
/* Sets these two in a key of n bytes. */
void change_key_set(uint8_t *key, size_t n, int64_t stamp, uint64_t seq);
/* Appends the beginning of all positions at this time of commit. */
int change_stamp_append(struct buf *out, int64_t stamp) TFS_MUST;
/* Sets *stamp to the time of commit of a key or position.  -EBADMSG. */
int change_stamp(struct tfs_bytes key, int64_t *stamp) TFS_MUST;
/* Decodes a key.  The bytes are borrowed as by cellkey_decode.  -EBADMSG, -ENOMEM. */
int change_decode(struct tfs_bytes key, struct change *c, uint64_t *seq, struct buf *scratch) TFS_MUST;
/* Returns the length of the position at the start of a key, or 0. */
size_t change_position_len(struct tfs_bytes key);

/*
 * An answer of changes, as a server sends it: for each
 *	position   lstr
 *	kind       u8; 0: the reader may not read the family, or it was dropped; then nothing follows
 *	family u16, timestamp u64, qualifier lstr
 *	size       u64, of the whole value
 *	value      lstr: the value; or, in an answer with this change alone, a part of it
 */
struct sent_change {
	struct tfs_bytes position;
	struct change c; /* index and row are not set */
	uint64_t size;
	struct tfs_bytes value;
	bool hidden;
};
int sent_change_append(struct buf *out, const struct sent_change *s) TFS_MUST;
/* Returns 1 and the next change, whose bytes are borrowed, 0 at the end, -EBADMSG. */
int sent_change_next(struct reader *r, struct sent_change *s) TFS_MUST;
/* The row key of a position, borrowed as by cellkey_unescape. */
int change_position_row(struct tfs_bytes position, struct buf *scratch, struct tfs_bytes *row) TFS_MUST;

#endif
