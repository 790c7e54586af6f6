/* SPDX-License-Identifier: Apache-2.0 */
/*
 * struct live, shared by live.c (iteration) and live_setup.c (bounds, memory).
 */
#ifndef TFS_CELL_LIVE_INTERNAL_H
#define TFS_CELL_LIVE_INTERNAL_H

#include "engine/cell/merge.h"
#include "engine/cell/scan_filter.h"

enum live_move {
	MOVE_NONE, /* the iterator stands on the entry to be read next */
	MOVE_NEXT, /* the iterator stands on an entry that has been read */
	MOVE_PAST_COLUMN,
	MOVE_PAST_FAMILY,
	MOVE_PAST_ROW,
	MOVE_TO_START,
	MOVE_TO_ROW_BEFORE, /* reverse: to the first entry of the last row before `upper` */
	MOVE_AT_END,        /* the iteration is after `end`, so no entry is read */
};

struct live {
	struct iter *it;
	struct live_options o;
	uint64_t passed;       /* cells, as live_passed returns */
	struct buf upper;      /* in a reverse scan, the encoded bound of the rows that are not read yet; n is 0 if there is none */
	struct buf start, end; /* encoded bounds of keys; end.n is 0 if there is no end */
	struct buf qfrom, qto; /* encoded qualifiers; n is 0 if there are none */
	struct buf done_row, done_qualifier; /* the bounds of the spec, encoded; n is 0 if there are none */
	enum live_move pending;              /* the step to make before the next entry is read */

	struct buf row_raw, row; /* the row, raw (if it differs) and encoded; row.n is 0 if there is no row */
	struct tfs_bytes row_bytes;
	uint64_t row_mask;
	bool in_done_row;

	uint16_t family;      /* 0 if no family of the row was entered */
	bool in_done_family;  /* the family is the spec's done_family, of that row */
	uint64_t family_mask; /* includes row_mask */
	bool known;
	uint16_t rule_family; /* the family of `known` and `rule`, or 0 */
	const struct gc_rule *rule;
	uint64_t max_versions;

	struct buf column, qualifier_raw; /* encoded row, family and qualifier; n is 0 if there is no column */
	struct tfs_bytes qualifier;
	uint64_t mask;                      /* includes family_mask */
	bool has_ts, after_here;            /* after_here: cells at after_ts and later are left out */
	int64_t ts, after_ts;               /* the timestamp of the last entry read */
	uint64_t index;                     /* live versions read in the column */
	uint64_t shown;                     /* the live versions among them that are within the spec's times */
	bool row_returned, column_returned; /* a cell of it was returned */
	bool row_admitted, column_admitted; /* set by the filters */
	uint32_t columns;                   /* columns of the family that were returned, for column_limit */
	unsigned skipped;                   /* cells that filters rejected since live_next was called */
	struct buf target;
};

#endif
