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

/*
 * Every kind of node: its enumerator, and the table of its operations
 * (NAME_ops, node_ops.h).  The number of a kind is part of inode numbers, which
 * must be the same after a remount: a new kind is added at the end.
 */
#define NODE_KINDS(X)                                                                                                              \
	X(ROOT, root)                                                                                                              \
	X(TABLE, table)               /* key: its id, u32, so that a renamed table and all below it keep their nodes */            \
	X(LATEST, latest)             /* TABLE/.latest */                                                                          \
	X(ROW, row)                   /* key: row key */                                                                           \
	X(ROW_PART, row_part)         /* key: path of parts */                                                                     \
	X(FAMILY, family)             /* key: "#ID", which the library accepts as a name: a renamed family keeps its nodes */      \
	X(CELL_PART, cell_part)       /* key: path of parts */                                                                     \
	X(VERSION, version)           /* key: qualifier; ts */                                                                     \
	X(PLAIN, plain)               /* key: qualifier */                                                                         \
	X(SCRATCH_FILE, scratch_file) /* key: name; ts: serial number */                                                           \
	X(SCRATCH_DIR, scratch_dir)   /* the same */                                                                               \
	X(SCHEMA, schema)             /* TABLE/.schema */                                                                          \
	X(FAMILIES, families)         /* TABLE/.families */                                                                        \
	X(FAMILY_DIR, family_dir)     /* key: "#ID" of the family */                                                               \
	X(GROUPS, groups)             /* TABLE/.groups */                                                                          \
	X(GROUP_DIR, group_dir)       /* key: "#ID" of the group */                                                                \
	X(SETTING, setting)           /* a control file; key: its name */                                                          \
	X(SYSTEM, system)             /* /.tabletfs */

#define NODE_ENUMERATOR(upper, lower) NODE_##upper,
enum node_kind { NODE_KINDS(NODE_ENUMERATOR) NODE_KIND_COUNT };

/* Properties of a kind. */
enum node_trait {
	KIND_DIR = 1,
	KIND_CELL = 2, /* a version or a plain name */
	KIND_SCRATCH = 4,
	KIND_IN_VIEW = 8,       /* a directory below a table or its .latest, with a node for each of the two */
	KIND_KEYED = 16,        /* as an extra entry, it is listed in key order among the directory's rows or families */
	KIND_TIMED = 32,        /* a directory that keeps a time that a user sets in .latest */
	KIND_UNCACHED = 64,     /* the kernel looks the name up at each use */
	KIND_UNCACHED_RW = 128, /* the same, unless the mount is read-only */
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
	struct extra_tree extras; /* extra.h */
	struct tfs_table *table;  /* NODE_TABLE only; lives as long as the node */
	mode_t mode;              /* NODE_SCRATCH_DIR only, and its owner */
	uid_t uid;
	gid_t gid;
	_Atomic uint32_t epoch; /* NODE_TABLE only: never 0; a new one makes all remembered sizes unknown */
};

struct node_ops;

struct mutex *tree_mutex(void);
/* close_file is called under the tree lock for each file that is freed. */
int node_table_init(const struct node_ops *const tables[NODE_KIND_COUNT], void (*close_file)(struct node *n)) TFS_MUST;
/* Frees every node, also those that the kernel still holds.  Files must be closed, and extra entries freed. */
void node_table_fini(void);
struct node *node_root(void);

/* The operations of a kind. */
const struct node_ops *kind_ops(enum node_kind kind);
/* Has the kind any of these traits? */
bool kind_is(enum node_kind kind, unsigned traits);
static inline bool node_is(const struct node *n, unsigned traits)
{
	return kind_is((enum node_kind)n->kind, traits);
}
static inline bool node_is_dir(const struct node *n)
{
	return node_is(n, KIND_DIR);
}
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
/* The directory's state, made if it has none; NULL: out of memory. */
struct dirx *node_dirx_locked(struct node *dir);

/* Calls fn, under the tree lock, for every node of a table that the kernel knows. */
void node_each_of_table(struct node *table, void (*fn)(void *arg, struct node *n), void *arg);

#endif
