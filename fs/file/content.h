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
 * the newest version (plain name) or to the version.  The next commit applies
 * the bytes written since.
 *
 * The calls change its state:
 *
 *   open             load; O_TRUNC or a creation: whole, STAGED_CREATION
 *   write, truncate  STAGED_BYTES
 *   flush, fsync     commits STAGED_BYTES; fsync and release also a creation
 *   a commit         STAGED_NOTHING; the base is the version that it made
 *   an error         remains, and nothing more is stored
 *   utimensat        sets the time of the next commit, or of the last one
 *   rename           sets the target
 *   unlink, replace  the target is removed: commits are discarded
 *
 * Threads: the lock of the open file (file.h) is held.
 */
#ifndef TFS_FS_CONTENT_H
#define TFS_FS_CONTENT_H

#include "fs/file/cell.h"
#include "fs/file/stage.h"

struct caller;
struct descriptor;
/* The bytes of the file that are in the image. */
enum content_image {
	IMAGE_RANGES, /* the bytes that were written */
	IMAGE_LOADED, /* the loaded bytes, and over them the bytes that were written */
	IMAGE_WHOLE,  /* all of the file; a commit replaces it */
};
/* The next commit stores this. */
enum content_staged {
	STAGED_NOTHING,
	STAGED_CREATION, /* created or truncated, nothing written since */
	STAGED_BYTES,    /* written or cut */
};
struct content {
	struct stage image; /* bytes at their offsets */
	struct stage tail;  /* appended, unless the image is whole */
	enum content_image holds;
	enum content_staged staged;
	struct descriptor
		*writer; /* plain, shared: the descriptor whose bytes are staged, and whose version commit_ts is; or NULL */
	struct node *
		target; /* where commits store: a node in the table's own view; counted, changed under the tree lock, too; or NULL */
	bool latest;    /* opened through .latest: a set time takes precedence over order */
	bool busy;      /* a commit is under way: nothing may be changed */
	int error;      /* of a failed write or commit: nothing more is stored */
	uint64_t cut;   /* a commit first cuts or extends the base to this size; UINT64_MAX: it does not */
	uint64_t base_size;    /* at open or after the last commit */
	int64_t base_ts;       /* plain: of the newest version at open; INT64_MIN: there was none */
	uint32_t seen;         /* plain: the changes of the column in the image; log: the lines read */
	uint64_t origin;       /* control files: the offset of the line that is being written */
	bool committed;        /* the next commit replaces the version commit_ts, if that is still the newest */
	bool early;            /* plain, shared: no flush by a descriptor whose bytes are in that version has followed */
	int64_t commit_ts;     /* of the version that was committed */
	int64_t time;          /* set by utimensat, or TFS_NO_TIME */
	struct caller *caller; /* who opened .schema, or renamed scratch to it; NULL: unknown, so that he may set no owners */
	int64_t touched_us;    /* last write, for stat while nothing is committed */
};

void content_init(struct content *content);
void content_fini(struct content *content);
/* Becomes an empty file, which replaces the stored one. */
void content_begin_whole(struct content *content);
int content_write(struct content *content, uint64_t offset, const void *p, size_t n, bool append) TFS_MUST;
int content_truncate(struct content *content, uint64_t size) TFS_MUST;
/* Reads the image and the appended bytes. */
int content_read(struct content *content, uint64_t offset, void *p, size_t n, size_t *got) TFS_MUST;
uint64_t content_size(const struct content *content);
static inline bool content_is_staged(const struct content *content)
{
	return content->staged != STAGED_NOTHING && !content->error && content->target && node_lives(content->target);
}
/* Commits store at target from now on.  NULL: they are discarded. */
void content_set_target(struct content *content, struct node *target);
void content_set_target_locked(struct content *content, struct node *target);
/* Initialises it again, and puts the target. */
void content_renew(struct content *content);
/* Discards the staged bytes. */
void content_discard(struct content *content);
/* Discards the bytes.  Every later call returns err. */
int content_failed(struct content *content, int err);
#endif
