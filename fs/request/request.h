/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The FUSE requests on names, attributes and directories.  They do the part
 * that nodes of all kinds have in common, and call the operations of the node's
 * kind (fs/base/node_ops.h).  Requests on open files are in fs/file. Threads:
 * any; engine calls are made.
 */
#ifndef TFS_FS_REQUEST_REQUEST_H
#define TFS_FS_REQUEST_REQUEST_H

#include "fs/base/fs.h"
#include "fs/base/notify.h"

/* lookup.c */
void request_lookup(fuse_req_t req, fuse_ino_t parent, const char *name);
void request_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void request_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr, int to_set, struct fuse_file_info *fi);

/* change.c */
void request_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, struct fuse_file_info *fi);
void request_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t rdev);
void request_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode);
void request_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name);
void request_unlink(fuse_req_t req, fuse_ino_t parent, const char *name);
void request_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t newparent, const char *newname, unsigned flags);

/* readdir.c */
/* Returns true if any table has a family whose cells expire, or if that cannot be read. */
bool dir_any_expires(void);
void dir_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void dir_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void dir_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi);
void dir_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi);

/* ---- for acl.c ---- */
/* chmod and chown of the attributes in to_set. */
int request_set_owner(struct node *n, const struct stat *attr, int to_set, struct changes *c) TFS_MUST;
/* ---- acl.c: POSIX ACLs ---- */
/* Returns true for the names of xattrs that are ACLs. */
bool acl_is_name(const char *name);
/* Appends the value of the xattr.  -ENODATA or -EOPNOTSUPP: the node has no ACL. */
int acl_get(struct node *n, const char *name, struct buf *out) TFS_MUST;
int acl_set(struct node *n, const char *name, struct tfs_bytes value, struct changes *c) TFS_MUST;
/* Removes the ACL of a node.  Succeeds if there is none. */
int acl_remove(struct node *n, const char *name, struct changes *c) TFS_MUST;

/* scanning.c: the same requests, passed on to threads of their own if they are on scans */
int scanning_start(void) TFS_MUST;
/* Interrupts the scans, and waits for their requests.  The session still exists. */
void scanning_stop(void);
void scanning_lookup(fuse_req_t req, fuse_ino_t parent, const char *name);
void scanning_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi);
void scanning_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi);
void scanning_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi);

/* Replies with the raw key of a node, or with errors that common tools handle (xattr.c) */
void xattr_get(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size);
void xattr_set(fuse_req_t req, fuse_ino_t ino, const char *name, const char *value, size_t size, int flags);
void xattr_list(fuse_req_t req, fuse_ino_t ino, size_t size);
void xattr_remove(fuse_req_t req, fuse_ino_t ino, const char *name);

#endif
