/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hashing the cells of a scan in the place of returning them (TFS_SCAN_HASHES).
 *
 * Each cell has a hash of 128 bits (XXH3), over row, qualifier, timestamp and value.  The
 * hashes of a family's cells are added up.  A sum does not depend on the order of the
 * cells.  So it is the same in tables whose families have other ids, whose rows have
 * another salt, or that are split elsewhere, and a client adds up the sums of
 * several tablets.  Each family has its own sum, because only the client knows that the
 * families of two tables have one name.
 *
 * A part of the scan has whole rows, so that a client whose scan is lost continues behind the
 * last row of the last part.  A part may need several calls: a call ends after PIECE_BYTES.
 */
#include <errno.h>
#include <stdlib.h>
#include <xxhash.h>

#include "engine/cell/merge.h"

enum { PIECE_BYTES = 4 << 20, PART_BYTES = 256 << 10 /* the default */, HASH_BYTES = 16 };

struct sum {
	uint16_t family;
	uint64_t cells, bytes;
	uint64_t low, high; /* the sums of both halves of the hashes */
};
struct scan_hash {
	struct sum *sums; /* of the part so far, of the families that have cells in it */
	unsigned count, at;
	uint64_t bytes; /* of the part so far */
	struct buf row; /* its last row */
	struct buf key; /* the bytes that are hashed for a cell; those of its row are the first `row_bytes` */
	size_t row_bytes;
	struct live_cell next; /* the first cell of the next part, which the iterator has reached */
	bool has_next;
};

int scan_hash_new(struct scan_hash **out)
{
	*out = calloc(1, sizeof(**out));
	return *out ? 0 : -ENOMEM;
}

void scan_hash_free(struct scan_hash *h)
{
	if (!h)
		return;
	free(h->sums);
	buf_fini(&h->row);
	buf_fini(&h->key);
	free(h);
}

void scan_hash_leave(struct scan_hash *h)
{
	h->has_next = false;
}

bool scan_hash_is_empty(const struct scan_hash *h)
{
	return !h->count;
}

static struct sum *sum_of(struct scan_hash *h, uint16_t family)
{
	for (unsigned i = 0; i < h->count; i++, h->at++) {
		if (h->at >= h->count)
			h->at = 0;
		if (h->sums[h->at].family == family)
			return &h->sums[h->at];
	}
	if (array_grow(&h->sums, h->count, sizeof(*h->sums)))
		return NULL;
	h->at = h->count++;
	h->sums[h->at] = (struct sum){.family = family};
	return &h->sums[h->at];
}

/* The hash of the value under the iterator.  A large one is read in pieces. */
static int hash_value(struct live *l, uint64_t size, XXH128_hash_t *out)
{
	XXH3_state_t *state = NULL;
	struct tfs_bytes piece;
	int err = 0;

	if (size <= ITER_PIECE_BYTES) {
		err = live_value(l, 0, (size_t)size, &piece);
		if (!err)
			*out = XXH3_128bits(piece.n ? piece.p : (const uint8_t *)"", piece.n);
		return err;
	}
	state = XXH3_createState();
	if (!state || XXH3_128bits_reset(state) != XXH_OK)
		err = -ENOMEM;
	for (uint64_t at = 0; at < size && !err; at += piece.n) {
		err = live_value(l, at, size - at < ITER_PIECE_BYTES ? (size_t)(size - at) : ITER_PIECE_BYTES, &piece);
		if (!err && XXH3_128bits_update(state, piece.p, piece.n) != XXH_OK)
			err = -ENOMEM;
	}
	if (!err)
		*out = XXH3_128bits_digest(state);
	XXH3_freeState(state);
	return err;
}

/* The bytes of the cell's row in the key.  Both lengths are among them, so cells with equal bytes are equal. */
static int begin_row(struct scan_hash *h, const struct scan_spec *spec, struct tfs_bytes stored)
{
	const size_t salt = spec->row_salted && stored.n;

	buf_reset(&h->key);
	if (buf_set(&h->row, stored.p, stored.n) || buf_be32(&h->key, (uint32_t)(stored.n - salt)) ||
		buf_append(&h->key, stored.p + salt, stored.n - salt))
		return -ENOMEM;
	h->row_bytes = h->key.n;
	return 0;
}

static int add_cell(struct live *l, const struct scan_spec *spec, struct scan_hash *h, const struct live_cell *c)
{
	XXH128_hash_t value, cell;
	struct sum *sum = sum_of(h, c->family);
	int err = sum ? 0 : -ENOMEM;

	if (!err && c->starts_row)
		err = begin_row(h, spec, c->row);
	if (!err)
		err = hash_value(l, c->size, &value);
	if (err)
		return err;
	h->key.n = h->row_bytes;
	if (buf_be32(&h->key, (uint32_t)c->qualifier.n) || buf_append_bytes(&h->key, c->qualifier) ||
		buf_be64(&h->key, (uint64_t)c->ts) || buf_be64(&h->key, value.low64) || buf_be64(&h->key, value.high64))
		return -ENOMEM;
	cell = XXH3_128bits(h->key.p, h->key.n);
	sum->cells++;
	sum->bytes += c->qualifier.n + c->size;
	sum->low += cell.low64;
	sum->high += cell.high64;
	return 0;
}

/* Adds the sums of the part to the batch, and begins the next part. */
static int end_part(struct scan_hash *h, struct scan_batch *out)
{
	struct tfs_bytes row = {0};

	if (!h->count)
		return 0;
	if (h->count > out->cap) {
		struct tfs_cell *cells = reallocarray(out->cells, h->count, sizeof(*cells));

		if (!cells)
			return -ENOMEM;
		out->cells = cells;
		out->cap = h->count;
	}
	if (!arena_dup(&out->arena, buf_bytes(&h->row), &row))
		return -ENOMEM;
	for (unsigned i = 0; i < h->count; i++) {
		const struct sum *s = &h->sums[i];
		uint8_t *sum = arena_alloc(&out->arena, HASH_BYTES);

		if (!sum)
			return -ENOMEM;
		put_be64(sum, s->high);
		put_be64(sum + 8, s->low);
		out->cells[i] = (struct tfs_cell){.row = row,
			.family_id = s->family,
			.size = s->cells,
			.sequence = s->bytes,
			.value = tfs_bytes_of(sum, HASH_BYTES),
			.expires_us = INT64_MAX};
	}
	out->count = h->count;
	h->count = h->at = 0;
	h->bytes = 0;
	return 0;
}

int scan_hash_fill(struct live *l, const struct scan_spec *spec, uint64_t part_bytes, struct scan_hash *h, struct scan_batch *out)
{
	const uint64_t part = part_bytes ? part_bytes : PART_BYTES;
	uint64_t bytes = 0, cell_bytes;
	int r = 0;

	while (!r && bytes < PIECE_BYTES) {
		struct live_cell c = h->next;

		r = h->has_next ? 1 : live_next(l, &c);
		if (r < 0 || r == LIVE_NONE_YET)
			break;
		out->done = r == 0;
		h->next = c;
		h->has_next = r == 1;
		if (out->done || (c.starts_row && h->bytes >= part))
			return end_part(h, out);
		h->has_next = false;
		r = add_cell(l, spec, h, &c);
		cell_bytes = sizeof(struct tfs_cell) + (c.starts_row ? c.row.n : 0) + c.qualifier.n + c.size;
		bytes += cell_bytes;
		h->bytes += cell_bytes;
	}
	return r < 0 ? r : 0;
}
