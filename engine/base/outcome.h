/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Outcomes: the errors that the parts of a store return to each other, and that
 * are no errno.  A function that returns -errno may also return -TABLET_MOVED and
 * so on; its comment says which.  No user sees them: the client library passes each
 * error through user_errno() before it returns it.
 *
 * The numbers are above the errnos of Linux, so no error of a system call is taken
 * for an outcome, and at most 4095 (engine/rpc/wire.h).  No file contains them.
 */
#ifndef TFS_BASE_OUTCOME_H
#define TFS_BASE_OUTCOME_H

#include <errno.h>
#include <stdbool.h>

/* Name, the user's errno, and the meaning: a text for messages. */
#define OUTCOMES(X)                                                                                                                \
	X(TABLET_MOVED, EIO, "this server does not serve the row; another one may")                                                \
	X(TABLET_TAKEN, EIO, "METADATA assigns the tablet to another server, or to this one under another number")                 \
	X(TABLET_STOPPED, EIO, "the tablet is being closed")                                                                       \
	X(TABLE_DROPPED, ENOENT, "no table has tablets of this id; the table was dropped, or its salt has changed")                \
	X(SCAN_UNKNOWN, EIO, "the server has no such scan or action any more")                                                     \
	X(MUTATION_ANSWERED, ETIMEDOUT, "the mutation was answered before, and its result is forgotten")                           \
	X(EPOCH_ENDED, EIO, "the client has begun a later epoch; nothing was changed")                                             \
	X(SESSION_ENDED, EIO, "the caller's session in the lock service, or its term as master, has ended; nothing was changed")   \
	X(VERSION_CHANGED, EIO, "a file of the lock service has another version; nothing was changed")                             \
	X(UNREACHABLE, EIO, "the server, the lock service or the storage cannot be reached")                                       \
	X(ANSWER_LOST, ETIMEDOUT, "no answer came from the server; it may have carried out the request, and may still do so")      \
	X(WAIT_INTERRUPTED, EINTR, "the caller was interrupted while it waited for a server")                                      \
	X(FENCE_LOST, EIO, "this server is dead for the others; they may not see what it has written last")                        \
	X(CLOCK_OFF, EIO, "this server's clock differs too much from the cluster's")                                               \
	X(CHANGES_REMOVED, ESTALE, "changes behind this place are not kept any more")                                              \
	X(SCRIPT_LIMIT, E2BIG, "a script exceeded a limit")                                                                        \
	X(SCRIPT_DIED, EIO, "the process that ran a script died")

enum outcome {
	OUTCOME_NONE = 1000,
#define X(name, user, text) name,
	OUTCOMES(X)
#undef X
};

/* Returns err, 0 or -errno; if err is an outcome, the errno that a user gets. */
int user_errno(int err);
/* Returns false if err says that no answer came, or that the right server was not found. */
bool outcome_is_answer(int err);
/* Returns the meaning of err, which is -errno or an outcome, for messages.  The text is not freed. */
const char *error_text(int err);

#endif
