/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files of engine/tablet only.
 */
#ifndef TFS_TABLET_IMPL_H
#define TFS_TABLET_IMPL_H

#include "engine/tablet/tablet_state.h"

/* Publishes v (taken).  Returns the old view, which the caller must put.  The caller holds t->lock. */
struct view *view_swap(struct tablet *t, struct view *v) TFS_MUST;
bool tablet_contains_row(const struct tablet *t, struct slice row);

int tablet_state_error(const struct tablet *t); /* of TABLET_STATES */
struct stripe *stripe_of(struct tablet *t, struct slice row);

/* Waits until no writer at or below seq is under way.  The caller holds t->lock. */
void writers_wait(struct tablet *t, uint64_t seq);

/* ---- throttle.c ---- */
/* Before a write, without a lock: waits while too much is unflushed or unmerged.  An error only if flushing fails. */
int tablet_throttle(struct tablet *t, struct slice row, const struct op *ops, unsigned count) TFS_MUST;
/* After a write, without a lock: starts a flush if memory requires it. */
void tablet_after_write(struct tablet *t, size_t active_bytes, size_t used_before);

#endif
