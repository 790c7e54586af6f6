/* SPDX-License-Identifier: Apache-2.0 */
/* The phases of listings that scan keys.  Threads: as list.h. */
#ifndef TFS_FS_NODE_LIST_KEYS_H
#define TFS_FS_NODE_LIST_KEYS_H

#include "fs/node/list.h"

/* The rows of a table, or below a part. */
int list_rows(struct lister *l, struct list_entry *e);
/* The cells of a family; or of a part the first, and the second of two ranges. */
int list_cells(struct lister *l, struct list_entry *e);
int list_cells_behind(struct lister *l, struct list_entry *e);
/* Does the directory of a split name have a key below it?  base: its table, view or family.  0, -ENOENT. */
int keys_below_part(struct node *base, struct slice path) TFS_MUST;

#endif
