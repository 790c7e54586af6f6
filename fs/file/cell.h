/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cells as files see them: where a node's cell is in the store, what stat
 * shows of it, and what the kernel must be told when one changes.
 *
 * Threads: any; engine calls are made, so not under the tree lock.
 */
#ifndef TFS_FS_CELL_H
#define TFS_FS_CELL_H

#include "engine/base/counter.h"
#include "fs/file/stage.h"
#include "fs/base/fs.h"
#include "fs/base/notify.h"

/* Where the cell of a PLAIN or VERSION node (or of a name below a family) is.  Borrows from the nodes. */
struct cell_place {
	struct node *family_node;
	struct tfs_table *table;
	struct tfs_bytes row, qualifier;
	const char *family;
	struct tfs_ts ts; /* TFS_NEWEST: a plain name */
};
void cell_place_of(struct node *cell, struct cell_place *out);
void cell_place_at(struct node *family_node, struct slice qualifier, bool version, int64_t ts, struct cell_place *out);

/* What all cells of a family share. */
struct family_info {
	mode_t mode;
	uid_t uid;
	gid_t gid;
	bool counter;
	bool counted_versions; /* a rule may hide a version when another is written */
	int64_t max_age_us;
};
/* -ENOENT: no such family any more. */
int family_info_get(struct node *family_node, struct family_info *out) TFS_MUST;
void family_info_from(const struct tfs_family *f, struct family_info *out);

/* -ENOENT: there is no such cell, or no such family any more. */
int cell_stat(const struct cell_place *p, struct tfs_info *info) TFS_MUST;
/* Reads through p->ts.  info may be NULL. */
int cell_read(const struct cell_place *p, uint64_t offset, void *buf, size_t n, size_t *got, struct tfs_info *info) TFS_MUST;
/* The same by a cell's node. */
int cell_node_stat(struct node *cell, struct tfs_info *info) TFS_MUST;
int cell_node_read(struct node *cell, uint64_t offset, void *buf, size_t n, size_t *got) TFS_MUST;
#define CELL_READ_AT_ONCE (1u << 20)
/*
 * Loads a cell into an image, which is never written if only_reads.  *info is that of the version loaded.
 * A value of CELL_READ_AT_ONCE bytes or more is read in parts: the caller holds the row's lock.
 */
int cell_load(struct node *cell, bool only_reads, struct stage *image, struct tfs_info *info) TFS_MUST;

/* Fills st for a regular file of a family. */
void cell_attr(const struct node *n, const struct family_info *f, int64_t ts, int64_t commit_us, uint64_t size, struct stat *st);
void stat_time(struct timespec *t, int64_t us);
/* How long the kernel may believe what it was told of a version. */
double version_timeout(const struct family_info *f, int64_t expires_us);

/*
 * Notes what the kernel may hold about one version of a column: its node, and
 * with it the listings it is (or was) in.  family_node may be of either view.
 * gone: the version is no longer there.  not_self: leave this node's pages.
 */
void cell_changed(
	struct changes *c, struct node *family_node, struct slice qualifier, int64_t ts, bool gone, const struct node *not_self);
/* The live versions of a column, newest first, as they are now: collected before a removal or move, noted after it. */
struct versions {
	int64_t *ts;
	size_t n, cap;
};
int column_versions(struct node *family_node, struct slice qualifier, struct versions *out) TFS_MUST;
void versions_fini(struct versions *v);
void versions_changed(struct changes *c, struct node *family_node, struct slice qualifier, const struct versions *v, bool gone);
/*
 * The node of a cell in the table itself, counted: of a version, and of a plain
 * name there, the node itself; of a plain name in .latest its twin.  NULL: there
 * is none, or with make: out of memory.
 */
struct node *cell_home(struct node *cell, bool make);
/* The home of a name below a family's directory in either view, counted, or NULL: there is none. */
struct node *cell_home_find(struct node *family_node, enum node_kind kind, struct slice qualifier, int64_t ts);
/* The same of a family's directory. */
struct node *family_home(struct node *family_node, bool make);
/* The family's node in the table's other view, counted, or NULL. */
struct node *family_twin(struct node *family_node);
/* The row stripe's lock of a node in a row, or NULL for a node that is in none. */
struct mutex *ofile_row_lock(struct node *n);

#endif
