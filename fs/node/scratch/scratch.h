/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scratch: files and directories whose names begin with '.', and everything in
 * such directories.  Scratch is in the daemon, is not stored, and ends with the
 * mount.  A file's content and attributes are in its open_file, a directory's
 * are in its dirx.  Each is an extra entry of its directory until it is removed
 * or renamed.
 *
 * Threads: any; functions take the tree lock.
 */
#ifndef TFS_FS_NODE_SCRATCH_H
#define TFS_FS_NODE_SCRATCH_H

#include "fs/base/node_ops.h"
#include "fs/base/notify.h"

/* node_ops.find and make. */
int scratch_find(struct node *dir, struct resolved *r, struct node **out);
int scratch_make(const struct making *m, struct resolved *r, struct node **out);
/* Adds a node with the name to dir.  With share, a file is renamed: the node gets this state, and replaces a file that has the name. */
int scratch_place(
	struct node *dir, struct tfs_bytes name, enum node_kind kind, struct open_file *share, struct node **out) TFS_MUST;
/* Removes n from its directory.  -ENOTEMPTY. */
int scratch_remove(struct node *n) TFS_MUST;
/* Returns true for the names of sed -i, sedAbCdEf, which makes its new file beside the file that it edits. */
bool scratch_is_of_sed(const char *name);
/* Returns true if a table's directory has a scratch file of such a name. */
bool scratch_of_sed_is_there(struct node *table, const char *name);
/* Resolves any name to a scratch file.  mkdir makes a directory of it. */
int scratch_resolve_name(struct node *dir, const char *name, struct resolved *out) TFS_MUST;
/* node_ops.attr and set_owner. */
int scratch_file_attr(struct node *n, struct stat *st, double *timeout);
int scratch_dir_attr(struct node *n, struct stat *st, double *timeout);
int scratch_set_owner(struct node *n, const struct stat *attr, int to_set, struct changes *c);

#endif
