/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The marker: a cluster has a random id, which its lock service has in the file
 * "cluster", and its data directory in DIR/cluster.  So a server does not work in
 * the directory of another cluster, nor in the bare directory below a file system
 * that is not mounted.  An embedded store has neither file; its lock service is in
 * its directory.
 *
 * Sets *why to one line if the directory is not the cluster's; the caller frees
 * it.
 * Errors: -ENODEV: DIR has no marker; -EXDEV: DIR, or the lock service, is another
 * cluster's; -EBADMSG, -EPROTO: a marker that cannot be used; -errno.
 */
#ifndef TFS_LOCK_MARKER_H
#define TFS_LOCK_MARKER_H

#include "engine/lock/lock.h"

#define MARKER_FILE "cluster" /* in both places */

/*
 * Makes a new cluster of a lock service and a directory, both without marker, or finishes that after a crash.  Of two clusters
 * that do this with one directory, one succeeds.  If the cluster was complete, this is marker_check.
 */
int marker_make(struct lock_service *locks, const char *dir, uint64_t *id, char **why) TFS_MUST;
/* Returns 0 if both have the same id, or neither has one; *id is then 0. */
int marker_check(struct lock_service *locks, const char *dir, uint64_t *id, char **why) TFS_MUST;
/* Looks at DIR/cluster alone, for a server that runs.  path: of the file.  Errors as above. */
int marker_look(const char *path, uint64_t id) TFS_MUST;

#endif
