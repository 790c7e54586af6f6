/* SPDX-License-Identifier: Apache-2.0 */
/* The FUSE session: its operations and capabilities. */
#ifndef TFS_FS_SESSION_H
#define TFS_FS_SESSION_H

#include "fs/base/fs.h"

/* Checks libfuse's options and makes the session.  On failure libfuse has printed the reason. */
int session_new(struct fuse_args *args) TFS_MUST;
/* Mounts. */
int session_start(const char *mountpoint) TFS_MUST;
/* Unmounts if still mounted and frees the session. */
void session_end(void);

#endif
