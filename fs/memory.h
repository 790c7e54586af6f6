/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory that the daemon may use, and the memory that is configured.
 */
#ifndef TFS_FS_MEMORY_H
#define TFS_FS_MEMORY_H

#include "engine/tabletfs.h"

/* Warns if the control group of the process may use less memory than the caches and memtables. */
void memory_warn(const struct tfs_options *o);

#endif
