/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Directories of split names (fs/base/name.h), of rows and of cells.
 * Threads: any; engine calls are made.
 */
#ifndef TFS_FS_NODE_PART_H
#define TFS_FS_NODE_PART_H

#include "fs/base/node_ops.h"

/* Of a name in dir, a table, family or part: *base is the table, view or family, and path the name below it (appended). */
int part_path(struct node *dir, const char *name, struct node **base, struct buf *path) TFS_MUST;
/*
 * Resolves a path of parts to the key of its directory.  A key must fit behind
 * the parts, otherwise directories could be made deeper and deeper:
 * -ENAMETOOLONG.
 */
int part_resolve(struct slice path, size_t key_max, struct resolved *out) TFS_MUST;
/* node_ops.find and has_cells. */
int part_find(struct node *dir, struct resolved *r, struct node **out);
int part_has_cells(struct node *n, bool *has);

#endif
