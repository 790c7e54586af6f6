/* SPDX-License-Identifier: Apache-2.0 */
/* Texts that name the control files of a mount.  They only append to `out`: -ENOMEM. */
#ifndef TFS_FS_NODE_HELP_H
#define TFS_FS_NODE_HELP_H

#include "fs/base/node_ops.h"

int help_render(struct node *n, struct buf *out) TFS_MUST;      /* /.tabletfs/help */
int help_render_snap(struct node *n, struct buf *out) TFS_MUST; /* .snap/.help */
int help_append_mutate(struct buf *out) TFS_MUST;               /* ROW/.mutate, read before lines were written */

#endif
