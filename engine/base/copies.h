/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Common framing of the store's small files: two copies in one file.  The copy,
 * zeros up to the next multiple of 4 KiB, and the copy again.  One rename
 * replaces the whole file, so both copies have the same state.  One damaged page,
 * one zeroed sector, a lost end or bytes after the end leave a copy that can be
 * read.
 *
 * A copy states its own length and has a checksum, so the size of the file is not
 * needed to find it: the first copy is at offset 0, the second one at the offset
 * that follows from its own length.
 */
#ifndef TFS_BASE_COPIES_H
#define TFS_BASE_COPIES_H

#include "engine/base/bytes.h"

#define COPIES_APART 4096u

/* Returns the offset of the second of two copies of n bytes each.  The file ends n bytes after it. */
static inline size_t copies_apart(size_t n)
{
	return (n + COPIES_APART - 1) / COPIES_APART * COPIES_APART;
}

/* The first copy is in out, from the offset `from` on.  Appends the zeros and the second copy.  On failure the caller truncates out. */
int copies_add(struct buf *out, size_t from) TFS_MUST;
/* Returns the length of the undamaged copy that s begins with, 0 if there is none. */
typedef size_t copy_length_fn(struct tfs_bytes s);
/* Returns copy 0 or 1; empty if it is damaged. */
struct tfs_bytes copies_get(struct tfs_bytes file, unsigned which, copy_length_fn *length);
/* Returns the length of one copy in an undamaged file of this size, 0 if no two copies have this size. */
size_t copies_length(size_t file_bytes);
/*
 * Appends the file at path, but no more than limit bytes.  *holes is set if
 * sectors of it cannot be read; they are zeros in out, and a caller that finds no
 * good copy then returns -EIO.
 */
int copies_read(const char *path, size_t limit, struct buf *out, bool *holes) TFS_MUST;
/* True if the file is two equal copies of n bytes each, n > 0, and nothing else. */
bool copies_whole(struct tfs_bytes file, size_t n);
/* Replaces the file at path after one of its copies was damaged, and logs that in one line.  Errors are logged only. */
void copies_rewrite(const char *path, struct tfs_bytes file);

#endif
