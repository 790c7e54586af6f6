/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors of a plain name that are open for reading and writing: they
 * show each other's bytes, as programs that share a file under locks (sqlite)
 * need it.  Descriptors for reading only keep the version they opened up to
 * its end.
 *
 * Threads: a file's lock is taken inside, unless a name ends in _locked.
 */
#ifndef TFS_FS_SHARE_H
#define TFS_FS_SHARE_H

#include "fs/file/file.h"

/* h is one of them from now on.  What others have staged is committed, so that what h loads next has it. */
void share_open(struct handle *h);
/* Read through it: with what any of them has written. */
int share_read(struct handle *h, uint64_t offset, void *buf, size_t n, size_t *got) TFS_MUST;
/*
 * Read through a descriptor for reading only.  It keeps its version until a
 * read has returned end of file; the next read continues in the newest one.
 * It also does so where that is shorter, and a reader that has had all bytes
 * begins again.
 * paging: the kernel fills pages for a private mapping, which follows nothing.
 */
int reader_read(struct handle *h, bool paging, uint64_t offset, void *buf, size_t n, size_t *got) TFS_MUST;
/* The column has changed (tree lock). */
void share_changed_locked(struct node *plain);

#endif
