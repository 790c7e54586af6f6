/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by mutate.c (operations), mutate_value.c (their arguments and values)
 * and mutate_column.c (the mutation's copies of columns).
 */
#ifndef TFS_TABLET_MUTATE_IMPL_H
#define TFS_TABLET_MUTATE_IMPL_H

#include "engine/tablet/mutate.h"
#include "engine/tablet/tablet_column.h"

struct mversion {
	int64_t ts;
	uint64_t size;
	const uint8_t *bytes; /* NULL with size > 0: not read yet */
	bool absent;          /* of an edit: no version at ts */
};
struct mversions {
	struct mversion *v; /* heap; newest first */
	unsigned n, cap;
};
/* A column as an operation sees it: `edits` over the live versions, of which `base` has been read so far. */
struct mcolumn {
	struct mcolumn *next;
	uint64_t hash;
	uint16_t family;
	struct slice qualifier;
	struct mversions base, edits;
	struct colread reader; /* if open: stands on the last of base */
	struct colver at;
	bool open, whole; /* whole: base is complete */
	bool hidden_read; /* `hidden` and hidden_ts are set */
	bool hidden;      /* the rules hid the versions at hidden_ts and below */
	bool purged;      /* the delete of those is in pre */
	int64_t hidden_ts;
};
/* An iteration over the current versions; {0} is its start. */
struct mwalk {
	unsigned base, edit;
};

/* Returns true if the value of the write is the whole cell. */
bool op_is_whole(const struct op *o);
/* Checks the arguments: -EINVAL, -EFBIG.  Adds their bytes to *bytes. */
int op_check(const struct store_schema *s, const struct op *o, uint64_t *bytes) TFS_MUST;
/* The resulting bytes of a write, in the mutation's memory or borrowed from o.  -EFBIG. */
int op_value(struct mutation *m, const struct op *o, struct slice base, struct slice *out) TFS_MUST;
int cell_push(struct cell_list *l, const struct batch_cell *c) TFS_MUST;
/* Notes that a value of so many bytes is put at ts.  -E2BIG. */
int mutation_note_put(struct mutation *m, int64_t ts, size_t bytes) TFS_MUST;
/* Reads nothing yet. */
int mcolumn_touch(struct mutation *m, uint16_t family, struct slice qualifier, struct mcolumn **out) TFS_MUST;
/* *out is valid until the next call with the same column; NULL: there is none. */
int mcolumn_next(struct mutation *m, struct mcolumn *c, struct mwalk *w, struct mversion **out) TFS_MUST;
int mcolumn_newest(struct mutation *m, struct mcolumn *c, struct mversion **out) TFS_MUST;
int mcolumn_find(struct mutation *m, struct mcolumn *c, int64_t ts, struct mversion **out) TFS_MUST;
/* The bytes of a version, in the mutation's memory. */
int mcolumn_bytes(struct mutation *m, struct mcolumn *c, struct mversion *v, struct slice *out) TFS_MUST;
/* Puts a cell: here and in m->cells.  The value must outlive m.  -E2BIG. */
int mcolumn_put(struct mutation *m, struct mcolumn *c, int64_t ts, struct slice value) TFS_MUST;
/* Deletes the version at ts, if any, and the versions that the rules hid. */
int mcolumn_delete(struct mutation *m, struct mcolumn *c, int64_t ts) TFS_MUST;
/* Deletes all above ts. */
int mcolumn_delete_newer(struct mutation *m, struct mcolumn *c, int64_t ts) TFS_MUST;
int mcolumn_delete_all(struct mutation *m, struct mcolumn *c) TFS_MUST;
/* Empties the columns of a family (0: all). */
int mcolumn_clear_family(struct mutation *m, uint16_t family) TFS_MUST;
/* Drops all columns and cells; keeps the unique times. */
void mcolumn_reset(struct mutation *m);

#endif
