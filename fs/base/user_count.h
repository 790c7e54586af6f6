/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts, for each user, things that cost the daemon memory or threads.  Each
 * count has a bound, so that one user cannot take all memory or all threads.
 *
 * Threads: any, also under the tree lock.
 */
#ifndef TFS_FS_BASE_USER_COUNT_H
#define TFS_FS_BASE_USER_COUNT_H

#include "engine/base/bytes.h"

#include <sys/types.h>

/* X(name, the limit of a user). */
#define USER_THINGS(X)                                                                                                             \
	X(SCANS, 10000)                    /* directories of clauses that the kernel holds */                                      \
	X(IMPORTS, 64)                     /* imports that are open */                                                             \
	X(RUNS, 4)                         /* runs of scripts that are open: each has threads, and the outputs of all rows */      \
	X(FEEDS, 512)                      /* lists of changes that are open */                                                    \
	X(FEED_BYTES, UINT64_C(512) << 20) /* bytes of long lines of changes that are not read yet */                              \
	X(MUTATIONS, UINT64_C(128) << 20)  /* bytes of unfinished mutations */

enum user_thing {
#define USER_THING(name, most) USER_##name,
	USER_THINGS(USER_THING)
#undef USER_THING
		USER_THING_COUNT
};

/* Counts n more for the user.  Returns how many the user has now.  0: that would be more than one user may have.  -ENOMEM. */
int64_t user_take(enum user_thing thing, uid_t uid, uint64_t n) TFS_MUST;
/* Counts n less. */
void user_give(enum user_thing thing, uid_t uid, uint64_t n);

#endif
