/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scans of one table (read.c), and of the cells that a second snapshot lacks (absent.c).
 * tfs_scan_new chooses one of the two.
 */
#ifndef TFS_CLIENT_CELLS_H
#define TFS_CLIENT_CELLS_H

#include "engine/client/salt.h"

/* Rows from `from` on, or behind it, and before `to`, if to.p is not NULL. */
struct key_range {
	struct tfs_bytes from, to;
	bool after;
};
struct cell_scan {
	struct tfs_table *table;
	const struct schema *schema;
	struct arena arena; /* memory of the spec's bytes */
	struct salt_scan rows;
	/* The rows of spec.keys, in order and without overlaps.  NULL: the scan has no keys. */
	struct key_range *ranges;
	unsigned range_count, range_at; /* range_at: how many have begun */
	unsigned empty;                 /* ranges that have ended since a cell was returned */
	bool reverse, one_row;          /* as in the caller's spec */
	bool damaged;                   /* blocks were skipped in earlier ranges */
	const struct tfs_family *last;  /* family of the previous cell */
};
/* These work as tfs_scan_new, tfs_scan_next and tfs_scan_free; absent_from is ignored.  cell_scan_fini of {0} does nothing. */
int cell_scan_init(struct cell_scan *s, struct tfs_table *t, const struct tfs_scan_spec *spec) TFS_MUST;
int cell_scan_next(struct cell_scan *s, struct tfs_cell *cell) TFS_MUST;
void cell_scan_fini(struct cell_scan *s);
/* For callers that read the ranges themselves: sets the bounds of rows.spec to ranges[i]. */
void cell_scan_bound(struct cell_scan *s, unsigned i);
/* In run.c: sets the reason of err, which a scan of the table has returned, unless there is one, and returns err. */
int scan_failed(struct tfs_table *t, const struct scan_spec *spec, int err);

struct absent_scan;
int absent_scan_new(struct tfs_table *t, const struct tfs_scan_spec *spec, struct absent_scan **out) TFS_MUST;
int absent_scan_next(struct absent_scan *s, struct tfs_cell *cell) TFS_MUST;
void absent_scan_free(struct absent_scan *s); /* NULL allowed */

#endif
