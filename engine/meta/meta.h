/* SPDX-License-Identifier: Apache-2.0 */
/*
 * METADATA (paper, section 5.1): its rows, decoded, and the operations that write them.
 *
 * Row key: table id u32 BE, then 01 and the tablet's end row, or 02 for a
 * table's last tablet, so that it sorts last.  A tablet begins where the
 * previous one of its table ends.  METADATA is table META_TABLE.  The rows of
 * METADATA's own tablets are the root tablet, which ends at META_ROOT_END.
 * The row of the root tablet is the lock service's file "root".
 *
 * Columns (family:qualifier -> value).  An edit is one mutation of the row.
 *	1 tablet:begin   the begin row, a hint, never above the true one
 *	1 tablet:server  incarnation u64 (0: none), assignment number u64, raised with each owner
 *	1 tablet:seq     high-water mark of sequence numbers, u64
 *	1 tablet:clock   i64     1 tablet:major  i64
 *	1 tablet:tokens  mutations that clients may repeat, with their results; absent if there are none
 *	1 tablet:merge   the row of the lower tablet, during a merge
 *	2 sst:<table, incarnation, number, group>  the rest of a tablet_file
 *	3 redo:<incarnation>  LSN u64
 *	4 event:         text, 20 versions
 * Every value begins with a format byte.  -EPROTO if the format is unknown, -EBADMSG if the
 * bytes are damaged.
 */
#ifndef TFS_META_META_H
#define TFS_META_META_H

#include "engine/cell/op.h"
#include "engine/tablet/tablet.h"

#define META_TABLE 1u /* METADATA's own table id */
#define META_FIRST_USER_TABLE 16u
enum meta_family { META_TABLET = 1, META_SST = 2, META_REDO = 3, META_EVENT = 4 };

/* METADATA's schema, for tablets: maxversions=1, events 20; zstd level 3, 16 KiB blocks. */
int meta_store_schema(struct store_schema **out) TFS_MUST;

int meta_row_key(struct buf *out, uint32_t table, bool last, struct tfs_bytes end) TFS_MUST; /* appends */
/* The first METADATA row that may be the tablet of (table, row): the smallest key above all tablets that end at or before row. */
int meta_seek_key(struct buf *out, uint32_t table, struct tfs_bytes row) TFS_MUST;
int meta_table_begin(
	struct buf *out, uint32_t table) TFS_MUST; /* the first possible row of the table; the first row of table + 1 is its end */
bool meta_parse_row_key(struct tfs_bytes key, uint32_t *table, bool *last, struct tfs_bytes *end);
/* The root tablet's end: just above METADATA's own rows. */
#define META_ROOT_END TFS_S("\0\0\0\2")

/* A decoded METADATA row.  {0} is empty; meta_tablet_fini frees. */
struct meta_tablet {
	uint32_t table;
	bool last;
	struct buf begin, end;
	uint64_t server, assignment, seq_mark;
	int64_t clock_mark, major_us, changes_low_us;
	struct tablet_file *files;
	unsigned file_count;
	struct redo_point *redo;
	unsigned redo_count;
	struct tablet_token *tokens; /* by client, then number */
	unsigned token_count;
	struct meta_tablet *
		merge; /* owned, or NULL: the lower tablet, which belongs to this tablet as soon as the lower tablet's own row is deleted */
	bool unfolded;    /* this row includes a merged tablet, and METADATA's row does not yet */
	bool stale_merge; /* METADATA's row has the column of a merge that did not happen; the next edit deletes it */
};
void meta_tablet_fini(struct meta_tablet *m);
int meta_tablet_copy(const struct meta_tablet *from,
	struct meta_tablet *to) TFS_MUST; /* *to is {0}; merge, unfolded and stale_merge are not copied */
/* Decodes one cell of the row into m.  Call it for the newest version of each column, in any order.  -EBADMSG, -EPROTO. */
int meta_tablet_cell(struct meta_tablet *m, const struct tfs_cell *c) TFS_MUST;
/* Sets *begin if c is the begin hint (borrowed from c), *server and *assignment if it is the server; ignores other cells. */
int meta_location_cell(const struct tfs_cell *c, struct tfs_bytes *begin, uint64_t *server, uint64_t *assignment) TFS_MUST;
/* Sets table, last and end from a row key. */
int meta_tablet_row(struct meta_tablet *m, struct tfs_bytes row_key) TFS_MUST;
/* Parses the name of an SSTable: INCARNATION-NUMBER.sst.  Returns false for other names. */
bool meta_sstable_parse(const char *name, uint64_t *incarnation, uint64_t *number);
/*
 * The reserve for a full disk is the file RESERVE_FILE of an embedded store's directory, and RESERVE_FILE.INCARNATION of a
 * server of a cluster.  Parses the second kind of name.  Returns false for other names.
 */
