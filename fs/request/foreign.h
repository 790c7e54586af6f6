/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes that others make: other mounts and programs of the same server.
 * Threads: one.
 */
#ifndef TFS_FS_REQUEST_FOREIGN_H
#define TFS_FS_REQUEST_FOREIGN_H

#include "engine/tabletfs.h"

/* From now on, copies in the kernel and in this daemon are dropped when others change the data. */
int foreign_start(void) TFS_CHECKED;
/* Ends this.  Call it while the session of FUSE exists; foreign_start may not have been called. */
void foreign_stop(void);

#endif
