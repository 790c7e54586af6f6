/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resolving the operations of a row mutation (op.h) into cells.
 *
 * Each operation sees the row as it was before the mutation, with the changes
 * of the operations before it.  The GC rules are applied once, to the row
 * before the mutation, at one `now`.  Checks see the row before the mutation
 * wherever they stand, and are evaluated first.
 *
 * Threads: one; the caller holds the row's stripe.
 */
#ifndef TFS_TABLET_MUTATE_H
#define TFS_TABLET_MUTATE_H

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
	int64_t commit_us;         /* the time of commit; 0: the mutation has no cells */
	int64_t now;               /* at which the rules were applied */
	int64_t collect;           /* versions hidden by then are deleted for good; above now only after the clock was set back */
	bool used_rules;           /* the outcome depends on the schema and on now */
	struct cell_list pre;      /* deletes of versions that the rules hid before the mutation */
	struct cell_list cells;    /* the cells of the operations, after pre */
	struct op_result *results; /* as many as ops */
	struct op_result one_result;
	int64_t one_draw;
	uint64_t written;  /* bytes of values */
	int64_t newest_us; /* the largest timestamp put; any_put */
	bool any_put;
	unsigned failed; /* after an error: the operation that is the cause, from 1; 0: none is */
	/* private */
	struct arena arena;
	struct mcolumn **buckets;
	unsigned bucket_count, column_count;
	bool row_cleared;
	uint16_t *cleared;
	unsigned cleared_count;
	int64_t *
		draws; /* unique times, at most one for each op, used again when the mutation is resolved again; in the memory of results */
	unsigned draw_count, draw_next;
};
/* Checks the arguments under the current schema: -EINVAL, -EREMCHG (not a row of this tablet), -EFBIG, -E2BIG, -ENOMEM.  mutation_fini in any case. */
int mutation_init(struct mutation *m, struct tablet *t, struct slice row, const struct op *ops, unsigned count) TFS_MUST;
void mutation_fini(struct mutation *m);
/*
 * Resolves the mutation without reading the row.  Returns 0, MUTATION_MUST_READ
 * or -errno.  The caller holds the stripe shared.  bound: at or above every
 * timestamp in the row.
 */
enum { MUTATION_MUST_READ = 1 };
int mutation_resolve_blind(struct mutation *m, int64_t bound) TFS_MUST;
/* Resolves it with reading.  The caller holds the stripe exclusively.  May be repeated. */
int mutation_resolve_reading(struct mutation *m) TFS_MUST;

#endif
