/* SPDX-License-Identifier: Apache-2.0 */
/* A rename: the operation of a node's kind (node_ops.rename) gets this. */
#ifndef TFS_FS_NODE_RENAME_H
#define TFS_FS_NODE_RENAME_H

#include "fs/base/node_ops.h"
#include "fs/base/notify.h"

struct renaming {
	fuse_req_t req;
	struct node *dir, *newdir;
	const char *name, *newname;
	bool noreplace;
	struct resolved from, to;
	struct node *source;
	struct changes *c;
};

#endif
