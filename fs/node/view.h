/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scans in the tree: TABLE/.scan/CLAUSE/.../, its views .rows and .latest, and
 * its streams.
 * Threads: any; engine calls are made.
 */
#ifndef TFS_FS_NODE_VIEW_H
#define TFS_FS_NODE_VIEW_H

#include "fs/base/node_ops.h"
#include "engine/bulk/clauses.h"

/* The counterpart below a view of a kind between ROW and PLAIN. */
static inline enum node_kind view_kind(enum node_kind kind)
{
	return kind - NODE_ROW + NODE_VIEW_ROW;
}
/* The clauses of the view that n is in; limit as a bound of the rows.  The caller calls clauses_fini in any case. */
int view_clauses(struct node *n, struct clauses *out) TFS_MUST;
/*
 * Parses the clauses of a scan or stream, n, and of name below it (NULL: none), and
 * checks families and patterns with the store.  -EINVAL is logged with the reason.
 * The caller calls clauses_fini in any case.
 */
int scan_clauses(struct node *n, const char *name, int64_t now_us, struct clauses *out) TFS_MUST;

#endif
