/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The value of a scanned cell, in pieces (value.h).  All pieces of a value must
 * be of one commit, which the time of commit and the size of the value show.
 */
#include "engine/bulk/value.h"

#include <errno.h>
#include <stdio.h>

enum { PIECE_BYTES = 256 * 1024, PIECE_LEAST = 64 * 1024 };

static int read_piece(struct value *v, uint64_t at, struct tfs_info *info)
{
	const struct tfs_cell *c = v->cell;
	size_t got;
	int err;

	buf_reset(&v->piece);
	err = buf_reserve(&v->piece, PIECE_BYTES);
	if (!err)
		err = tfs_read(v->table, c->row, v->family, c->qualifier, tfs_at(c->ts), at, v->piece.p, PIECE_BYTES, &got, info);
	if (err)
		return err;
	v->piece.n = got;
	v->piece_at = at;
	return 0;
}

int value_begin(struct value *v, struct tfs_table *table, const struct tfs_cell *cell)
{
	struct tfs_info info;
	int err;

	v->table = table;
	v->cell = cell;
	v->size = cell->size;
	v->commit_us = cell->commit_us;
	if (cell->value.p || !cell->size)
		return 0;
	snprintf(v->family, sizeof(v->family), "#%u", cell->family_id);
	err = read_piece(v, 0, &info);
	if (err)
		return err;
	v->size = info.size;
	v->commit_us = info.commit_us;
	return 0;
}

int value_read(struct value *v, uint64_t at, struct tfs_bytes *piece)
{
	struct tfs_info info;
	uint64_t want = v->size - at < PIECE_LEAST ? v->size - at : PIECE_LEAST;
	int err;

	if (v->cell->value.p || !v->size) {
		*piece = tfs_bytes_of(v->cell->value.p ? (const uint8_t *)v->cell->value.p + at : NULL, (size_t)(v->size - at));
		return 0;
	}
	if (at < v->piece_at || v->piece_at + v->piece.n < at + want) {
		err = read_piece(v, at, &info);
		if (err == -ENOENT || (!err && (info.size != v->size || info.commit_us != v->commit_us)))
			err = -ESTALE;
		if (err)
			return err;
	}
	*piece = tfs_bytes_of(v->piece.p + (at - v->piece_at), v->piece.n - (size_t)(at - v->piece_at));
	return 0;
}

int value_is_utf8(struct value *v, bool *utf8)
{
	struct tfs_bytes piece;
	int err;

	for (uint64_t at = 0; at < v->size; at += piece.n) {
		err = value_read(v, at, &piece);
		if (err)
			return err;
		if (at + piece.n < v->size)
			piece.n -= utf8_unfinished(piece);
		if (!utf8_valid(piece)) {
			*utf8 = false;
			return 0;
		}
	}
	*utf8 = true;
	return 0;
}

void value_fini(struct value *v)
{
	buf_fini(&v->piece);
}
