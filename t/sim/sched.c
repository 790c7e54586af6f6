/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scheduler (sched.h).
 *
 * A thread that stops running chooses the next thread itself, sets its `go`, and
 * sleeps on its own `go`, a futex.  All data here belongs to the thread that
 * runs, so it needs no lock.
 *
 * A thread that has ended its function waits for another function, because a
 * POSIX thread costs more than a function.  Threads of a killed process are
 * removed from the list, and sleep until the child process ends.
 */
#include "t/sim/sched.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { THREADS_MOST = 4096, SWITCHES_MOST = 2000000 };

struct thread {
	struct proc *proc;
	void (*fn)(void *arg);
	void *arg;
	const void *key; /* waits for it; NULL: it can run from at_us on */
	uint64_t at_us;  /* the time when it can run, or its time limit */
	bool timed_out;
	uint32_t go;
	unsigned number;
	struct thread *idle_next;
};

static struct {
	struct thread *v[THREADS_MOST];
	unsigned count;
	struct thread *current, *idle;
	struct proc *world;
	uint64_t now, random, fill, hash, switches;
	unsigned preempt, procs, threads;
	unsigned trace; /* 1: events, 2: also switches */
} S;

static __thread struct thread *self;

long __real_syscall(long number, ...);
int __real_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*fn)(void *), void *arg);

/* ---- random numbers ---- */

static uint64_t next_random(uint64_t *state)
{
	uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

uint64_t sim_random(uint64_t below)
{
	return below ? next_random(&S.random) % below : 0;
}

void sim_fill_random(void *p, unsigned long n)
{
	for (unsigned long i = 0; i < n; i++)
		((uint8_t *)p)[i] = (uint8_t)next_random(&S.fill);
}

/* ---- the trace ---- */

static void hash_add(uint64_t x)
{
	S.hash = (S.hash ^ x) * UINT64_C(0x100000001b3);
	S.hash ^= S.hash >> 29;
}

void sim_trace(const char *fmt, ...)
{
	char line[400];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	for (const char *p = line; *p; p++)
		hash_add((uint8_t)*p);
	if (S.trace)
		fprintf(stderr, "%12.6f %-10s %4u  %s\n", (double)S.now / 1e6, self ? self->proc->name : "-",
			self ? self->number : 0, line);
}

void sim_note(const char *fmt, ...)
{
	va_list ap;

	if (S.trace < 2)
		return;
	fprintf(stderr, "%12.6f %-10s %4u  . ", (double)S.now / 1e6, self->proc->name, self->number);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, "\n");
}

void sim_trace_to_stderr(void)
{
	S.trace++;
}

uint64_t sim_hash(void)
{
	return S.hash;
}

uint64_t sim_switches(void)
{
	return S.switches;
}

void sim_fail(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fprintf(stderr, "FAIL at %.6f s: ", (double)S.now / 1e6);
	vfprintf(stderr, fmt, ap);
	fprintf(stderr, "\n");
	va_end(ap);
	if (S.trace)
		for (unsigned i = 0; i < S.count; i++) {
			const struct thread *t = S.v[i];

			fprintf(stderr, "  thread %u of %s: waits for %p until %.6f s%s\n", t->number, t->proc->name, t->key,
				t->at_us == SIM_NEVER ? -1. : (double)t->at_us / 1e6, t == S.current ? " (running)" : "");
		}
	fflush(stderr);
	abort();
}

/* ---- switching ---- */

static uint64_t can_run_at(const struct thread *t)
{
	return t->at_us != SIM_NEVER && t->at_us < t->proc->paused_until ? t->proc->paused_until : t->at_us;
}

/* Chooses the next thread, and moves the time if all of them wait. */
static struct thread *choose(void)
{
	static struct thread *ready[THREADS_MOST];
	uint64_t first = SIM_NEVER;
	unsigned n = 0;
	struct thread *t;

	for (unsigned i = 0; i < S.count; i++) {
		uint64_t at = can_run_at(S.v[i]);

		if (at < S.now)
			at = S.now;
		if (at > first)
			continue;
		if (at < first)
			n = 0;
		first = at;
		ready[n++] = S.v[i];
	}
	if (first == SIM_NEVER)
		sim_fail("all threads wait without a time limit");
	t = ready[sim_random(n)];
	S.now = first;
	t->timed_out = t->key != NULL;
	t->key = NULL;
	return t;
}

