/* SPDX-License-Identifier: Apache-2.0 */
/* A row's families.  Threads: any; engine calls are made. */
#ifndef TFS_FS_NODE_FAMILY_H
#define TFS_FS_NODE_FAMILY_H

#include "fs/base/node_ops.h"
#include "fs/base/notify.h"

/* For mkdir ROW/FAMILY: adds the family to the schema, if it is not there and the schema allows it. */
int family_add(struct node *row, const char *name, const struct fuse_ctx *ctx, struct changes *c) TFS_MUST;
/* node_ops.attr of a directory of cells: mode and owner of the family, which family_key names. */
int family_stat(struct node *n, const char *family_key, struct stat *st) TFS_MUST;

#endif
