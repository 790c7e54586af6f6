/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The payload of a commit-log record: the cells of one row mutation.
 * Operations are not logged, so replay does not read old cells.
 *
 *	version   u8, 2
 *	commit    u64 BE, two's complement: the time of commit, microseconds
 *	row       varint length, bytes
 *	cells     until the end, each:
 *	  kind      u8: a delete or CELL_VALUE; plus 128: batch_cell.pre is set
 *	  family    u16 BE (0: CELL_DELETE_ROW)
 *	  qualifier varint length, bytes (empty for row and family deletes)
 *	  timestamp u64 BE, two's complement
 *	  value     varint length, bytes; CELL_VALUE only
 *
 * The cell at index i has the record's sequence number plus i.
 */
#ifndef TFS_CELL_BATCH_FORMAT_H
#define TFS_CELL_BATCH_FORMAT_H

#include "engine/cell/cellkey.h"

struct batch_cell {
	enum cell_kind kind; /* CELL_DELETE_*, CELL_VALUE */
	uint16_t family;
	struct tfs_bytes qualifier, value; /* borrowed */
	int64_t ts;
	bool pre; /* it deletes versions that the rules hid before: no change that the mutation asked for */
};

/* batch_begin appends the head to an empty buffer; batch_add then appends each cell.  -ENOMEM: the batch is not complete. */
int batch_begin(struct buf *out, struct tfs_bytes row) TFS_MUST;
/* Sets the time of commit, which is 0 before. */
void batch_set_commit(struct buf *batch, int64_t commit);
int batch_add(struct buf *out, const struct batch_cell *c) TFS_MUST;
/* Upper bound of the bytes that batch_add appends for c. */
size_t batch_cell_bytes(const struct batch_cell *c);

/* Decoding: the row, then cells; bytes borrow from the input. */
struct batch_reader {
	struct reader r;
	struct tfs_bytes row;
	int64_t commit;
};
/* -EBADMSG. */
int batch_open(struct batch_reader *b, struct tfs_bytes batch) TFS_MUST;
/* Returns 1 if there is a cell, 0 at the end, -EBADMSG. */
int batch_next(struct batch_reader *b, struct batch_cell *c) TFS_MUST;

#endif
