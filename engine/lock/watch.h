/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The watches and locks of a lock service within one process.
 *
 * Threads: any.  The internal mutex has rank RANK_LOCKSVC and is not held during
 * a callback.
 */
#ifndef TFS_LOCK_WATCH_H
#define TFS_LOCK_WATCH_H

#include "engine/base/mutex.h"
#include "engine/lock/lock.h"

struct watch;
struct watch_set {
	struct mutex mutex;
	struct cond idle; /* a callback has returned */
	struct watch *head;
	uint64_t last_number;
	struct held *held;
};
void watch_set_init(struct watch_set *s);
void watch_set_fini(struct watch_set *s); /* no callback may be running */

int watch_add(struct watch_set *s, const char *name, lock_watch_fn *fn, void *arg) TFS_MUST;
/*
 * Removes every watch of (fn, arg).  When it returns, none of them is running or
 * will run, except callbacks from which this thread called it.
 */
void watch_remove(struct watch_set *s, lock_watch_fn *fn, void *arg);
/* Calls the matching watches.  The caller holds no lock of rank RANK_LOCKSVC. */
void watch_fire(struct watch_set *s, const char *name);

int held_add(struct watch_set *s, const char *name) TFS_MUST;    /* -EBUSY */
int held_remove(struct watch_set *s, const char *name) TFS_MUST; /* -ENOENT */

#endif
