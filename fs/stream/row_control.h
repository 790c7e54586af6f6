/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Common to the control files of a row, .mutate and .row.json.  Any user may open
 * them, because the server checks the families.
 */
#ifndef TFS_FS_STREAM_ROW_CONTROL_H
#define TFS_FS_STREAM_ROW_CONTROL_H

#include "fs/base/node_ops.h"

/* node_ops.attr, unlink and rename. */
int row_control_stat(struct node *n, uint64_t size, int64_t us, struct stat *st);
int row_control_unlink(struct node *dir, struct resolved *r, struct changes *c);
int row_control_rename(struct renaming *m);

#endif
