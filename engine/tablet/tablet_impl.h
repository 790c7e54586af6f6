/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files of engine/tablet only.
 */
#ifndef TFS_TABLET_IMPL_H
#define TFS_TABLET_IMPL_H

#include "engine/tablet/tablet_state.h"

/*
 * Publishes v and takes its reference.  Returns the old view, which the caller
 * must put.  The caller holds t->lock.
 */
struct view *view_swap(struct tablet *t, struct view *v) TFS_MUST;

int tablet_state_error(const struct tablet *t); /* the error in TABLET_STATES */
struct stripe *stripe_of(struct tablet *t, struct tfs_bytes row);

/* Waits until no writer at or below seq is under way.  The caller holds t->lock. */
void writers_wait(struct tablet *t, uint64_t seq);

/* ---- tablet_scan.c ---- */
struct live_cell;
/* Calls fn for each cell of the row (family 0: of all families) that the rules hide at `now` and not at `kept`. */
int tablet_doubtful(struct tablet *t, const struct snap *snap, struct tfs_bytes row, uint16_t family, int64_t now, int64_t kept,
	int (*fn)(void *arg, const struct live_cell *c), void *arg) TFS_MUST;
/* The fingerprint (cell_fingerprint) of a family in a row, as of the snapshot and `now`. */
int tablet_fingerprint(
	struct tablet *t, const struct snap *snap, struct tfs_bytes row, uint16_t family, int64_t now, uint64_t *sum) TFS_MUST;

/* ---- throttle.c ---- */
/*
 * Called before a write, without a lock.  Delays it while too much is unflushed
 * or unmerged.  Returns an error only if flushing fails.
 */
int tablet_throttle(struct tablet *t, struct tfs_bytes row, const struct op *ops, unsigned count) TFS_MUST;
/*
 * Called after a write, without a lock.  Starts a flush if memory requires it.
 * active_bytes is the size of the active memtable, used_before is
 * env->memory_used before the write.
 */
void tablet_after_write(struct tablet *t, size_t active_bytes, size_t used_before);

#endif
