/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A writer: what was written and not yet committed, and how it becomes a
 * version (DESIGN 2.2, "Committing").  A plain name has one writer for each
 * open; a version, and a scratch file, one for the node.
 *
 * A writer is whole when its image is all of the file (opened with O_TRUNC,
 * created, a counter, scratch); then every commit writes all of it.  Else it
 * holds a delta, ranges, a cut and appended bytes, applied at commit to the
 * newest version (plain) or the version itself; a later commit of the same
 * writer applies only what came since.
 *
 * Threads: under the lock of the filex it lies in.
 */
#ifndef TFS_FS_WRITER_H
#define TFS_FS_WRITER_H

#include "fs/file/cell.h"
#include "fs/file/stage.h"

struct filex;
/* Who opened .schema for writing, or renamed something onto it. */
struct who {
	struct tfs_user user;
	gid_t groups[];
};
struct writer {
	struct stage image; /* bytes at their offsets; with base content when readable */
	struct stage tail;  /* appended, when not whole */
	bool whole;
	bool loaded;        /* the image began as the file's content */
	bool dirty;         /* something was written, or cut, since the last commit */
	bool fresh;         /* created or truncated, nothing committed since */
	bool dead;          /* its name was removed or replaced: commits are discarded */
	bool keeps;         /* scratch: a refused commit leaves the content as it is */
	bool only_reads;    /* a reader's: what it loads is not to be written */
	bool latest;        /* through .latest: a set time wins over order */
	bool shares;        /* plain, readable too: once committed it is no longer whole (share.h) */
	bool busy;          /* in a commit: nothing may be changed */
	int error;          /* a failed write or commit: nothing more is stored */
	uint64_t cut;       /* the base is first cut or extended to this; UINT64_MAX: no */
	uint64_t base_size; /* of the base, as it was at open or after the last commit */
	int64_t base_ts;    /* plain: of the newest version at open; INT64_MIN: there was none */
	uint64_t origin;    /* control files: where in the file the line being written began */
	bool committed;
	int64_t commit_ts; /* of the version this writer made */
	bool time_set;
	int64_t time;       /* what utimensat asked for */
	struct who *who;    /* .schema, and scratch that was renamed onto it; NULL: not known, so he may set no owners */
	int64_t touched_us; /* last write, for stat while nothing is committed */
};

void writer_init(struct writer *w);
void writer_fini(struct writer *w);
/* Begins as an empty file that replaces whatever there is. */
void writer_begin_whole(struct writer *w);
int writer_write(struct writer *w, uint64_t offset, const void *p, size_t n, bool append) TFS_MUST;
int writer_truncate(struct writer *w, uint64_t size) TFS_MUST;
/* Reads the image and what was appended. */
int writer_read(struct writer *w, uint64_t offset, void *p, size_t n, size_t *got) TFS_MUST;
uint64_t writer_size(const struct writer *w);
static inline bool writer_pending(const struct writer *w)
{
	return !w->dead && !w->error && (w->dirty || w->fresh);
}
/* Loads the cell at p into the image; info of what was read. */
int writer_load(struct writer *w, struct cell_place *p, struct tfs_info *info) TFS_MUST;
/*
 * Commits to target, a home (cell_home), under its row's lock.  The lock of
 * x, the file that w is of, is held too, and let go while the store works.  Nothing
 * to do (not dirty; fresh counts only when `last`) is success.  An error
 * sticks: later calls give it again and store nothing.
 *
 * A truncation that nothing was written after is what it was when it
 * happened: if another has committed since, it is over, and commits nothing.
 */
int writer_commit(struct writer *w, struct node *target, bool last, struct filex *x, struct changes *c) TFS_MUST;
/* Moves the version this writer committed to the time now set; 1: that is no longer the newest, nothing was done. */
int writer_retime(struct writer *w, struct node *target, struct changes *c) TFS_MUST;

#endif
