/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scratch: files and directories whose names begin with '.', and everything
 * in such directories.  They live in the daemon, cost the table nothing, and
 * end with the mount.  A scratch node's content and attributes are in its
 * filex (files) or its extras (directories); it is listed in its directory as
 * a pinned extra entry until it is removed or renamed away.
 * Threads: any; the tree lock is taken inside.
 */
#ifndef TFS_FS_SCRATCH_H
#define TFS_FS_SCRATCH_H

#include "fs/base/fs.h"
#include "fs/base/notify.h"

/* Counted; NULL: there is none. */
struct node *scratch_find(struct node *dir, struct slice name);
/* Counted.  -EEXIST. */
int scratch_make(struct node *dir, struct slice name, bool is_dir, mode_t mode, uid_t uid, gid_t gid, struct node **out) TFS_MUST;
/* Takes n out of its directory.  -ENOTEMPTY. */
int scratch_remove(struct node *n) TFS_MUST;
int scratch_attr(struct node *n, struct stat *st) TFS_MUST;
/* chmod, chown; each -1 leaves. */
void scratch_set(struct node *n, mode_t mode, uid_t uid, gid_t gid);
/* Gives n's content and descriptors to another scratch name, replacing what has it. */
int scratch_rename(struct node *n, struct node *dir, struct slice name, bool noreplace) TFS_MUST;
/* One line for each scratch file that the end of the mount drops. */
void scratch_report(void);
/* Scratch and made directories for which ends() is true go, with what they are in: a line for each file. */
void scratch_end(bool (*ends)(void *arg, const struct node *n), void *arg);

#endif
