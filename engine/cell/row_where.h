/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows of a scan that meet row_where of its spec (engine/base/where.h): a second live iterator reads the columns of the
 * condition, along with the scan and in the same view.  So the condition and the scan's cells are of one instant,
 * and only the locality groups of the condition's families are read for it.
 *
 * Threads: one at a time.
 */
#ifndef TFS_CELL_ROW_WHERE_H
#define TFS_CELL_ROW_WHERE_H

#include "engine/cell/merge.h"

struct row_where;
/* *out is NULL if the spec has no row_where.  Copies what it needs.  -EINVAL: it is not valid, or has not as many families as terms. */
int row_where_new(const struct scan_spec *spec, struct row_where **out) TFS_MUST;
void row_where_free(struct row_where *w); /* NULL allowed */
/* Returns the spec of the second iterator for `rest`, a spec with the bounds of the scan's rest, which must stay until row_where_end. */
const struct scan_spec *row_where_spec(struct row_where *w, const struct scan_spec *rest);
/* Takes the iterator, which is used until row_where_end. */
void row_where_begin(struct row_where *w, struct live *live);
void row_where_end(struct row_where *w); /* NULL allowed */
/* Returns 1 if the row meets the condition, 0 if not, -errno.  Rows must come in the order of the scan. */
int row_where_admits(struct row_where *w, struct tfs_bytes row) TFS_MUST;

#endif
