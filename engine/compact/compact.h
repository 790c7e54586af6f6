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
/*
 * Removes the changes that are kept (tablet_changes.c), and with a major compaction what was deleted and replaced.  Changes
 * that are committed meanwhile stay.  Waits for it.
 */
int tablet_purge(struct tablet *t) TFS_MUST;

/*
 * A snapshot of several tablets at one instant:
 *	begin   flushes the tablet; from 0 until end no other thread flushes it
 *	freeze  puts a fresh memtable in place of the active one, without I/O
 *	flush   minor compaction of what was frozen.  From then until end the
 *	        tablet's files contain exactly the mutations before the freeze,
 *	        whatever merging and major compactions do: none of them can have
 *	        newer input
 *	end     in any case, after begin
 * Several tablets of a table are held in the order of their rows, as merges do.
 */
struct flush_job;
struct tablet_hold {
	struct tablet *t; /* NULL: not held */
	struct flush_job *job;
};
/* -TABLET_MOVED: other tablets have replaced it, or it leaves this server (tablet_retire_prepare).  -TABLET_TAKEN, -TABLET_STOPPED as tablet_mutate.  -ECANCELED: tablet_env.will_close; nothing has changed. */
int tablet_hold_begin(struct tablet *t, struct tablet_hold *h) TFS_MUST;
int tablet_hold_freeze(struct tablet_hold *h) TFS_MUST;
int tablet_hold_flush(struct tablet_hold *h) TFS_MUST;
void tablet_hold_end(struct tablet_hold *h);

/* Returns by how many microseconds a major compaction that removes deleted data is later than major_within promises; 0: it is not. */
int64_t tablet_overdue_us(struct tablet *t);

/* The order in which a pool of workers runs merging and major compactions: a task_urgency_fn. */
uint64_t compact_urgency(const struct task *task, uint64_t waited_us);

#endif
