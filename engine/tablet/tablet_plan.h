/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From cells to memtable entries: everything that can be done before the
 * tablet's lock is taken.  Keys are encoded with gaps for the sequence number
 * and the time of commit, which are filled in under the lock; large values are
 * taken apart.
 */
#ifndef TFS_STORE_TABLET_PLAN_H
#define TFS_STORE_TABLET_PLAN_H

#include "engine/tablet/mutate.h"

enum { PLAN_INLINE = 8 };
/* A memtable entry to be: its key lies in the plan's buffer with a sequence to be filled in. */
struct planned {
	size_t key_at, seq_at, key_bytes; /* key_bytes of a live one grow by the time of commit */
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
	bool near; /* keys mostly rise from one plan to the next */
};
/* Does it delete single versions and nothing else? */
static inline bool plan_deletes_versions_only(const struct plan *p)
{
	return p->tombstones == p->cells && !p->row_deletes && !p->family_deletes && !p->column_deletes;
}

void plan_init(struct plan *p);
void plan_reset(struct plan *p); /* empty again; its memory is kept */
void plan_fini(struct plan *p);
/* The entries of one cell; its sequence number will be the first plus `cell`. p->cells is the caller's to count. */
int plan_cell(struct plan *p, struct slice row, const struct batch_cell *c, unsigned cell) TFS_MUST;
/* Batch and entries of a resolved mutation, whose memory they borrow. */
int plan_mutation(struct plan *p, const struct mutation *m) TFS_MUST;
/* Copies all entries into nodes of m, numbered from seq. Nothing is in the memtable yet. */
int plan_prepare(struct plan *p, struct vmem *m, uint64_t seq, int64_t commit) TFS_MUST; /* the caller serialises */
/* Cannot fail; the caller serialises. */
void plan_insert(struct plan *p, struct vmem *m);

#endif