#define RESERVE_FILE "ballast"
bool meta_reserve_parse(const char *name, uint64_t *incarnation);
/* Returns the highest incarnation in the row: of its server, its files, its logs. */
uint64_t meta_tablet_latest(const struct meta_tablet *m);
/* Applies an edit to the decoded row.  The result equals the row that a reader decodes afterwards.  An error changes nothing. */
int meta_tablet_apply(struct meta_tablet *m, const struct tablet_edit *e) TFS_MUST;

/* The tablet has no changes, and keeps none. */
void meta_drop_changes(struct meta_tablet *m);

/*
 * The row of the lower part of m, which a split at `at` inserts.  Shared files
 * are clipped, files above are left out.  m's own row remains as it is,
 * because a tablet begins where the previous one ends.
 */
int meta_tablet_lower(const struct meta_tablet *m, struct tfs_bytes at, struct meta_tablet *lower) TFS_MUST;

/*
 * The row of the merged tablet, with the lists and marks of the two tablets.  A
 * file that the two share is used for the rows of the two.  -EBUSY: there are
 * other rows between these two ranges of a file, which a list cannot express.
 */
int meta_tablet_fold(const struct meta_tablet *lower, const struct meta_tablet *upper, struct meta_tablet *both) TFS_MUST;
/*
 * Resolves m->merge after m was read.  before: the end of the previous tablet
 * of the table.  If the lower tablet's row was deleted, its lists become part of
 * m; else the merge did not happen, and m->merge is dropped.  -EBADMSG.
 */
int meta_tablet_resolve_merge(struct meta_tablet *m, struct tfs_bytes before) TFS_MUST;

/*
 * Operations for a mutation of the row; keys and values are in the arena.
 */
int meta_ops_new(const struct meta_tablet *m, struct arena *a, struct op **ops, unsigned *count) TFS_MUST;
/*
 * Creates the row of a split's lower tablet, with a check that it is absent.
 * A mutation whose check fails returns -ECANCELED.
 */
int meta_ops_split(const struct meta_tablet *lower, const char *event, struct arena *a, struct op **ops, unsigned *count) TFS_MUST;
/*
 * Step 2 of a merge (server/merge.c): writes the lower row to the upper row's
 * merge column, and its begin to the begin hint.  -E2BIG: the row is too large.
 */
int meta_ops_merge(const struct meta_tablet *lower, struct arena *a, struct op **ops, unsigned *count) TFS_MUST;
/*
 * Writes an edit.  If old is unfolded, step 4 of its merge comes first: old
 * becomes the row's own columns, and the merge column is deleted.
 */
int meta_ops_edit(
	const struct meta_tablet *old, const struct tablet_edit *e, struct arena *a, struct op **ops, unsigned *count) TFS_MUST;

/*
 * Operations in front of an edit's, so that only the row's owner changes it: a
 * check that tablet:server equals old's server and assignment, and a write of
 * the new pair there if it differs.
 */
int meta_ops_owner(const struct meta_tablet *old, uint64_t server, uint64_t assignment, struct arena *a, struct op **ops,
	unsigned *count) TFS_MUST;
/* Makes the operations of meta_ops_owner, and writes the column tablet:clock. */
int meta_ops_release(const struct meta_tablet *old, int64_t clock_mark, struct arena *a, struct op **ops, unsigned *count) TFS_MUST;

/* The root file: a meta_tablet with magic, format and CRC. */
int meta_root_encode(const struct meta_tablet *m, struct buf *out) TFS_MUST;
int meta_root_decode(struct tfs_bytes in, struct meta_tablet *m) TFS_MUST;

/*
 * Writes the rows of a snapshot or clone to files of the lock service, rows/<table>.<n>: rows
 * in the form of the root file, one row after another.
 */
#define META_ROWS_DIR "rows"
enum { META_ROWS_MAX = 512 << 10 }; /* bytes of a file */
struct meta_rows {
	uint32_t table;
	int (*write)(void *arg, const char *name, struct tfs_bytes rows);
	void *arg;
	unsigned written; /* files */
	struct buf rows;  /* rows that are not yet written */
};
/* Adds a row.  -EFBIG: the row is too large for a file, and is left out. */
int meta_rows_add(struct meta_rows *w, const struct meta_tablet *m) TFS_MUST;
/* Writes the last file.  Call it after errors, too. */
int meta_rows_end(struct meta_rows *w) TFS_MUST;
/* Returns true if a file of rows can have the row. */
bool meta_rows_can(const struct meta_tablet *m);

#endif
