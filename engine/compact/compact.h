/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compactions of a tablet (paper, section 5.4): minor, merging, major.
 * Threads: any.
 */
#ifndef TFS_STORE_COMPACT_H
#define TFS_STORE_COMPACT_H

#include "engine/tablet/tablet.h"

/* What tablets call back: tablet_env.compactor. */
extern const struct tablet_compactor compact_functions;

/* Minor compaction of everything written so far, now; waits. */
int tablet_flush(struct tablet *t) TFS_MUST;
/* Major compaction, beginning with a minor one; waits. */
int tablet_compact(struct tablet *t) TFS_MUST;
/* A merging compaction if the policy wants one; *did.  Tests and the background task. */
int tablet_compact_step(struct tablet *t, bool *did) TFS_MUST;
/* The background looks at once whether there is something to compact. */
void tablet_compact_soon(struct tablet *t);

/* The order in which a pool of workers runs merging and major compactions, the most needed first: a task_urgency_fn. */
uint64_t compact_urgency(const struct task *task, uint64_t waited_us);

#endif
