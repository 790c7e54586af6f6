/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Open files: their state, and the FUSE calls on descriptors.
 *
 * A cell that is open has a struct open_file.  So has each scratch file, and each
 * open control file.  A version that is opened for reading only has neither a
 * struct descriptor nor a struct open_file, but a count in its node.
 *
 * Locks: open_file.lock guards the descriptors and contents of the file.  A commit is
 * made under the row's lock.  It releases open_file.lock while the store works:
 * the content is busy then, and a thread that changes it waits (open_file_wait).
 * Threads that read or stat do not wait for a commit.  A version's state is
 * made under the row's lock, under which renames move it to another node.  Only
 * a version that is created and not stored gets one without that lock.
 * refs, node->file and the lists of descriptors are changed under the tree lock.
 */
#ifndef TFS_FS_FILE_H
#define TFS_FS_FILE_H

#include "fs/base/fs.h"
#include "fs/file/content.h"

#include <bsd/sys/queue.h>

/* How far a descriptor of a plain name has read its version. */
enum reader_end {
	READER_WITHIN, /* it has not read the last byte */
	READER_ALL,    /* it has read the last byte */
	READER_TOLD,   /* it has read the last byte, and stat has shown the newest version to its process */
	READER_END,    /* a read has returned end of file */
};

struct descriptor {
	struct descriptor *next;       /* the next descriptor of the file, newest first */
	LIST_ENTRY(descriptor) all;    /* all descriptors of the daemon */
	struct node *node;             /* the node that was opened; counted */
	struct open_file *file;        /* counted */
	bool readable, writable;       /* O_TRUNC makes it writable */
	_Atomic pid_t pid;             /* the thread that opened it, or used it last */
	uid_t uid;                     /* the user who opened it */
	_Atomic enum reader_end ended; /* plain, reading only: since the image was loaded */
	_Atomic uint32_t readers;      /* plain, reading only: threads that read the image without the file's lock */
	int error;                     /* plain, shared content: another descriptor's commit has failed with this error */
	bool latest;                   /* plain: opened in .latest */
	bool has_version;              /* plain, shared content: a commit has stored its bytes */
	bool early;                    /* has_version is set, and the descriptor was not flushed since */
	struct content *content;       /* its own, or the file's */
	struct content own;            /* its own; plain and control files */
};

struct open_file {
	struct mutex lock;
	struct cond idle;   /* a content is no longer busy */
	unsigned refs;      /* tree lock */
	struct node *node;  /* counted.  NULL for scratch: there the nodes count the state */
	struct node **also; /* former names of a version; counted */
	unsigned also_count;
	struct descriptor *descriptors; /* changed under the tree lock, too */
	struct content shared;    /* the content that descriptors share: version, scratch, plain name for reading and writing */
	_Atomic uint32_t commits; /* plain: changes of the column */
	/* Scratch: each of its nodes counts it.  shared.target is the cell or .schema that it was renamed to while open. */
	mode_t mode;
	uid_t uid;
	gid_t gid;
	int64_t mtime_us;
};

/* Returns true if d is of a plain name, for reading and writing. */
static inline bool descriptor_shares(const struct descriptor *d)
{
	return d->content == &d->file->shared && d->node->kind == NODE_PLAIN;
}
/* Returns true if d is of a plain name, for reading only. */
static inline bool descriptor_only_reads(const struct descriptor *d)
{
	return !d->writable && d->node->kind == NODE_PLAIN;
}
/* Returns true if content's image includes all changes of the column.  Bulk changes are counted for the whole table. */
static inline bool content_is_current(const struct open_file *file, const struct content *content)
{
	return content->seen == file->commits && content->seen_epoch == table_epoch(file->node);
}
/* Makes a descriptor of n, and lists it.  NULL: out of memory. */
struct descriptor *descriptor_new(struct node *n, int flags);
void descriptor_free(struct descriptor *d);
/* Returns true if the calling process opened d, or wrote through it last. */
bool descriptor_is_of_caller(const struct descriptor *d);
/* Any descriptor, or NULL. */
struct descriptor *descriptor_first(void);
/* *out: the files with a descriptor for which matches() returns true, each counted; the caller frees the array.  matches() is called under the tree lock. */
int open_files_with(bool (*matches)(const struct descriptor *d, const void *arg), const void *arg, struct open_file ***out,
	size_t *count) TFS_MUST;
/* *out: the files with a content whose target is n, as open_files_with returns them. */
int open_files_to(const struct node *n, struct open_file ***out, size_t *count) TFS_MUST;

