/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names to nodes, by the operations of the directory's kind and of the kind
 * that a name stands for (fs/base/node_ops.h).
 * Threads: any; engine calls are made.
 */
#ifndef TFS_FS_NODE_TREE_H
#define TFS_FS_NODE_TREE_H

#include "fs/base/node_ops.h"
#include "fs/base/notify.h"

/*
 * Resolves a name in dir, whether or not the node exists.  -ENOENT: the name is
 * not canonical, or nothing can have it here.  -ENAMETOOLONG.  -EOPNOTSUPP,
 * refused: a later version will use the name.
 */
int tree_resolve(struct node *dir, const char *name, struct resolved *out) TFS_MUST;
void resolved_fini(struct resolved *r);
/* The node that a name was resolved to, counted, if it exists; else -ENOENT. */
int tree_find_resolved(struct node *dir, struct resolved *r, struct node **out) TFS_MUST;
/* 0 or -ENOENT. */
int tree_exists(struct node *dir, struct resolved *r) TFS_MUST;
/* The node with a name, counted, if it exists; else -ENOENT. */
int tree_find(struct node *dir, const char *name, struct node **out) TFS_MUST;
/* -EROFS, logged: n, or the child of n with this name (NULL allowed), can only be read. */
int tree_check_writable(struct node *n, const char *name) TFS_MUST;
/* Resolves a name that will be made.  Instead of -ENOENT it returns -EPERM or -EINVAL, and logs the reason.  -EROFS: permit_data. */
int tree_resolve_new(struct node *dir, const char *name, struct resolved *out) TFS_MUST;

/* Counts an answer that makes the kernel hold n under this name.  If n was renamed meanwhile, the rename may not have invalidated this answer, so the answer gets no lifetime. */
void tree_count_entry(struct node *n, struct tfs_bytes name, struct fuse_entry_param *e);
/* Called for an operation that may have been done although it failed with err: the kernel drops the name and the listing. */
void tree_changed_if_unknown(struct changes *c, struct node *dir, const char *name, int err);
/* The attributes of a directory; the size is 0. */
void tree_dir_attr(const struct node *n, mode_t mode, uid_t uid, gid_t gid, struct stat *st);

/* node_ops.attr of a directory with the mode and owner of its table or, outside of tables, of the mount. */
int tree_attr(struct node *n, struct stat *st, double *timeout);
/* Like tree_attr, but only the owner may make and remove names there. */
int tree_owners_attr(struct node *n, struct stat *st, double *timeout);

#endif
