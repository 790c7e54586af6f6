/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions that several kinds of streams share.  Threads: any; engine calls are made, and
 * row_change takes the row's lock.
 */
#ifndef TFS_FS_STREAM_STREAM_H
#define TFS_FS_STREAM_STREAM_H

#include "engine/bulk/mutation_lines.h"
#include "fs/base/node_ops.h"
#include "fs/base/notify.h"

/* ---- stream.c: streams of a table ---- */
/* The text of a stream that is made as it is read: its first `at` bytes were read. */
struct unread {
	struct buf text;
	size_t at;
	uint64_t begin; /* the offset in the stream of the first byte of text */
};
/* Before text is made for a read of n bytes: drops the bytes that were read, unless n unread bytes are there already.  So the text does not grow with the stream. */
void unread_trim(struct unread *u, size_t n);
/* Copies up to n bytes.  Returns how many. */
size_t unread_take(struct unread *u, void *to, size_t n);
/* The stream begins again. */
void unread_reset(struct unread *u);
/*
 * The next byte is the one at this offset in the stream, if it is among those of the last read; else returns false.  The
 * shell's read takes more than a line, and then goes back to the end of the line.
 */
bool unread_seek(struct unread *u, uint64_t offset);

/* Attributes of a stream of the table in which n is: its owner, the bits of `mode` that the table permits to read, and size 0. */
int stream_attr(struct node *n, mode_t mode, int64_t us, struct stat *st);
/* node_ops.exists: -EOPNOTSUPP, logged, on a mount without OPEN. */
int stream_exists(struct node *n);
/* node_ops.unlink of a stream beside rows: -EPERM, logged. */
int stream_unlink(struct node *dir, struct resolved *r, struct changes *c);

/* ---- mutate.c: control files of a row, .mutate and .row.json; any user may open them, because the server checks the families ---- */
/* node_ops.attr, unlink and rename. */
int row_control_stat(struct node *n, uint64_t size, int64_t us, struct stat *st);
int row_control_unlink(struct node *dir, struct resolved *r, struct changes *c);
int row_control_rename(struct renaming *m);

/* ---- row_change.c: mutations of a row that name their cells by keys, not by nodes ---- */
/*
 * Applies the lines as one mutation of row; `table` is a handle on behalf of the user who
 * asks.  Open files of cells that it removes keep their bytes, as after rm, and the
 * kernel is notified.  After the delete of a row its directory is removed too, unless it
 * has scratch or the mutation writes to it.  flags: of tfs_apply.  l->results has an
 * element for each line then. Returns -EINTR, and applies nothing, if the request was
 * interrupted or the daemon ends.
 */
int row_change(struct node *row, struct tfs_table *table, struct mutation_lines *l, unsigned flags, struct changes *c) TFS_MUST;

#endif
