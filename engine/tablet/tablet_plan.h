/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plan: cells encoded as memtable entries before the tablet's lock is taken.
 * The keys have gaps for the sequence number and the time of commit, which
 * plan_prepare fills in under the lock.
 */
#ifndef TFS_TABLET_PLAN_H
#define TFS_TABLET_PLAN_H

#include "engine/tablet/mutate.h"

enum { PLAN_INLINE = 8 };
/* A memtable entry to be made; its key is in the plan's buffer. */
struct planned {
	size_t key_at, seq_at; /* offsets in plan.keys of the key and of its sequence number */
	size_t key_bytes;      /* plan_prepare adds the time of commit to a live entry */
	int64_t ts;
	unsigned cell;   /* index of the cell in the batch; its sequence number is the batch's first sequence number plus this */
	bool live, dead; /* live: counts as a cell; dead: counts as a tombstone; */
	uint16_t family;
	struct tfs_bytes value;
	struct memnode *node;     /* made by plan_prepare */
	struct mem_family *count; /* the family's counts in the memtable */
	/* The entry's change, which is kept beside it, in plan.keys; change_bytes 0: none. */
	size_t change_at, change_bytes;
	struct memnode *change;
};
struct plan {
	struct buf keys, batch;
	struct planned *v, fixed_[PLAN_INLINE];
	unsigned n, cap, cells;
	uint64_t row_deletes, family_deletes, column_deletes, tombstones;
	bool near;          /* set by replay: keys mostly rise from one plan to the next */
	bool keeps_changes; /* set by the caller after plan_init */
	uint32_t changes;   /* of the mutation */
};

void plan_init(struct plan *p);
void plan_reset(struct plan *p); /* empties it; its memory is reused */
void plan_fini(struct plan *p);
/* Adds the entries of the next cell.  Borrows its value. */
int plan_cell(struct plan *p, struct tfs_bytes row, const struct batch_cell *c) TFS_MUST;
/* Sets the batch, and adds the entries, of a resolved mutation.  Borrows its values. */
int plan_mutation(struct plan *p, const struct mutation *m) TFS_MUST;
/*
 * Copies all entries into nodes of m, without inserting them.  seq is the
 * sequence of the first cell, commit is in us.  One thread at a time may use m
 * for this.
 */
int plan_prepare(struct plan *p, struct vmem *m, uint64_t seq, int64_t commit) TFS_MUST;
/* Inserts the prepared nodes.  Cannot fail.  One thread at a time may insert into m. */
void plan_insert(struct plan *p, struct vmem *m);

#endif
