/* SPDX-License-Identifier: Apache-2.0 */
/* This process and its parents. */
#ifndef TFS_BASE_PROCESS_H
#define TFS_BASE_PROCESS_H

#include "engine/base/bytes.h"

/*
 * Returns how many calls of fork(2) lie between the first process that called this function and
 * the calling process.  An object that was made at a lower number belongs to a parent process:
 * its threads do not exist here, and its locks may be held for ever.  Any thread.
 */
uint32_t process_forks(void);

/*
 * Numbered steps of changes that others finish or undo after a death.  A debug build with TFS_DIE_AT=STEP:N in its environment
 * dies at the N-th pass of a step; other builds have no such code.  Any thread.
 */
enum die_step {
	DIE_BEFORE_ROW = 1, /* a row of METADATA is changed */
	DIE_AFTER_ROW,
	DIE_BEFORE_LOCK, /* the master changes the lock service */
	DIE_AFTER_LOCK,
	DIE_BEFORE_FILE, /* a file or directory is renamed or removed */
	DIE_AFTER_FILE,
	DIE_BEFORE_ANSWER /* a master's request was carried out, and is not answered yet */
};
#ifdef TFS_DEBUG
void die_step(enum die_step step);
#else
static inline void die_step(enum die_step step)
{
	(void)step;
}
#endif

#endif
