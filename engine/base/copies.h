/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two copies of a small file in one: the copy, zeros up to the next multiple
 * of 4 KiB, and the copy again.  The file is replaced as a whole by one
 * rename, so both copies are always of one state; one damaged page, one
 * zeroed sector or a lost end leaves a copy that can be read.
 *
 * A copy tells by itself whether it is whole (a checksum).  A decoder tries
 * copies_get(file, 0) and (file, 1), whose lengths follow from the file's,
 * and where the file has another length, the first copy as long as its own
 * bytes say.
 */
#ifndef TFS_BASE_COPIES_H
#define TFS_BASE_COPIES_H

#include "engine/base/bytes.h"

#define COPIES_APART 4096u

/* Where the second of two copies of n bytes each begins.  With n more it is the size of the file. */
static inline size_t copies_apart(size_t n)
{
	return (n + COPIES_APART - 1) / COPIES_APART * COPIES_APART;
}

/* Makes what out holds from `from` on the first copy and appends zeros and the second one.  On failure the caller cuts back. */
int copies_add(struct buf *out, size_t from) TFS_MUST;
/* One of the two (0, 1), empty if the file's size is not that of two copies. */
struct slice copies_get(struct slice file, unsigned which);
/*
 * Appends the file at path, as file_read_all does.  *holes: sectors of it cannot be
 * read, and are zeros here; if no copy is good then, the answer is -EIO.
 */
int copies_read(const char *path, size_t limit, struct buf *out, bool *holes) TFS_MUST;
/* True if the file is two equal copies of n bytes each, n > 0, and nothing else. */
bool copies_whole(struct slice file, size_t n);
/* Replaces the file at path, of whose copies one was damaged, and logs it in one line.  An error is logged, no more. */
void copies_rewrite(const char *path, struct slice file);

#endif
