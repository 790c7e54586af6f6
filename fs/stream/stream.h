/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that several kinds of streams share.  Threads: any; engine calls are made. */
#ifndef TFS_FS_STREAM_STREAM_H
#define TFS_FS_STREAM_STREAM_H

#include "fs/base/node_ops.h"

/* Attributes of a stream of the table in which n is: its owner, of mode only the bits that the table permits to read, size 0. */
int stream_attr(struct node *n, mode_t mode, int64_t us, struct stat *st);
/* node_ops.unlink of a stream beside rows: -EPERM, logged. */
int stream_unlink(struct node *dir, struct resolved *r, struct changes *c);

#endif
