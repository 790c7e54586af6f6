/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cell keys: memtables, SSTables and merges order cells by comparing the bytes
 * of one string.
 *
 *	row         each 0x00 as 00 FF, ended by 00 01
 *	family id   u16 BE; 0: the row-delete pseudo family
 *	qualifier   like the row; or 00 00 alone: a delete of the whole row
 *	            (family 0) or family, which therefore sorts before its cells
 *	~timestamp  u64 BE of ~(ts with the sign bit flipped): newest first
 *	~sequence   u64 BE of ~seq: latest first
 *	kind        u8
 *	commit      CELL_VALUE only: the time of commit minus the
 *	            timestamp, in microseconds, zigzag, BE, without leading zero
 *	            bytes (none if the two are equal).  It does not affect the
 *	            order, because sequences differ.
 *
 * A delete sorts before the cells that it masks (at the same timestamp by
 * sequence) and masks only smaller sequence numbers:
 *	CELL_DELETE_ROW, CELL_DELETE_FAMILY   everything below them in the row / family
 *	CELL_DELETE_COLUMN                    the column's versions with timestamp <= its own
 *	CELL_DELETE_VERSION                   versions of exactly its timestamp
 * CELL_VALUE's value is the cell's bytes.
 */
#ifndef TFS_CELL_CELLKEY_H
#define TFS_CELL_CELLKEY_H

#include "engine/base/bytes.h"

enum cell_kind {
	CELL_DELETE_ROW = 1,
	CELL_DELETE_FAMILY = 2,
	CELL_DELETE_COLUMN = 3,
	CELL_DELETE_VERSION = 4,
	CELL_VALUE = 5,
};
#define CELL_SUFFIX_BYTES 17 /* ~timestamp, ~sequence, kind */
#define CELL_COMMIT_BYTES 8  /* the most bytes of a time of commit */

struct cellkey {
	struct tfs_bytes row, qualifier; /* raw bytes */
	uint16_t family;
	enum cell_kind kind;
	int64_t ts; /* row and family deletes: INT64_MAX */
	uint64_t seq;
	int64_t commit; /* values only */
};

/* -EINVAL: an unknown kind, or family 0 in a key that is not a row delete.  The qualifier and ts of a delete of a row or family are ignored. */
int cellkey_append(struct buf *out, const struct cellkey *k) TFS_MUST;
/*
 * -EBADMSG: not a canonical key; -ENOMEM.  Row and qualifier borrow from key if
 * they contain no 0x00, else from scratch (which is grown).
 */
int cellkey_decode(struct tfs_bytes key, struct cellkey *k, struct buf *scratch) TFS_MUST;
/* Raw bytes of an encoded row or qualifier with its terminator, borrowed as by cellkey_decode; -EBADMSG, -ENOMEM. */
int cellkey_unescape(struct tfs_bytes escaped, struct buf *scratch, struct tfs_bytes *raw) TFS_MUST;

/* Prefixes for seeks: lower bounds of the keys that they name. */
int cellkey_row_prefix(struct buf *out, struct tfs_bytes row) TFS_MUST; /* appends the encoded row with terminator */
int cellkey_row_after(struct buf *out, struct tfs_bytes row) TFS_MUST;  /* above every key of the row, below the next row's */
int cellkey_column_prefix(struct buf *out, struct tfs_bytes row, uint16_t family, struct tfs_bytes qualifier) TFS_MUST;
/* memcmp orders encoded rows as bytes_cmp orders the rows. */

/* Returns the length of the encoded row (with terminator), or of row+family+qualifier, at the start of a key; 0 if malformed. */
size_t cellkey_row_len(struct tfs_bytes key);
size_t cellkey_column_len(struct tfs_bytes key);
/* The timestamp as it is in a key, and back. */
static inline uint64_t cellkey_ts(int64_t ts)
{
	return ~((uint64_t)ts ^ (UINT64_C(1) << 63));
}
/* The suffix of a well-formed key of known column length. */
void cellkey_suffix(struct tfs_bytes key, size_t column_len, int64_t *ts, uint64_t *seq, enum cell_kind *kind);
/* Writes the commit field to p (CELL_COMMIT_BYTES).  Returns its length. */
size_t cellkey_put_commit(uint8_t *p, int64_t ts, int64_t commit);
/* The time of commit of a value with this timestamp.  Returns false if the field is too long. */
bool cellkey_commit(struct tfs_bytes key, size_t column_len, int64_t ts, int64_t *commit) TFS_MUST;

/* Bloom probes: a tag, then the encoded prefix of a key.
 * 'r' row; 'c' row+family+qualifier; 'R' a row delete exists; 'F' a family delete exists in row; 'C' a column
 * delete exists in the column. */
int cellkey_probe(struct buf *out, char tag, struct tfs_bytes row, uint16_t family, struct tfs_bytes qualifier) TFS_MUST;

#endif
