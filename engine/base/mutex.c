/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranked mutexes and condition variables.
 *
 * Debug builds record per thread which locks it holds.  mutex_lock checks the
 * order before it waits, so a wrong order aborts even without a deadlock.  A
 * wait on a condition releases the mutex and locks it again.  The second lock
 * must obey the order too, so it is checked before the wait; during the wait
 * the record is removed.
 *
 * Rejected: pthread's error-checking mutexes.  They do not check the order,
 * and these records also find a second lock and an unlock by another thread.
 */
#include "engine/base/mutex.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifdef TFS_DEBUG

enum { HELD_MOST = 32 };

static __thread struct {
	const struct mutex *m[HELD_MOST];
	unsigned n;
} held;

static const char *const rank_names[] = {
#define RANK(name) #name,
	RANKS(RANK)
#undef RANK
};

/* Not msg_error: that takes a ranked lock itself. */
__attribute__((noreturn)) static void lock_abort(const char *what, enum rank wanted, enum rank has)
{
	fprintf(stderr, "error: %s rank %s (%d) while holding rank %s (%d)\n", what, rank_names[wanted], (int)wanted,
		rank_names[has], (int)has);
	abort();
}

static void held_check(const struct mutex *m, const char *what)
{
	for (unsigned i = 0; i < held.n; i++)
		if (held.m[i] != m && held.m[i]->rank >= m->rank)
			lock_abort(what, m->rank, held.m[i]->rank);
}

static bool held_has(const struct mutex *m)
{
	for (unsigned i = 0; i < held.n; i++)
		if (held.m[i] == m)
			return true;
	return false;
}

static void held_before_lock(const struct mutex *m)
{
	if (held_has(m))
		lock_abort("lock again of", m->rank, m->rank);
	held_check(m, "lock of");
}

static void held_push(const struct mutex *m)
{
	if (held.n == HELD_MOST)
		lock_abort("too many locks: lock of", m->rank, held.m[held.n - 1]->rank);
	held.m[held.n++] = m;
}

static void held_pop(const struct mutex *m)
{
	for (unsigned i = held.n; i-- > 0;) {
		if (held.m[i] != m)
			continue;
		held.n--;
		for (; i < held.n; i++)
			held.m[i] = held.m[i + 1];
		return;
	}
	lock_abort("unlock without lock of", m->rank, held.n ? held.m[held.n - 1]->rank : RANK_NONE);
}

void mutex_assert_held(const struct mutex *m)
{
	if (!held_has(m))
		lock_abort("not held:", m->rank, held.n ? held.m[held.n - 1]->rank : RANK_NONE);
}

void mutex_assert_none_held(void)
{
	if (held.n)
		lock_abort("no lock allowed here: wanted", RANK_NONE, held.m[held.n - 1]->rank);
}

#else

static void held_before_lock(const struct mutex *m)
{
}
static void held_check(const struct mutex *m, const char *what)
{
}
static void held_push(const struct mutex *m)
{
}
static void held_pop(const struct mutex *m)
{
}
void mutex_assert_held(const struct mutex *m)
{
}
void mutex_assert_none_held(void)
{
}

#endif

/* These fail only by our mistake, or (init of a condition) not at all. */
static void must_succeed(int err)
{
	assert(err == 0);
}

void mutex_init(struct mutex *m, enum rank rank)
{
	*m = (struct mutex)MUTEX_INITIALIZER(rank);
}

void mutex_fini(struct mutex *m)
{
	must_succeed(pthread_mutex_destroy(&m->m));
}

void mutex_lock(struct mutex *m)
{
	held_before_lock(m);
	must_succeed(pthread_mutex_lock(&m->m));
	held_push(m);
}

bool mutex_trylock(struct mutex *m)
{
	int err;

	held_before_lock(m);
	err = pthread_mutex_trylock(&m->m);
	if (err == EBUSY)
		return false;
	must_succeed(err);
	held_push(m);
	return true;
}

bool mutex_lock_us(struct mutex *m, uint64_t timeout_us)
{
	struct timespec until;
	int err;

	held_before_lock(m);
	clock_gettime(CLOCK_MONOTONIC, &until);
	timeout_us += (uint64_t)until.tv_nsec / 1000;
	until.tv_sec += (time_t)(timeout_us / 1000000);
	until.tv_nsec = (long)(timeout_us % 1000000) * 1000;
	err = pthread_mutex_clocklock(&m->m, CLOCK_MONOTONIC, &until);
	if (err == ETIMEDOUT)
		return false;
	must_succeed(err);
	held_push(m);
	return true;
}

void mutex_unlock(struct mutex *m)
{
	held_pop(m);
	must_succeed(pthread_mutex_unlock(&m->m));
}

void cond_init(struct cond *c)
{
	pthread_condattr_t attr;

	must_succeed(pthread_condattr_init(&attr));
	must_succeed(pthread_condattr_setclock(&attr, CLOCK_MONOTONIC));
	must_succeed(pthread_cond_init(&c->c, &attr));
	must_succeed(pthread_condattr_destroy(&attr));
}

void cond_fini(struct cond *c)
{
	must_succeed(pthread_cond_destroy(&c->c));
}

void cond_wait(struct cond *c, struct mutex *m)
{
	held_check(m, "wait with");
	held_pop(m);
	must_succeed(pthread_cond_wait(&c->c, &m->m));
	held_push(m);
}

static struct timespec deadline_after(uint64_t timeout_us)
{
	const uint64_t year_us = 366ull * 86400 * 1000000;
	struct timespec ts;

	if (timeout_us > year_us)
		timeout_us = year_us;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	ts.tv_sec += (time_t)(timeout_us / 1000000);
	ts.tv_nsec += (long)(timeout_us % 1000000) * 1000;
	if (ts.tv_nsec >= 1000000000) {
		ts.tv_sec++;
		ts.tv_nsec -= 1000000000;
	}
	return ts;
}

bool cond_wait_us(struct cond *c, struct mutex *m, uint64_t timeout_us)
{
	struct timespec ts = deadline_after(timeout_us);
	int err;

	held_check(m, "wait with");
	held_pop(m);
	err = pthread_cond_timedwait(&c->c, &m->m, &ts);
	held_push(m);
	assert(err == 0 || err == ETIMEDOUT);
	return err == 0;
}

void event_set(struct event *e, uint32_t number)
{
	__atomic_store_n(&e->number, number, __ATOMIC_RELEASE);
}

void event_wake(struct event *e)
{
	/* If e was freed and its memory reused, a sleeper there wakes once for nothing. */
	syscall(SYS_futex, &e->number, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

void event_wake_all(struct event *e)
{
	syscall(SYS_futex, &e->number, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

uint32_t event_wait_us(struct event *e, uint32_t seen, uint64_t timeout_us)
{
	struct timespec ts = deadline_after(timeout_us);
	uint32_t number;

	while ((number = __atomic_load_n(&e->number, __ATOMIC_ACQUIRE)) == seen)
		if (syscall(SYS_futex, &e->number, FUTEX_WAIT_BITSET_PRIVATE, seen, &ts, NULL, FUTEX_BITSET_MATCH_ANY) &&
			errno == ETIMEDOUT)
			return seen;
	return number;
}

void cond_signal(struct cond *c)
{
	must_succeed(pthread_cond_signal(&c->c));
}

void cond_broadcast(struct cond *c)
{
	must_succeed(pthread_cond_broadcast(&c->c));
}