static void sleep_until_go(struct thread *t)
{
	while (!__atomic_load_n(&t->go, __ATOMIC_ACQUIRE))
		__real_syscall(SYS_futex, &t->go, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
	t->go = 0;
}

static void run(struct thread *t)
{
	S.current = t;
	__atomic_store_n(&t->go, 1, __ATOMIC_RELEASE);
	__real_syscall(SYS_futex, &t->go, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* The current thread has set key and at_us.  Returns when it runs again. */
static void switch_away(void)
{
	struct thread *next = choose();

	if (++S.switches > SWITCHES_MOST)
		sim_fail("no end after %d switches of threads", SWITCHES_MOST);
	S.now++; /* so that a loop of calls that do not wait ends, too */
	hash_add(S.now ^ ((uint64_t)next->number << 48));
	if (S.trace > 2)
		fprintf(stderr, "%12.6f switch to %u of %s\n", (double)S.now / 1e6, next->number, next->proc->name);
	if (next == self)
		return;
	run(next);
	sleep_until_go(self);
}

static void thread_remove(struct thread *t)
{
	for (unsigned i = 0; i < S.count; i++)
		if (S.v[i] == t) {
			memmove(S.v + i, S.v + i + 1, (S.count - i - 1) * sizeof(S.v[0]));
			S.count--;
			return;
		}
}

static void *thread_main(void *arg)
{
	self = arg;
	for (;;) {
		sleep_until_go(self);
		self->fn(self->arg);
		thread_remove(self);
		self->idle_next = S.idle;
		S.idle = self;
		S.switches++;
		run(choose());
	}
	return NULL;
}

static struct thread *thread_new(void)
{
	struct thread *t = S.idle;
	pthread_t id;
	pthread_attr_t attr;

	if (t) {
		S.idle = t->idle_next;
		return t;
	}
	t = calloc(1, sizeof(*t));
	if (!t || S.threads == THREADS_MOST)
		sim_fail("too many threads");
	t->number = S.threads++;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 1 << 20);
	if (__real_pthread_create(&id, &attr, thread_main, t))
		sim_fail("pthread_create");
	pthread_attr_destroy(&attr);
	return t;
}

void sim_spawn(struct proc *p, uint64_t delay_us, void (*fn)(void *arg), void *arg)
{
	struct thread *t;

	if (p->dead)
		return;
	t = thread_new();
	t->proc = p;
	t->fn = fn;
	t->arg = arg;
	t->key = NULL;
	t->at_us = S.now + delay_us;
	S.v[S.count++] = t;
}

bool sim_wait(const void *key, uint64_t timeout_us)
{
	self->key = key;
	self->at_us = timeout_us > SIM_NEVER - 1 - S.now ? SIM_NEVER : S.now + timeout_us;
	switch_away();
	return !self->timed_out;
}

void sim_wake(const void *key, unsigned most)
{
	unsigned waiting = 0, skip;

	for (unsigned i = 0; i < S.count; i++)
		waiting += S.v[i]->key == key;
	/* If not all threads are woken, the seed chooses the first thread to wake. */
	skip = waiting > most ? (unsigned)sim_random(waiting) : 0;
	for (unsigned pass = 0; pass < 2 && most; pass++)
		for (unsigned i = 0; i < S.count && most; i++) {
			if (S.v[i]->key != key)
				continue;
			if (skip) {
				skip--;
				continue;
			}
			S.v[i]->key = NULL;
			S.v[i]->at_us = S.now;
			most--;
		}
}

void sim_sleep(uint64_t us)
{
	self->key = NULL;
	self->at_us = S.now + us;
	switch_away();
}

void sim_yield(void)
{
	if (sim_chance(S.preempt))
		sim_sleep(0);
}

/* ---- processes ---- */

struct proc *proc_new(const char *name, void *data)
{
	struct proc *p = calloc(1, sizeof(*p));

	if (!p)
		sim_fail("out of memory");
	p->name = strdup(name);
	p->number = S.procs++;
	p->data = data;
	return p;
}

struct proc *proc_self(void)
{
	return self->proc;
}

struct proc *proc_world(void)
{
	return S.world;
}

void proc_kill(struct proc *p)
{
	unsigned n = 0;

	if (p->dead)
		return;
	sim_trace("%s is killed", p->name);
	p->dead = true;
	for (unsigned i = 0; i < S.count; i++)
		if (S.v[i]->proc != p)
			S.v[n++] = S.v[i];
	S.count = n;
	if (p->ended)
		p->ended(p);
	if (self->proc != p)
		return;
	run(choose());
	for (;;)
		sleep_until_go(self);
}

void proc_pause(struct proc *p, uint64_t us)
{
	sim_trace("%s is paused for %llu us", p->name, (unsigned long long)us);
	p->paused_until = S.now + us;
	if (self->proc == p)
		sim_sleep(0);
}

void proc_step(void)
{
	struct proc *p = self->proc;

	p->steps++;
	if (p->steps_left && --p->steps_left == 0)
		proc_kill(p);
}

/* ---- the start ---- */

uint64_t sim_now(void)
{
	return S.now;
}

uint64_t sim_clock(void)
{
	const struct proc *p = self ? self->proc : NULL;

	return S.now + (p ? (uint64_t)((int64_t)S.now / 1000 * p->clock_ppm / 1000) : 0);
}

void sim_preempt(unsigned in)
{
	S.preempt = in;
}

void sim_run(uint64_t seed, void (*fn)(void *arg), void *arg)
{
	struct thread *t = calloc(1, sizeof(*t));

	S.random = seed * UINT64_C(0xd1342543de82ef95) + 1;
	S.fill = ~S.random;
	S.now = 1000000;
	S.world = proc_new("world", NULL);
	if (!t)
		sim_fail("out of memory");
	t->number = S.threads++;
	t->proc = S.world;
	S.v[S.count++] = self = S.current = t;
	fn(arg);
	fflush(NULL);
	_exit(0);
}
