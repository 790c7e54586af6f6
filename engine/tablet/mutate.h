/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resolving the operations of a row mutation (op.h) into cells.
 *
 * All operations see the row as it was before the mutation, less what
 * earlier operations of the mutation removed, plus what they wrote; the GC
 * rules are asked once, for the row before it, at one `now`.  Checks see the
 * row before the mutation wherever they stand, and are judged first.
 *
 * Threads: one; the caller holds the row's stripe as it is told below.
 */
#ifndef TFS_STORE_MUTATE_H
#define TFS_STORE_MUTATE_H

#include "engine/cell/batch_format.h"
#include "engine/tablet/tablet_impl.h"

enum { MUTATION_INLINE = 8 };
#define MUTATION_VALUE_MAX (UINT64_C(64) << 20)
#define MUTATION_BYTES_MAX (UINT64_C(256) << 20)

struct cell_list {
	struct batch_cell *v; /* fixed_, or on the heap */
	unsigned n, cap;
	struct batch_cell fixed_[MUTATION_INLINE];
};
struct mcolumn;
struct mutation {
	struct tablet *t;
	struct slice row;
	const struct op *ops;
	unsigned count;
	struct snap snap;
	int64_t commit_us;         /* the time of commit; 0: nothing was to be committed */
	int64_t now;               /* at which the rules were asked */
	int64_t collect;           /* what they hid by then is deleted for good; at most now, but for a clock set back */
	bool judged;               /* the outcome depends on the schema and on now */
	struct cell_list pre;      /* deletes of what the rules hid before the mutation */
	struct cell_list cells;    /* what the operations came to, after pre */
	struct op_result *results; /* as many as ops */
	struct op_result one_result;
	uint64_t written;  /* bytes of values */
	int64_t newest_us; /* the largest timestamp put; any_put */
	bool any_put;
	/* private */
	struct arena arena;
	struct mcolumn **buckets;
	unsigned bucket_count, column_count;
	bool row_cleared;
	uint16_t *cleared;
	unsigned cleared_count;
	int64_t *draws; /* unique times, kept over another attempt */
	unsigned draw_count, draw_next, draw_cap;
};
/* The arguments alone, under the current schema: -EINVAL, -EREMCHG (not a row of this tablet), -EFBIG, -E2BIG, -ENOMEM.  mutation_fini in any case. */
int mutation_init(struct mutation *m, struct tablet *t, struct slice row, const struct op *ops, unsigned count) TFS_MUST;
void mutation_fini(struct mutation *m);
/*
 * Without reading the row: 0 resolved; 1 it must be read.  The stripe is
 * held shared.  bound: at or above every timestamp in the row.
 */
int mutation_light(struct mutation *m, int64_t bound) TFS_MUST;
/* With reading; the stripe is held exclusively. May be repeated. */
int mutation_heavy(struct mutation *m) TFS_MUST;

#endif
