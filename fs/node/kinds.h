/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions that a file of fs/node defines for the operations of other kinds
 * of nodes.  Threads: any; engine calls are made.
 */
#ifndef TFS_FS_NODE_KINDS_H
#define TFS_FS_NODE_KINDS_H

#include "fs/base/node_ops.h"
#include "fs/base/notify.h"

struct displaced;
struct versions;

/* ---- table.c ---- */
/* The text of node_ops.names for names of tables, families and groups. */
#define TABLE_NAMES "names of tables, families and groups match [A-Za-z0-9_][A-Za-z0-9_.-]{0,63}"
/* The key of a table's node. */
#define TABLE_KEY_BYTES 4
void table_key(const struct tfs_table *t, uint8_t key[TABLE_KEY_BYTES]);
/* The node of a table or snapshot, counted.  Takes the handle t, also if it fails. */
int table_bind(struct node *parent, enum node_kind kind, struct tfs_table *t, struct node **out) TFS_MUST;
/* The phases that list .schema, and .scripts unless it is empty. */
struct lister;
struct list_entry;
int list_schema(struct lister *l, struct list_entry *e);
int list_scripts(struct lister *l, struct list_entry *e);

/* ---- snap.c ---- */
/* Resolves a name to a node of this kind, whose key is the name of a snapshot. */
int snapshot_resolve_name(const char *name, enum node_kind kind, struct resolved *out) TFS_MUST;

/* ---- scan.c ---- */
/* The name of the script that a file below .run runs: without .jsonl. */
struct tfs_bytes run_script_name(struct tfs_bytes name);

/* ---- row.c ---- */
/* node_ops.resolve of a table, and of the part of a split row name: a row, a part, or scratch. */
int row_resolve_name(struct node *dir, const char *name, struct resolved *out);

/* ---- family.c ---- */
/* For mkdir ROW/FAMILY: adds the family to the schema, if it is not there and the schema allows it. */
int family_add(struct node *row, const char *name, const struct fuse_ctx *ctx, mode_t mode, struct changes *c) TFS_MUST;
/* node_ops.attr of a directory with the mode and owner of its family. */
int family_attr(struct node *n, struct stat *st, double *timeout);

/* ---- cell.c and cell_rename.c ---- */
/* node_ops.resolve of a family, and of the part of a split cell name: a cell, a part, or scratch. */
int cell_resolve_name(struct node *dir, const char *name, struct resolved *out);
/* node_ops.rename. */
int cell_rename(struct renaming *m);
/*
 * Called before `from` is removed or renamed.  Sets *all to its version or, if `from` is a plain name, to all
 * versions of the column, and adds these to displaced.  `moves` is passed to displaced_add.
 */
int cell_displace(const struct resolved *from, bool moves, struct versions *all, struct displaced *displaced) TFS_MUST;
/* Renames a scratch file to a cell: commits its content. */
int cell_take_scratch(struct renaming *m) TFS_MUST;

/* ---- part.c: directories of split names (engine/base/name.h), of rows and of cells ---- */
/*
 * Finds the base of a name in dir, which is a table, family or part.  *base is the table, view or
 * family.  Appends the name's path below it to path.
 */
int part_path(struct node *dir, const char *name, struct node **base, struct buf *path) TFS_MUST;
/*
 * Resolves a path of parts to the key of its directory.  -ENAMETOOLONG if no key
 * fits after the parts; otherwise users could make directories of any depth.
 */
int part_resolve(struct tfs_bytes path, size_t key_max, struct resolved *out) TFS_MUST;
/* node_ops.find and has_cells. */
int part_find(struct node *dir, struct resolved *r, struct node **out);
int part_has_cells(struct node *n, bool *has);

/* ---- scratch_store.c ---- */
/*
 * Renames a directory of scratch to a row or family: one mutation of the row
 * stores all files below it.  -EEXIST, -ENOTEMPTY: the name is taken.  -EXDEV:
 * something in the directory cannot be a cell, or is open; mv then copies.
 * -EACCES: the caller may not write to a family.  After an error everything is
 * still scratch, but a family may have been added to the schema.
 */
int scratch_store_dir(struct renaming *m) TFS_MUST;

/* ---- control_name.c: names that look like control names ---- */
/*
 * Checks the name of scratch that will be made in dir.  -EOPNOTSUPP, logged with
 * the right name: it looks like a control name, so bytes that are written to it
 * would have no effect, and end with the mount.
 */
int control_name_check(struct node *dir, const char *name) TFS_MUST;

#endif
