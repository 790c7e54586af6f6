/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The content of a file: its image, and the bytes that are staged for the next
 * commit.  A descriptor of a plain name has a content of its own if it only
 * reads or only writes.  All descriptors that do both share one.  So do all
 * descriptors of a version, because the kernel has one page cache for it, and
 * of a scratch file.
 *
 * The image of a content that was opened with O_TRUNC or created, of a counter
 * and of scratch is all of the file, and each commit writes all of it.  Any
 * other content has ranges, a cut and appended bytes.  A commit applies them to
 * the newest version (plain name) or to the version; the next commit applies
 * what was written since.
 *
 * What moves its state:
 *
 *   open             load; O_TRUNC or a creation: whole, STAGED_CREATION
 *   write, truncate  STAGED_BYTES
 *   flush, fsync     commits STAGED_BYTES; fsync and release also a creation
 *   a commit         STAGED_NOTHING; the base is the version that it made
 *   an error         remains, and nothing more is stored
 *   utimensat        sets the time of the next commit, or of the last one
 *   rename           sets the target
 *   unlink, replace  the target is gone: commits are discarded
 *
 * Threads: the lock of the open file (file.h) is held.
 */
#ifndef TFS_FS_WRITER_H
#define TFS_FS_WRITER_H

#include "fs/file/cell.h"
#include "fs/file/stage.h"

struct caller;
struct handle;
/* What the image has of its file. */
enum writer_image {
	IMAGE_RANGES, /* the bytes that were written */
	IMAGE_LOADED, /* what was loaded, and over it the bytes that were written */
	IMAGE_WHOLE,  /* all of the file; a commit replaces it */
};
/* What the next commit stores. */
enum writer_staged {
	STAGED_NOTHING,
	STAGED_CREATION, /* created or truncated, nothing written since */
	STAGED_BYTES,    /* written or cut */
};
struct writer {
	struct stage image; /* bytes at their offsets */
	struct stage tail;  /* appended, unless the image is whole */
	enum writer_image holds;
	enum writer_staged staged;
	struct handle *writer; /* plain, shared: the descriptor whose bytes are staged, and whose version commit_ts is; or NULL */
	struct node *
		target; /* where commits store: a node in the table's own view; counted, changed under the tree lock, too; or NULL */
	bool latest;    /* opened through .latest: a set time takes precedence over order */
	bool busy;      /* a commit is under way: nothing may be changed */
	int error;      /* of a failed write or commit: nothing more is stored */
	uint64_t cut;   /* a commit first cuts or extends the base to this size; UINT64_MAX: it does not */
	uint64_t base_size; /* at open or after the last commit */
	int64_t base_ts;    /* plain: of the newest version at open; INT64_MIN: there was none */
	uint32_t seen;      /* plain: the changes of the column in the image; log: the lines read */
	uint64_t origin;    /* control files: the offset of the line that is being written */
	bool committed;
	int64_t commit_ts;     /* of the version this writer made */
	int64_t time;          /* what utimensat asked for, or TFS_NO_TIME */
	struct caller *caller; /* who opened .schema, or renamed scratch to it; NULL: unknown, so that he may set no owners */
	int64_t touched_us;    /* last write, for stat while nothing is committed */
};

void writer_init(struct writer *w);
void writer_fini(struct writer *w);
/* Becomes an empty file, which replaces the stored one. */
void writer_begin_whole(struct writer *w);
int writer_write(struct writer *w, uint64_t offset, const void *p, size_t n, bool append) TFS_MUST;
int writer_truncate(struct writer *w, uint64_t size) TFS_MUST;
/* Reads the image and the appended bytes. */
int writer_read(struct writer *w, uint64_t offset, void *p, size_t n, size_t *got) TFS_MUST;
uint64_t writer_size(const struct writer *w);
static inline bool writer_pending(const struct writer *w)
{
	return w->staged != STAGED_NOTHING && !w->error && w->target && node_lives(w->target);
}
/* Commits store at target from now on.  NULL: they are discarded. */
void writer_aim(struct writer *w, struct node *target);
void writer_aim_locked(struct writer *w, struct node *target);
/* Becomes what init makes, and puts the target. */
void writer_renew(struct writer *w);
/* Discards the staged bytes. */
void writer_discard(struct writer *w);
/* Discards the bytes.  Every later call returns r. */
int writer_failed(struct writer *w, int r);
#endif