/* Finds the state of n or makes it; counted.  NULL: out of memory. */
struct open_file *open_file_get(struct node *n);
/* Finds the state of n; counted.  NULL: it is not open. */
struct open_file *open_file_find(struct node *n);
void open_file_put(struct open_file *file); /* NULL allowed */
/* The node that a plain name or scratch file was renamed to while open; counted.  NULL: it was not renamed. */
struct node *open_file_target(struct open_file *file);
/* Waits until content, a content of file, is not busy.  The file's lock is held. */
void open_file_wait(struct open_file *file, const struct content *content);
void open_file_free(struct open_file *file);
/* Frees the content of scratch that has become a cell and is not open.  The file's lock is held. */
void open_file_free_scratch(struct open_file *file);
void open_file_drop_locked(struct node *n); /* n is being freed */
/* file becomes the state of n, too.  Returns false if out of memory. */
bool open_file_add_node_locked(struct open_file *file, struct node *n);

/* Counts a descriptor for reading only of n, a version.  The first waits while another thread removes or renames n. */
void version_count_open(struct node *n);
void version_count_close(struct node *n);
/* If n is a cell that was removed or replaced: the node that its name finds now, counted.  NULL: n was not removed or replaced, or it was renamed. */
struct node *node_successor(struct node *n);
/* Prepares the content of a version for a write.  The file's lock is held.  -ENOENT: it is not stored, and nothing is staged. */
int version_prepare_write(struct open_file *file) TFS_MUST;

void ofile_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void ofile_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi);
void ofile_copy_range(fuse_req_t req, fuse_ino_t from, off_t from_offset, struct fuse_file_info *from_fi, fuse_ino_t to,
	off_t to_offset, struct fuse_file_info *to_fi, size_t n, int flags);
void ofile_write(fuse_req_t req, fuse_ino_t ino, const char *p, size_t size, off_t offset, struct fuse_file_info *fi);
void ofile_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void ofile_fsync(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi);
void ofile_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);

/* Asks cell_check_room before the first bytes of a commit are staged through d.  If there is no room, a truncation by the open is not stored either. */
int descriptor_check_room(struct descriptor *d) TFS_MUST;
/* Commits the bytes that were staged through d.  last: d is being closed, and a creation is committed, too. */
int ofile_commit(struct descriptor *d, bool last, struct changes *c) TFS_MUST;

/* Creates an empty cell, unless it exists. */
int ofile_make(struct node *n, struct changes *c) TFS_MUST;
/* Opens n for CREATE.  Returns 0 if it has replied, -errno if not; -ESTALE if n has been removed. */
int ofile_create(fuse_req_t req, struct node *n, bool exists, struct fuse_file_info *fi) TFS_MUST;

/*
 * Checks that the caller may read a scratch file, before its content becomes a cell or
 * a control file.  Its lock is held until its target is set or the content is copied,
 * so that its owner cannot write bytes that were just made private.
 */
int scratch_check_read(struct open_file *file, const struct caller *caller) TFS_MUST;
/*
 * Commits all of a scratch file to target.  The caller holds the lock of the target's row
 * and may read the scratch file.  *ts is the version's timestamp.
 */
int scratch_commit(struct open_file *file, struct node *target, const struct caller *caller, bool latest, int64_t *ts,
	struct changes *c) TFS_MUST;
/* Truncates scratch.  Its lock is held.  Truncation to 0 ends an error. */
int scratch_truncate(struct open_file *file, uint64_t size) TFS_MUST;
/* Truncates n, through d if it is not NULL. */
int ofile_truncate(struct node *n, struct descriptor *d, uint64_t size, struct changes *c) TFS_MUST;
/* Sets the time of n, a plain name or scratch file; us is not 0. */
int plain_set_time(struct node *n, int64_t us, struct changes *c) TFS_MUST;
int scratch_set_time(struct node *n, int64_t us, struct changes *c) TFS_MUST;

/*
 * Commits to content's target under the lock of its row.  The lock of file, the file
 * that content belongs to, is held, and released while the store works.  Nothing
 * staged (a creation counts only if `last`) is success.  An error remains:
 * later calls return it and store nothing.
 *
 * A truncation after which nothing was written commits nothing if another
 * descriptor has committed since.
 */
int content_commit(struct content *content, bool last, struct open_file *file, struct changes *c) TFS_MUST;
/* Moves the version that content committed to content's time.  *newest is cleared if another version is the newest now: it is not moved. */
int content_move_to_time(struct content *content, bool *newest, struct changes *c) TFS_MUST;

