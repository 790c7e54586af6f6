/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resolves the operations of a row mutation (op.h) into cells.
 *
 * Each operation sees the row with the changes of the operations before it.
 * The GC rules are applied once, to the row before the mutation, at one time.
 * checks are evaluated first, wherever they are in the list, so they see the
 * row before the mutation.
 *
 * Threads: one, which holds the row's stripe.
 */
#ifndef TFS_TABLET_MUTATE_H
#define TFS_TABLET_MUTATE_H

#include "engine/cell/batch_format.h"
#include "engine/tablet/tablet_impl.h"

enum { MUTATION_INLINE = 8 };
#define MUTATION_VALUE_MAX (UINT64_C(64) << 20)
#define MUTATION_BYTES_MAX (UINT64_C(256) << 20)
#define MUTATION_OPS_MAX (1u << 17)
/* The regular expressions of one mutation may take this time. */
#define MUTATION_MATCH_US 5000000

struct cell_list {
	struct batch_cell *v; /* if cap > 0: fixed_, or on the heap */
	unsigned n, cap;
	struct batch_cell fixed_[MUTATION_INLINE];
};
/* The last delete of a family. */
struct family_clear {
	uint16_t family;
	uint32_t number;
};
struct mcolumn;
struct mutation {
	struct tablet *t;
	struct tfs_bytes row;
	const struct op *ops;
	unsigned count;
	struct snap snap;
	int64_t commit_us;    /* the time of commit, or 0 if the mutation has no cells */
	int64_t now;          /* reads apply the rules as of this time */
	int64_t collect;      /* versions hidden at this time may be deleted for good; above `now` only if the clock was set back */
	bool used_rules;      /* the outcome depends on the schema and on the time */
	struct cell_list pre; /* deletes of versions that the rules hid before the mutation */
	struct cell_list cells;     /* the cells of the operations, which follow the cells of pre */
	struct tfs_result *results; /* one for each op */
	struct tfs_result one_result;
	int64_t one_draw;
	uint64_t written;  /* bytes of the values put */
	int64_t newest_us; /* the largest timestamp put, if any_put is set */
	bool any_put;
	int64_t blind_us;  /* the smallest timestamp put as the newest without reading; INT64_MAX: there is none */
	uint64_t match_us; /* time spent in regular expressions */
	unsigned failed;   /* after an error, 1 + the index of the op that caused it, or 0 */
	/* private */
	struct arena arena;
	struct mcolumn **buckets;
	unsigned bucket_count, column_count;
	uint32_t clears, row_clear; /* counts the deletes of rows and families; the count at the last delete of the row */
	struct family_clear *family_clears;
	unsigned cleared_count;
	/* Unique times, at most one for each op.  When the mutation is resolved again, it uses them again. */
	int64_t *draws; /* one_draw, or in the memory of results */
	unsigned draw_count, draw_next;
};
/*
 * Checks the arguments under the current schema.  -EINVAL, -TABLET_MOVED (the row is
 * not in this tablet), -EFBIG, -E2BIG, -ENOMEM.  Call mutation_fini also after
 * an error.
 */
int mutation_init(struct mutation *m, struct tablet *t, struct tfs_bytes row, const struct op *ops, unsigned count) TFS_MUST;
void mutation_fini(struct mutation *m);
/*
 * Resolves the mutation without reading the row.  Returns 0, -errno, or
 * MUTATION_MUST_READ if that is not possible.  The caller shares the stripe.
 * bound: a timestamp at or above all in the row.
 */
enum { MUTATION_MUST_READ = 1 };
int mutation_resolve_blind(struct mutation *m, int64_t bound) TFS_MUST;
/*
 * Resolves the mutation and reads the columns that it needs.  The caller holds
 * the stripe exclusively.  May be repeated.  -EINTR: stop_asked().  -ETIME: the
 * regular expressions take too long.
 */
int mutation_resolve_reading(struct mutation *m) TFS_MUST;

#endif
