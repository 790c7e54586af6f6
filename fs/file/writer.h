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

struct handle;
/* Who opened .schema for writing, or renamed something onto it. */
struct who {
	struct tfs_user user;
	gid_t groups[];
};
/* What an image holds of its file. */
enum writer_image {
	IMAGE_RANGES, /* the bytes that were written */
	IMAGE_LOADED, /* the content that was loaded, and over it the bytes that were written */
	IMAGE_WHOLE,  /* the content; a commit replaces the file's */
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
	struct handle *writer; /* shared, plain: the descriptor whose bytes are staged, and whose version commit_ts is; or NULL */
	struct node *
		target; /* where commits go: a home (cell_home), .schema; counted, changed under the tree lock too; NULL: nowhere */
	bool latest;    /* through .latest: a set time wins over order */
	bool busy;      /* in a commit: nothing may be changed */
	int error;      /* a failed write or commit: nothing more is stored */
	uint64_t cut;   /* the base is first cut or extended to this; UINT64_MAX: no */
	uint64_t base_size; /* of the base, as it was at open or after the last commit */
	int64_t base_ts;    /* plain: of the newest version at open; INT64_MIN: there was none */
	uint32_t seen;      /* plain: the changes of the column that the image has; log: the lines that it has shown */
	uint64_t origin;    /* control files: where in the file the line being written began */
	bool committed;
	int64_t commit_ts;  /* of the version this writer made */
	int64_t time;       /* what utimensat asked for, or TFS_NO_TIME */
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
	return w->staged != STAGED_NOTHING && !w->error && w->target && node_lives(w->target);
}
/* Commits go to target, a home or .schema, from now on, or nowhere (NULL). */
void writer_aim(struct writer *w, struct node *target);
void writer_aim_locked(struct writer *w, struct node *target);
/* Begins anew, without a target. */
void writer_renew(struct writer *w);
/* Drops what is staged. */
void writer_discard(struct writer *w);
/* Drops the bytes; from now on every call returns r. */
int writer_failed(struct writer *w, int r);
#endif
