/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Empty directories of rows and families: made by mkdir, or left when their
 * last cell was removed through the mount.  Only cells are stored, so these
 * exist in the daemon, in both views of the table, until they are removed or
 * the mount ends.
 *
 * Threads: any.  Engine calls are made, so not under the tree lock.
 */
#ifndef TFS_FS_MADE_H
#define TFS_FS_MADE_H

#include "fs/base/fs.h"
#include "fs/base/notify.h"

/* How much of memory empty directories may use.  The oldest are dropped first, with a line in the log. */
#define MADE_BYTES (64u << 20)

/* mkdir of a directory whose name resolved to this.  *out: its node in the view of parent, counted.  -EEXIST. */
int made_add(struct node *parent, enum node_kind kind, struct slice key, struct node **out) TFS_MUST;
/* mkdir is taken back. */
void made_take_back(struct node *n);
/* Is the directory there although it may hold no cell? */
bool made_is(struct node *parent, enum node_kind kind, struct slice key);
/* rmdir, of n in either view: it leaves both, and n ends.  -ENOTEMPTY: it holds entries, in either. */
int made_removed(struct node *n, struct changes *c) TFS_MUST;
/* Rows with the prefix were dropped: made directories of them go, unless they hold scratch. */
void made_drop_rows(struct node *table, struct slice prefix, struct changes *c);

/* The next two are called under the row's lock, in the order in which cells come and go.  A cell came: its directories cost nothing. */
void made_cell_arrived(struct node *family_node);
/* A cell was removed: its directories may be empty now. */
void made_cell_left(struct node *family_node, struct slice qualifier, bool version, int64_t ts);
/* Scratch was made in dir: it stays while it has scratch.  Tree lock.  dir is of the table's own view. */
int made_has_scratch_locked(struct node *home) TFS_MUST;
/* After either, without locks: keeps within the bounds. */
void made_settle(struct changes *c);

#endif
