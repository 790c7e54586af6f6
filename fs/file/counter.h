/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters: plain names in a family of type counter.  A number that is written
 * sets the counter, and lines +=N and -=N add to it.
 *
 * Threads: the lock of the open file is held.
 */
#ifndef TFS_FS_FILE_COUNTER_H
#define TFS_FS_FILE_COUNTER_H

#include "engine/base/counter.h"
#include "fs/file/content.h"

/* content_write() of a counter; content is whole and has a target.  -EINVAL: the text cannot become a change of a counter. */
int counter_write(struct content *content, uint64_t offset, struct tfs_bytes bytes, bool append) TFS_MUST;
int counter_truncate(struct content *content, uint64_t size) TFS_MUST;
/* The staged change.  Returns 0, 1 if it is not complete and `last` is not set, -errno. */
int counter_staged(struct content *content, bool last, struct counter_change *out) TFS_MUST;
/* The staged lines have been added. */
void counter_added(struct content *content);

#endif
