/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads of large versions of a shared store.  The kernel reads a file in pieces of at most
 * 256 KiB, and each piece would be a round trip.  So the mount reads whole blocks of 1 MiB.
 * Threads: any; engine calls are made.
 */
#ifndef TFS_FS_FILE_BLOCKS_H
#define TFS_FS_FILE_BLOCKS_H

#include "fs/base/fs.h"

/* Reads from a version, as cell_node_read does. */
int blocks_read(struct node *version, uint64_t offset, void *buf, size_t n, size_t *got) TFS_MUST;
void blocks_init(void);
void blocks_fini(void);

#endif
