/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inside of struct live, shared by live.c (walking and judging) and
 * live_setup.c (bounds, life).
 */
#ifndef TFS_STORE_LIVE_INTERNAL_H
#define TFS_STORE_LIVE_INTERNAL_H

#include "engine/cell/merge.h"

enum pending {
	GO_ON,      /* the iterator stands on the entry to look at next */
	GO_NEXT,    /* on one that has been dealt with */
	GO_VERSION, /* on a large cell or somewhere in its chunks: to the entry after them */
	GO_COLUMN,  /* to the next column */
	GO_FAMILY,  /* to the next family */
	GO_ROW,     /* to the next row */
	GO_START,   /* nowhere yet */
	GO_NOWHERE, /* at the end */
};

struct live {
	struct iter *it;
	struct live_options o;
	enum scan_what what;
	struct buf start, end; /* encoded bounds of keys; end.n 0: none */
	struct buf qfrom, qto; /* encoded qualifiers; n 0: none */
	uint16_t *families;    /* sorted; NULL: all */
	uint32_t family_count;
	enum pending pending;
	int64_t large_ts; /* for GO_VERSION */
	uint64_t large_seq;

	struct buf row_raw, row; /* the row, raw (where it differs) and encoded; row.n 0: none */
	struct slice row_slice;
	uint64_t row_mask;

	bool in_family;
	uint16_t family;
	uint64_t family_mask; /* includes row_mask */
	bool rule_cached, known;
	uint16_t rule_family;
	const struct gc_rule *rule;
	uint64_t max_versions;

	struct buf column, qualifier_raw; /* encoded row+family+qualifier; n 0: none */
	struct slice qualifier;
	uint64_t mask; /* includes family_mask */
	bool has_ts, after_here;
	int64_t ts;     /* the version that is decided */
	uint64_t index; /* live versions met in the column */
	uint64_t shown; /* of those, handed out */
	struct buf target;
};

#endif
