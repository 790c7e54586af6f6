/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tries the shared storage of a cluster, as a process that starts: its mount's options, and the probe (engine/probe/probe.h) with
 * another server as its other side.  The first server has none, and probes alone.
 *
 * Servers that start at the same time find none that is registered before them.  Each looks again when it is registered itself, so
 * that at least one of two finds the other, which may look for this one at the same time.
 */
#ifndef TFS_SITE_PROBE_H
#define TFS_SITE_PROBE_H

#include "engine/site.h"

/*
 * Called before a server registers, or a master tries to lead; after site_check.  Sets *alone to true if no server is registered.
 * -EOPNOTSUPP: the storage is not safe; -UNREACHABLE: of the registered servers none answered for half a minute.  Both set *why to
 * one line, which the caller frees.
 */
int site_try_storage(struct site *s, bool *alone, char **why) TFS_MUST;
/* Called by the registered server `self` when it serves, if it was alone.  The process ends if the storage is not safe. */
void site_try_again(struct site *s, uint64_t self);

#endif
