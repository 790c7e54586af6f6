/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines of TABLE/.splits (tabletfs-jobs(7)): ranges of rows that together have each row
 * of a table once.  A line has the clauses of a scan that select the range, as a path
 * below TABLE/.scan, a tab, a server, a tab, and bytes.
 *
 * Threads: the caller's.
 */
#ifndef TFS_BULK_SPLITS_H
#define TFS_BULK_SPLITS_H

#include "engine/base/bytes.h"

struct splits {
	struct buf *out; /* the caller's; lines are appended */
	bool salted;     /* the ends are keys of a salted table, as stored */
	struct buf from; /* where the next range begins */
	uint64_t bytes;  /* bytes of the ranges before `from` that have no line */
};

/*
 * Appends the line of the range from the end of the last range to `end`; end.p NULL: to the
 * end of the table.  Ends rise.  A longer end than SPLIT_KEY_MOST bytes is cut to its first
 * bytes.  A range that is empty then has no line, and its bytes count for the next range.
 */
int splits_add(struct splits *s, struct tfs_bytes end, const char *server, uint64_t bytes) TFS_MUST;
void splits_fini(struct splits *s);

#endif
