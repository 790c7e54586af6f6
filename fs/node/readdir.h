/* SPDX-License-Identifier: Apache-2.0 */
/* The requests on open directories.  Threads: any; engine calls are made. */
#ifndef TFS_FS_NODE_READDIR_H
#define TFS_FS_NODE_READDIR_H

#include "fs/base/fs.h"

/* Has any table a family whose cells expire? */
bool dir_any_expires(void);
void dir_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void dir_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void dir_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi);
void dir_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi);

#endif
