/* SPDX-License-Identifier: Apache-2.0 */
/* Cells, as versions and as plain names.  Threads: any; engine calls are made. */
#ifndef TFS_FS_NODE_CELL_H
#define TFS_FS_NODE_CELL_H

#include "fs/base/node_ops.h"

/* Resolves a name below a family, or below the part of a split cell name. */
int cell_resolve_name(struct node *dir, const char *name, struct resolved *out) TFS_MUST;
/* node_ops.rename (cell_rename.c). */
int cell_rename(struct renaming *m);
/* Renames a scratch file to a cell: commits its content. */
int cell_take_scratch(struct renaming *m) TFS_MUST;

#endif
