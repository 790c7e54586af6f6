/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The node table: the nodes behind the kernel's inodes.
 *
 * A node stands for one file or directory, from its creation to its removal.
 * After a removal or replacement the node is not found any more (NODE_GONE).  It
 * is freed when the kernel has forgotten it and its last descriptor is closed.
 *
 * Identity.  A node id in a FUSE message is the node's address.  Another node may have
 * the same address later, so the kernel also gets the node's generation.  Both are in
 * file handles, and a handle of a node that was freed, or of an earlier mount, returns
 * ESTALE.  The kernel sends no id of a node that it has forgotten, because it may not
 * export the mount (session.c).
 *
 * The inode number that users see is a hash of the key by a secret of the store (ino), so
 * that it is the same after a remount, and users cannot choose it.  Two nodes may have
 * the same number.  A name whose node was removed or replaced while the kernel held it
 * has another number until the mount ends (renumber.h).
 *
 * Keys: a node is found by (parent, kind, key bytes, ts).  Parents follow the
 * data model, not the path: a row's parent is its table (or the .latest view of
 * it), a family's its row, a cell's its family.  Directories of split names
 * between them do not count.
 *
 * Lifetime: a node exists while the kernel holds it (lookups), while something
 * points to it (refs: children, handles, pins), or if it is the root.
 *
 * Threads: every function takes the tree lock (RANK_FS_TREE), unless its name
 * ends in _locked.  kind, parent, key and ino do not change while a node
 * exists, so a renamed scratch file is another node.  A renamed table or family
 * is the same node, because its key is not its name.
 *
 * Memory: 102 bytes and the key, and 8 bytes of a plain name, for a node that is not open.
 */
#ifndef TFS_FS_BASE_NODE_H
#define TFS_FS_BASE_NODE_H

#include "engine/base/bytes.h"
#include "engine/base/mutex.h"
#include "engine/base/siphash.h"
#include "engine/base/tree.h"

#include <bsd/sys/queue.h>
#include <string.h>
#include <sys/types.h>

/*
 * Every kind of node: its enumerator, the table of its operations (NAME_ops,
 * node_ops.h), and its number, which is part of inode numbers.  These must be the
 * same after a remount, so a kind keeps its number.
 */
