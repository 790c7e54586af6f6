/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listing directories.  A lister steps through the entries of one directory in
 * a fixed order, from any cursor.  The kind of the directory has a list of phases
 * (node_ops.list), each a function that returns 1 and an entry, 0 at the end of
 * the phase, or -errno.  readdir.c turns cursors into the offsets of READDIR.
 *
 * Threads: a lister is used by one thread.  Engine calls are made.
 */
#ifndef TFS_FS_NODE_LIST_H
#define TFS_FS_NODE_LIST_H

#include "engine/base/name.h"
#include "fs/base/ahead.h"
#include "fs/base/node_ops.h"
#include "fs/file/cell.h"
#include "fs/node/source.h"

/* A place between two entries: the last entry returned. */
struct cursor {
	uint8_t phase;  /* index in node_ops.list */
	int64_t number; /* a version's timestamp, or an index */
	struct buf key;
};

struct list_entry {
	struct tfs_bytes name; /* borrowed until the next call */
	enum node_kind kind;
	struct node *parent; /* the parent of its node */
	struct tfs_bytes key;
	int64_t ts;
	struct tfs_info info;   /* cells, with the sizes of their values */
	struct tfs_bytes value; /* data NULL: not read */
	bool unsure;            /* a block that cannot be read may have hidden it: only the name is known */
};

/* The facts of the directory for node_ops.list_attr. */
struct listing {
	struct node *dir;
	uint64_t changes;                /* fs.changes before the store was asked */
	const struct tfs_schema *schema; /* NULL if the directory is in no table */
	struct family_info family;       /* the family of a directory of cells */
};

struct lister {
	struct node *dir;  /* NULL if the keys of a part are listed */
	struct node *base; /* the table, view, row or family whose keys are listed: dir, or the parent of a part */
	struct node *own;  /* base in the table's own view, where made directories and cells are; counted.  NULL: it has no node */
	struct tfs_bytes path;     /* the text of the parts that dir stands for, or empty */
	struct name_prefix prefix; /* the prefix of keys that `path` stands for */
	bool behind;               /* set in the second of the two ranges of a part's cells (list_keys.c) */
	struct cursor at;
	bool phase_begun; /* the cursor has an entry of this phase */
	bool values;      /* the values of cells are wanted */
	bool damaged;     /* a block could not be read: from here on scans skip such blocks */
	const struct tfs_schema *schema;
	struct source source; /* the source of `base` */
	struct tfs_scan *scan;
	struct ahead_row *row; /* a row that was read before, which replaces the scan; counted, or NULL */
	unsigned row_at;       /* the index of the next cell of `row` */
	bool scan_done, peeked;
	struct tfs_cell cell; /* the scan's current cell, if `peeked` is set */
	struct buf from, to;  /* the scan's range */
	struct buf name, last_part;
	char family_key[sizeof("#65535")];
	void *memory; /* memory of a phase; freed at its end */
};

/* values: also reads the values of cells. */
int lister_new(struct node *dir, const struct cursor *from, bool values, struct lister **out) TFS_MUST;
void lister_free(struct lister *l);
/* Returns 1 and an entry, 0 at the end, -errno.  "." and ".." are not entries. */
int lister_next(struct lister *l, struct list_entry *e) TFS_MUST;

/* ---- for phases ---- */
/* A lister in the caller's memory, of the keys below base with this path. */
int lister_init(struct lister *l, struct node *base, struct tfs_bytes path) TFS_MUST;
void lister_fini(struct lister *l);
/* Begins l->scan of the source. */
int lister_scan(struct lister *l, const struct tfs_scan_spec *spec) TFS_MUST;
void lister_end_scan(struct lister *l);
/* Returns true if the error means that a block cannot be read. */
bool lister_is_damage(int err);
/* Scratch, and in a table's own view made parts. */
int list_extras(struct lister *l, struct list_entry *e);
/* Made parts below a part, or in .latest. */
int list_made_parts(struct lister *l, struct list_entry *e);

/* ---- list_keys.c: phases that scan keys ---- */
/* Lists the rows of a table, the cells of a family, or the rows or cells below a part; for the cells of a part, the first of two ranges. */
int list_keys(struct lister *l, struct list_entry *e);
/* The cells below a part, the second range. */
int list_keys_behind(struct lister *l, struct list_entry *e);
/* Returns 0 if a key is below the directory of a split name, -ENOENT if none is.  base: its table, view or family. */
int keys_below_part(struct node *base, struct tfs_bytes path) TFS_MUST;

#endif
