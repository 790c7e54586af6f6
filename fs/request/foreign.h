/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes that others make: other mounts and programs of the same server.
 * Threads: any; no locks are held.
 */
#ifndef TFS_FS_REQUEST_FOREIGN_H
#define TFS_FS_REQUEST_FOREIGN_H

#include "engine/tabletfs.h"

/* For tfs_watch: drops what the kernel and this daemon keep of the table, or of everything. */
void foreign_changed(void *arg, uint32_t table, const struct tfs_schema *before);

#endif
