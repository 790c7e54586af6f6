/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Made directories: rows, families and parts that hold no cell, because mkdir
 * made them or their last cell was removed through the mount.  Only cells are
 * stored, so these directories exist in the daemon, in both views of the
 * table, until they are removed or the mount ends.
 *
 * Threads: any.  Engine calls are made, so not under the tree lock.
 */
#ifndef TFS_FS_NODE_MADE_H
#define TFS_FS_NODE_MADE_H

#include "fs/base/node_ops.h"
#include "fs/base/notify.h"

/* The memory that empty directories may use.  The oldest are dropped first, with a line in the log. */
#define MADE_BYTES (64u << 20)

/* Adds an empty directory.  *out: its node in the view of parent, counted.  -EEXIST. */
int made_add(struct node *parent, enum node_kind kind, struct tfs_bytes key, struct node **out) TFS_MUST;
/* Returns true if there is a made directory with this key. */
bool made_is(struct node *parent, enum node_kind kind, struct tfs_bytes key);
/* node_ops.make and rmdir of rows, families and parts. */
int made_mkdir(const struct making *m, struct resolved *r, struct node **out);
int made_rmdir(struct node *n, const char *name, struct changes *c);
/* Returns true if the directory has extra entries: a table in its own view, any other directory in either view. */
bool made_has_entries(struct node *dir);
/* Returns true if dir has no extra entry and the same directory in the second view has scratch. */
bool made_has_scratch_elsewhere(struct node *dir);
/* Rows with the prefix were dropped: removes their made directories, unless these hold scratch. */
void made_drop_rows(struct node *table, struct tfs_bytes prefix, struct changes *c);
/* All cells of the row were removed: removes its made directories, unless these hold scratch. */
void made_drop_row(struct node *row, struct changes *c);
/*
 * A cell was removed: its directories may be empty now.  Under the row's lock, as extra_cell_added.  Called
 * before versions_changed: a listing without the directories that is read after versions_changed would stay in the
 * kernel.
 */
void made_cell_removed(struct node *family_node, struct tfs_bytes qualifier, bool version, int64_t ts);
/* Scratch was made in dir, a node of the table's own view.  dir then stays as long as the scratch. */
int made_keep_locked(struct node *dir) TFS_MUST;
/* Drops the oldest empty directories above MADE_BYTES.  Called after any function above, without locks. */
void made_trim(struct changes *c);

#endif
