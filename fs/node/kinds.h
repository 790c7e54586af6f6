/* SPDX-License-Identifier: Apache-2.0 */
/* The table of operations of every kind of node, in the order of enum node_kind. */
#ifndef TFS_FS_NODE_KINDS_H
#define TFS_FS_NODE_KINDS_H

#include "fs/base/node_ops.h"

extern const struct node_ops *const node_kinds[NODE_KIND_COUNT];

#endif
