/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by mutate.c (operations), mutate_value.c (their arguments and values)
 * and mutate_column.c (the mutation's copies of columns).
 */
#ifndef TFS_TABLET_MUTATE_IMPL_H
#define TFS_TABLET_MUTATE_IMPL_H

#include "engine/base/tree.h"
#include "engine/tablet/mutate.h"
#include "engine/tablet/tablet_column.h"

struct mversion {
	RB_ENTRY(mversion) link; /* in the memory of the mutation */
	int64_t ts;
	uint64_t size;
	const uint8_t *bytes; /* NULL with size > 0: not read yet */
	bool absent;          /* there is no version at ts */
	bool doubtful;        /* hidden at m->now but not at m->collect.  The clock may be wrong, so the version must not be lost */
};
RB_HEAD(mversions, mversion);
/*
 * A column as the operations see it.  `versions` has the newest versions of the
 * snapshot, as far as they have been read, with the changes of the operations.
 * Below the last one that was read it has the results of look-ups and the changes
 * only.  Only there it has timestamps without a version (absent).
 */
struct mcolumn {
	struct mcolumn *next;
	uint64_t hash;
	uint16_t family;
	struct tfs_bytes qualifier;
	struct mversions versions; /* newest first */
	uint64_t read;             /* number of versions read from the snapshot; `at` is the last of them */
	struct colread reader;     /* if open: its position is `at` */
	struct colver at;
	bool open, whole;     /* whole: all versions have been read */
	bool hidden_read;     /* `hidden` and hidden_ts are set */
	bool hidden;          /* the rules hide the versions at hidden_ts and below */
	bool purged;          /* the list `pre` has the delete of these versions */
	uint32_t clears_seen; /* number (mutation.clears) of the last delete of a row or family that the column includes */
	int64_t hidden_ts;
};
/* An iteration over the current versions of a column.  {0} is its start. */
struct mwalk {
	bool begun;
	int64_t last; /* the timestamp that was returned */
};

/* Returns true if o->value is the whole new cell, so that no old bytes are needed. */
bool op_is_whole(const struct op *o);
/* Checks the arguments: -EINVAL, -EFBIG.  Adds their bytes to *bytes. */
int op_check(const struct store_schema *s, const struct op *o, uint64_t *bytes) TFS_MUST;
/*
 * Computes the bytes of the cell that a write makes from `base`.  *out is in
 * the mutation's memory or borrowed from o.  -EFBIG.
 */
int op_value(struct mutation *m, const struct op *o, struct tfs_bytes base, struct tfs_bytes *out) TFS_MUST;
int cell_push(struct cell_list *l, const struct batch_cell *c) TFS_MUST;
/* Accounts for a value of this size that is put at ts.  -E2BIG. */
int mutation_note_put(struct mutation *m, int64_t ts, size_t bytes) TFS_MUST;
/* Finds the mutation's copy of the column, or makes one.  Reads nothing. */
int mcolumn_touch(struct mutation *m, uint16_t family, struct tfs_bytes qualifier, struct mcolumn **out) TFS_MUST;
/* *out is valid until the next call with the same column; NULL: there is none. */
int mcolumn_next(struct mutation *m, struct mcolumn *c, struct mwalk *w, struct mversion **out) TFS_MUST;
/* Like mcolumn_next, but also returns doubtful versions. */
int mcolumn_next_kept(struct mutation *m, struct mcolumn *c, struct mwalk *w, struct mversion **out) TFS_MUST;
int mcolumn_newest(struct mutation *m, struct mcolumn *c, struct mversion **out) TFS_MUST;
/* Like mcolumn_find, but may return a doubtful version. */
int mcolumn_find_kept(struct mutation *m, struct mcolumn *c, int64_t ts, struct mversion **out) TFS_MUST;
int mcolumn_find(struct mutation *m, struct mcolumn *c, int64_t ts, struct mversion **out) TFS_MUST;
/* Sets *out to the bytes of a version, in the mutation's memory.  Reads them if necessary. */
int mcolumn_bytes(struct mutation *m, struct mcolumn *c, struct mversion *v, struct tfs_bytes *out) TFS_MUST;
/* These change the column and append the cells of the change to m->cells. */
/* Puts a cell.  The value must outlive m.  -E2BIG. */
int mcolumn_put(struct mutation *m, struct mcolumn *c, int64_t ts, struct tfs_bytes value) TFS_MUST;
/* Puts a version that was stored before, and may be doubtful. */
int mcolumn_put_as(struct mutation *m, struct mcolumn *c, int64_t ts, struct tfs_bytes value, bool doubtful) TFS_MUST;
/* Deletes the version at ts, if any, and the versions that the rules hid. */
int mcolumn_delete(struct mutation *m, struct mcolumn *c, int64_t ts) TFS_MUST;
/* Deletes the versions above ts, and the versions that the rules hid. */
int mcolumn_delete_newer(struct mutation *m, struct mcolumn *c, int64_t ts) TFS_MUST;
int mcolumn_delete_all(struct mutation *m, struct mcolumn *c) TFS_MUST;

/* Empties the family's columns (0: all families).  A column notices it when it is touched next.  Appends no cells. */
int mcolumn_clear_family(struct mutation *m, uint16_t family) TFS_MUST;
/* Before the mutation is resolved again: drops all columns and cells, but keeps the unique times. */
void mcolumn_reset(struct mutation *m);

#endif
