/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leaving the walk: skips past a row or family, and reading parts of a large
 * value.
 *
 * A skip goes on in a row whose deletes may not have been met yet (the
 * caller names any row); it then starts at the row's first key and takes
 * note of them.  Reading a large value moves the iterator away and leaves
 * what is pending as it is; `astray` makes the way back a seek.
 */
#include "engine/cell/live_internal.h"

#include <errno.h>

#include "engine/base/msg.h"

static void forget_position(struct live *l)
{
	l->row.n = 0;
	l->in_family = false;
	l->column.n = 0;
	l->pending = GO_ON;
	l->astray = false;
}

/* To the key in target, but never before the scan's start. */
static void seek_target(struct live *l)
{
	struct slice t = buf_slice(&l->target), start = buf_slice(&l->start);

	iter_seek(l->it, slice_cmp(t, start) < 0 ? start : t);
}

int live_skip_row(struct live *l, struct slice row)
{
	int err;

	buf_reset(&l->target);
	err = cellkey_row_after(&l->target, row);
	if (err)
		return err;
	forget_position(l);
	seek_target(l);
	return l->it->valid ? 0 : l->it->err;
}

int live_skip_family(struct live *l, struct slice row, uint16_t family)
{
	struct slice key;
	int err;

	if (!l->row.n || !slice_eq(l->row_slice, row) || (!l->it->valid && l->it->err)) {
		/* a row not walked through, or broken off in: its deletes come first */
		buf_reset(&l->target);
		err = cellkey_row_prefix(&l->target, row);
		if (err)
			return err;
		forget_position(l);
		seek_target(l);
		for (;;) {
			size_t row_len, column_len;
			uint64_t seq;
			int64_t ts;
			enum cell_kind kind;

			if (!l->it->valid)
				return l->it->err;
			key = l->it->key;
			if (!slice_has_prefix(key, buf_slice(&l->target)))
				return 0;
			row_len = l->target.n;
			column_len = cellkey_column_len(key);
			if (column_len == 0 || key.n < column_len + CELL_SUFFIX_BYTES)
				return live_damaged(l, "a malformed key");
			if (l->end.n && slice_cmp(key, buf_slice(&l->end)) >= 0) {
				l->pending = GO_NOWHERE;
				return 0;
			}
			if (!live_in_row(l, key)) {
				err = live_enter_row(l, row_len);
				if (err)
					return err;
			}
			if (load_be16(key.p + row_len) != 0)
				break;
			cellkey_suffix(key, column_len, &ts, &seq, &kind);
			if (kind != CELL_DELETE_ROW)
				return live_damaged(l, "an impossible kind");
			if (seq <= l->o.seq && seq > l->row_mask)
				l->row_mask = seq;
			iter_next(l->it);
		}
	}
	/* seeks: the iterator may stand anywhere in the row, or in its chunks */
	if (family == UINT16_MAX)
		return live_skip_row(l, row);
	err = buf_set(&l->target, l->row.p, l->row.n);
	if (!err)
		err = buf_be16(&l->target, (uint16_t)(family + 1));
	if (err)
		return err;
	l->in_family = false;
	l->column.n = 0;
	l->pending = GO_ON;
	l->astray = false;
	seek_target(l);
	return l->it->valid ? 0 : l->it->err;
}

int live_read_large(struct live *l, const struct live_cell *c, uint64_t offset, void *p, size_t n, size_t *got)
{
	uint8_t *to = p;
	size_t done = 0;
	uint32_t chunk;
	int err;

	if (offset >= c->size || n == 0) {
		*got = 0;
		return 0;
	}
	if (n > c->size - offset)
		n = (size_t)(c->size - offset);
	if (!c->large) {
		memcpy(to, c->value.p + offset, n);
		*got = n;
		return 0;
	}
	chunk = (uint32_t)(offset / CELL_CHUNK_BYTES);
	err = live_version_target(l, c->ts, c->seq, CELL_CHUNK);
	if (!err)
		err = buf_be32(&l->target, chunk);
	if (err)
		return err;
	l->astray = true; /* what is pending stays right, but must be reached by a seek */
	iter_seek(l->it, buf_slice(&l->target));
	for (;; chunk++) {
		uint64_t first = (uint64_t)chunk * CELL_CHUNK_BYTES, left = c->size - first;
		size_t length = left < CELL_CHUNK_BYTES ? (size_t)left : CELL_CHUNK_BYTES;
		size_t skip = (size_t)(offset + done - first), part = length - skip;

		if (!l->it->valid && l->it->err)
			return l->it->err;
		put_be32(l->target.p + l->target.n - 4, chunk);
		if (!l->it->valid || !slice_eq(l->it->key, buf_slice(&l->target)) || l->it->value.n != length) {
			msg_error("store: chunk %u of a large cell in row %s is missing or damaged", chunk, Q(c->row));
			return -EBADMSG;
		}
		if (part > n - done)
			part = n - done;
		memcpy(to + done, l->it->value.p + skip, part);
		done += part;
		if (done == n)
			break;
		iter_next(l->it);
	}
	*got = done;
	return 0;
}
