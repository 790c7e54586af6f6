/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time.  All times are int64 microseconds since 1970 (the cell timestamps'
 * unit).
 *
 * Reads follow the system's clock, in both directions.  What is collected is
 * gone for good, so that follows a second time: the mark, the latest time at
 * which the clock was believed.  A clock within the gap (a day) of the mark
 * is believed, and takes the mark along when it is ahead.  A clock farther
 * off is believed, and the mark set to it, forwards or backwards, once it has
 * been steady for a day or clock_confirm is called.
 */
#ifndef TFS_BASE_CLOCK_H
#define TFS_BASE_CLOCK_H
#include <stdbool.h>
#include <stdint.h>

#define CLOCK_GAP_US INT64_C(86400000000)    /* the gap, unless it is set */
#define CLOCK_STEADY_US INT64_C(86400000000) /* a clock steady for so long is believed */

struct clock;
typedef int64_t clock_source(void *arg);
/* now_us: where the time comes from, called with arg under the clock's lock; NULL: the system.  Returns NULL if out of memory. */
struct clock *clock_new(clock_source *now_us, void *arg);
void clock_free(struct clock *c);
int64_t clock_now(struct clock *c);     /* the system's clock */
int64_t clock_collect(struct clock *c); /* the earlier of now and the mark: what expired by then may be collected */
/* For timestamps: rises strictly, but follows a clock that was set back by more than a second. */
int64_t clock_unique(struct clock *c);
/* For commit times: rises strictly as long as the store is open. */
int64_t clock_commit(struct clock *c);

/* The mark as persisted; before it is called, and for a new store, the mark is the clock's first time.  gap_us 0: the default. */
void clock_set_mark(struct clock *c, int64_t mark_us, int64_t gap_us);
/* An operator says that the clock is right. */
void clock_confirm(struct clock *c);
struct clock_state {
	int64_t now_us, mark_us;
	bool believed;
	int64_t left_us; /* unless believed: until it will be, if it stays steady */
};
void clock_get_state(struct clock *c, struct clock_state *out);

uint64_t monotonic_us(void); /* CLOCK_MONOTONIC */
#endif
