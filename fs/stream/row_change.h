/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mutations of a row that name their cells by keys, not by nodes: .mutate and
 * .row.json.
 *
 * Threads: any.  Engine calls are made, and the row's lock is taken.
 */
#ifndef TFS_FS_STREAM_ROW_CHANGE_H
#define TFS_FS_STREAM_ROW_CHANGE_H

#include "fs/base/notify.h"

enum row_edit_kind { ROW_CHECK, ROW_PUT, ROW_DELETE_VERSION, ROW_DELETE_COLUMN, ROW_DELETE_FAMILY, ROW_DELETE_ROW };
struct row_edit {
	enum row_edit_kind kind;
	const char *family; /* its name or "#ID" */
	struct tfs_bytes qualifier;
	int64_t ts; /* of ROW_DELETE_VERSION */
};
/*
 * Applies m, a mutation of row, whose operations are the edits.  Open files of
 * cells that it removes keep their bytes, as after rm, and the kernel is
 * notified.  After the delete of a row its directory is removed too, unless it
 * has scratch or the mutation writes to it.  flags: of tfs_apply.  results has an element for each edit.
 * -EINTR: the request was interrupted, or the daemon ends; nothing is applied.
 */
int row_change(struct node *row, struct tfs_mutation *m, const struct row_edit *edits, unsigned count, unsigned flags,
	struct tfs_result *results, struct changes *c) TFS_MUST;

#endif
