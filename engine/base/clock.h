/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time.  All times are int64 microseconds since 1970 (the cell timestamps'
 * unit).  The store's clock never runs backwards: it is max(system time,
 * everything it was told or has told before), so expiry never un-happens;
 * tests replace the system time.
 */
#ifndef TFS_BASE_CLOCK_H
#define TFS_BASE_CLOCK_H
#include <stdint.h>

struct clock;
struct clock *clock_new(void);                    /* NULL: out of memory */
void clock_free(struct clock *c);
int64_t clock_now(struct clock *c);               /* never falls; may repeat */
int64_t clock_unique(struct clock *c);            /* strictly rising */
/* For times of commit: the system's time, or one microsecond above the last such time if that lies ahead. */
int64_t clock_commit(struct clock *c);
void clock_at_least(struct clock *c, int64_t us); /* a persisted mark was read */
void clock_set_for_test(struct clock *c, int64_t (*now_us)(void *arg), void *arg);
uint64_t monotonic_us(void);                      /* CLOCK_MONOTONIC */
#endif
