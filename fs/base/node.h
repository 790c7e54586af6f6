/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The node table: what the kernel's inodes stand for.
 *
 * A node is bound to a key, and to one life of it: what was removed or
 * replaced while anybody knew it has a node that is found no more (NODE_GONE),
 * until the kernel forgets it and whoever has it open closes.  A node id on
 * the wire is the node's address; the inode number that users see is a hash of
 * the key, so that it is the same after a remount.
 *
 * Keys: a node is found by (parent, kind, key bytes, ts).  The parents are
 * those of the data model, not of the path: a row's parent is its table (or
 * the .latest view of it), a family's its row, a cell's its family, whatever
 * split directories lie between in the path.
 *
 * Lifetime: a node lives while the kernel holds it (lookups), something
 * points to it (refs: children, handles, pins), or it is the root.
 *
 * Threads: everything here takes the tree lock (RANK_FS_TREE) itself unless
 * its name ends in _locked.  kind, parent, key and ino never change while a
 * node lives, so a renamed scratch file is another node (and a renamed table
 * the same, and a renamed family: their keys are not their names).
 *
 * Memory: 98 bytes and the key for a node nobody has open.
 */
#ifndef TFS_FS_BASE_NODE_H
#define TFS_FS_BASE_NODE_H

#include "engine/base/bytes.h"
#include "engine/base/mutex.h"

#include <bsd/sys/tree.h>
#include <sys/types.h>

enum node_kind {
	NODE_ROOT,
	NODE_TABLE,        /* key: its id, u32: a renamed table stays what it is, and all below it */
	NODE_LATEST,       /* TABLE/.latest */
	NODE_ROW,          /* key: row key */
	NODE_ROW_PART,     /* key: path of parts */
	NODE_FAMILY,       /* key: "#ID", as the library takes it in the place of the name: a renamed family stays what it is */
	NODE_CELL_PART,    /* key: path of parts */
	NODE_VERSION,      /* key: qualifier; ts */
	NODE_PLAIN,        /* key: qualifier */
	NODE_SCRATCH_FILE, /* key: name; ts: serial number */
	NODE_SCRATCH_DIR,
	NODE_SCHEMA,     /* TABLE/.schema */
	NODE_FAMILIES,   /* TABLE/.families */
	NODE_FAMILY_DIR, /* key: likewise */
	NODE_GROUPS,
	NODE_GROUP_DIR, /* key: "#ID" of the group */
	NODE_SETTING,   /* a control file; key: name.  Parent: root's .tabletfs, table, family or group dir */
	NODE_SYSTEM,    /* /.tabletfs */
};

struct filex;
struct dirx;
struct tfs_table;

enum {
	NODE_HASHED = 1,     /* can be found by key */
	NODE_EXTRA = 2,      /* an extra entry of its parent: scratch, or a directory that may hold no cell; pinned */
	NODE_KEEPS = 4,      /* version, gone: its descriptors for reading count its state */
	NODE_GONE = 8,       /* removed (cells: renamed or replaced, too) while still known */
	NODE_LISTED = 16,    /* directory: the kernel may hold its whole listing */
	NODE_MOVED = 16,     /* cell, gone: renamed, so the kernel may know it by another name */
	NODE_ENDED = 32,     /* directory: a listing was ended since the notifier last looked */
	NODE_LEAVING = 32,   /* version: is being removed or renamed; opening it waits for the row's lock */
	NODE_PAGED = 64,     /* version: the kernel may hold pages of it; plain: of its newest version */
	NODE_EXPIRING = 128, /* directory: its listing will be invalidated, as cells in it expire */
};

struct node {
	struct node *next;   /* hash chain */
	struct node *parent; /* counted */
	uint64_t lookups;    /* the kernel's */
	uint64_t ino;
	int64_t ts;
	_Atomic uint64_t size;     /* version: valid while epoch equals the table's, as is: */
	_Atomic int64_t commit_us; /* the time of commit */
	union {
		_Atomic(struct filex *) file; /* open state; NULL: nobody has it open */
		struct dirx *dir;             /* scratch, extras, listing state; NULL: none */
	};
	uint32_t refs;
	_Atomic uint32_t epoch; /* version: 0, or the table's when the two were learnt; directory: changes of its listing */
	uint32_t key_n;
	uint32_t opens; /* version: descriptors open for reading only, and openings under way (tree lock) */
	uint8_t kind;
	_Atomic uint8_t flags; /* changed under the tree lock */
	uint8_t key[];         /* NUL-terminated for convenience */
};

/*
 * What a directory has beyond what the store says: extra entries, ordered by
 * (class, key), where class 0 is scratch and parts made by mkdir, class 1
 * rows and families.  A table's also has the open table.
 */
struct extra;
RB_HEAD(extra_tree, extra);
struct dirx {
	struct extra_tree extras;
	struct tfs_table *table; /* NODE_TABLE only; lives as long as the node */
	mode_t mode;             /* NODE_SCRATCH_DIR only, and its owner */
	uid_t uid;
	gid_t gid;
	_Atomic uint32_t epoch; /* NODE_TABLE only: never 0; a new one makes all remembered sizes unknown */
};

