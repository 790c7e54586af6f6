/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The views of a table: the table itself, and .latest, which shows plain names
 * only.  A directory of cells has a node in each view that the kernel knows.
 * State that both views share belongs to the node in the table's own view.
 *
 * Threads: any; functions that end in _locked need the tree lock.
 */
#ifndef TFS_FS_BASE_VIEW_H
#define TFS_FS_BASE_VIEW_H

#include "fs/base/node.h"

/* The same directory in the table's own view, or in the view that n is not in.  Not counted.  NULL: it has no node. */
struct node *node_in_table_locked(struct node *dir);
struct node *node_in_other_view_locked(struct node *dir);
/* As node_in_table_locked, but makes the node, and counts it.  NULL: out of memory. */
struct node *node_in_table_get(struct node *dir);
/* Is the node in a view that shows plain names only? */
bool node_is_latest(const struct node *n);

#endif
