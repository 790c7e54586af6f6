/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names to nodes, and what stat shows of a node (DESIGN 2.1, 2.2).
 * Threads: any; engine calls are made.
 */
#ifndef TFS_FS_TREE_H
#define TFS_FS_TREE_H

#include "fs/file/cell.h"
#include "fs/base/fs.h"

/* The key of the node of a family, of its directory in .families, or of a group's in .groups. */
#define FAMILY_KEY_BYTES sizeof("#65535")
void tree_family_key(uint16_t id, char key[FAMILY_KEY_BYTES]);
/* The key of a table's node. */
#define TABLE_KEY_BYTES 4
void tree_table_key(const struct tfs_table *t, uint8_t key[TABLE_KEY_BYTES]);

/* What a name below a directory stands for, whether or not it exists. */
struct resolved {
	enum node_kind kind;
	struct node *parent; /* of the node; borrowed */
	struct buf key;      /* of the node; of a table its name, and of a family or group until tree_bind */
	int64_t ts;
};
/*
 * -ENOENT: the name is not canonical, or nothing can have it here (creating
 * such a name is -EINVAL, or -EPERM when `*forbidden`); -ENAMETOOLONG;
 * -EOPNOTSUPP, refused: a later version will give the name a meaning.
 */
int tree_resolve(struct node *dir, const char *name, struct resolved *out, bool *forbidden) TFS_MUST;
void resolved_fini(struct resolved *r);

/* The name of a family or group becomes the key of its node.  -ENOENT: there is none of that name. */
int tree_bind(struct resolved *r) TFS_MUST;
/* mkdir ROW/FAMILY: the family is there, or is made if the schema allows it. */
int tree_make_family(struct node *row, const char *name, const struct fuse_ctx *ctx, struct changes *c) TFS_MUST;
/* Has a family's directory, when its name was looked up, had that name, and has it no more? */
bool tree_renamed(struct node *n, struct slice name);
/* An answer that makes the kernel know n by this name: counts it (node_lookup).  Who renames it then tells the kernel, or it is seen here. */
void tree_entry_given(struct node *n, struct slice name, struct fuse_entry_param *e);

/* Has the directory entries that the store knows nothing of: scratch, or empty directories? */
bool tree_has_extras(struct node *dir);
/* The directory was removed or replaced: it is found no more, and what only the daemon had below it ends. */
int tree_dir_gone(struct node *dir, struct changes *c) TFS_MUST;

/* r may be an error that came when the thing was done already: then the kernel is to ask again for the name and the listing. */
void tree_in_doubt(struct changes *c, struct node *dir, const char *name, int r);

/* The node behind a name if it exists, counted (node_put); else -ENOENT. */
int tree_find(struct node *dir, const char *name, struct node **out) TFS_MUST;
/* Why nothing can be made in dir under a name that is none there: for the log. */
const char *tree_name_reason(const struct node *dir);
/* Does what a resolved name stands for exist?  0 or -ENOENT.  *out (may be NULL): its node, counted. */
int tree_check(struct node *dir, struct resolved *r, struct node **out) TFS_MUST;

int tree_attr(struct node *n, struct stat *st, double *timeout) TFS_MUST;
/* Attributes and timeouts for an answer that makes the kernel know n (tree_entry_given). */
int tree_entry(struct node *n, struct fuse_entry_param *e) TFS_MUST;
/* The same for a version just seen in a scan. */
void tree_entry_version(struct node *n, const struct family_info *f, const struct tfs_info *info, struct fuse_entry_param *e);
/*
 * Size and time of commit of a version as the store gave them, remembered if nothing has been
 * committed since `changes` was read from fs.changes (before asking): false
 * if something has, and then it may not be what the kernel should keep.
 */
bool tree_learnt(struct node *version, const struct tfs_info *info, uint64_t changes);
/* A directory's attributes without asking the store: for listings. */
void tree_dir_attr(const struct node *n, mode_t mode, uid_t uid, gid_t gid, struct stat *st);
double tree_entry_timeout(const struct node *n);

void tree_lookup(fuse_req_t req, fuse_ino_t parent, const char *name);
void tree_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void tree_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr, int to_set, struct fuse_file_info *fi);
void tree_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, struct fuse_file_info *fi);
void tree_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t rdev);
void tree_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode);
void tree_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name);
void tree_unlink(fuse_req_t req, fuse_ino_t parent, const char *name);
void tree_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t newparent, const char *newname, unsigned flags);

#endif
