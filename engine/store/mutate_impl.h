/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between mutate.c (operations), mutate_value.c (their arguments and values)
 * and mutate_column.c (the mutation's copy of the columns that it touches).
 */
#ifndef TFS_STORE_MUTATE_IMPL_H
#define TFS_STORE_MUTATE_IMPL_H

#include "engine/store/mutate.h"

struct mversion {
	int64_t ts;
	uint64_t size;
	const uint8_t *bytes; /* NULL with size > 0: still in the snapshot */
};
/* The live versions, newest first, as the operations so far have made them. */
struct mcolumn {
	struct mcolumn *next;
	uint64_t hash;
	uint16_t family;
	struct slice qualifier;
	struct mversion *v;      /* heap */
	unsigned n, cap;
	bool hidden, purged;     /* versions at hidden_ts and below were hidden before; their delete is in pre */
	int64_t hidden_ts;
};

/* The write's value is all of its bytes. */
bool op_is_whole(const struct op *o);
/* The arguments alone: -EINVAL, -EFBIG.  Adds the bytes given. */
int op_check(const struct store_schema *s, const struct op *o, uint64_t *bytes) TFS_MUST;
/* The bytes that a write comes to, in the mutation's memory or borrowed from o. -EFBIG. */
int op_value(struct mutation *m, const struct op *o, struct slice base, struct slice *out) TFS_MUST;
int cell_push(struct cell_list *l, const struct batch_cell *c) TFS_MUST;
/* The column, loaded at the first touch; newest_only: the rest is not needed by this mutation. */
int mcolumn_touch(struct mutation *m, uint16_t family, struct slice qualifier, bool newest_only, struct mcolumn **out) TFS_MUST;
/* Index of the version at ts, or c->n. */
unsigned mcolumn_find(const struct mcolumn *c, int64_t ts);
/* The bytes of version i, in the mutation's memory. */
int mcolumn_bytes(struct mutation *m, struct mcolumn *c, unsigned i, struct slice *out) TFS_MUST;
/* A cell is put: here and in m->cells; the value must outlive m. -E2BIG. */
int mcolumn_put(struct mutation *m, struct mcolumn *c, int64_t ts, struct slice value) TFS_MUST;
/* Deletes version i (c->n: none), and what the rules hid. */
int mcolumn_delete(struct mutation *m, struct mcolumn *c, unsigned i) TFS_MUST;
/* Deletes what the rules hid before the mutation. */
int mcolumn_purge(struct mutation *m, struct mcolumn *c) TFS_MUST;
int mcolumn_delete_all(struct mutation *m, struct mcolumn *c) TFS_MUST;
/* Empties the touched columns of a family (0: all), and those touched later. */
int mcolumn_clear_family(struct mutation *m, uint16_t family) TFS_MUST;
/* Back to the row as before; keeps the draws. */
void mcolumn_reset(struct mutation *m);

#endif
