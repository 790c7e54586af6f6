/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why the calling thread's newest call of the library failed: the text that tfs_error
 * returns.  Each function of tabletfs.h that can fail begins with reason_clear(), and the
 * code that finds the cause of an error sets the reason.  So the text is never that of an
 * earlier call.
 *
 * Threads: each has a reason of its own.  No lock, no memory of the heap.  outcome.c has the functions.  A store is known
 * by a number and not by its address, because a store that is opened later may have the address of one that was closed.
 */
#ifndef TFS_BASE_REASON_H
#define TFS_BASE_REASON_H

#include <stdbool.h>
#include <stdint.h>

#define REASON_BYTES 512 /* with the NUL; a longer text is cut off */

struct reason {
	uint64_t store; /* the number of the store that the call was about; 0: there is no reason */
	char text[REASON_BYTES];
};
void reason_clear(void);
bool reason_is_set(void);
/* For a thread that returns the error of another thread, or cleans up before it returns. */
void reason_get(struct reason *out);
void reason_put(const struct reason *reason);
/* Returns a number for a store that no other store of the process has had. */
uint64_t reason_store(void);
/* Sets the reason of err, in the place of an earlier one, and returns err.  store: of reason_store(). */
int reason_set(uint64_t store, int err, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Returns the reason, or "" if there is none or it is about another store.  Valid until the thread's next reason. */
const char *reason_text(uint64_t store);

/* Why an operation of a mutation is refused with err, as a phrase about its column.  NULL: the text of the errno says it all. */
enum reason_op {
	REASON_OTHER,
	REASON_INCREMENT,
	REASON_SET_TIME,
	REASON_MOVE,
	REASON_CHECK_EXISTS,
	REASON_CHECK_ABSENT,
	REASON_CHECK_NEWEST,
	REASON_CHECK_VALUE,
	REASON_CHECK_MATCH,
	REASON_CHECK_FAMILY,
};
const char *reason_of_op(enum reason_op op, int err);

#endif
