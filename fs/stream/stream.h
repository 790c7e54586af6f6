/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that several kinds of streams share.  Threads: any; engine calls are made. */
#ifndef TFS_FS_STREAM_STREAM_H
#define TFS_FS_STREAM_STREAM_H

#include "fs/base/node_ops.h"

/* The text of a stream that is made as it is read: its first `at` bytes were read. */
struct unread {
	struct buf text;
	size_t at;
};
/* Before text is made for a read of n bytes: drops what was read unless n bytes are there already, so the text does not grow with the stream. */
void unread_trim(struct unread *u, size_t n);
/* Copies up to n bytes.  Returns how many. */
size_t unread_take(struct unread *u, void *to, size_t n);

/* Attributes of a stream of the table in which n is: its owner, of mode only the bits that the table permits to read, size 0. */
int stream_attr(struct node *n, mode_t mode, int64_t us, struct stat *st);
/* node_ops.exists: -EOPNOTSUPP, logged, on a mount without OPEN. */
int stream_exists(struct node *n);
/* node_ops.unlink of a stream beside rows: -EPERM, logged. */
int stream_unlink(struct node *dir, struct resolved *r, struct changes *c);

#endif
