/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations of a row mutation, and reads, as plain values: the tablet service
 * transports them, the tablet executes them.  Families are ids here.  Each
 * operation means the same as in engine/tabletfs.h.
 * All bytes are borrowed.
 */
#ifndef TFS_CELL_OP_H
#define TFS_CELL_OP_H

#include "engine/base/bytes.h"

#define ROW_BYTES_MAX (64u * 1024u) /* the longest row key, without salt */

enum op_kind {
	OP_WRITE = 1,
	OP_DELETE_VERSION,
	OP_DELETE_COLUMN,
	OP_DELETE_FAMILY,
	OP_DELETE_ROW,
	OP_SET_TIME,
	OP_MOVE,
	OP_INCREMENT,
	OP_CHECK
};
#define OP_KINDS (OP_CHECK + 1)
struct op {
	enum op_kind kind;
	uint16_t family, to_family;
	/*
	 * The column is qualifier in all kinds; OP_WRITE uses all.  family is NULL.
	 *   place   of a move: the source; of a check: the version
	 *   place.us   alone, of OP_DELETE_VERSION and OP_SET_TIME; of TFS_CHECK_FAMILY the fingerprint
	 *   replace   of a delete: keep the versions that only a clock in doubt hides
	 */
	struct tfs_write w;
	struct tfs_bytes value; /* a check's value; the whole cell of an OP_WRITE with base EMPTY, no ranges, no append */
	struct tfs_bytes to_qualifier;
	struct tfs_ts to;
	bool noreplace;
	int64_t by;
	enum tfs_check check;
};
/* A mutation of one row, as client, service and tablet pass it on. */
struct row_mutation {
	struct tfs_bytes row;
	const struct op *ops;
	uint32_t op_count;
	uint64_t number; /* the mutation's number, as op_token.number; 0 if it has none */
};
/* Returns true if the operations only remove or empty cells.  Such mutations are accepted on a full disk. */
bool ops_only_remove(const struct op *ops, unsigned count);
bool op_deletes(const struct op *op);

/* Identifies a mutation, so that it is not applied twice: the client, its number, the client's lowest unanswered number.  client 0: none. */
struct op_token {
	uint64_t client, number, lowest_unanswered;
};
#define CLIENT_TIME_US (60 * INT64_C(1000000)) /* the longest time for which a client repeats a mutation */

#define FILE_ID_BYTES 20 /* table u32, incarnation u64, number u64, big-endian */
/* A scan with the ids of its families in the place of their names. */
struct scan_spec {
	struct tfs_scan_spec pub;   /* families and absent_from are NULL; batch_bytes 0: 256 KiB */
	const uint16_t *family_ids; /* ascending, pub.family_count of them; NULL: all */
	bool row_salted;            /* the first byte of a row key is its salt, which row_regex does not see */
	struct tfs_bytes files;     /* ids of the only SSTables to read; p NULL: all, and memtables */
	bool kept;                  /* return expired cells, too, if they are not collected because the clock may be wrong */
	/*
	 * Set if this scan continues another scan within the row done_row; else done_row.p is
	 * NULL. Of this row the scan leaves out the families below done_family.  In done_family
	 * it leaves out the cells up to (done_qualifier, done_ts), or all cells if
	 * done_in_family is not set.  Cells left out count for `versions`.
	 */
	struct tfs_bytes done_row, done_qualifier;
	uint16_t done_family;
	bool done_in_family;
	int64_t done_ts;
	uint32_t done_columns; /* for column_limit: the columns of done_family that were returned, including done_qualifier */
	/*
	 * A run of a script over the rows (engine/script): pub.what is TFS_SCAN_ROWS, and each
	 * batch has one cell at most: the partial outputs of the rows up to the row of this cell.
	 * script.p NULL: the scan returns cells.  script_args has arguments "KEY=VALUE", each with
	 * a NUL byte behind it.
	 */
	struct tfs_bytes script, script_name, script_args;
	const uint16_t *where_ids; /* the family of each term of pub.row_where (engine/base/where.h), where_count of them */
	uint32_t where_count;
};
#define SCAN_SCRIPT_FAILED 1 /* family_id of the cell of a run that failed: ts is -errno, the value a line with the reason */
/*
 * Identifies a stored cell among all cells that its row ever has.  The sum over
 * the live cells of a family in a row, modulo 2^64, is the family's fingerprint:
 * any write, delete or expiry changes it.  A truncated table's sequence numbers
 * begin again, so only the time of commit, which rises, distinguishes its cells from
 * the cells before.
 */
uint64_t cell_fingerprint(uint16_t family, struct tfs_bytes qualifier, int64_t ts, uint64_t seq, int64_t commit_us);
/* An answer: cells, with their bytes in the arena. */
struct scan_batch {
	struct arena arena;
	struct tfs_cell *cells;
	uint32_t count, cap;
	bool done;
	bool damaged; /* past_damage: unreadable blocks were skipped, in this batch or before */
};
/* A result of tablet_scan_check_rows: the row is not admitted, and the batch should end. */
enum { ROW_CHECK_PAUSE = 2 };
void scan_batch_reset(struct scan_batch *b);
void scan_batch_fini(struct scan_batch *b);

/* The last cell that a scan returned (scan_place.c).  {0}, or `any` not set: none. */
struct scan_place {
	bool any;
	struct buf row, qualifier;
	struct buf bound, done_row, done_qualifier; /* memory of the spec's bytes */
	uint16_t family;
	int64_t ts;
	uint32_t columns;
};
/* Call it after each batch of the scan, when all cells of the batch have been used. */
int scan_place_note(struct scan_place *p, const struct scan_spec *s, const struct scan_batch *b) TFS_MUST;
/*
 * Changes the spec to the rest of the scan, except the limits of cells and rows.
 * Its bytes are valid until the next call for p.  Returns 1, 0 if there is no
 * rest, -ENOMEM.
 */
int scan_place_continue(struct scan_place *p, struct scan_spec *s) TFS_MUST;
/* Continues the scan from the first cell of a row on, if no cell of it was returned. */
int scan_place_begin(struct scan_place *p, struct scan_spec *s, struct tfs_bytes row) TFS_MUST;
void scan_place_fini(struct scan_place *p);

#endif
