/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads and changes METADATA's rows through the tablet service, which finds
 * their servers (paper, section 5.1).
 *
 * Threads: any.
 * Errors: the tablet service's, and the decoder's -EBADMSG and -EPROTO.
 */
#ifndef TFS_CLIENT_METADATA_H
#define TFS_CLIENT_METADATA_H

#include "engine/client/cursor.h"
#include "engine/meta/meta.h"

/* Reads one row.  *out must be {0} or an earlier result, which is freed on success.  -ENOENT: no such row. */
int metadata_read(struct tablet_service *svc, struct tfs_bytes row_key, struct meta_tablet *out) TFS_MUST;
/* Applies one row mutation.  On 0 it is on disk. */
int metadata_mutate(struct tablet_service *svc, struct tfs_bytes row_key, const struct op *ops, unsigned count) TFS_MUST;
/*
 * Mutates as metadata_mutate, but makes a new row of a table.  -ECANCELED: also if the
 * making of the table has ended (TS_BURY).  Set split for a table that exists; then
 * -ECANCELED also means that it was dropped.
 */
int metadata_make(struct tablet_service *svc, uint32_t table, bool split, struct tfs_bytes row_key, const struct op *ops,
	unsigned count) TFS_MUST;
/* Deletes the row.  Returns 0 also if the row does not exist. */
int metadata_delete(struct tablet_service *svc, struct tfs_bytes row_key) TFS_MUST;
/* Reads rows in [from, to), decoded; to.p NULL: to the end.  The bytes must outlive the cursor. */
struct metadata_cursor {
	struct row_cursor cells;
	const struct tfs_cell *cell; /* the first one of the next row; NULL: not read yet */
	struct buf row;              /* the key, and the row: valid until the next call */
	struct meta_tablet tablet;
	bool bad; /* set after an error if the row `row` cannot be decoded */
};
void metadata_cursor_init(struct metadata_cursor *c, struct tablet_service *svc, struct tfs_bytes from, struct tfs_bytes to);
/* Returns 1, 0 at the end, -errno. */
int metadata_next(struct metadata_cursor *c) TFS_MUST;
void metadata_cursor_fini(struct metadata_cursor *c);
/*
 * Calls fn for each row in [from, to), decoded; to.p NULL: to the end.  A
 * non-zero value of fn ends the scan and is returned.  fn may move data out of
 * *m, which is freed after the call.
 */
typedef int metadata_fn(void *arg, struct tfs_bytes row_key, struct meta_tablet *m);
int metadata_scan(struct tablet_service *svc, struct tfs_bytes from, struct tfs_bytes to, metadata_fn *fn, void *arg) TFS_MUST;
/* Scans as metadata_scan, but a row that cannot be decoded does not end the scan: fn gets it with m NULL. */
int metadata_scan_past_damage(
	struct tablet_service *svc, struct tfs_bytes from, struct tfs_bytes to, metadata_fn *fn, void *arg) TFS_MUST;
/* Scans the rows of one table's tablets as metadata_scan. */
int metadata_scan_table(struct tablet_service *svc, uint32_t table, metadata_fn *fn, void *arg) TFS_MUST;

#endif
