/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Times that users set on directories of .latest.  A table stores no times of
 * directories, so these last as long as the mount: with them, a second rsync of
 * a tree of plain names finds nothing to do.
 * Threads: any.
 */
#ifndef TFS_FS_NODE_DIRTIME_H
#define TFS_FS_NODE_DIRTIME_H

#include "fs/base/fs.h"

void dirtime_init(void);
void dirtime_fini(void);
/* Ignored for directories outside of .latest. */
void dirtime_set(const struct node *dir, int64_t us);
/* 0: none was set. */
int64_t dirtime_get(const struct node *dir);
void dirtime_forget(const struct node *dir);

#endif
