/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors that read: those for reading and writing share one content, as
 * programs that share a file under locks (sqlite) need it.  Descriptors for
 * reading only keep the version they opened up to its end.
 *
 * Threads: a file's lock is taken inside.
 */
#ifndef TFS_FS_SHARE_H
#define TFS_FS_SHARE_H

#include "fs/file/file.h"

/* h, of a plain name, reads and writes the file's content from now on.  truncate: it needs nothing of it. */
void share_open(struct handle *h, bool truncate);
/*
 * Locks h's file, to read or to write its content.  A shared content has been
 * brought up to date then, and h is its writer if it writes.  The lock is held
 * on success only.
 */
int share_lock(struct handle *h, bool writes, struct changes *c) TFS_MUST;
/*
 * Reads through a descriptor for reading only.  It keeps its version until a
 * read has returned end of file; the next read continues in the newest one.
 * It also does so where that is shorter, and a reader that has had all bytes
 * begins again.
 * paging: the kernel fills pages for a private mapping, which follows nothing.
 */
int reader_read(struct handle *h, bool paging, uint64_t offset, void *buf, size_t n, size_t *got) TFS_MUST;

#endif
