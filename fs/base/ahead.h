/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of a shared store that were read before they are asked for.  Each request to
 * its server is a round trip, so a listing of a row also answers the listings of its
 * families and the look-ups in it, and a walk through a table reads many rows at once.
 *
 * A row is used only while the stream of notices is alive, and until a notice or a commit of
 * this mount says that anything has changed (fs_changes).  OPEN of a plain name does not use it.
 *
 * Access: rows are read on behalf of the mount, as listings are, and the kernel checks which
 * users may see the directory.  Views of scans depend on the user, and have no such rows.
 * If the server squashes root, values are asked for on behalf of each user, and are not read
 * ahead. Threads: any; engine calls are made.
 */
#ifndef TFS_FS_BASE_AHEAD_H
#define TFS_FS_BASE_AHEAD_H

#include "fs/base/fs.h"

struct ahead_cell {
	uint16_t family; /* its id */
	struct tfs_bytes qualifier;
	struct tfs_info info;
	struct tfs_bytes value; /* data NULL: not read */
};
/* A whole row, in the order of a scan.  Does not change. */
struct ahead_row {
	const struct ahead_cell *cells;
	unsigned count;
};

enum ahead_use {
	AHEAD_KNOWN,  /* only a row that was read */
	AHEAD_ROW,    /* or this row */
	AHEAD_WALK,   /* or this row, and the next rows if a program walks through the table */
	AHEAD_VALUES, /* as AHEAD_WALK, with values; but the first call for a row finds it only if a program walks */
};
/*
 * Finds a row of the table that dir is, or is in; in .latest its newest versions.  NULL: ask
 * the store, which returns the reason.  Otherwise ahead_put() ends the use of the row.
 */
struct ahead_row *ahead_get(struct node *dir, struct tfs_bytes row, enum ahead_use use);
void ahead_put(struct ahead_row *row); /* NULL allowed */
/* Finds the cell of a plain name or version below family, a node of the table's own view, in a row that was read. */
bool ahead_find(struct node *family, struct tfs_bytes qualifier, bool version, int64_t ts, struct tfs_info *info);
/* Reads a version of at most *n bytes in a row with values, and sets *n.  Returns false: ask the store. */
bool ahead_read(struct node *version, void *p, size_t *n);

void ahead_init(void);
void ahead_fini(void);

#endif
