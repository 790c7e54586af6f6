/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The watches of a lock service within one process.
 *
 * Threads: any.  The mutex has rank RANK_LOCKSVC.  A callback is called with it held.
 */
#ifndef TFS_LOCK_WATCH_H
#define TFS_LOCK_WATCH_H

#include "engine/base/mutex.h"
#include "engine/lock/lock.h"

struct watch;
struct watch_set {
	struct mutex mutex;
	struct watch *head;
};
void watch_set_init(struct watch_set *s);
void watch_set_fini(struct watch_set *s); /* no callback may be running */

int watch_add(struct watch_set *s, const char *name, lock_watch_fn *fn, void *arg) TFS_MUST;
/* Removes every watch of (fn, arg).  On return none of them is running or will run. */
void watch_remove(struct watch_set *s, lock_watch_fn *fn, void *arg);
/* Calls the watches of this file.  The caller holds no lock of rank RANK_LOCKSVC or above. */
void watch_fire(struct watch_set *s, const char *name);

#endif
