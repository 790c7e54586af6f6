/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of a table's directory that other kinds share.  Threads: any; engine calls are made. */
#ifndef TFS_FS_NODE_TABLE_H
#define TFS_FS_NODE_TABLE_H

#include "fs/base/node_ops.h"

/* Of node_ops.names. */
#define TABLE_NAMES "names of tables, families and groups match [A-Za-z0-9_][A-Za-z0-9_.-]{0,63}"
/* The key of a table's node. */
#define TABLE_KEY_BYTES 4
void table_key(const struct tfs_table *t, uint8_t key[TABLE_KEY_BYTES]);

#endif
