/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations of a row mutation, and reads, as plain values: the tablet service
 * transports them, the tablet executes them.  Families are ids here.  Each
 * operation means the same as in engine/tabletfs.h.
 * All slices are borrowed.
 */
#ifndef TFS_CELL_OP_H
#define TFS_CELL_OP_H

#include "engine/base/bytes.h"

#define ROW_BYTES_MAX (64u * 1024u) /* of a row key, without salt */

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
struct op_time {
	bool newest; /* TFS_NEWEST */
	int64_t us;
};
struct op_range {
	uint64_t offset;
	struct slice data;
};
enum op_base { OP_BASE_EMPTY, OP_BASE_NEWEST, OP_BASE_VERSION };
enum op_check { OP_CHECK_EXISTS, OP_CHECK_ABSENT, OP_CHECK_NEWEST_IS, OP_CHECK_VALUE, OP_CHECK_MATCH, OP_CHECK_FAMILY };
#define OP_CHECKS (OP_CHECK_FAMILY + 1)
struct op {
	enum op_kind kind;
	uint16_t family, to_family;
	struct slice qualifier, to_qualifier;
	/* ts: of the cell to write, of the source of a move, of the version to check; us: the fingerprint that OP_CHECK_FAMILY compares.  OP_DELETE_VERSION and OP_SET_TIME use ts.us alone. */
	struct op_time ts, to;
	enum op_base base;
	int64_t base_ts;
	uint64_t truncate_to;
	const struct op_range *ranges;
	uint32_t range_count;
	struct slice append, value; /* OP_WRITE with base EMPTY, no ranges, no append: value is the whole cell */
	bool replace;               /* a delete keeps the versions that only a clock in doubt hides */
	bool drop_newer, noreplace;
	int64_t replace_ts, by;
	enum op_check check;
};
/* Returns true if the operations only remove or empty cells.  Such mutations are accepted on a full disk. */
bool ops_only_remove(const struct op *ops, unsigned count);
struct op_result {
	int64_t ts, counter, commit_us;
	uint64_t size;
	bool replaced;
	bool failed; /* of a mutation that failed: this operation is the cause */
};

/* Identifies a mutation, so that it is not applied twice: the client, its number, the client's lowest unanswered number.  client 0: none. */
struct op_token {
	uint64_t client, number, lowest_unanswered;
};
#define CLIENT_TIME_US (60 * INT64_C(1000000)) /* the longest time for which a client repeats a mutation */

enum scan_what {
	SCAN_CELLS,
	SCAN_KEYS,
	SCAN_ROWS,
	SCAN_FAMILIES,
	SCAN_STORED_ROWS, /* rows that have any entry in `files`, also a delete; forward, and the filters do not apply */
};
#define FILE_ID_BYTES 20 /* table u32, incarnation u64, number u64, big-endian */
struct scan_spec {
	enum scan_what what;
	struct slice row_from, row_to; /* row_to.p NULL: to the tablet's end */
	bool row_from_after, one_row;
	bool reverse;             /* rows in descending order; not with one_row or past_damage */
	const uint16_t *families; /* NULL: all */
	uint32_t family_count;
	struct slice qualifier_from, qualifier_to; /* qualifier_to.p NULL: to the end */
	bool qualifier_from_after, after_cell;
	int64_t after_ts;
	bool has_times;
	int64_t since, until;
	uint32_t versions; /* of those in [since, until), before the filters below */
	bool has_changed;  /* cells whose time of commit is changed_since or later */
	int64_t changed_since;
	struct slice row_regex, qualifier_regex, value_regex, value_is; /* p NULL: no filter; scan_filter.h */
	bool row_salted;           /* the first byte of a row key is its salt, which row_regex does not see */
	uint32_t column_limit;     /* of each row and family; 0: all */
	uint64_t limit, row_limit; /* cells, rows; 0: all */
	size_t batch_bytes;        /* 0: 256 KiB */
	bool past_damage;          /* continue behind unreadable blocks; batches are then marked damaged */
	struct slice files;        /* ids of the only SSTables to read; p NULL: all, and memtables */
	bool kept;                 /* return expired cells, too, if they are not collected because the clock may be wrong */
	/*
	 * For a scan that continues another one within a row: of done_row (p NULL: of
	 * no row), the families below done_family are left out.  Of done_family,
	 * the cells up to (done_qualifier, done_ts) are left out, or all cells if
	 * done_in_family is not set.  Cells left out count for `versions`.
	 */
	struct slice done_row, done_qualifier;
	uint16_t done_family;
	bool done_in_family;
	int64_t done_ts;
	uint32_t done_columns; /* columns of done_family that were returned, done_qualifier included: for column_limit */
};
struct scan_cell {
	struct slice row, qualifier, value; /* value.p NULL: keys only, or larger than CELL_CHUNK_BYTES */
	uint16_t family;
	int64_t ts, expires_us, commit_us;
	uint64_t size, seq;
};
/*
 * Identifies a stored cell among all cells that its row ever has.  The sum over
 * the live cells of a family in a row, modulo 2^64, is the family's fingerprint:
 * any write, delete or expiry changes it.  A truncated table's sequence numbers
 * begin again, so the time of commit, which rises, tells its cells from the old ones.
 */
uint64_t cell_fingerprint(uint16_t family, struct slice qualifier, int64_t ts, uint64_t seq, int64_t commit_us);
/* An answer: cells, with their bytes in the arena. */
struct scan_batch {
	struct arena arena;
	struct scan_cell *cells;
	uint32_t count, cap;
	bool done;
	bool damaged; /* past_damage: unreadable blocks were skipped, in this batch or before */
};
void scan_batch_reset(struct scan_batch *b);
void scan_batch_fini(struct scan_batch *b);

/* The last cell that a scan returned (scan_place.c).  {0}, or `any` not set: none. */
struct scan_place {
	bool any;
	struct buf row, qualifier;
	struct buf bound, done_row, done_qualifier; /* of the spec */
	uint16_t family;
	int64_t ts;
	uint32_t columns;
};
/* Call it after each batch of the scan, whose cells have all been used. */
int scan_place_note(struct scan_place *p, const struct scan_spec *s, const struct scan_batch *b) TFS_MUST;
/*
 * Changes the spec to the rest of the scan, except the limits of cells and rows.
 * Its slices are valid until the next call for p.  Returns 1, 0 if there is no
 * rest, -ENOMEM.
 */
int scan_place_continue(struct scan_place *p, struct scan_spec *s) TFS_MUST;
/* The same, from the first cell of a row on, of which none was returned. */
int scan_place_begin(struct scan_place *p, struct scan_spec *s, struct slice row) TFS_MUST;
void scan_place_fini(struct scan_place *p);

#endif
