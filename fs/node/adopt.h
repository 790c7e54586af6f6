/* SPDX-License-Identifier: Apache-2.0 */
/* A directory of scratch that is renamed to a row or family.  Threads: any; engine calls are made. */
#ifndef TFS_FS_NODE_ADOPT_H
#define TFS_FS_NODE_ADOPT_H

#include "fs/node/rename.h"

/*
 * One mutation of the row stores all files below the directory.
 * -EEXIST, -ENOTEMPTY: the name is taken.  -EXDEV: something in the directory
 * cannot be a cell, or is open; mv then copies.  -EACCES: the caller may not
 * write to a family.  After an error everything is still scratch, but a family
 * may have been added to the schema.
 */
int adopt_dir(struct renaming *m) TFS_MUST;

#endif
