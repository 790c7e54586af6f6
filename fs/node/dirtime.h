/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Times set on directories of .latest.  Directories have none in a table, so
 * they are kept for the life of the mount, and no longer: enough for a second
 * rsync of a tree of plain names to find nothing to do.  At most
 * DIRTIME_MAX, 16 bytes each; what is set past them is ignored.
 *
 * Threads: any; leaf lock (RANK_FS_NOTIFY).
 */
#ifndef TFS_FS_DIRTIME_H
#define TFS_FS_DIRTIME_H

#include "fs/base/fs.h"

#define DIRTIME_MAX (1u << 20)

void dirtime_init(void);
void dirtime_fini(void);
/* Nothing is kept for directories outside of .latest. */
void dirtime_set(const struct node *dir, int64_t us);
/* 0: none was set. */
int64_t dirtime_get(const struct node *dir);
void dirtime_forget(const struct node *dir);

#endif
