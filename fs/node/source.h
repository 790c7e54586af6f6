/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clauses of scans, and the source of a tree: the cells that its directories show.
 * The source of a table, a snapshot and .latest is all cells of the table.  The source
 * of a scan's view is the cells that match its clauses and that the user who asks may
 * read.
 * Threads: any; engine calls are made.
 */
#ifndef TFS_FS_NODE_SOURCE_H
#define TFS_FS_NODE_SOURCE_H

#include "engine/bulk/clauses.h"
#include "fs/base/node_ops.h"

/*
 * Parses the clauses of a scan or stream, n, and of name below it (NULL: none), and
 * checks families and patterns with the store.  -EINVAL is logged with the reason.
 * The caller calls clauses_fini in any case.
 */
int scan_clauses(struct node *n, const char *name, int64_t now_us, struct clauses *out) TFS_MUST;

struct source {
	struct node *node; /* borrowed */
	bool is_view;
	bool latest;            /* plain names only */
	struct clauses clauses; /* the clauses of a view, with ages from the moment at which it was entered; else empty */
};

/* The source of the tree that n is in.  The caller calls source_fini in any case. */
int source_init(struct source *s, struct node *n) TFS_MUST;
void source_fini(struct source *s);
/* Begins a scan of the source.  spec was made from s->clauses.spec. */
int source_scan(const struct source *s, const struct tfs_scan_spec *spec, struct tfs_scan **out) TFS_MUST;
/* *has: the source of n has a cell in the row, or in one family of it (NULL: any). */
int source_has(struct node *n, struct tfs_bytes row, const char *family, bool *has) TFS_MUST;
/* Finds the version *ts of a column in the source of a family's directory; in .latest its newest version, into *ts.  0 or -ENOENT. */
int source_find_version(struct node *family, struct tfs_bytes qualifier, int64_t *ts) TFS_MUST;

#endif
