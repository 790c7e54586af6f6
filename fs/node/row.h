/* SPDX-License-Identifier: Apache-2.0 */
/* Rows, and the directories of split names.  Threads: any; engine calls are made. */
#ifndef TFS_FS_NODE_ROW_H
#define TFS_FS_NODE_ROW_H

#include "fs/base/node_ops.h"

/* Resolves a name below a table, or below the part of a split row name. */
int row_resolve_name(struct node *dir, const char *name, struct resolved *out) TFS_MUST;

#endif
