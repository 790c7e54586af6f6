/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads.  Descriptors of a plain name for reading and writing share one
 * content, because programs like sqlite share a file under locks.  Descriptors
 * for reading only stay on the version that they opened, up to its end.
 *
 * Threads: a file's lock is taken inside.
 */
#ifndef TFS_FS_READ_H
#define TFS_FS_READ_H

#include "fs/file/file.h"

/* d, of a plain name, uses the file's content from now on.  truncate: its bytes are not needed. */
void content_share(struct descriptor *d, bool truncate);
/* The open has failed: an image that content_share took for empty is loaded by the next call. */
void content_share_failed(struct descriptor *d);
/* d was flushed: the versions that its bytes are in remain.  The file's lock is held. */
void content_flushed(struct descriptor *d);
/*
 * Locks d's file for a read or a write of its content.  Before that a shared
 * content is brought up to date, and d becomes its writer if it writes.  On an
 * error the lock is not held.
 */
int content_lock(struct descriptor *d, bool writes, struct changes *c) TFS_MUST;
/*
 * Reads through a descriptor for reading only.  After a read has returned end
 * of file, a read at the end of the version continues in the newest version, and a
 * read at offset 0 begins there.  paging: the kernel fills pages for a private mapping, which stays on its
 * version.
 */
int reader_read(struct descriptor *d, bool paging, uint64_t offset, void *buf, size_t n, size_t *got) TFS_MUST;

#endif