struct mutex *tree_mutex(void);
int node_table_init(void) TFS_MUST;
/* Frees every node, whatever the kernel still holds; before it files must be closed. */
void node_table_fini(void);
struct node *node_root(void);

static inline struct slice node_key(const struct node *n)
{
	return slice_of(n->key, n->key_n);
}
static inline const char *node_name(const struct node *n)
{
	return (const char *)n->key;
}

/* Finds or makes; the result is counted (node_put).  NULL: out of memory. */
struct node *node_get(struct node *parent, enum node_kind kind, struct slice key, int64_t ts);
/* Finds only; counted; NULL: there is none. */
struct node *node_find(struct node *parent, enum node_kind kind, struct slice key, int64_t ts);
struct node *node_find_locked(struct node *parent, enum node_kind kind, struct slice key, int64_t ts);
/* The inode number that the node has or would have. */
uint64_t node_ino(const struct node *parent, enum node_kind kind, struct slice key, int64_t ts);
void node_hold(struct node *n);
void node_put(struct node *n); /* NULL allowed */
void node_put_locked(struct node *n);
/* The kernel gets (is about to get) one more lookup, or gives n back. */
void node_lookup(struct node *n);
void node_forget(struct node *n, uint64_t count);
bool node_known(struct node *n); /* does the kernel hold it? */

/* What it stood for has gone: it is out of the table, and a new one with the same key may be made beside it. */
void node_end_locked(struct node *n);
static inline bool node_lives(const struct node *n)
{
	return !(n->flags & NODE_GONE);
}

/* ---- relations ---- */
struct node *node_table(struct node *n); /* the table it lies in, itself included; or NULL */
static inline bool node_is_dir(const struct node *n)
{
	switch ((enum node_kind)n->kind) {
	case NODE_VERSION:
	case NODE_PLAIN:
	case NODE_SCRATCH_FILE:
	case NODE_SCHEMA:
	case NODE_SETTING:
		return false;
	case NODE_ROOT:
	case NODE_TABLE:
	case NODE_LATEST:
	case NODE_ROW:
	case NODE_ROW_PART:
	case NODE_FAMILY:
	case NODE_CELL_PART:
	case NODE_SCRATCH_DIR:
	case NODE_FAMILIES:
	case NODE_FAMILY_DIR:
	case NODE_GROUPS:
	case NODE_GROUP_DIR:
	case NODE_SYSTEM:
		return true;
	}
	return true;
}

/* The directory's state, made if it has none; NULL: out of memory. */
struct dirx *node_dirx_locked(struct node *dir);

/*
 * The same directory in the table's own view, or in its other view: NULL,
 * there is no node of it.  Not counted.
 */
struct node *node_home_locked(struct node *dir);
struct node *node_twin_locked(struct node *dir);
/* The first, made if there is none, and counted.  NULL: out of memory. */
struct node *node_home_get(struct node *dir);

/* ---- extras of n's parent; all under the tree lock ---- */
enum extra_why {
	EXTRA_SCRATCH,
	EXTRA_MADE,  /* an empty directory */
	EXTRA_LEFT,  /* a directory that may be empty: cells were removed from it */
	EXTRA_HOLDS, /* a row that may hold cells, and has entries of its own: they stay when its cells are gone */
	EXTRA_WHYS,
};
/* n becomes listed in its parent though it may hold no cell, and is pinned until it is dropped.  One that is listed stays what it is. */
int node_extra_add_locked(struct node *n, enum extra_why why) TFS_MUST;
/* The caller counts n, or knows that something else does. */
void node_extra_drop_locked(struct node *n);
/* What it is from now on, as the youngest of them. */
void node_extra_is_locked(struct node *n, enum extra_why why);
struct node *node_extra_oldest_locked(enum extra_why why);
size_t node_extra_count_locked(enum extra_why why);
/* The memory of directories among them, their nodes included. */
size_t node_extra_bytes_locked(void);
/* n, of the same directory and key, takes the place of old, both scratch: at no time is there neither, and no memory is needed. */
void node_extra_replace_locked(struct node *old, struct node *n);
/* The first extra of a class above key (NULL: the first). */
struct node *node_extra_next_locked(struct node *dir, unsigned cls, const struct slice *above);
struct node *node_extra_find_locked(struct node *dir, unsigned cls, struct slice key);
bool node_extra_any_locked(const struct node *dir);
/*
 * Ends every extra entry for which ends() is true (asked under the tree lock;
 * dropping sees each before it goes): they are unlisted and unpinned.
 */
void node_extras_end(bool (*ends)(void *arg, const struct node *n), void *arg, void (*dropping)(struct node *n));

/* Calls fn for every node (of a table: that the kernel knows), under the tree lock. */
void node_each(void (*fn)(void *arg, struct node *n), void *arg);
/* The same, of one table only. */
void node_each_of_table(struct node *table, void (*fn)(void *arg, struct node *n), void *arg);

#endif
