/* SPDX-License-Identifier: Apache-2.0 */
/* The FUSE session: its operations, capabilities and loop. */
#ifndef TFS_FS_SESSION_H
#define TFS_FS_SESSION_H

#include "fs/fs.h"

/* Mounts; args are libfuse's.  On failure libfuse has said why on standard error. */
int session_start(struct fuse_args *args, const char *mountpoint, bool single_threaded) TFS_MUST;
/* Serves until unmounted or told to end by a signal. */
int session_run(void) TFS_MUST;
/* Unmounts if still mounted and frees the session. */
void session_end(void);

#endif
