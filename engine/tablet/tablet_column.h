/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the live versions of one column, newest first, for point reads and
 * read-modify-writes.  Files that the Bloom filters exclude are not opened,
 * nor are files that are older than the wanted version; no general merge is
 * made.
 *
 * A damaged block is an error only for versions that may depend on its
 * content.  A version that is newer than the whole damaged file is returned,
 * and so is one in another block that was reached by a seek to its timestamp.
 *
 * Threads: one at a time.  The view must outlive the reader.
 */
#ifndef TFS_TABLET_COLUMN_H
#define TFS_TABLET_COLUMN_H

#include "engine/tablet/view.h"

enum { COLREAD_INLINE = 8 };
struct colsrc {
	struct iter *it;
	bool column_deletes; /* it may contain some in this column */
	struct vfile *file;  /* NULL: a memtable */
	bool unopened;       /* nothing of it has been read */
	int damage;          /* the error at its position; 0: none */
};
struct colread {
	struct colsrc inline_src[COLREAD_INLINE], *src;
	unsigned count, unopened;
	int64_t unopened_newest_us; /* the newest timestamp in the unopened files; unopened > 0 */
	uint64_t seq;
	size_t row_len, column_len; /* of the encoded row; of row, family and qualifier, in key */
	struct buf key;             /* a probe's tag, the column, and space for a suffix */
	struct buf probe;           /* scratch */
	uint64_t del_seq;           /* of the newest row or family delete */
	uint64_t unread_seq;        /* a delete of row or family up to this sequence could not be read, because of: */
	int unread_err;
	int64_t limit; /* versions above have been skipped */
	uint64_t column_del, version_del;
	int64_t version_del_ts, last_ts;
	bool any;                /* last_ts is set */
	struct colsrc *at;       /* the source of the last version; still on its entry */
	unsigned budget;         /* dead entries that colread_next skips before it returns COLREAD_PAUSED; 0: no limit */
	uint64_t index;          /* live versions returned */
	uint8_t inline_key[192]; /* the key's memory, if it fits */
};
struct colver {
	int64_t ts, commit_us;
	uint64_t seq, size, index; /* index: number of newer live versions */
	bool large;
	struct slice value; /* valid until the next call; empty if large */
};
int colread_open(
	struct colread *c, struct view *v, uint64_t seq, struct slice row, uint16_t family, struct slice qualifier) TFS_MUST;
void colread_close(struct colread *c);
/* The next older live version, GC rules not applied.  Returns 1, 0 at the end, -errno; COLREAD_PAUSED if the budget is used up. */
enum { COLREAD_PAUSED = 2 };
int colread_next(struct colread *c, struct colver *out) TFS_MUST;
struct slice colread_column(const struct colread *c); /* encoded */
/*
 * Seeks to the versions with timestamp <= ts; never backwards.  Only sources
 * that may contain column deletes of this column are read on the way, for
 * those.  Skipped versions do not count in index.
 */
int colread_skip_to(struct colread *c, int64_t ts) TFS_MUST;
/* The same, for a caller that knows the largest sequence of those deletes: nothing is read on the way. */
int colread_jump_to(struct colread *c, int64_t ts, uint64_t column_del) TFS_MUST;
/* Bytes [offset, offset+n) of the version that colread_next just returned.  Invalidates its value. */
int colread_bytes(struct colread *c, const struct colver *ver, uint64_t offset, void *p, size_t n, size_t *got) TFS_MUST;

#endif
