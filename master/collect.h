/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The collector, which removes SSTables and logs that METADATA does not name.  Only collect.c
 * and collect_list.c read its members.  The caller need not have the master's lock.
 */
#ifndef TFS_MASTER_COLLECT_H
#define TFS_MASTER_COLLECT_H

#include "engine/base/mutex.h"
#include "engine/base/task.h"

#include <stdatomic.h>

struct master;

/* The name of an SSTable.  A log's name has the table 0 and the number 0. */
struct file_name {
	uint64_t table, incarnation, number; /* no padding, because it is hashed as bytes */
};
struct collect_name {
	struct file_name file;
	bool left; /* the previous round found it unreferenced */
};
struct collector {
	struct mutex rounds; /* RANK_COLLECT: one round at a time; guards the next members */
	_Atomic uint64_t full_due_us;
	bool missing; /* a file that METADATA names does not exist */
	/* The times are monotonic. */
	struct task_pool *pool;
	struct task task;
	_Atomic uint64_t not_before_us; /* when the next round may begin, unless the disk is full */
	uint64_t again_us;              /* used by the task only, as is reported_err */
	int reported_err;
	_Atomic bool stop;
	_Atomic bool wanted; /* without background work: a round runs after the request */

	struct mutex lock;         /* RANK_FILES: guards the next members */
	struct collect_name *list; /* candidates of the next round */
	unsigned count;
	uint32_t *moved; /* tables of which a tablet was moved since step 4 */
	unsigned moved_count;
	bool moved_twice; /* a table of `moved` had a second move */
};

void collect_init(struct master *m);
void collect_fini(struct master *m); /* ends a round early */
/* Adds a candidate for the next round.  Without memory for it a full round finds the file. */
int collect_add(struct master *m, struct file_name f, bool left) TFS_MUST;
/* Call it before a tablet of the table is unloaded. */
void collect_moving(struct master *m, uint32_t table);
void collect_forget_moves(struct collector *c);
/* Without background work: runs a round if one was asked for.  The caller must not have the master's lock. */
void collect_wanted(struct master *m);

#endif
