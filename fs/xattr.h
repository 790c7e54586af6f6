/* SPDX-License-Identifier: Apache-2.0 */
/* Extended attributes: the raw key of a node, and errors that common tools handle. */
#ifndef TFS_FS_XATTR_H
#define TFS_FS_XATTR_H

#include "fs/base/fs.h"

void xattr_get(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size);
void xattr_set(fuse_req_t req, fuse_ino_t ino, const char *name, const char *value, size_t size, int flags);
void xattr_list(fuse_req_t req, fuse_ino_t ino, size_t size);
void xattr_remove(fuse_req_t req, fuse_ino_t ino, const char *name);

#endif
