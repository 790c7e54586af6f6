/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows in which two snapshots of a table may differ, by the lists of SSTables in
 * METADATA.  Both must have the same rules, and no salt.
 *
 * Threads: any; one at a time may use the struct.
 */
#ifndef TFS_CLIENT_CHANGED_ROWS_H
#define TFS_CLIENT_CHANGED_ROWS_H

#include "engine/client/metadata.h"

struct changed_rows {
	struct tablet_service *svc;
	uint32_t tables[2];    /* tablets ids */
	struct buf begin, end; /* the rows that are wanted; end.p NULL: to the last */
	bool (*stop)(void *arg);
	void *stop_arg;
	/* The interval: rows for which each has one tablet. */
	struct metadata_cursor tablets[2];
	struct buf keys[4]; /* bounds of the two cursors */
	bool have[2];       /* the cursor has a row */
	struct buf at, until;
	bool is_last;        /* the interval has no end */
	struct buf files[2]; /* ids of the files that only this snapshot uses */
	struct buf from, to; /* the rows of these files: from the first row to just after the last row */
	struct buf behind;
	/* The rows of these files. */
	bool by_row;
	struct row_cursor cursors[2];
	const struct tfs_cell *cells[2];
	struct buf row;
};
struct row_range {
	struct tfs_bytes from, to; /* to.p is NULL if there is no end */
	bool one;                  /* the row `from` only */
};
/* Copies the bounds; to.p NULL: to the last row. */
int changed_rows_init(struct changed_rows *c, struct tablet_service *svc, const uint32_t tables[2], struct tfs_bytes from,
	struct tfs_bytes to) TFS_MUST;
/* Returns 1 and the next rows, in order, valid until the next call; 0 at the end; -errno; -ENOENT: a snapshot was dropped. */
int changed_rows_next(struct changed_rows *c, struct row_range *out) TFS_MUST;
void changed_rows_fini(struct changed_rows *c);

#endif
