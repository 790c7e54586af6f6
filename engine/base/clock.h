/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time.  All times are int64 microseconds since 1970 (the cell timestamps'
 * unit).
 *
 * Reads follow the system's clock in both directions.  Garbage collection
 * cannot be undone, so it follows a second time: the mark, the latest time at
 * which the clock was trusted.  A clock within the gap (a day) of the mark is
 * trusted; if it is ahead, the mark is set to it.  A clock farther off is
 * trusted, and the mark set to it forwards or backwards, after it has been
 * steady for a day or clock_confirm was called.
 */
#ifndef TFS_BASE_CLOCK_H
#define TFS_BASE_CLOCK_H
#include <stdbool.h>
#include <stdint.h>

#define CLOCK_GAP_US INT64_C(86400000000)    /* the default gap */
#define CLOCK_STEADY_US INT64_C(86400000000) /* a clock that was steady for so long is trusted */

struct clock;
typedef int64_t clock_source(void *arg);
clock_source clock_system;   /* CLOCK_REALTIME */
clock_source clock_boottime; /* CLOCK_BOOTTIME: since the boot of the machine, also while it sleeps */
/* now_us(arg) returns the time, and is called under the clock's lock; NULL: the system's clock.  Returns NULL if out of memory. */
struct clock *clock_new(clock_source *now_us, void *arg);
void clock_free(struct clock *c);
int64_t clock_now(struct clock *c);     /* the system's clock */
int64_t clock_limited(struct clock *c); /* the earlier of now and the limit (clock_set_limit) */
int64_t clock_collect(
	struct clock *c); /* returns the earlier of now and the mark: versions that expired before it may be removed */
/* For timestamps: rises strictly, but follows a clock that was set back by more than a second. */
int64_t clock_unique(struct clock *c);
/* For commit times: rises strictly as long as the store is open. */
int64_t clock_commit(struct clock *c);
/* Later times of commit are above this time. */
void clock_raise_commit(struct clock *c, int64_t above_us);

/* Sets the mark to the stored mark.  Without this call the mark is the first time read.  gap_us 0: the default. */
void clock_set_mark(struct clock *c, int64_t mark_us, int64_t gap_us);
/*
 * The time is at most limit_us, by the clock of the cluster.  clock_collect
 * and clock_limited return no later time, and the mark does not rise above it, so a
 * clock that is ahead removes nothing.  Without this call there is no limit.
 */
void clock_set_limit(struct clock *c, int64_t limit_us);
/* Raises the mark to another server's mark.  Call it before a tablet of that server is used. */
void clock_raise_mark(struct clock *c, int64_t mark_us);
/* The operator confirms that the clock is right. */
void clock_confirm(struct clock *c);
struct clock_state {
	int64_t now_us, mark_us;
	bool trusted;
	int64_t left_us; /* if not trusted: how long it must still be steady */
};
void clock_get_state(struct clock *c, struct clock_state *out);

uint64_t monotonic_us(void); /* CLOCK_MONOTONIC */
uint64_t worked_us(void);    /* processor time of this thread, which a busy machine hardly changes */
#endif
