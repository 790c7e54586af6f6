/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compactions of a tablet (paper, section 5.4): minor, merging, major.
 * Threads: any.
 */
#ifndef TFS_COMPACT_H
#define TFS_COMPACT_H

#include "engine/tablet/tablet.h"

/* The functions that tablets call back: tablet_env.compactor. */
extern const struct tablet_compactor compact_functions;

/* Minor compaction of everything written so far.  Waits for it. */
int tablet_flush(struct tablet *t) TFS_MUST;
/* Major compaction, beginning with a minor one.  Waits for it. */
int tablet_compact(struct tablet *t) TFS_MUST;

/* The order in which a pool of workers runs merging and major compactions: a task_urgency_fn. */
uint64_t compact_urgency(const struct task *task, uint64_t waited_us);

#endif
