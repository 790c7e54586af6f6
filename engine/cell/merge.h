/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Merging iterators, clipped iterators, and live cells.
 */
#ifndef TFS_CELL_MERGE_H
#define TFS_CELL_MERGE_H

#include "engine/base/iter.h"
#include "engine/cell/cellkey.h"
#include "engine/cell/gc.h"
#include "engine/cell/op.h"

/*
 * Merges several iterators into one.  Takes the children (also on failure).
 * Equal keys (a file shared by two lists, a row delete written to several
 * groups) are returned once.
 * An error of any child ends the merge with that error.
 * err is the caller's error if it failed to open a further child.  Then the
 * children are freed and err is returned.
 */
int merge_iter_new(struct iter **children, unsigned count, int err, struct iter **out) TFS_MUST;
/* Keys in [from, to) only; without an end if to.p is NULL.  Copies the bounds, takes the child. */
int clip_iter_new(struct iter *child, struct tfs_bytes from, struct tfs_bytes to, struct iter **out) TFS_MUST;

struct family_rules {
	const struct gc_rule *(*rule)(const void *arg, uint16_t family, bool *known); /* known is false if the family was dropped */
	const void *arg;
};

/*
 * Live cells in order, from a merge over memtables and SSTables: deletes are
 * applied, sequence numbers above `seq` are ignored, among the entries at one
 * timestamp the largest sequence counts, GC rules are applied as of `now`.
 * Seeks past entries that cannot match (families, qualifiers, further versions).
 */
struct live;
/*
 * A filter of rows that is not part of engine/cell.  fn returns 1 for a row that is admitted, 0 for another one, ROW_CHECK_PAUSE for
 * another one if live_next should return LIVE_NONE_YET before the next row, or -errno.
 */
struct row_check {
	int (*fn)(void *arg, struct tfs_bytes row);
	void *arg;
};
struct live_options {
	struct family_rules rules;
	uint64_t seq;
	int64_t now, collect;         /* collect: cells that expired by then are removed by a major compaction */
	const struct scan_spec *spec; /* borrowed until live_free; limit and batch_bytes are ignored */
	/* Returns true if the column may contain a CELL_DELETE_COLUMN.  NULL: every column may. */
	bool (*column_deletes)(const void *arg, struct tfs_bytes row, uint16_t family, struct tfs_bytes qualifier);
	const void *deletes_arg;
	struct tfs_bytes row_begin, row_end; /* the tablet's range; row_end.p is NULL if there is no end */
	struct scan_filter *filter;          /* borrowed; NULL: none */
	const struct row_check *check;       /* borrowed; its fn may be set later, and is NULL if there is none */
};
struct live_cell {
	struct tfs_bytes row, qualifier; /* valid until the next call */
	uint16_t family;
	int64_t ts, expires_us, commit_us;
	uint64_t seq, size;
	bool starts_row; /* no cell of its row was returned before */
};
/* Takes `merged`, also on failure. */
int live_new(struct iter *merged, const struct live_options *o, struct live **out) TFS_MUST;
void live_free(struct live *l);
/* Returns how many cells that expired by `collect` have been passed since the last call. */
uint64_t live_passed(struct live *l);
/*
 * Returns 1 if there is a cell, 0 at the end, LIVE_NONE_YET if it has skipped
 * many cells or a check of rows asks for it, so that the caller can do other work, -errno.
 */
enum { LIVE_NONE_YET = 2 };
int live_next(struct live *l, struct live_cell *c) TFS_MUST;
/* The next cell is the first one, in the order of the scan, of the row or of a row behind it.  The row must be within the spec's bounds. */
int live_seek_row(struct live *l, struct tfs_bytes row) TFS_MUST;
/*
 * *out: n bytes, from offset on, of the value of the cell that live_next has just returned, borrowed until the next call.  They
 * must be inside the value.
 */
int live_value(struct live *l, uint64_t offset, size_t n, struct tfs_bytes *out) TFS_MUST;

/* Appends the key of the row that the iteration has reached; nothing if there is none, or if a cell of it was returned. */
int live_row(const struct live *l, struct buf *out) TFS_MUST;

/* The number of cells and rows that a scan has returned so far. */
struct scan_returned {
	uint64_t cells, rows;
};
/*
 * Copies cells into out (which the caller has reset) until it has batch_bytes.
 * Sets out->done at the end and when a limit of the spec is reached.  *already
 * counts over all batches of the scan.  With past_damage a
 * cell whose value cannot be read has none.  A batch may be empty before the end.
 * Values longer than TFS_INLINE_MAX are not copied.  After -errno the scan cannot be
 * continued, because a cell may have been skipped.
 */
int scan_fill(struct live *l, const struct scan_spec *spec, struct scan_returned *already, struct scan_batch *out) TFS_MUST;

/* The sums of a scan for hashes, of the part that is being read (hash_scan.c). */
struct scan_hash;
int scan_hash_new(struct scan_hash **out) TFS_MUST;
void scan_hash_free(struct scan_hash *h); /* NULL allowed */
/*
 * Reads on, and copies the entries of at most one part into out (which the caller has reset).  A part ends with the row that makes
 * it part_bytes long (0: 256 KiB).  Sets out->done at the end.  A batch may be empty before the end: then the next call continues the part.
 * Errors as of scan_fill.
 */
int scan_hash_fill(
	struct live *l, const struct scan_spec *spec, uint64_t part_bytes, struct scan_hash *h, struct scan_batch *out) TFS_MUST;
/* Returns true if the part has no cell so far. */
bool scan_hash_is_empty(const struct scan_hash *h);
/* After a batch with a part: the next call has another live, which begins behind the last row of the part. */
void scan_hash_leave(struct scan_hash *h);

#endif
