/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The linker directs the engine's calls of these functions to this file (--wrap,
 * local.mk).  A thread that does not belong to the simulation (before sim_run)
 * gets the real ones.
 *
 * A mutex stays a real one: its owner holds it also while another thread runs.  A
 * thread that finds it locked waits for its address.
 */
#include "engine/base/mutex.h"
#include "t/sim/sched.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#define EPOCH_S INT64_C(1700000000) /* CLOCK_REALTIME at virtual time 0 */

int __real_pthread_mutex_unlock(pthread_mutex_t *m);
void __real_mutex_lock(struct mutex *m);
long __real_syscall(long number, ...);

int __wrap_pthread_mutex_lock(pthread_mutex_t *m);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *m);
int __wrap_pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m);
int __wrap_pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *ts);
int __wrap_pthread_cond_signal(pthread_cond_t *c);
int __wrap_pthread_cond_broadcast(pthread_cond_t *c);
void __wrap_mutex_lock(struct mutex *m);
long __wrap_syscall(long number, ...);
int __wrap_clock_gettime(clockid_t id, struct timespec *ts);
time_t __wrap_time(time_t *out);
int __wrap_usleep(useconds_t us);
int __wrap_nanosleep(const struct timespec *t, struct timespec *left);
ssize_t __wrap_getrandom(void *p, size_t n, unsigned flags);
int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*fn)(void *), void *arg);
int __wrap_pthread_join(pthread_t id, void **result);

int __wrap_pthread_mutex_lock(pthread_mutex_t *m)
{
	while (pthread_mutex_trylock(m))
		(void)sim_wait(m, SIM_NEVER);
	return 0;
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *m)
{
	int err = __real_pthread_mutex_unlock(m);

	sim_wake(m, 1);
	return err;
}

/* Locks that all processes share are leaves: no thread stops there (sched.h). */
void __wrap_mutex_lock(struct mutex *m)
{
	if (m->rank < RANK_FILE_POOL)
		sim_yield();
	__real_mutex_lock(m);
}

int __wrap_pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m)
{
	__wrap_pthread_mutex_unlock(m);
	(void)sim_wait(c, SIM_NEVER);
	return __wrap_pthread_mutex_lock(m);
}

static uint64_t us_of(const struct timespec *ts)
{
	return (uint64_t)ts->tv_sec * 1000000 + (uint64_t)ts->tv_nsec / 1000;
}

/* How long until the deadline, by the monotonic clock of the caller's process. */
static uint64_t us_until(const struct timespec *ts)
{
	uint64_t now = sim_clock(), at = us_of(ts);

	return at > now ? at - now : 0;
}

int __wrap_pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *ts)
{
	bool woken;

	__wrap_pthread_mutex_unlock(m);
	woken = sim_wait(c, us_until(ts));
	__wrap_pthread_mutex_lock(m);
	return woken ? 0 : ETIMEDOUT;
}

int __wrap_pthread_cond_signal(pthread_cond_t *c)
{
	sim_wake(c, 1);
	return 0;
}

int __wrap_pthread_cond_broadcast(pthread_cond_t *c)
{
	sim_wake(c, UINT_MAX);
	return 0;
}

static long futex(uint32_t *at, int op, uint32_t value, const struct timespec *ts)
{
	switch (op) {
	case FUTEX_WAKE_PRIVATE:
		sim_wake(at, value);
		return 0;
	case FUTEX_WAIT_BITSET_PRIVATE:
		if (__atomic_load_n(at, __ATOMIC_ACQUIRE) == value && !sim_wait(at, us_until(ts))) {
			errno = ETIMEDOUT;
			return -1;
		}
		return 0;
	default:
		sim_fail("futex operation %d", op);
	}
}

long __wrap_syscall(long number, ...)
{
	long v[6];
	va_list ap;

	va_start(ap, number);
	for (unsigned i = 0; i < 6; i++)
		v[i] = va_arg(ap, long);
	va_end(ap);
	if (number == SYS_futex)
		return futex((uint32_t *)v[0], (int)v[1], (uint32_t)v[2], (const struct timespec *)v[3]);
	return __real_syscall(number, v[0], v[1], v[2], v[3], v[4], v[5]);
}

int __wrap_clock_gettime(clockid_t id, struct timespec *ts)
{
	uint64_t us = sim_clock();
	int64_t offset = id == CLOCK_REALTIME ? EPOCH_S * 1000000 + proc_self()->clock_offset_us : 0;

	us = (uint64_t)((int64_t)us + offset);
	*ts = (struct timespec){.tv_sec = (time_t)(us / 1000000), .tv_nsec = (long)(us % 1000000) * 1000};
	return 0;
}

time_t __wrap_time(time_t *out)
{
	struct timespec ts;

	__wrap_clock_gettime(CLOCK_REALTIME, &ts);
	if (out)
		*out = ts.tv_sec;
	return ts.tv_sec;
}

int __wrap_usleep(useconds_t us)
{
	sim_sleep(us);
	return 0;
}

int __wrap_nanosleep(const struct timespec *t, struct timespec *left)
{
	sim_sleep(us_of(t));
	return 0;
}

ssize_t __wrap_getrandom(void *p, size_t n, unsigned flags)
{
	sim_fill_random(p, n);
	return (ssize_t)n;
}

/* Threads of tests.  task_sim.c makes the engine's own threads. */
struct thread_of_test {
	void *(*fn)(void *arg);
	void *arg, *result;
	bool done;
};

static void test_main(void *arg)
{
	struct thread_of_test *t = arg;

	t->result = t->fn(t->arg);
	t->done = true;
	sim_wake(t, UINT_MAX);
}

int __wrap_pthread_create(pthread_t *id, const pthread_attr_t *a, void *(*fn)(void *), void *arg)
{
	struct thread_of_test *t = calloc(1, sizeof(*t));

	if (!t)
		return ENOMEM;
	*t = (struct thread_of_test){.fn = fn, .arg = arg};
	*id = (pthread_t)t;
	sim_spawn(proc_self(), 0, test_main, t);
	return 0;
}

int __wrap_pthread_join(pthread_t id, void **result)
{
	struct thread_of_test *t = (struct thread_of_test *)id;

	while (!t->done)
		(void)sim_wait(t, SIM_NEVER);
	*result = t->result;
	free(t);
	return 0;
}
