/* SPDX-License-Identifier: Apache-2.0 */
/* The checks that a mount point must pass before the daemon opens the store. */
#ifndef TFS_FS_MOUNTPOINT_H
#define TFS_FS_MOUNTPOINT_H

#include "engine/base/bytes.h"

/*
 * Unmounts mounts of tabletfs at the mount point whose daemons have died.
 * Sets *path to the absolute path of the mount point; the caller frees it.
 * source is the data directory or a URL.  Returns 0, or -errno and sets
 * *why to one line that names the mount point, the cause and, where there is
 * one, the remedy; the caller frees it; NULL if memory is exhausted.
 */
int mountpoint_check(const char *mountpoint, const char *source, char **path, char **why) TFS_MUST;

#endif
