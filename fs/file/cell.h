/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cells as files: the place of a node's cell in the store, its attributes for
 * stat, and the notes for the kernel when it changes.
 *
 * Threads: any.  The functions call the engine, so the caller may not hold the
 * tree lock.
 */
#ifndef TFS_FS_CELL_H
#define TFS_FS_CELL_H

#include "engine/base/counter.h"
#include "fs/file/stage.h"
#include "fs/base/fs.h"
#include "fs/base/notify.h"

/*
 * The place of a cell in the store, of a PLAIN or VERSION node or of a name below a family.
 * The place of a plain name that was replaced is its last version.  Points into the nodes.
 */
struct cell_place {
	struct node *family_node;
	struct tfs_table *table;
	struct tfs_bytes row, qualifier;
	const char *family;
	struct tfs_ts ts; /* TFS_NEWEST: a plain name */
	bool plain;       /* the name has no timestamp.  The file of a counter then has a newline behind the number */
};
void cell_place_of(struct node *cell, struct cell_place *out);
void cell_place_at(struct node *family_node, struct tfs_bytes qualifier, bool version, int64_t ts, struct cell_place *out);

/* The first bytes of a cell, read with its attributes. */
#define CELL_FIRST_BYTES (64u << 10)
struct cell_first {
	uint8_t *p; /* CELL_FIRST_BYTES, allocated */
	size_t n;   /* bytes that were read */
};

/* The properties that all cells of a family have. */
struct family_info {
	mode_t mode;
	uid_t uid;
	gid_t gid;
	bool counter;
	bool counted_versions; /* a rule may hide a version when another is written */
	int64_t max_age_us;
};
/* -ENOENT: the family was dropped. */
int family_info_get(struct node *family_node, struct family_info *out) TFS_MUST;
/* The size of the file of a plain name whose value has this size. */
static inline uint64_t plain_file_size(const struct family_info *f, uint64_t stored)
{
	return f->counter ? counter_file_size(stored) : stored;
}

/* The next functions return the size and the bytes of the file, which may have a newline that is not stored (plain_file_size). */
/* -ENOENT: there is no such cell, or the family was dropped. */
int cell_stat(const struct cell_place *p, struct tfs_info *info) TFS_MUST;
/* Gets the cell's info, as cell_stat does, and reads the first bytes. */
int cell_read_first(const struct cell_place *p, struct cell_first *first, struct tfs_info *info) TFS_MUST;
/* Gets the info of a cell's node. */
int cell_node_stat(struct node *cell, struct tfs_info *info) TFS_MUST;
/* Called under the tree lock when the plain name may have another newest version.  Drops the remembered version, and marks the name's descriptors. */
void plain_changed_locked(struct changes *c, struct node *plain);
/*
 * Remembers size and time of commit of a version as the store returned them.
 * Returns false if something was committed since `changes` was read (fs_changes).  The kernel
 * must not keep them then.
 */
bool version_remember(struct node *version, const struct tfs_info *info, uint64_t changes);
/*
 * Remembers the newest version of a plain name, unless something was committed since
 * `changes` was read, or the version expires.
 */
void plain_remember(struct node *plain, const struct tfs_info *info, uint64_t changes);
/*
 * Remembers the newest version that the store has reported; info is NULL if there is none.  If
 * another version was known, nothing that was read before is used any more.
 */
void plain_asked(struct node *plain, const struct tfs_info *info, uint64_t changes);
/* Returns true and the newest version, as it was remembered, if no change of the name was reported since.  An OPEN does not use it, but asks the store. */
bool plain_remembered(struct node *plain, struct tfs_info *info);
int cell_node_read(struct node *cell, uint64_t offset, void *buf, size_t n, size_t *got) TFS_MUST;
#define CELL_READ_AT_ONCE (1u << 20)
/*
 * Loads a cell into an image.  *info describes the version loaded.  The image
 * must not be written if only_reads.  A value of CELL_READ_AT_ONCE bytes or
 * more is read in parts, so the caller holds the row's lock.
 */
int cell_load(struct node *cell, bool only_reads, struct stage *image, struct tfs_info *info) TFS_MUST;

/* A row of the table or view was changed: notes the listings that may have its name. */
void row_changed_locked(struct changes *c, struct node *view, struct tfs_bytes row);

/* If another thread is replacing the plain name, waits until it has. */
void name_wait(struct node *n);
/* Returns true if the name was replaced or removed, or is just being replaced: the newest version may not belong to n. */
static inline bool name_is_over(const struct node *n)
{
	return n->flags & (NODE_GONE | NODE_LEAVING);
}

/* Fills st for a regular file of a family. */
void cell_attr(const struct node *n, const struct family_info *f, int64_t ts, int64_t commit_us, uint64_t size, struct stat *st);
void stat_time(struct timespec *t, int64_t us);
/* How long the kernel may cache the attributes of a version, in seconds. */
double version_timeout(const struct family_info *f, int64_t expires_us);

/*
 * Asks the store, before bytes are staged that it would refuse at close(2), whether it accepts a put; it always accepts
 * empty cells.  n: a cell, or a control file of a table.  Costs nothing if the table has no quota, and the disk was not full a moment ago.  -EDQUOT,
 * -ENOSPC, both logged.  Any other error is left to the put itself.  The caller holds no file's lock.
 */
int cell_check_room(struct node *n) TFS_MUST;
/*
 * Applies m to cells of the table that n is in.  After an error that does not say whether the store has done it,
 * nothing that was kept of the table is valid, because the server reports a change to all mounts except its
 * sender.
 */
int cells_apply(struct node *n, struct tfs_mutation *m, unsigned flags, struct tfs_result *results, struct changes *c) TFS_MUST;
/*
 * Notes a change of one version of a column: its node, and the listings that
 * contain it.  family_node may be of either view.  removed: the version no
 * longer exists.  not_self: the kernel keeps the pages of this node.
 */
void cell_changed(struct changes *c, struct node *family_node, struct tfs_bytes qualifier, int64_t ts, bool removed,
	const struct node *not_self);
/* The live versions of a column, newest first.  Collected before a removal or move, and noted after it. */
struct versions {
	int64_t *ts;
	size_t n;
};
int column_versions(struct node *family_node, struct tfs_bytes qualifier, struct versions *out) TFS_MUST;
void versions_fini(struct versions *v);
void versions_changed(
	struct changes *c, struct node *family_node, struct tfs_bytes qualifier, const struct versions *v, bool removed);
/* Locks the row that n lies in, and returns the lock for row_unlock; NULL: n is NULL, or lies in no row. */
struct mutex *row_lock(struct node *n);
/* Like row_lock, but returns -EINTR if the request that this thread serves is interrupted, or the daemon ends. */
int row_lock_unless_interrupted(struct node *n, struct mutex **out) TFS_MUST;
void row_unlock(struct mutex *row);

#endif
