/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two copies of a small file in one: the copy, zeros up to the next multiple
 * of 4 KiB, and the copy again.  One rename replaces the whole file, so both
 * copies have the same state.  One damaged page, one zeroed sector or a lost
 * end leaves a copy that can be read.
 *
 * Each copy contains a checksum.  A decoder tries copies_get(file, 0) and
 * (file, 1); their lengths follow from the file's length.  If the file has
 * another length, the decoder takes the length of the first copy from its
 * contents.
 */
#ifndef TFS_BASE_COPIES_H
#define TFS_BASE_COPIES_H

#include "engine/base/bytes.h"

#define COPIES_APART 4096u

/* The offset of the second of two copies of n bytes.  Plus n, it is the size of the file. */
static inline size_t copies_apart(size_t n)
{
	return (n + COPIES_APART - 1) / COPIES_APART * COPIES_APART;
}

/* out from `from` on is the first copy; appends the zeros and the second one.  On failure the caller truncates out. */
int copies_add(struct buf *out, size_t from) TFS_MUST;
/* Returns copy 0 or 1; empty if the file does not have the size of two copies. */
struct slice copies_get(struct slice file, unsigned which);
/*
 * Appends the file at path, as file_read_all does.  *holes is set if sectors of
 * it cannot be read; they are zeros in out, and a caller that finds no good
 * copy then returns -EIO.
 */
int copies_read(const char *path, size_t limit, struct buf *out, bool *holes) TFS_MUST;
/* True if the file is two equal copies of n bytes each, n > 0, and nothing else. */
bool copies_whole(struct slice file, size_t n);
/* Replaces the file at path after one of its copies was damaged, and logs that in one line.  Errors are logged only. */
void copies_rewrite(const char *path, struct slice file);

#endif
