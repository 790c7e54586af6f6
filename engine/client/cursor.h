/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scans over all tablets of a table.
 *
 * Threads: any thread; one at a time may use a cursor.
 */
#ifndef TFS_CLIENT_CURSOR_H
#define TFS_CLIENT_CURSOR_H

#include "engine/client/call.h"

/* A scan over all tablets of a table. */
struct row_cursor {
	struct tablet_service *svc;
	uint32_t table;
	uint64_t schema_generation;
	const struct tfs_user *user; /* as in struct ts_request; row_cursor_init sets NULL */
	/*
	 * The rest of the scan: row_from (reverse: row_to) and limit change
	 * with each tablet.  Its bytes must outlive the cursor.  stop is asked before
	 * each batch but the first of a call.
	 */
	struct scan_spec spec;
	struct scan_place place; /* the last cell of the present tablet */
	unsigned lost;           /* how many times the server has lost the scan since it returned a cell */
	struct buf next_row;     /* the begin of the next tablet; reverse: its end */
	struct buf last_row;     /* the largest possible row key of the next tablet in reverse */
	/*
	 * The first cells of a row whose end has not been read: copies in
	 * `held`, and the cells of the batch from `ready` on.  They are not
	 * returned before the row has ended, so that a lost scan can begin
	 * again with that row.
	 */
	struct scan_batch held;
	uint64_t held_bytes;
	uint32_t held_at, ready; /* the next cell of held; the cells of the batch below `ready` may be returned */
	bool held_ready;         /* the cells of `held` may be returned, too */
	bool open;               /* a scan of the service is open, or its last answer is not used up */
	bool at_end;
	bool between;            /* a tablet was read to its end, and the scan of the next tablet is not open */
	bool damaged;            /* past_damage: blocks were skipped */
	int failed;              /* the error that ended the scan; every later call returns it */
	uint64_t returned;       /* cells returned from the present tablet */
	struct ts_answer answer; /* the present batch */
	uint32_t at;             /* the next cell in `answer` */
	struct ts_sent *ahead;   /* the request for the next batch, or for the scan's begin, if it was sent */
	uint64_t batches;        /* how many batches the open scan has had */
	size_t batch_bytes;      /* the size of the batch that was requested ahead, or 0 for the size at the scan's begin */
	uint64_t rows;           /* counts the rows of all batches for row_limit */
	struct buf last;         /* the last row that `rows` counts */
};
void row_cursor_init(
	struct row_cursor *c, struct tablet_service *svc, uint32_t table, uint64_t generation, const struct scan_spec *spec);
/*
 * Sends the request that opens the scan, if the service sends.  So the scans of several cursors
 * are opened at once.
 */
void row_cursor_begin(struct row_cursor *c);
/* Returns 1 and sets *cell, which is valid until the next call; 0 at the end; -errno. */
int row_cursor_next(struct row_cursor *c, const struct tfs_cell **cell) TFS_MUST;
void row_cursor_fini(struct row_cursor *c);
/*
 * Sets *has to true if the table has a live cell of this family (0: any family).
 * While the clock is not trusted, an expired cell counts, too.
 */
int table_has_cells(struct tablet_service *svc, uint32_t table, uint64_t generation, uint16_t family, bool *has) TFS_MUST;

#endif
