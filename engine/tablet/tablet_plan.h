/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encodes cells as memtable entries before the tablet's lock is taken.  Keys
 * have gaps for the sequence number and the time of commit, which are filled
 * in under the lock.  Large values are split into chunks.
 */
#ifndef TFS_TABLET_PLAN_H
#define TFS_TABLET_PLAN_H

#include "engine/tablet/mutate.h"

enum { PLAN_INLINE = 8 };
/* A memtable entry to be made; its key is in the plan's buffer. */
struct planned {
	size_t key_at, seq_at, key_bytes; /* plan_prepare adds the time of commit to the key of a live entry */
	int64_t ts;
	unsigned cell;   /* index in the batch: its sequence is the first plus this */
	bool live, dead; /* it counts as a cell; as a tombstone */
	uint16_t family;
	struct slice value; /* CELL_LARGE: the 8 bytes at size_at in keys */
	size_t size_at;
	struct memnode *node;
	struct mem_family *count;
};
struct plan {
	struct buf keys, batch;
	struct planned *v, fixed_[PLAN_INLINE];
	unsigned n, cap, cells;
	uint64_t row_deletes, family_deletes, column_deletes, tombstones;
	bool near; /* keys mostly rise from one plan to the next (replay) */
};

void plan_init(struct plan *p);
void plan_reset(struct plan *p); /* empties it; its memory is reused */
void plan_fini(struct plan *p);
/* Adds the entries of the next cell.  Its sequence number will be the first plus the number of cells before it. */
int plan_cell(struct plan *p, struct slice row, const struct batch_cell *c) TFS_MUST;
/* Adds batch and entries of a resolved mutation; borrows its memory. */
int plan_mutation(struct plan *p, const struct mutation *m) TFS_MUST;
/* Copies all entries into nodes of m, numbered from seq, without inserting them. */
int plan_prepare(struct plan *p, struct vmem *m, uint64_t seq, int64_t commit) TFS_MUST; /* the caller serialises */
/* Cannot fail; the caller serialises. */
void plan_insert(struct plan *p, struct vmem *m);

#endif