#define NODE_KINDS(X)                                                                                                              \
	X(ROOT, root, 0)                                                                                                           \
	X(TABLE, table, 1)               /* key: its id, u32, so that a renamed table and all nodes below it stay */               \
	X(LATEST, latest, 2)             /* TABLE/.latest */                                                                       \
	X(ROW, row, 3)                   /* key: row key */                                                                        \
	X(ROW_PART, row_part, 4)         /* key: path of parts */                                                                  \
	X(FAMILY, family, 5)             /* key: "#ID", which the library accepts as a name: a renamed family keeps its nodes */   \
	X(CELL_PART, cell_part, 6)       /* key: path of parts */                                                                  \
	X(VERSION, version, 7)           /* key: qualifier; ts */                                                                  \
	X(PLAIN, plain, 8)               /* key: qualifier */                                                                      \
	X(SCRATCH_FILE, scratch_file, 9) /* key: name; ts: serial number */                                                        \
	X(SCRATCH_DIR, scratch_dir, 10)  /* key: name; ts: serial number */                                                        \
	X(SCHEMA, schema, 11)            /* TABLE/.schema */                                                                       \
	X(FAMILIES, families, 12)        /* TABLE/.families */                                                                     \
	X(FAMILY_DIR, family_dir, 13)    /* key: "#ID" of the family */                                                            \
	X(GROUPS, groups, 14)            /* TABLE/.groups */                                                                       \
	X(GROUP_DIR, group_dir, 15)      /* key: "#ID" of the group */                                                             \
	X(SETTING, setting, 16)          /* a control file; key: its name */                                                       \
	X(SYSTEM, system, 17)            /* /.tabletfs */                                                                          \
	X(MUTATE, mutate, 18)            /* ROW/.mutate */                                                                         \
	X(SCAN, scan, 19) /* TABLE/.scan and directories below it; key: one component of the clauses, the parent has the rest */   \
	X(SCAN_STREAM, scan_stream, 20)       /* .tsv and others below a scan; key: its name */                                    \
	X(VIEW, view, 21)                     /* .rows and .latest; parent: SCAN or SINCE; key: its name */                        \
	X(FOUND, found, 27)                   /* a cell in a view, of one version; key: qualifier; ts */                           \
	X(IMPORT, import, 28)                 /* TABLE/.import and others; key: its name */                                        \
	X(EXPORT, export, 29)                 /* TABLE/.export.tar; key: its name */                                               \
	X(SNAPS, snaps, 30)                   /* TABLE/.snap, and /.snap */                                                        \
	X(SNAPSHOT, snapshot, 31)             /* TABLE/.snap/NAME, and /.snap/NAME/TABLE; key: its id, u32 */                      \
	X(SNAP_ALL, snap_all, 32)             /* /.snap/NAME; key: its name */                                                     \
	X(ROW_JSON, row_json, 33)             /* ROW/.row.json */                                                                  \
	X(SINCE_ALL, since_all, 34)           /* TABLE/.snap/NAME/.since */                                                        \
	X(SINCE, since, 35)                   /* .since/NAME; key: u32 id of a snapshot */                                         \
	X(SINCE_STREAM, since_stream, 36)     /* .since/NAME/.deleted and .changed; key: its name */                               \
	X(SCRIPTS, scripts, 37)               /* TABLE/.scripts */                                                                 \
	X(SCRIPT, script, 38)                 /* key: NAME.lua */                                                                  \
	X(RUN, run, 39)                       /* .run below a scan, and directories below it; key: arg=KEY=VALUE, or empty */      \
	X(RUN_STREAM, run_stream, 40)         /* key: NAME or NAME.jsonl of a script of the table */                               \
	X(CHANGES, changes, 41)               /* TABLE/.changes, and directories in it; key: from=PLACE, or empty */               \
	X(CHANGES_STREAM, changes_stream, 42) /* .tsv and others; key: its name */                                                 \
	X(ROW_FLAT, row_flat, 43)             /* ROW/.row.flat.json */

#define NODE_ENUMERATOR(upper, lower, number) NODE_##upper = (number),
enum node_kind { NODE_KINDS(NODE_ENUMERATOR) NODE_KIND_COUNT };

/* Properties of a kind. */
enum node_trait {
	KIND_DIR = 1,
	KIND_CELL = 2, /* a version or a plain name */
	KIND_SCRATCH = 4,
	KIND_IN_VIEW = 8,       /* a directory below a table or its .latest, with one node in each, or below the view of a scan */
	KIND_KEYED = 16,        /* as an extra entry, it is listed in key order among the directory's rows or families */
	KIND_TIMED = 32,        /* a directory whose time users can set in .latest */
	KIND_UNCACHED = 64,     /* the kernel looks the name up at each use */
	KIND_UNCACHED_RW = 128, /* the kernel looks the name up at each use, unless the mount is read-only */
	KIND_PART = 256,        /* a directory of a split name */
	KIND_FAMILY = 512,      /* a directory of cells */
	KIND_SCAN = 1024,       /* a scan, its view, stream or cell: node_in_scan */
	KIND_NAMED = 2048,      /* a fixed child with one of several names, which is its key */
};

struct open_file;
struct dirx;
struct tfs_table;

enum {
	/* any node */
	NODE_HASHED = 1 << 0, /* can be found by key */
	NODE_GONE = 1 << 1,   /* removed, and still in use; also set for a cell that was renamed or replaced */
	NODE_EXTRA = 1 << 2,  /* an extra entry of its parent: scratch, or a directory that may hold no cell; pinned */
	/* a directory */
	NODE_LISTED = 1 << 3,   /* the kernel may hold its whole listing */
	NODE_ENDED = 1 << 4,    /* a listing ended after the notifier last invalidated it */
	NODE_EXPIRING = 1 << 5, /* its listing will be invalidated, as cells in it expire */
	/* a cell */
	NODE_PAGED = 1 << 6,     /* the kernel may hold pages of it */
	NODE_LEAVING = 1 << 7,   /* a version is being removed or renamed, a plain name replaced: OPEN waits for the row's lock */
	NODE_DROPPED = 1 << 8,   /* removed, not by unlink or a rename over it: its writers get ESTALE */
	NODE_MOVED = 1 << 9,     /* removed by a rename, so the kernel may have it under another name */
	NODE_OUTDATED = 1 << 11, /* a version of which the kernel may have pages of an earlier state */
	NODE_KEEPS = 1 << 10,    /* a removed version: its descriptors for reading hold a count of its state */
};

