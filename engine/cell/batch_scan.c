/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Filling a scan batch: the hot path of every scan.
 *
 * Bytes are allocated from pieces of the batch's arena: first a small one, for
 * point reads, then one for all that may still fit in the batch.  Cells of one
 * row share the row's bytes, versions of one column the qualifier's.
 */
#include <errno.h>
#include <stdlib.h>

#include "engine/cell/merge.h"

enum {
	DEFAULT_BATCH_BYTES = 256 * 1024,
	FIRST_PIECE_BYTES = 2 * 1024,
	FIRST_CELLS = 16,
	CACHE_LINE = 64,
	PREFETCH_BYTES = 1024,
};

struct piece {
	struct arena *arena;
	uint8_t *p;
	size_t left, batch_bytes;
};

static uint8_t *piece_take(struct piece *pc, size_t n)
{
	uint8_t *p;

	if (n > pc->left || !pc->p) {
		size_t used = pc->arena->used_bytes, want = FIRST_PIECE_BYTES;

		if (used)
			want = pc->batch_bytes > used ? pc->batch_bytes - used : 0;
		if (want < n)
			want = n;
		p = arena_alloc(pc->arena, want);
		if (!p)
			return NULL;
		pc->p = p;
		pc->left = want;
	}
	p = pc->p;
	pc->p += n;
	pc->left -= n;
	return p;
}

static inline bool piece_copy(struct piece *pc, struct tfs_bytes s, struct tfs_bytes *out)
{
	uint8_t *p = piece_take(pc, s.n);

	if (!p)
		return false;
	if (s.n)
		memcpy(p, s.p, s.n);
	*out = tfs_bytes_of(p, s.n);
	return true;
}

/*
 * In a unit of an SSTable the next value begins after a value, and mostly has
 * the same length.  Prefetches it while the value is copied.
 */
static inline void prefetch_after(struct tfs_bytes value)
{
	size_t n = value.n < PREFETCH_BYTES ? value.n : PREFETCH_BYTES;

	for (size_t at = 0; n && at < n + CACHE_LINE; at += CACHE_LINE)
		__builtin_prefetch(value.p + value.n + at);
}

static int more_cells(struct scan_batch *b)
{
	uint32_t cap = b->cap ? b->cap * 2 : FIRST_CELLS;
	struct tfs_cell *cells = reallocarray(b->cells, cap, sizeof(*cells));

	if (!cells)
		return -ENOMEM;
	b->cells = cells;
	b->cap = cap;
	return 0;
}

int scan_fill(struct live *l, const struct scan_spec *spec, struct scan_returned *already, struct scan_batch *out)
{
	size_t batch_bytes = spec->pub.batch_bytes ? spec->pub.batch_bytes : DEFAULT_BATCH_BYTES, filled = 0;
	struct piece pc = {.arena = &out->arena, .batch_bytes = batch_bytes};
	struct tfs_cell *c, *prev = NULL;
	struct live_cell lc;
	int r;

	while (filled < batch_bytes && !(spec->pub.limit && already->cells >= spec->pub.limit)) {
		r = live_next(l, &lc);
		if (r < 0)
			return r;
		if (r == LIVE_NONE_YET)
			break;
		if (r == 0 || (lc.starts_row && spec->pub.row_limit && already->rows >= spec->pub.row_limit)) {
			out->done = true;
			break;
		}
		if (out->count == out->cap) {
			r = more_cells(out);
			if (r)
				return r;
			prev = out->count ? &out->cells[out->count - 1] : NULL;
		}
		c = &out->cells[out->count];
		*c = (struct tfs_cell){
			.ts = lc.ts,
			.expires_us = lc.expires_us,
			.commit_us = lc.commit_us,
			.size = lc.size,
			.sequence = lc.seq,
		};
		filled += sizeof(*c);
		if (prev && bytes_eq(prev->row, lc.row)) {
			c->row = prev->row;
		} else {
			if (!piece_copy(&pc, lc.row, &c->row))
				return -ENOMEM;
			filled += lc.row.n;
		}
		if (spec->pub.what != TFS_SCAN_ROWS)
			c->family_id = lc.family;
		if (spec->pub.what == TFS_SCAN_CELLS || spec->pub.what == TFS_SCAN_KEYS) {
			if (prev && bytes_eq(prev->qualifier, lc.qualifier)) {
				c->qualifier = prev->qualifier;
			} else {
				if (!piece_copy(&pc, lc.qualifier, &c->qualifier))
					return -ENOMEM;
				filled += lc.qualifier.n;
			}
		}
		if (spec->pub.what == TFS_SCAN_CELLS && lc.size <= TFS_INLINE_MAX) {
			struct tfs_bytes value;

			r = live_value(l, 0, (size_t)lc.size, &value);
			/* A listing that passes damage shows the name of a value that cannot be read. */
			if (r && !(spec->pub.past_damage && (r == -EBADMSG || r == -EIO)))
				return r;
			if (!r) {
				prefetch_after(value);
				if (!piece_copy(&pc, value, &c->value))
					return -ENOMEM;
				filled += value.n;
			}
		}
		prev = c;
		out->count++;
		already->cells++;
		already->rows += lc.starts_row;
	}
	if (spec->pub.limit && already->cells >= spec->pub.limit)
		out->done = true;
	return 0;
}
