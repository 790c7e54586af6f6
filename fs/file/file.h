/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Open files: the FUSE calls on descriptors, for every kind of regular file.
 *
 * A cell that someone has open has a struct filex, and so has each scratch
 * and control file.  Plain names and control files keep what was written per
 * descriptor (struct handle); a version and a scratch file keep it in the
 * filex, shared, because the kernel's page cache (a version) or the users
 * (scratch) see one content.
 * A version opened only for reading has no handle and no filex, just a count.
 *
 * A plain name's reader has the image of one version, which it reads without
 * a lock.  After an end of file the image is replaced by the newest version's
 * (share.c).
 *
 * A plain name has two nodes, in the table itself and in .latest, and one
 * filex: that of its home (cell_home), the node in the table itself.
 *
 * Locks: filex.lock guards handles and writers of the file.  Commits hold the
 * row's lock outside it, and let go of filex.lock while the store works: the
 * writer is busy then, and whoever wants to change it waits (filex_wait);
 * nobody who reads or asks waits for a commit.
 * refs, node->file, now and followers are under the tree lock.
 */
#ifndef TFS_FS_FILE_H
#define TFS_FS_FILE_H

#include "fs/base/fs.h"
#include "fs/file/writer.h"

#include <bsd/sys/queue.h>

/* What the calls on descriptors tell apart. */
enum file_kind { FILE_NONE, FILE_PLAIN, FILE_VERSION, FILE_SCRATCH, FILE_SCHEMA, FILE_SETTING };
static inline enum file_kind file_kind(const struct node *n)
{
	static const uint8_t kinds[NODE_SYSTEM + 1] = {
		[NODE_PLAIN] = FILE_PLAIN,
		[NODE_VERSION] = FILE_VERSION,
		[NODE_SCRATCH_FILE] = FILE_SCRATCH,
		[NODE_SCHEMA] = FILE_SCHEMA,
		[NODE_SETTING] = FILE_SETTING,
	};

	return (enum file_kind)kinds[n->kind];
}

/* How far a reader of a plain name has come: all bytes of its version were returned; then a read returned none. */
enum reader_end { READER_WITHIN, READER_ALL, READER_END };

struct handle {
	struct handle *next;           /* of the file, newest first */
	LIST_ENTRY(handle) all;        /* of the daemon */
	struct node *node;             /* what was opened; counted */
	struct filex *x;               /* its state; counted */
	bool readable, writable;       /* to truncate is to write */
	_Atomic pid_t pid;             /* the thread that opened it, or wrote last */
	_Atomic enum reader_end ended; /* plain, only read: since the image was loaded */
	_Atomic uint32_t readers;      /* plain, only read: threads that read the image without the file's lock */
	int error;                     /* plain, shared: of bytes that it had staged */
	struct writer *content;        /* what it reads and writes: its own, or the file's */
	struct writer w;               /* its own: plain and control files */
};

struct filex {
	struct mutex lock;
	struct cond idle;   /* w, or a descriptor's writer, is no longer busy */
	unsigned refs;      /* tree lock */
	struct node *node;  /* whose state it is, a home; counted.  NULL: scratch, whose nodes count the filex */
	struct node **also; /* other nodes whose state it is: a plain name's in .latest, former names of a version; counted */
	unsigned also_count;
	struct handle *handles;   /* changed under the tree lock too */
	struct writer w;          /* the content that descriptors share: version, scratch, plain opened to read and write */
	_Atomic uint32_t commits; /* plain: changes of the column */
	/* scratch: a node holds a count; after a rename two nodes share it.  w.target: what it was renamed to while open */
	mode_t mode;
	uid_t uid;
	gid_t gid;
	int64_t mtime_us;
};

/* Does it share its file's content with others, taking turns? */
static inline bool handle_shares(const struct handle *h)
{
	return h->content == &h->x->w && h->node->kind == NODE_PLAIN;
}
/* A descriptor of n, in the lists; NULL: out of memory. */
struct handle *handle_new(struct node *n, int flags);
void handle_free(struct handle *h);
struct handle *handle_any(void);
/* The files with a descriptor that matches (asked under the tree lock); each counted, the array for free(). */
int handle_files(
	bool (*matches)(const struct handle *h, const void *arg), const void *arg, struct filex ***out, size_t *count) TFS_MUST;
/* Those with a writer whose commits go to n, a home. */
int handle_files_to(const struct node *n, struct filex ***out, size_t *count) TFS_MUST;

/* Has any process a descriptor with state? */
bool handle_are_any(void);

/* Counted; NULL: out of memory. */
struct filex *filex_get(struct node *n);
/* Counted, or NULL if nobody has it open. */
struct filex *filex_find(struct node *n);
void filex_put(struct filex *x); /* NULL allowed */
/* What the file, plain or scratch, was renamed to while open; counted; NULL: it was not. */
struct node *filex_target(struct filex *x);
/* The file's lock is held: waits until w, a writer of x, is in no commit. */
void filex_wait(struct filex *x, const struct writer *w);
void filex_free(struct filex *x);
/* The lock is held: frees the content of scratch that has become a cell and is not open. */
void filex_let_go(struct filex *x);
void filex_drop_locked(struct node *n); /* node.c: the node is freed */
/* n's state is x, too.  False: out of memory. */
bool filex_also_locked(struct filex *x, struct node *n);

