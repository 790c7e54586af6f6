/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The work of a thread: whether it is still wanted, and for whom it is.  A thread that serves a request sets a
 * function; long calculations below it, which have no parameter for it, ask.
 *
 * Threads: each thread has its own function.
 */
#ifndef TFS_BASE_STOP_H
#define TFS_BASE_STOP_H

#include <stdbool.h>

typedef bool stop_fn(void *arg);
/* Sets the function of this thread; NULL: the work is wanted. */
void stop_set(stop_fn *fn, void *arg);
/* Returns true if the thread should end what it does, with -EINTR and without a change. */
bool stop_asked(void);

/*
 * A wait for another process may last for minutes, so it calls this function every
 * STOP_CHECK_US.  silent: nothing is heard of that process, so the wait may be long.  fn is the
 * function of all threads; if it is NULL, they wait.
 */
#define STOP_CHECK_US 50000u
void stop_set_waiting(bool (*fn)(bool silent));
bool stop_asked_waiting(bool silent);

/*
 * The user for whom a thread works, for a server that does not let root act for others
 * (squash=root of a key): a mount then asks for cells on behalf of the user of each call.
 */
struct tfs_user;
/* Sets the function of this process; it returns the user of its thread, which stays valid during the call, or NULL: none. */
void asker_set(const struct tfs_user *(*fn)(void));
/* Returns true if this process has such a function. */
bool asker_is_set(void);
/* The user of this thread; NULL: none. */
const struct tfs_user *asker_get(void);
/* A server wants to know the users from now on. */
void asker_want(void);
bool asker_is_wanted(void);

#endif
