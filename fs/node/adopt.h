/* SPDX-License-Identifier: Apache-2.0 */
/* A directory of scratch becomes a row or a family of one. */
#ifndef TFS_FS_ADOPT_H
#define TFS_FS_ADOPT_H

#include "fs/node/tree.h"

/*
 * Renames source, a directory of scratch, to a name that resolved to a row or
 * family.  One row mutation stores all files below it.
 * -EEXIST, -ENOTEMPTY: the name is taken.  -EXDEV: something in it cannot be a
 * cell, or is open; mv then copies.  -EACCES: the caller may not write to a family.  After an error all of it is scratch still, but a
 * family may have been made.
 */
int adopt_dir(struct node *source, struct node *newdir, const char *newname, struct resolved *to, bool noreplace, fuse_req_t req,
	struct changes *c) TFS_MUST;

#endif