/* filex_find of a version, locked, and in no commit.  It stays so until the unlock. */
struct filex *version_lock(struct node *n);
void version_unlock(struct filex *x); /* and filex_put */
/* Counts one that opens n, a version; waits for who is removing it.  leave: whoever counted has closed, or has a descriptor with state. */
void version_enter(struct node *n);
void version_leave(struct node *n);
/* What has the name of n now, a cell that was removed or replaced: counted, or NULL if n is not such a one. */
struct node *node_again(struct node *n);
/* The lock is held: a writer with nothing staged begins with what the store has.  -ENOENT: there is nothing. */
int version_ready(struct filex *x) TFS_MUST;

void ofile_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void ofile_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi);
void ofile_write(fuse_req_t req, fuse_ino_t ino, struct fuse_bufvec *in, off_t offset, struct fuse_file_info *fi);
void ofile_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void ofile_fsync(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi);
void ofile_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);

/* Commits what is staged through h; last: h is about to end, so a cell that was only created is committed too. */
int ofile_commit(struct handle *h, bool last, struct changes *c) TFS_MUST;

/* Makes an empty cell, or opens one that another made first. */
int ofile_make(struct node *n, struct changes *c) TFS_MUST;
/* Opens node as CREATE does.  0: answered.  -errno: not answered; -ESTALE: it went meanwhile. */
int ofile_create(fuse_req_t req, struct node *n, bool exists, struct fuse_file_info *fi) TFS_MUST;

/* Commits all of a scratch file to target, a home, under the lock of its row.  *ts: the version's. */
int scratch_commit(struct filex *x, struct node *target, bool latest, int64_t *ts, struct changes *c) TFS_MUST;
/* Truncates scratch; its lock is held.  To 0: also drops what could not be written. */
int scratch_truncate(struct filex *x, uint64_t size) TFS_MUST;
/* ftruncate and truncate.  h may be NULL. */
int ofile_truncate(struct node *n, struct handle *h, uint64_t size, struct changes *c) TFS_MUST;
/* utimensat: us as asked for (never 0 here). */
int ofile_set_time(struct node *n, int64_t us, struct changes *c) TFS_MUST;

/*
 * Commits to w's target under the lock of its row.  The lock of x, the file
 * that w belongs to, is held, and released while the store works.  Nothing
 * staged (a creation counts only if `last`) is success.  An error remains:
 * later calls return it and store nothing.
 *
 * A truncation after which nothing was written commits nothing if another
 * writer has committed since.
 */
int writer_commit(struct writer *w, bool last, struct filex *x, struct changes *c) TFS_MUST;
/* Moves the version that w committed to the time now set.  Returns 1 if that is no longer the newest, 0, -errno. */
int writer_retime(struct writer *w, struct changes *c) TFS_MUST;

/* What a writer is to see of its own: the time is that of the cell, touched_us that of the last write. */
struct staged {
	uint64_t size;
	int64_t time_us, touched_us;
};
/* Is something pending on this plain name or version?  Then it fills *s. */
bool ofile_pending(struct node *n, struct staged *s);
/* cell_stat of n's cell (n may be NULL: it has no node); -ENOENT with *pending: created, and not yet committed. */
int ofile_stat(struct node *n, const struct cell_place *p, struct tfs_info *info, bool *pending) TFS_MUST;
/*
 * The same of a plain name, for stat: *own, it was staged by the process that
 * asks.  To others a cell is what has been committed, as it is for reading.
 */
bool ofile_staged(struct node *n, bool *own, struct staged *s);
/* Which thread asks, from now on in this one. */
void ofile_asked_by(pid_t pid);
/* A plain name's descriptor: where what it reads ends. */
uint64_t ofile_end(const struct fuse_file_info *fi);
/* Is there a file in the directory, created or written through a descriptor still open, that is not committed? */
bool ofile_pending_below(struct node *dir);
/* Does anyone have it open (or anything renamed onto it)?  *size is what the last of them would see. */
bool ofile_is_open(struct node *n, uint64_t *size);

/*
 * Removal, replacement and renames, under the row's lock: note the versions
 * that are about to go, with a copy for those who have them open; change the
 * store; if that has succeeded, say which of them have moved, and end the
 * others.  kept_fini in any case.
 */
struct kept {
	struct kept_version *first;
};
int kept_add(struct kept *k, struct node *family_node, struct slice qualifier, int64_t ts, bool moves) TFS_MUST;
/* It moved: whoever has it open has the version to_ts of target's column open from now on. */
void kept_moved(struct kept *k, struct node *family_node, struct slice qualifier, int64_t ts, struct node *target, int64_t to_ts,
	struct changes *c);
/* The same of every version of the column, each with its timestamp: one pass over those that the kernel knows. */
void kept_column_moved(struct kept *k, struct node *family_node, struct slice qualifier, struct node *target, struct changes *c);
/* The others have gone. */
void kept_end(struct kept *k, struct changes *c);
void kept_fini(struct kept *k);
/* All of a plain name has gone, or is another's now: its nodes end, and its writers are cut off. */
void ofile_end_plain(struct node *family_node, struct slice qualifier, struct changes *c);
/* Commits what is pending on n, a cell (a rename is about to move it), in either view; under the row's lock. */
int ofile_settle(struct node *n, struct changes *c) TFS_MUST;
/* From now on the descriptors of n, a cell or scratch, that have a writer of their own are target's, through whatever name they were opened. */
void ofile_forward(struct node *n, struct node *target, int64_t commit_ts);

/* The end of the daemon: commits whatever is left, frees all handles. */
void ofile_close_all(void);

#endif
