/* SPDX-License-Identifier: Apache-2.0 */
/* Names that look like control names. */
#ifndef TFS_FS_NODE_CONTROL_NAME_H
#define TFS_FS_NODE_CONTROL_NAME_H

#include "fs/base/node_ops.h"

/*
 * Checks the name of scratch that will be made in dir.  -EOPNOTSUPP, logged with
 * the right name: it looks like a control name, so what is written to it would do
 * nothing, and end with the mount.
 */
int control_name_check(struct node *dir, const char *name) TFS_MUST;

#endif