struct node {
	struct node *next;     /* hash chain */
	struct node *parent;   /* counted */
	LIST_ENTRY(node) link; /* in the parent's children */
	uint64_t lookups;      /* how many look-ups the kernel has made and not forgotten */
	uint64_t ino;          /* hash of the key; the number that users see is node_number() */
	int64_t ts; /* the timestamp of a version; for a replaced or removed plain name the timestamp of its last version, or TFS_NO_TIME */
	_Atomic uint64_t size; /* cell: valid while epoch equals the table's; scan: 1 + the user who is charged, or 0 */
	union {
		_Atomic int64_t commit_us;  /* a cell's time of commit, valid as size is */
		LIST_HEAD(, node) children; /* a directory's nodes, removed nodes too; under the tree lock */
	};
	union {
		_Atomic(struct open_file *) file; /* open state; NULL: it is not open */
		struct dirx *dir;                 /* scratch, extras, listing state; may be NULL */
	};
	uint32_t refs;
	_Atomic uint32_t epoch; /* cell: 0, or the table's epoch when size was stored; directory: changes of its listing */
	uint32_t key_n : 31;
	uint32_t numbered : 1; /* the key is followed by the inode number */
	uint32_t generation;
	_Atomic uint32_t
		opens; /* version: descriptors that are open, or being opened, for reading only (changed under the tree lock) */
	_Atomic uint16_t flags; /* changed under the tree lock */
	uint8_t kind;
	uint8_t key[]; /* NUL-terminated for convenience */
};

/*
 * The state of a directory that is not in the store: its extra entries (extra.h),
 * and of a table also the open table.
 */
struct extra;
RB_HEAD(extra_tree, extra);
struct dirx {
	struct extra_tree extras; /* extra.h */
	struct tfs_table *table;  /* NODE_TABLE, NODE_SNAPSHOT and NODE_SINCE only; open until the node is freed */
	_Atomic pid_t made_by;    /* NODE_TABLE: the thread whose mkdir has made the table in this mount, or 0 */
	uint32_t snapshot_of;     /* the id of the table of a NODE_SNAPSHOT */
	mode_t mode;              /* NODE_SCRATCH_DIR only, and its owner */
	uid_t uid;
	gid_t gid;
	_Atomic uint32_t epoch; /* as `table`: never 0; when it changes, all remembered sizes become unknown */
	/* NODE_VIEW only */
	_Atomic int64_t entered_us; /* ages count back from here */
	_Atomic uint32_t opens;     /* open files and directories in the view */
};

struct node_ops;

struct mutex *tree_mutex(void);
/* close_file is called under the tree lock for each file that is freed. key: the key of the hash that makes inode numbers. */
int node_table_init(const struct node_ops *const tables[NODE_KIND_COUNT], void (*close_file)(struct node *n),
	const struct siphash_key *key) TFS_MUST;
/* Frees every node, also nodes that the kernel still holds.  Files must be closed, and extra entries freed. */
void node_table_fini(void);
struct node *node_root(void);

/* The operations of a kind. */
const struct node_ops *kind_ops(enum node_kind kind);
/* Returns true if the kind has any of these traits. */
bool kind_is(enum node_kind kind, unsigned traits);
static inline bool node_is(const struct node *n, unsigned traits)
{
	return kind_is((enum node_kind)n->kind, traits);
}
static inline bool node_is_dir(const struct node *n)
{
	return node_is(n, KIND_DIR);
}
static inline struct tfs_bytes node_key(const struct node *n)
{
	return tfs_bytes_of(n->key, n->key_n);
}
static inline const char *node_name(const struct node *n)
{
	return (const char *)n->key;
}