/* Attributes of staged bytes: the time that the version will have, and the time of the last write. */
struct staged_attr {
	uint64_t size;
	int64_t time_us, touched_us;
};
/* Returns true and fills *s if something is staged for n, a plain name, version or .schema. */
bool ofile_pending(struct node *n, struct staged_attr *s);
/*
 * Returns true and fills *s if the process that calls stat has its own version of
 * a plain name: it has staged bytes, or has not yet read all of a version that it
 * opened.  If there are several such descriptors, the last one that was opened
 * counts.  Other processes see the newest version, *newest.  NULL: only staged
 * bytes count.
 * `file` is the state of the name, or NULL if it is not open.
 */
bool ofile_own_attr(struct open_file *file, const struct tfs_info *newest, struct staged_attr *s);
/* cell_stat of n's cell.  n may be NULL.  -ENOENT with *pending set: it was created, and is not committed. */
int ofile_stat(struct node *n, const struct cell_place *p, struct tfs_info *info, bool *pending) TFS_MUST;
/* Gets the info as ofile_stat does, and reads the first bytes, unless first is NULL. */
int ofile_read_first(
	struct node *n, const struct cell_place *p, struct cell_first *first, struct tfs_info *info, bool *pending) TFS_MUST;
/* Returns the end of file for lseek on a plain name's descriptor. */
uint64_t ofile_seek_end(const struct fuse_file_info *fi);
/* Returns true if something is staged for a cell in the directory. */
bool ofile_pending_below(struct node *dir);
/*
 * Returns true if n, a cell, is open.  *size is its size for the descriptor opened last, of
 * the calling process if it has one; *ts is of the version that this descriptor
 * reads, or TFS_NO_TIME.
 */
bool ofile_is_open(struct node *n, uint64_t *size, int64_t *ts);

/*
 * The versions of a column that a removal, a replacement or a rename displaces.
 * Under the row's lock the caller adds the versions, which copies the open
 * ones, and changes the store.  If that succeeds, the caller states which
 * versions have moved, and ends the remaining versions.  It always calls
 * displaced_fini before it releases the lock: another thread may displace the
 * same nodes next.
 */
struct displaced {
	struct displaced_version *first;
	struct node *name; /* a plain name that will be replaced or removed; counted, or NULL */
	int64_t name_ts;   /* timestamp of its newest version, or TFS_NO_TIME */
	bool by_name; /* an unlink or a rename over the name ends them; their writers' bytes are dropped, as on other file systems */
};
/* The plain name will be removed or replaced.  ts: the time of its newest version, TFS_NO_TIME if there is none. */
void displaced_add_name(struct displaced *k, struct node *name, int64_t ts);
int displaced_add(struct displaced *k, struct node *family_node, struct tfs_bytes qualifier, int64_t ts, bool moves) TFS_MUST;
/* The version *ts moved: its descriptors are descriptors of the version to_ts of target's column from now on.  ts NULL: all versions have moved, and each keeps its timestamp. */
void displaced_moved(struct displaced *k, const int64_t *ts, struct node *target, int64_t to_ts, struct changes *c);
/* The other versions were removed, and the name was replaced.  displaced_keep_stored: except versions that the store has, because the change has written them again. */
void displaced_end(struct displaced *k, struct changes *c);
void displaced_keep_stored(struct displaced *k);
void displaced_fini(struct displaced *k);
/*
 * The column of a plain name was removed or replaced: its nodes end.  by_name: by
 * unlink or a rename, so commits to it are discarded.  Otherwise writes and
 * commits through its descriptors return ESTALE.
 */
void ofile_end_column(struct node *family_node, struct tfs_bytes qualifier, bool by_name, struct changes *c);
/*
 * The cells of the table for which `which` returns true (NULL: all) were removed.  Bytes
 * that descriptors have not loaded cannot be read any more, and bytes that they write
 * are not stored: ESTALE.  The caller invalidates the kernel's inodes.  `which` is
 * called under the tree's lock.
 */
void ofile_end_table(struct node *table, bool (*which)(void *arg, const struct node *n), void *arg);
/* Commits the bytes staged for n, a cell, in either view, before a rename.  The row's lock is held. */
int ofile_commit_staged(struct node *n, struct changes *c) TFS_MUST;
/*
 * The contents whose target was n get the target `target`.  So does the content of n
 * itself if n is scratch.  commit_ts: the timestamp of the version there.
 */
void ofile_retarget(struct node *n, struct node *target, int64_t commit_ts);

/* At the end of the daemon: commits staged bytes, and frees all descriptors. */
void ofile_close_all(void);

#endif
