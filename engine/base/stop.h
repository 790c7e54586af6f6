/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The work of a thread: whether it is still wanted, how long it may wait, and for whom it is.  A thread that
 * serves a request sets these; long calculations and waits below it, which have no parameter for them, ask.
 *
 * Threads: each thread has its own function and time.
 */
#ifndef TFS_BASE_STOP_H
#define TFS_BASE_STOP_H

#include <stdbool.h>
#include <stdint.h>

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
 * All waits of a thread's request for another process together last at most limit_us, counted from since_us
 * (monotonic_us).  An answer begins this time again: the time bounds silence and not the work of a server.  If the
 * thread has waited for others of its process, an answer that one of them got counts, too.
 * limit_us 0: the waits have no such bound, which is so before the first call.
 */
void stop_wait_begin(uint64_t since_us, uint64_t limit_us);
/*
 * Returns us, or the time that is left if that is less.  A request gets STOP_TRY_US of its limit at least until one of its
 * waits has ended without an answer.
 */
uint64_t stop_wait_left(uint64_t us);
#define STOP_TRY_US(limit_us) ((limit_us) / 8 < 1000000u ? (limit_us) / 8 : 1000000u)
/* A call of the thread's request has returned err: a server has answered, or none has (outcome_is_answer). */
void stop_wait_ended(int err);
/* The two values of the thread, for a thread that continues its request. */
void stop_wait_get(uint64_t *since_us, uint64_t *limit_us);
/* The request repeats one that has used up its time, so it gets STOP_TRY_US only. */
void stop_wait_repeats(void);
/* If the request has used up its time and got no answer, returns its limit; else 0. */
uint64_t stop_wait_in_vain(void);

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
