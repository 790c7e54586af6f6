/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Extra entries: the entries of directories that exist in the daemon only.
 * These are scratch, and rows, families and parts of split names that may hold
 * no cell (fs/node/made.h).  An extra entry pins its node.  It is listed in the
 * node's parent, and in one list per state, the oldest first.
 *
 * Directories other than scratch have their entries in the table's own view
 * (node.h).  Entries are ordered by class, then key: class 0 is scratch and
 * parts, class 1 is rows and families (KIND_KEYED).
 *
 * Threads: the caller of every function that ends in _locked holds the tree lock.
 */
#ifndef TFS_FS_BASE_EXTRA_H
#define TFS_FS_BASE_EXTRA_H

#include "fs/base/node.h"

enum extra_state {
	EXTRA_SCRATCH,
	EXTRA_EMPTY,     /* an empty directory */
	EXTRA_UNCHECKED, /* cells were removed from the directory: it may be empty */
	EXTRA_HAS_CELLS, /* a row that may contain cells and has entries of its own, so it stays when its cells expire */
	EXTRA_STATES,
};

/* At the end of the daemon: frees all entries, but not their nodes. */
void extra_fini(void);
/* Adds an entry for n.  An entry that exists keeps its state. */
int extra_add_locked(struct node *n, enum extra_state state) TFS_MUST;
/* Removes the entry, if there is one.  The caller has a count of n. */
void extra_remove_locked(struct node *n);
/* Removes the entry for a caller that has no count of n, which may be freed. */
void extra_drop_locked(struct node *n);
/* The entry becomes the youngest of its new state. */
void extra_set_state_locked(struct node *n, enum extra_state state);
/* Replaces old by n; both are scratch with the same directory and name.  Does not allocate, so it cannot fail. */
void extra_replace_locked(struct node *old, struct node *n);

struct node *extra_oldest_locked(enum extra_state state);
size_t extra_count_locked(enum extra_state state);
/* The memory of all entries that are not scratch, with their nodes. */
size_t extra_bytes_locked(void);
/* The first entry of a class above key (NULL: the first). */
struct node *extra_next_locked(struct node *dir, unsigned cls, const struct tfs_bytes *above);
struct node *extra_find_locked(struct node *dir, unsigned cls, struct tfs_bytes key);
bool extra_any_locked(const struct node *dir);
/* Returns true if the directory has entries in the table's view or in .latest. */
bool extra_any_view_locked(struct node *dir);

/* At the end of the mount: logs each scratch file. */
void extra_report_scratch(void);
/* Removes every entry for which ends() is true (called under the tree lock).  Each scratch file is logged. */
void extra_end_each(bool (*ends)(void *arg, const struct node *n), void *arg);

/*
 * Called under the row's lock when a cell was stored in a family.  The family and its row then
 * need no entry; a row that has entries of its own keeps its entry.
 */
void extra_cell_added(struct node *family);
/* The part of extra_cell_added for one directory, of the table's own view. */
void extra_has_cells_locked(struct node *dir);

#endif
