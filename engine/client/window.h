/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows of one table that a client has under way in requests of many rows.
 *
 * A tablet keeps the results of TS_ROWS_UNDER_WAY mutations of a client, and forgets all
 * numbers below a forgotten one.  If one request is slow while others pass it, its
 * numbers become the lowest of many.  So a request waits until it has less than
 * TS_ROWS_UNDER_WAY rows between itself and the end of the oldest request under way.
 *
 * Threads: any.  No other lock is acquired under the internal lock (RANK_CLIENT).
 */
#ifndef TFS_CLIENT_WINDOW_H
#define TFS_CLIENT_WINDOW_H

#include "engine/base/mutex.h"

#include <bsd/sys/queue.h>

/* The rows of one request. */
struct window_part {
	uint64_t from;
	TAILQ_ENTRY(window_part) link;
};
struct window {
	struct mutex lock; /* guards the rest */
	struct cond left;
	uint64_t next;
	TAILQ_HEAD(, window_part) under_way; /* the oldest first */
};
void window_init(struct window *w);
void window_fini(struct window *w);
/* Waits until the rows may be sent.  The caller holds no lock. */
void window_enter(struct window *w, struct window_part *p, uint32_t rows);
void window_leave(struct window *w, struct window_part *p);

#endif
