/* SPDX-License-Identifier: Apache-2.0 */
/*
 * METADATA (paper, section 5.1; DESIGN 3.2): the encodings of its rows.
 *
 * Row key: table id u32 BE, then 01 and the tablet's end row, or 02 for a
 * table's last tablet (so it sorts after all).  A tablet begins where the
 * previous one of its table ends.  METADATA is table META_TABLE; its own
 * rows make up the root tablet ["", META_ROOT_END), whose own row is the
 * lock service's file "root".
 *
 * Columns (family:qualifier -> value), each written by one mutation per edit:
 *	1 tablet:begin   the begin row, a hint (never above the true one)
 *	1 tablet:server  incarnation u64, assignment number u64 (a cluster's master raises it; 0 in an embedded store)
 *	1 tablet:seq     high-water mark of sequence numbers, u64
 *	1 tablet:clock   i64     1 tablet:major  i64
 *	1 tablet:tokens  mutations whose clients may ask again, with their results; absent if there are none
 *	1 tablet:merge   (merge)
 *	2 sst:<table, incarnation, number, group>  the rest of a tablet_file
 *	3 redo:<incarnation>  LSN u64
 *	4 event:         text, 20 versions
 * All values begin with a format byte; unknown ones are -EPROTO, damage -EBADMSG.
 */
#ifndef TFS_META_META_H
#define TFS_META_META_H

#include "engine/cell/op.h"
#include "engine/tablet/tablet.h"

#define META_TABLE 1u /* METADATA's own table id */
#define META_FIRST_USER_TABLE 16u
enum meta_family { META_TABLET = 1, META_SST = 2, META_REDO = 3, META_EVENT = 4 };

/* METADATA's schema as a store needs it: maxversions=1, events 20; zstd-3, 16 KiB blocks. */
int meta_store_schema(struct store_schema **out) TFS_MUST;

int meta_row_key(struct buf *out, uint32_t table, bool last, struct slice end) TFS_MUST; /* appends */
/* First METADATA row that may hold the tablet of (table, row): the smallest key > every tablet ending at or before row. */
int meta_seek_key(struct buf *out, uint32_t table, struct slice row) TFS_MUST;
int meta_table_begin(struct buf *out, uint32_t table) TFS_MUST; /* first possible row of the table; table+1: its end */
bool meta_parse_row_key(struct slice key, uint32_t *table, bool *last, struct slice *end);
/* The root tablet's end: just above METADATA's own rows. */
int meta_root_end(struct buf *out) TFS_MUST;

/* The answer to a client's mutation, kept as long as the client may repeat it. */
struct meta_token {
	uint64_t client, number;
	struct buf result; /* owned */
};

/* A decoded METADATA row. {0} is empty. */
struct meta_tablet {
	uint32_t table;
	bool last;
	struct buf begin, end;
	uint64_t server, assignment, seq_mark;
	int64_t clock_mark, major_us;
	struct tablet_file *files;
	unsigned file_count;
	struct redo_point *redo;
	unsigned redo_count;
	struct meta_token *tokens; /* by client, then number */
	unsigned token_count;
	struct meta_tablet *merge; /* owned, or NULL: the tablet below it, which is part of this one once its own row is gone */
	bool unfolded;             /* such a row is folded in here, and not yet in METADATA */
	bool stale_merge;          /* METADATA's row has one of a merge that has not been: an edit deletes it */
};
void meta_tablet_fini(struct meta_tablet *m);
int meta_tablet_copy(const struct meta_tablet *from, struct meta_tablet *to) TFS_MUST; /* *to: {0}; without merge and unfolded */
/* Takes in one cell of the row; call for each, in any order. -EBADMSG, -EPROTO. */
int meta_tablet_cell(struct meta_tablet *m, const struct scan_cell *c) TFS_MUST;
/* Of a cell only what finds the tablet: its begin hint (borrowed from c) or its server, set if c is that; others set nothing. */
int meta_location_cell(const struct scan_cell *c, struct slice *begin, uint64_t *server) TFS_MUST;
/* Sets table, last and end from a row key. */
int meta_tablet_row(struct meta_tablet *m, struct slice row_key) TFS_MUST;
/* The latest incarnation that the row names: its server, its files, its logs. */
uint64_t meta_tablet_latest(const struct meta_tablet *m);
/* Applies an edit to the decoded form, as reading it back would show it. */
int meta_tablet_apply(struct meta_tablet *m, const struct tablet_edit *e) TFS_MUST;

/*
 * The row that a split at `at` inserts: m's lower part.  What is shared is
 * clipped; files that lie above are left out.  m's own row need not change: a
 * tablet begins where the one before it ends.
 */
int meta_tablet_lower(const struct meta_tablet *m, struct slice at, struct meta_tablet *lower) TFS_MUST;

/*
 * The row of the two together: lists and marks of both, each file for the
 * rows that either used it for.  -EBUSY: one of the files is used for rows
 * with others between them, which a list cannot say.
 */
int meta_tablet_fold(const struct meta_tablet *lower, const struct meta_tablet *upper, struct meta_tablet *both) TFS_MUST;
/*
 * m as it was read, and where its table's tablet before it ends: takes merge
 * in, if that one's row is gone, or drops it, as of a merge that did not come
 * about.  -EBADMSG: it is no tablet's below.
 */
int meta_tablet_settle(struct meta_tablet *m, struct slice before) TFS_MUST;

/*
 * Operations for a mutation of the row; keys and values live in the arena.
 * meta_ops_edit needs the redo set before the edit (old) to delete what goes.
 */
int meta_ops_new(const struct meta_tablet *m, struct arena *a, struct op **ops, unsigned *count) TFS_MUST;
/*
 * The row of a split's lower tablet: a check that there is none yet, and all of it.  A check that fails is -ECANCELED.
 */
int meta_ops_split(const struct meta_tablet *lower, const char *event, struct arena *a, struct op **ops, unsigned *count) TFS_MUST;
/* A merge's first step, on the upper row: the lower one goes into its merge column.  -E2BIG: it is too large for that. */
int meta_ops_merge(const struct meta_tablet *lower, struct arena *a, struct op **ops, unsigned *count) TFS_MUST;
/* Its last one: m, unfolded, as the row's own columns, and no merge column any more. */
int meta_ops_fold(const struct meta_tablet *m, struct arena *a, struct op **ops, unsigned *count) TFS_MUST;
int meta_ops_edit(
	const struct meta_tablet *old, const struct tablet_edit *e, struct arena *a, struct op **ops, unsigned *count) TFS_MUST;

/*
 * What goes before an edit's operations, so that only the row's owner changes
 * it: a check that tablet:server is still old's server and assignment and,
 * unless it is that already, own written there.  A check that fails is -ECANCELED.
 */
int meta_ops_owner(const struct meta_tablet *old, uint64_t own, struct arena *a, struct op **ops, unsigned *count) TFS_MUST;

/* The root file: a whole meta_tablet with magic, version and CRC. */
int meta_root_encode(const struct meta_tablet *m, struct buf *out) TFS_MUST;
int meta_root_decode(struct slice in, struct meta_tablet *m) TFS_MUST;

#endif
