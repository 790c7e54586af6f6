/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What control files show on a read-only mount.  There OPEN is answered
 * ENOSYS, so no descriptor can keep the rendering that it began with, and one
 * made for each READ would be of another length than the size that the kernel
 * was told, or mix two.  So the last renderings are kept here by inode: made
 * when a name is looked up, which every open(2) does, and shown by all stats
 * and READs until the next look-up.  Two who read one file at the same time
 * may still get the later's.
 *
 * Threads: any.
 */
#ifndef TFS_FS_RENDERED_H
#define TFS_FS_RENDERED_H

#include "engine/base/bytes.h"

void rendered_init(void);
void rendered_fini(void);
/* The name has been looked up: what is shown next is made anew. */
void rendered_drop(uint64_t ino);
/* Takes text, which was made at time_us. */
void rendered_keep(uint64_t ino, struct buf *text, int64_t time_us);
/* false: none is kept. */
bool rendered_stat(uint64_t ino, uint64_t *size, int64_t *time_us);
bool rendered_read(uint64_t ino, uint64_t offset, void *buf, size_t size, size_t *got);

#endif
