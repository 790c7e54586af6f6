/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between mutate.c (operations), mutate_value.c (their arguments and values)
 * and mutate_column.c (the mutation's copy of the columns that it touches).
 */
#ifndef TFS_STORE_MUTATE_IMPL_H
#define TFS_STORE_MUTATE_IMPL_H

#include "engine/tablet/mutate.h"
#include "engine/tablet/tablet_column.h"

struct mversion {
	int64_t ts;
	uint64_t size;
	const uint8_t *bytes; /* NULL with size > 0: still in the snapshot */
	bool gone;            /* of an edit: no version at ts */
};
struct mversions {
	struct mversion *v; /* heap; newest first */
	unsigned n, cap;
};
/* What an operation sees: `edits` over what was live before, of which `base` is what has been read so far. */
struct mcolumn {
	struct mcolumn *next;
	uint64_t hash;
	uint16_t family;
	struct slice qualifier;
	struct mversions base, edits;
	struct colread reader; /* open: stands on the last of base */
	struct colver at;
	bool open, whole;                  /* whole: nothing is left to read */
	bool hidden_known, hidden, purged; /* versions at hidden_ts and below were hidden before; their delete is in pre */
	int64_t hidden_ts;
};
/* A walk over the current versions, from {0}. */
struct mwalk {
	unsigned base, edit;
};

/* The write's value is all of its bytes. */
bool op_is_whole(const struct op *o);
/* The arguments alone: -EINVAL, -EFBIG.  Adds the bytes given. */
int op_check(const struct store_schema *s, const struct op *o, uint64_t *bytes) TFS_MUST;
/* The bytes that a write comes to, in the mutation's memory or borrowed from o. -EFBIG. */
int op_value(struct mutation *m, const struct op *o, struct slice base, struct slice *out) TFS_MUST;
int cell_push(struct cell_list *l, const struct batch_cell *c) TFS_MUST;
/* Reads nothing yet. */
int mcolumn_touch(struct mutation *m, uint16_t family, struct slice qualifier, struct mcolumn **out) TFS_MUST;
/* Versions are the column's: until the next call about it.  NULL: there is none. */
int mcolumn_next(struct mutation *m, struct mcolumn *c, struct mwalk *w, struct mversion **out) TFS_MUST;
int mcolumn_newest(struct mutation *m, struct mcolumn *c, struct mversion **out) TFS_MUST;
int mcolumn_find(struct mutation *m, struct mcolumn *c, int64_t ts, struct mversion **out) TFS_MUST;
/* The bytes of a version, in the mutation's memory. */
int mcolumn_bytes(struct mutation *m, struct mcolumn *c, struct mversion *v, struct slice *out) TFS_MUST;
/* A cell is put: here and in m->cells; the value must outlive m. -E2BIG. */
int mcolumn_put(struct mutation *m, struct mcolumn *c, int64_t ts, struct slice value) TFS_MUST;
/* Deletes the version at ts, if any, and what the rules hid. */
int mcolumn_delete(struct mutation *m, struct mcolumn *c, int64_t ts) TFS_MUST;
/* Deletes all above ts. */
int mcolumn_delete_newer(struct mutation *m, struct mcolumn *c, int64_t ts) TFS_MUST;
/* Deletes what the rules hid before the mutation. */
int mcolumn_purge(struct mutation *m, struct mcolumn *c) TFS_MUST;
int mcolumn_delete_all(struct mutation *m, struct mcolumn *c) TFS_MUST;
/* Empties the touched columns of a family (0: all), and those touched later. */
int mcolumn_clear_family(struct mutation *m, uint16_t family) TFS_MUST;
/* Back to the row as before; keeps the draws. */
void mcolumn_reset(struct mutation *m);

#endif
