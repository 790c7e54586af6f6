/* SPDX-License-Identifier: Apache-2.0 */
/* The user who sent a request, with his groups: for checks that the kernel does not make. */
#ifndef TFS_FS_BASE_CALLER_H
#define TFS_FS_BASE_CALLER_H

#include "fs/base/fs.h"

struct caller {
	struct tfs_user user;
	gid_t groups[];
};

/* For free().  NULL: out of memory. */
struct caller *caller_new(fuse_req_t req);

#endif
