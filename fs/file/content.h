/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The content of an open file: its image, and the bytes that are staged for the
 * next commit.
 *
 * A descriptor of a plain name has a content of its own if it only reads or
 * only writes.  All descriptors that do both share one content.  All
 * descriptors of a version share one, because the kernel has one page cache for
 * the version.  All descriptors of a scratch file share one.
 *
 * The image is the whole file if the file was opened with O_TRUNC or created,
 * or is a counter or scratch.  Each commit then writes all of it.  Any other
 * content has changes: the ranges written, a cut, and appended bytes.  A commit
 * applies them to a version, which for a plain name is the newest one.  The
 * next commit applies the changes made since.
 *
 * Calls change the state of a content:
 *
 *   open             loads the image.  O_TRUNC or a creation: IMAGE_WHOLE,
 *                    STAGED_CREATION
 *   write, truncate  set STAGED_BYTES
 *   flush, fsync     commit STAGED_BYTES; fsync and release also commit a
 *                    creation
 *   a commit         sets STAGED_NOTHING.  The next changes apply to the version
 *                    that it has made
 *   an error         stays; later writes and commits return it and store nothing
 *   utimensat        sets the time of the next commit, or of the last one
 *   rename           sets the target
 *   unlink, replace  remove the target; later commits are discarded
 *
 * Threads: the caller holds the lock of the open file (file.h).
 */
#ifndef TFS_FS_CONTENT_H
#define TFS_FS_CONTENT_H

#include "fs/file/cell.h"
#include "fs/file/stage.h"

struct caller;
struct descriptor;
/* The bytes that the image has. */
enum content_image {
	IMAGE_RANGES, /* only the bytes that were written */
	IMAGE_LOADED, /* the bytes of the store, changed by the bytes that were written */
	IMAGE_WHOLE,  /* the whole new file; a commit replaces the stored one */
};
/* The next commit stores this. */
enum content_staged {
	STAGED_NOTHING,
	STAGED_CREATION, /* created or truncated, nothing written since */
	STAGED_BYTES,    /* written or cut */
};
struct content {
	struct stage image; /* bytes at their offsets */
	struct stage tail;  /* appended bytes; empty if the image is whole */
	enum content_image holds;
	enum content_staged staged;
	/*
	 * Plain name, shared content: the descriptor that has staged the bytes
	 * and made the version commit_ts; or NULL.
	 */
	struct descriptor *writer;
	/*
	 * Commits store here: a node, counted; or NULL.
	 * A change also needs the tree lock.
	 */
	struct node *target;
	bool counter;  /* set if the column of the plain name is a counter */
	bool latest;   /* `time` was set in .latest, or the scratch file was renamed there: it takes precedence over order */
	bool busy;     /* a commit is under way, and other threads must not change the content */
	bool has_room; /* the store has been asked for room for the bytes of the next commit (descriptor_check_room) */
	int error;     /* error of a failed write or commit; no commit follows */
	uint64_t cut;  /* a commit first cuts or extends the base to this size, unless it is UINT64_MAX */
	uint64_t
		base_size; /* bytes of the version to which changes apply (of .schema: of its text), at open or after the last commit */
	uint64_t base_hash; /* .schema: hash_private of the base_size bytes that were loaded or applied last */
	int64_t base_ts;    /* the newest version of a plain name at open, or INT64_MIN */
	int64_t base_ctime; /* for a plain name that is only read: when the version in the image was committed */
	uint32_t
		seen; /* for a plain name the value of open_file.commits when the image was current; for the log the last line read */
	uint32_t seen_epoch; /* the table's epoch that the image of a plain name includes */
	uint64_t origin;     /* setting, log, counter: file offset of the image's first byte; .schema: bytes checked so far */
	bool committed;      /* the next commit replaces the version commit_ts, if that is still the newest */
	bool early; /* shared content of a plain name: since the version commit_ts was made, no descriptor that wrote it has been flushed */
	int64_t commit_ts; /* the timestamp of the version that the last commit made */
	int64_t time;      /* set by utimensat, or TFS_NO_TIME */
	struct caller *
		caller; /* the user who opened a control file for writing, or a cell (engine/base/stop.h), or renamed scratch to .schema; else NULL */
	int64_t touched_us; /* the time of the last write; stat reports it until the commit */
};

void content_init(struct content *content);
void content_fini(struct content *content);
/* Makes the content an empty whole file, which replaces the stored one.  Ends an error. */
void content_begin_whole(struct content *content);
int content_write(struct content *content, uint64_t offset, const void *p, size_t n, bool append) TFS_MUST;
int content_truncate(struct content *content, uint64_t size) TFS_MUST;
/* Reads the image, followed by the appended bytes. */
int content_read(struct content *content, uint64_t offset, void *p, size_t n, size_t *got) TFS_MUST;
uint64_t content_size(const struct content *content);
static inline bool content_is_staged(const struct content *content)
{
	return content->staged != STAGED_NOTHING && !content->error && content->target && node_lives(content->target);
}
/* Returns true if the cell that content commits to was removed, and not by its name: written bytes are not stored. */
static inline bool content_is_dropped(const struct content *content)
{
	return content->target && node_is(content->target, KIND_CELL) && content->target->flags & NODE_DROPPED;
}
/* Later commits store at target; NULL: they are discarded.  _locked: the caller holds the tree lock. */
void content_set_target(struct content *content, struct node *target);
void content_set_target_locked(struct content *content, struct node *target);
/* Frees the bytes, drops the reference to the target, and initialises the content again. */
void content_renew(struct content *content);
/* Discards the image and the staged bytes. */
void content_discard(struct content *content);
/* Discards the image and the staged bytes.  Later writes, truncations and commits return err.  Returns err. */
int content_failed(struct content *content, int err);
#endif
