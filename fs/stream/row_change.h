/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mutations of a row that name their cells by keys, not by nodes: .mutate and
 * .row.json.
 *
 * Threads: any.  Engine calls are made, and the row's lock is taken.
 */
#ifndef TFS_FS_STREAM_ROW_CHANGE_H
#define TFS_FS_STREAM_ROW_CHANGE_H

#include "engine/bulk/mutation_lines.h"
#include "fs/base/notify.h"

/*
 * Applies the lines as one mutation of row; table is of the user who asks.  Open files
 * of cells that it removes keep their bytes, as after rm, and the kernel is
 * notified.  After the delete of a row its directory is removed too, unless it
 * has scratch or the mutation writes to it.  flags: of tfs_apply.  l->results has an
 * element for each line then.
 * -EINTR: the request was interrupted, or the daemon ends; nothing is applied.
 */
int row_change(struct node *row, struct tfs_table *table, struct mutation_lines *l, unsigned flags, struct changes *c) TFS_MUST;

#endif
