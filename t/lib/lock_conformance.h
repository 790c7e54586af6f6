/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tests that every implementation of engine/lock/lock.h must pass.  A test
 * program describes its implementation in a struct lock_kind, defines
 * lock_conformance_kind as a pointer to it, and lists LOCK_CONFORMANCE and, if the
 * service has several sessions, LOCK_CONFORMANCE_SESSIONS among its cmocka tests.
 */
#ifndef TFS_T_LOCK_CONFORMANCE_H
#define TFS_T_LOCK_CONFORMANCE_H

#include "engine/lock/lock.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

struct lock_kind {
	void (*begin)(void); /* makes an empty service */
	void (*end)(void);
	/* A new session of the service.  The test frees it. */
	struct lock_service *(*session)(void);
	/* The service ends the session, which stays open.  NULL: it has one session at a time, without a timeout. */
	void (*expire)(struct lock_service *s);
	/* Returns when watches have been called for all changes so far.  NULL: the thread that makes a change calls them. */
	void (*deliver)(void);
};

int lock_conformance_setup(void **state);
int lock_conformance_teardown(void **state);
#define LOCK_CONFORMANCE_ONE_THREAD(X)                                                                                             \
	X(compare_and_set)                                                                                                         \
	X(names)                                                                                                                   \
	X(list)                                                                                                                    \
	X(multi)                                                                                                                   \
	X(checks)                                                                                                                  \
	X(sizes)                                                                                                                   \
	X(ephemeral)                                                                                                               \
	X(watch)                                                                                                                   \
	X(watched_directory)                                                                                                       \
	X(term)
#define LOCK_CONFORMANCE_ALL(X) LOCK_CONFORMANCE_ONE_THREAD(X) X(threads)
#define LOCK_CONFORMANCE_SEVERAL(X)                                                                                                \
	X(sessions)                                                                                                                \
	X(watched_life)                                                                                                            \
	X(expired_session)                                                                                                         \
	X(former_master)
#define LOCK_CONFORMANCE_DECLARE(name) void lock_conformance_##name(void **state);
LOCK_CONFORMANCE_ALL(LOCK_CONFORMANCE_DECLARE)
LOCK_CONFORMANCE_SEVERAL(LOCK_CONFORMANCE_DECLARE)
#define LOCK_CONFORMANCE_ONE(name)                                                                                                 \
	cmocka_unit_test_prestate_setup_teardown(                                                                                  \
		lock_conformance_##name, lock_conformance_setup, lock_conformance_teardown, (void *)(lock_conformance_kind)),
#define LOCK_CONFORMANCE LOCK_CONFORMANCE_ALL(LOCK_CONFORMANCE_ONE)
#define LOCK_CONFORMANCE_SESSIONS LOCK_CONFORMANCE_SEVERAL(LOCK_CONFORMANCE_ONE)

#endif
