/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes of a tablet's METADATA row (metadata_edits.c).  The caller holds the tablet's EDIT
 * lock, or has stopped its edits for a merge (tablet_merge_stop).  row_exists and
 * row_release_unserved need neither.
 */
#ifndef TFS_SERVER_ROWS_H
#define TFS_SERVER_ROWS_H

#include "engine/server/tables/set.h"

/* Returns 1 if METADATA has a row of the tablet that ends at `end`, 0 if not, -errno. */
int row_exists(struct server *s, uint32_t table, struct tfs_bytes end) TFS_MUST;
/* Mutates the row, with a check that its owner is unchanged.  claim: the mutation also makes this server the owner if it is not. */
int row_mutate(struct served_tablet *served, bool claim, const struct op *ops, unsigned count) TFS_MUST;
/* Makes 0 the server of the row.  The caller has stopped its edits. */
int row_release(struct served_tablet *served) TFS_MUST;
/* Makes 0 the server of a row that was read, of a tablet that is not in the set. */
int row_release_unserved(struct server *s, const struct meta_tablet *row) TFS_MUST;
/* Calls row_resolve.  If the tablet was merged and its row still has a merge column, does step 4 of that merge (merge.c). */
int row_fold(struct served_tablet *served) TFS_MUST;
/* The tablets' commit callback; arg: the served tablet. */
int row_commit(void *arg, struct tablet *t, const struct tablet_edit *e) TFS_MUST;

#endif