/* Finds or makes a node, and counts it (node_put).  NULL: out of memory. */
struct node *node_get(struct node *parent, enum node_kind kind, struct tfs_bytes key, int64_t ts);
/* Finds a node.  node_find counts it.  NULL: there is none. */
struct node *node_find(struct node *parent, enum node_kind kind, struct tfs_bytes key, int64_t ts);
struct node *node_find_locked(struct node *parent, enum node_kind kind, struct tfs_bytes key, int64_t ts);
/* The inode number that the node has, or would have. */
static inline uint64_t node_number(const struct node *n)
{
	uint64_t number = n->ino;

	if (n->numbered)
		memcpy(&number, n->key + n->key_n + 1, sizeof(number));
	return number;
}
/* The timestamp of the newest version of a plain name, valid as size is.  Under the tree lock. */
int64_t plain_ts_locked(const struct node *n);
void plain_set_ts_locked(struct node *n, int64_t ts);
uint64_t node_number_at(const struct node *parent, enum node_kind kind, struct tfs_bytes key, int64_t ts);
/* Appends the whole key: the keys of the node and of those above it.  No two nodes that can be found have the same. */
int node_append_key(const struct node *n, struct buf *out) TFS_MUST;
void node_hold(struct node *n);
void node_put(struct node *n); /* NULL allowed */
void node_put_locked(struct node *n);
/* Counts a lookup of the kernel, before or after the answer. */
void node_lookup(struct node *n);
/* Removes `count` lookups; may free n. */
void node_forget(struct node *n, uint64_t count);
/* Returns true if the kernel holds the node. */
bool node_known(struct node *n);

/* n was removed: node_get() makes a new node for its key, with another inode number. */
void node_end(struct node *n);
void node_end_locked(struct node *n);
static inline bool node_lives(const struct node *n)
{
	return !(n->flags & NODE_GONE);
}

/* The file `from` was renamed to n's name, which has from's inode number from now on.  n has ended. */
void node_renumber(const struct node *n, const struct node *from);

/* Returns the nearest node of the kind, n or a node above it; NULL if there is none. */
struct node *node_above(const struct node *n, enum node_kind kind);
/* The nearest table or snapshot.  NULL: there is none. */
struct node *node_table(struct node *n);
/* Returns true if n is, or is in, a snapshot.  The control files of a snapshot itself are not in it. */
bool node_is_frozen(const struct node *n);
/* The state of the directory, allocated if it has none; NULL: out of memory. */
struct dirx *node_dirx_locked(struct node *dir);

/*
 * Calls fn, under the tree lock, for every node of a table, also if the kernel does not
 * hold it.  snapshots: nodes in the table's snapshots are included.
 */
void node_each_of_table(struct node *table, bool snapshots, void (*fn)(void *arg, struct node *n), void *arg);

/* Calls fn for top and all nodes below it.  The caller holds the tree lock. */
void node_each_below_locked(struct node *top, void (*fn)(void *arg, struct node *n), void *arg);
/* Calls fn, under the tree lock, for every node. */
void node_each(void (*fn)(void *arg, struct node *n), void *arg);

/*
 * The views of a table: the table itself, and .latest, which shows plain names
 * only.  A directory of cells has a node in each view that the kernel knows.
 * State that both views share belongs to the node in the table's own view.  A cell
 * has one node, below the family of the table's own view, under both names.
 */
/* Returns true if n is a scan, or in one: nothing can be changed there, and the kernel caches nothing. */
bool node_in_scan(const struct node *n);
/* Returns true unless dir is .latest or in it. */
bool node_in_own_view(const struct node *dir);
/*
 * Returns the node of the directory in the table's own view, or in the view that dir is not in.
 * Not counted.  NULL if it has no node.
 */
struct node *node_in_table_locked(struct node *dir);
struct node *node_in_other_view_locked(struct node *dir);
/*
 * Returns the node of the directory in the table's own view, which is made if it does not exist.
 * Counted.  NULL if out of memory.
 */
struct node *node_in_table_get(struct node *dir);

#endif
