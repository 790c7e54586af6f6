/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Merging iterators, clipping, and the view of a row's live cells.
 */
#ifndef TFS_STORE_MERGE_H
#define TFS_STORE_MERGE_H

#include "engine/base/iter.h"
#include "engine/cell/cellkey.h"
#include "engine/cell/gc.h"
#include "engine/cell/op.h"

/*
 * One order over several iterators.  Takes the children (also on failure).
 * Equal keys (a file shared by two lists, a row delete written to several
 * groups) come out once.
 * An error of any child ends the merge with that error.
 */
int merge_iter_new(struct iter **children, unsigned count, struct iter **out) TFS_MUST;
/* The same for a caller who may have failed to open the next child: frees the children and returns err if it is set. */
int merge_iter_opened(struct iter **children, unsigned count, int err, struct iter **out) TFS_MUST;
/* Keys in [from, to) only (to.p NULL: no end); copies the bounds, takes the child. */
int clip_iter_new(struct iter *child, struct slice from, struct slice to, struct iter **out) TFS_MUST;

/* What the reader must know of a family. */
struct family_rules {
	const struct gc_rule *(*rule)(
		const void *arg, uint16_t family, bool *known); /* known false: family dropped, its cells do not exist */
	const void *arg;
};

/*
 * Live cells in order, out of a merge over memtables and SSTables: deletes
 * applied, larger sequence numbers than `seq` not seen, duplicates of one
 * timestamp resolved to the largest sequence, GC rules applied as of `now`.
 * Uses seeks to pass over what cannot match (families, qualifiers, further
 * versions, large values' chunks).
 */
struct live;
struct live_options {
	struct family_rules rules;
	uint64_t seq;
	int64_t now;
	const struct scan_spec *spec; /* borrowed while the live lives; limit and batch are the caller's business */
	/* May the column hold deletes of versions up to a timestamp?  NULL: any may. */
	bool (*column_deletes)(const void *arg, struct slice row, uint16_t family, struct slice qualifier);
	const void *deletes_arg;
	struct slice row_begin, row_end; /* the tablet's range; row_end.p NULL: none */
};
struct live_cell {
	struct slice row, qualifier; /* valid until the next call */
	uint16_t family;
	int64_t ts, expires_us, commit_us;
	uint64_t seq, size;
	bool large;         /* value is in chunks */
	struct slice value; /* borrowed; empty when large */
};
/* Takes `merged`, also on failure. */
int live_new(struct iter *merged, const struct live_options *o, struct live **out) TFS_MUST;
void live_free(struct live *l);
/* 1 a cell; 0 the end; -errno. */
int live_next(struct live *l, struct live_cell *c) TFS_MUST;

/*
 * Copies cells into out (which the caller has reset) until batch_bytes are
 * filled or spec->limit is reached, the end and the limit being out->done.
 * *already counts the entries handed out over all batches of the scan.
 * Values longer than CELL_CHUNK_BYTES are not inlined.  -errno: give
 * the scan up (a cell may have been lost on the way).
 */
int scan_fill(struct live *l, const struct scan_spec *spec, uint64_t *already, struct scan_batch *out) TFS_MUST;

#endif
