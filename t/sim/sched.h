/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A scheduler that runs the threads of one process in an order that a seed
 * determines.
 *
 * Each thread is a POSIX thread, but exactly one runs at a time.  It runs until
 * it waits: for a mutex, a condition, an event, a task, a sleep, or a call of
 * sim_wait.  Then the scheduler chooses the next one by the seed, among all that
 * can run.  If none can, it moves the time to the earliest time at which one
 * can.  Time is virtual, so an hour of waiting takes no time.
 *
 * The product runs unchanged.  The linker directs its calls of pthread_mutex_*,
 * pthread_cond_*, futex, clock_gettime, time, usleep, nanosleep and getrandom to
 * sched_wrap.c (--wrap), and task.c is replaced by task_sim.c.
 *
 * Threads belong to simulated processes (struct proc).  A process can be paused
 * for a time, and killed: then its threads never run again.  Its memory stays, so
 * a simulation runs in a child process of its own, which ends by _exit.
 *
 * A thread can be stopped for ever at each of these waits, and at each mutex_lock
 * where the seed has another thread run first.  So code of this directory that
 * several processes use must not wait between two steps of a change.
 * The product's locks that all processes share (ranks from RANK_FILE_POOL on) are
 * leaves.  A thread that acquires one does not wait.
 */
#ifndef T_SIM_SCHED_H
#define T_SIM_SCHED_H

#include <stdbool.h>
#include <stdint.h>

#define SIM_NEVER UINT64_MAX

struct proc {
	const char *name;
	unsigned number;
	bool dead;
	uint64_t paused_until;         /* its threads do not run before this time */
	uint64_t output_pause_us;      /* it is paused for so long when it has written its next SSTable; 0: not */
	uint64_t steps_left;           /* proc_step counts down; at 1 the process is killed; 0: it is not counted */
	uint64_t steps;                /* calls of proc_step so far */
	int64_t clock_offset_us;       /* the offset of its CLOCK_REALTIME */
	int64_t clock_ppm;             /* how much faster its clocks run, in millionths */
	void *data;                    /* the caller's */
	void (*ended)(struct proc *p); /* called once when it is killed; must not wait; may be NULL */
};

/*
 * Runs fn(arg) as the first thread, of a process named "world", with virtual time
 * 0.  Never returns: when fn has returned, the child process ends with status 0.
 * sim_preempt: a thread that locks a mutex lets another thread run first in one of
 * this many cases, or never if it is 0, as at first.
 */
_Noreturn void sim_run(uint64_t seed, void (*fn)(void *arg), void *arg);
void sim_preempt(unsigned in);

struct proc *proc_new(const char *name, void *data); /* copies name */
struct proc *proc_self(void);
struct proc *proc_world(void); /* never dies */
/* Its threads never run again.  If the caller is among them, this call does not return. */
void proc_kill(struct proc *p);
void proc_pause(struct proc *p, uint64_t us);
/* A step at which the process can die: counts, and kills the caller's process if it is time. */
void proc_step(void);

/* Begins a thread of the process, delay_us from now. */
void sim_spawn(struct proc *p, uint64_t delay_us, void (*fn)(void *arg), void *arg);
/* Waits for sim_wake of key.  Returns false after timeout_us (SIM_NEVER: it waits without a limit). */
bool sim_wait(const void *key, uint64_t timeout_us);
/* Wakes at most `most` of the threads that wait for key. */
void sim_wake(const void *key, unsigned most);
void sim_sleep(uint64_t us);
/* Lets another thread run first, if the seed chooses so. */
void sim_yield(void);

uint64_t sim_now(void);                    /* virtual microseconds since the start */
uint64_t sim_clock(void);                  /* the time that the monotonic clock of the caller's process shows */
uint64_t sim_random(uint64_t below);       /* 0 .. below - 1; drawn from the seed */
static inline bool sim_chance(unsigned in) /* one of `in` cases; 0: never */
{
	return in && sim_random(in) == 0;
}
/* A second stream of the seed, for decisions that must not change the schedule: contents of random files and salts. */
void sim_fill_random(void *p, unsigned long n);

/* Appends a line to the trace, if there is one, with time and process; and adds it to the hash. */
void sim_trace(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* A line that -vv prints; not part of the hash. */
void sim_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void sim_trace_to_stderr(void);
uint64_t sim_hash(void); /* hashes all steps so far; two runs of a seed have the same hash */
uint64_t sim_switches(void);
/* Prints all threads with what they wait for, and ends the child process by abort. */
_Noreturn void sim_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
