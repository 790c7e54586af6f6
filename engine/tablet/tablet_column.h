/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the live versions of one column, newest first, for point reads and
 * read-modify-writes.  It is cheaper than a merge of all sources (view_iter):
 * it does not open a file that a Bloom filter excludes, or all of whose cells
 * are older than the wanted version.
 *
 * A damaged block is an error only for versions that may depend on its
 * content.  The reader returns a version that is newer than all entries of the
 * damaged file.  It also returns a version in a readable block if it reached
 * that block by a seek past the damaged one.
 *
 * Threads: one at a time.  The view must outlive the reader.
 */
#ifndef TFS_TABLET_COLUMN_H
#define TFS_TABLET_COLUMN_H

#include "engine/cell/memtable.h"
#include "engine/tablet/view.h"

enum { COLREAD_INLINE = 8, COLREAD_MEMTABLES = 2 };
/* A source of cells: a memtable or a file. */
struct colsrc {
	struct iter *it;
	bool column_deletes; /* the source may contain deletes of this column */
	struct vfile *file;  /* NULL: a memtable */
	bool unopened;       /* a file of which nothing has been read */
	int damage;          /* the error at its position, or 0 */
};
struct colread {
	struct colsrc *src;
	unsigned count, unopened;
	int64_t unopened_newest_us; /* the newest timestamp in the unopened files, if there are any */
	uint64_t seq;               /* the reader sees entries up to this sequence */
	size_t row_len, column_len; /* lengths in `key` of the encoded row, and of row, family and qualifier together */
	struct buf key;             /* a probe's tag, the column, and space for a suffix */
	struct buf probe;           /* scratch */
	uint64_t del_seq;           /* the sequence of the newest delete of the row or family */
	uint64_t unread_seq;        /* deletes of the row or family up to this sequence could not be read */
	int unread_err;             /* the error of that read */
	int64_t limit;              /* versions above this timestamp have been skipped */
	uint64_t column_del;        /* the largest sequence of a delete of the column, so far */
	uint64_t version_del;       /* the largest sequence of a delete of the version at version_del_ts */
	int64_t version_del_ts;
	bool any;          /* last_ts is set */
	int64_t last_ts;   /* the timestamp of the last version returned */
	struct colsrc *at; /* the source of that version, still on its entry */
	unsigned budget;   /* colread_next skips this many dead entries before it returns COLREAD_PAUSED; 0 if there is no limit */
	uint64_t index;    /* number of live versions returned */
	struct colsrc inline_src[COLREAD_INLINE]; /* the memory of src, if this is enough */
	struct mem_iter mem[COLREAD_MEMTABLES];   /* iterators over the first memtables: most reads need no other */
	uint8_t inline_key[192];                  /* the key's memory, if the key fits */
};
struct colver {
	int64_t ts, commit_us;
	uint64_t seq, size, index; /* index: number of newer live versions */
};
int colread_open(struct colread *c, struct view *v, uint64_t seq, struct tfs_bytes row, uint16_t family,
	struct tfs_bytes qualifier) TFS_MUST;
void colread_close(struct colread *c);
/*
 * Reads the next older live version.  GC rules are not applied.  Returns 1, 0
 * at the end, -errno, or COLREAD_PAUSED.
 */
enum { COLREAD_PAUSED = 2 };
int colread_next(struct colread *c, struct colver *out) TFS_MUST;
struct tfs_bytes colread_column(const struct colread *c); /* encoded */
/*
 * Seeks forward to the versions with timestamp <= ts.  Deletes of the column
 * above ts still apply.  So sources that may contain such deletes are read up
 * to ts; all other sources seek.  Skipped versions do not count in index.
 */
int colread_skip_to(struct colread *c, int64_t ts) TFS_MUST;
/* Skips as colread_skip_to, without reading.  column_del: the largest sequence of the column deletes above ts. */
int colread_jump_to(struct colread *c, int64_t ts, uint64_t column_del) TFS_MUST;
/* Reads bytes [offset, offset+n) of the version that colread_next just returned. */
int colread_bytes(struct colread *c, uint64_t offset, void *p, size_t n, size_t *got) TFS_MUST;

#endif
