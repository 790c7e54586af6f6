/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tries the shared storage of a cluster, as a process that starts: its mount's options, and the probe (engine/probe/probe.h) with
 * another server as its other side.  The first server has none, and probes alone.
 *
 * Servers that start at the same time find no registered server.  So each looks again when it
 * is registered itself: of two such servers at least one finds the other.  A master looks again
 * until it finds one.
 */
#ifndef TFS_SITE_PROBE_H
#define TFS_SITE_PROBE_H

#include "engine/site.h"

/*
 * Called before a server registers, or a master tries to lead; after site_check.  Sets *alone to true if no server is registered.
 * Returns -EOPNOTSUPP if the storage is not safe, -UNREACHABLE if no registered server answered for half a minute.  Both set *why
 * to one line, which the caller frees.
 */
int site_try_storage(struct site *s, bool *alone, char **why) TFS_MUST;
/*
 * Called by a process that was alone: a registered server (`self`) calls it when it serves, a
 * master (self 0) again and again.  Asks each other registered server, in turn, until one answers
 * or most_us has passed, at least once.  The process ends if the storage is not safe.  Returns 0 if
 * the storage is safe, -ENOENT if no other server is registered, -UNREACHABLE if none answers.  Any
 * error but
 * -ENOENT sets *why as site_try_storage does.
 */
int site_try_again(struct site *s, uint64_t self, uint64_t most_us, char **why) TFS_MUST;
#define SITE_TRY_US 30000000u

#endif
