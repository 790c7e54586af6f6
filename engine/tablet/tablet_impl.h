/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of engine/tablet share beside the state of a tablet.
 * Nobody else includes this.
 */
#ifndef TFS_STORE_TABLET_IMPL_H
#define TFS_STORE_TABLET_IMPL_H

#include "engine/tablet/tablet_state.h"

/* Publishes v (taken) in place of the current view; the caller holds t->lock. The old one goes back to him to put. */
struct view *view_swap(struct tablet *t, struct view *v) TFS_MUST;
bool tablet_contains_row(const struct tablet *t, struct slice row);

void tablet_fail(struct tablet *t, int err); /* what commit said; -ESTALE makes the tablet BROKEN */

struct stripe *stripe_of(struct tablet *t, struct slice row);

/* ---- tablet_write.c ---- */
/* Waits until no writer at or below seq is under way. The caller holds t->lock. */
void writers_wait(struct tablet *t, uint64_t seq);

/* ---- tablet_scan.c ---- */

/* ---- memory.c ---- */
/* Before a write, holding nothing: waits while too much is unflushed or unmerged.  An error only when flushing fails. */
int tablet_throttle(struct tablet *t, struct slice row, const struct op *ops, unsigned count) TFS_MUST;
/* After a write, holding nothing. */
void tablet_after_write(struct tablet *t, size_t active_bytes, size_t used_before);

#endif
