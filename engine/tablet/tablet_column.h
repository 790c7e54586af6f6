/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The live versions of one column, newest first, straight out of a view:
 * what point reads and read-modify-writes need.  Files that the Bloom
 * filters rule out are not touched, nor are those that are older than what
 * was asked for; no general merge is set up.
 *
 * A damaged block is an error for what may depend on what it held, and for
 * nothing else: a version that is newer than all of its file is given, and
 * so is one in another block that was gone to by its time.
 *
 * Threads: one at a time.  The view must outlive the reader.
 */
#ifndef TFS_STORE_TABLET_COLUMN_H
#define TFS_STORE_TABLET_COLUMN_H

#include "engine/cell/gc.h"
#include "engine/tablet/view.h"

enum { COLREAD_INLINE = 8 };
struct colsrc {
	struct iter *it;
	bool column_deletes; /* it may hold some in this column */
	struct vfile *file;  /* NULL: a memtable */
	bool waits;          /* nothing of it has been looked at */
	int damage;          /* why it cannot be read where it stands; 0 */
};
struct colread {
	struct colsrc inline_src[COLREAD_INLINE], *src;
	unsigned count, waiting;
	int64_t waits_for; /* the newest timestamp in the files that wait; waiting > 0 */
	uint64_t seq;
	size_t row_len, column_len; /* of the encoded row; of row, family and qualifier, in key */
	struct buf key;             /* a probe's tag, the column, and room for what is sought in it */
	struct buf probe;           /* scratch */
	uint64_t del_seq;           /* of the newest row or family delete */
	uint64_t doubt_seq;         /* a delete up to this one could not be read, because of: */
	int doubt;
	int64_t limit; /* what lies above is passed */
	uint64_t column_del, version_del;
	int64_t version_del_ts, last_ts;
	bool any;                /* last_ts is set */
	struct colsrc *at;       /* gave the last version; still on its entry */
	unsigned patience;       /* how many dead entries colread_next passes before it says so; 0: all */
	uint64_t index;          /* live versions given */
	uint8_t inline_key[192]; /* the key's memory, if it fits */
};
struct colver {
	int64_t ts, commit_us;
	uint64_t seq, size, index; /* index: live newer versions */
	bool large;
	struct slice value; /* until the next call; empty when large */
};
int colread_open(
	struct colread *c, struct view *v, uint64_t seq, struct slice row, uint16_t family, struct slice qualifier) TFS_MUST;
void colread_close(struct colread *c);
/* The next older live version, GC rules not applied: 1, 0 at the end, -errno; or COLREAD_TIRED, patience being spent. */
enum { COLREAD_TIRED = 2 };
int colread_next(struct colread *c, struct colver *out) TFS_MUST;
struct slice colread_column(const struct colread *c); /* encoded */
/*
 * Goes straight to the versions with timestamp <= ts: the next ones, if it
 * is there or beyond.  Only sources that may hold column deletes of this
 * column are walked, for those.  What is passed does not count in index.
 */
int colread_skip_to(struct colread *c, int64_t ts) TFS_MUST;
/* The same for who knows the largest sequence of those deletes: nothing is walked. */
int colread_jump_to(struct colread *c, int64_t ts, uint64_t column_del) TFS_MUST;
/* Bytes [offset, offset+n) of the version that colread_next just gave (colver's value is gone after it). */
int colread_bytes(struct colread *c, const struct colver *ver, uint64_t offset, void *p, size_t n, size_t *got) TFS_MUST;

#endif
