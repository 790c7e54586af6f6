/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The election of a master, and the terms of masters.
 *
 * The master is the session that has created the ephemeral file "master".  Its
 * multi-operation also raises "term" (u64), which is never removed, so that its version
 * identifies the term.  A master checks this version in each of its multi-operations: a
 * master that was paused and replaced changes nothing any more.
 *
 * Threads: any, after lock_term_begin.
 */
#ifndef TFS_LOCK_TERM_H
#define TFS_LOCK_TERM_H

#include "engine/lock/lock.h"

struct lock_term {
	struct lock_service *locks; /* borrowed */
	uint64_t number;            /* begins at 1; each master has a greater number than all masters before it */
	uint64_t version;           /* the version of "term" */
};
/*
 * Makes this session the master; contents: of the file "master".  No other session
 * may have the same contents: after an error whose outcome is unknown the caller
 * calls again, and they show if this session is the master already.  -EBUSY: another
 * session is the master; a watch of "master" reports its end.  The term ends when
 * the next term begins.
 */
int lock_term_begin(struct lock_service *locks, struct tfs_bytes contents, struct lock_term *t) TFS_MUST;
/*
 * Applies at most LOCK_OPS_MAX - 1 operations, as lock_multi does, and checks the term with them.
 * Changes nothing and returns -SESSION_ENDED if the term has ended.
 */
int lock_term_multi(const struct lock_term *t, const struct lock_op *ops, unsigned count) TFS_MUST;
/* Removes "master", unless the term has ended, so that another master need not wait for the end of the session. */
void lock_term_end(const struct lock_term *t);

#endif
