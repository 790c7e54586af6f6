/* SPDX-License-Identifier: Apache-2.0 */
/* Loads values from their units. */
#include "engine/sstable/load.h"

#include <errno.h>
#include <stdlib.h>

enum { UNIT_KEY_BYTES = 17 };

/* Returns the key of a unit in the cache.  Keys of blocks are shorter. */
static struct tfs_bytes unit_key(const struct value_window *w, uint64_t unit, uint8_t p[UNIT_KEY_BYTES])
{
	put_be64(p, w->file);
	put_be64(p + 8, unit);
	p[16] = 'u';
	return tfs_bytes_of(p, UNIT_KEY_BYTES);
}

/* A cached unit: its length, then its bytes. */
static struct tfs_bytes cached_unit(struct value_window *w, uint64_t unit)
{
	uint8_t p[UNIT_KEY_BYTES];
	const uint8_t *block;

	w->held = lru_block_find(w->cache, unit_key(w, unit, p));
	if (!w->held)
		return tfs_bytes_of(NULL, 0);
	block = lru_block(w->held);
	return tfs_bytes_of(block + 8, (size_t)load_be64(block));
}

/* Copies the unit that was read into the cache; does nothing if out of memory. */
static void cache_unit(struct value_window *w, uint64_t unit)
{
	const struct buf *raw = &w->units.raw;
	uint8_t p[UNIT_KEY_BYTES], *block = malloc(8 + raw->n);
	struct lru_entry *e;

	if (!block)
		return;
	put_be64(block, raw->n);
	memcpy(block + 8, raw->p, raw->n);
	e = lru_block_add(w->cache, unit_key(w, unit, p), block, 8 + raw->n, NULL);
	if (e)
		lru_release(w->cache, e);
	else
		free(block);
}

/* *out: n bytes from offset on of the unit, which has at least `size` bytes of values at `at`. */
static int load_part(
	struct blockfile *b, struct value_window *w, uint64_t unit, uint32_t stored, uint64_t at, size_t n, struct tfs_bytes *out)
{
	struct tfs_bytes raw = {0};
	int err = 0;

	value_window_release(w);
	if (w->cache)
		raw = cached_unit(w, unit);
	if (!raw.p) {
		err = blockfile_read_unit(b, &w->units, unit, stored);
		raw = buf_bytes(&w->units.raw);
		if (!err && w->cache)
			cache_unit(w, unit);
	}
	if (err)
		return err;
	if (at > raw.n || n > raw.n - at)
		return blockfile_unit_unsound(b, unit);
	*out = tfs_bytes_of(raw.p + at, n);
	return 0;
}

/* Loads as load_part, but from a value above VALUE_UNIT_BYTES, within one of its units. */
static int load_large(
	struct blockfile *b, struct value_window *w, const struct value_ref *v, uint64_t offset, size_t n, struct tfs_bytes *out)
{
	uint64_t unit;
	uint32_t stored;

	if (!value_unit(v, offset / VALUE_UNIT_BYTES, &unit, &stored))
		return blockfile_unit_unsound(b, v->unit);
	return load_part(b, w, unit, stored, offset % VALUE_UNIT_BYTES, n, out);
}

int value_load(
	struct blockfile *b, struct value_window *w, const struct value_ref *v, uint64_t offset, size_t n, struct tfs_bytes *out)
{
	struct tfs_bytes part;
	int err = 0;

	if (v->place == VALUE_IN_UNIT)
		return load_part(b, w, v->unit, v->stored, v->at + offset, n, out);
	if (offset / VALUE_UNIT_BYTES == (offset + n - 1) / VALUE_UNIT_BYTES)
		return load_large(b, w, v, offset, n, out);
	buf_reset(&w->large);
	for (size_t done = 0, take; done < n && !err; done += take) {
		take = VALUE_UNIT_BYTES - (size_t)((offset + done) % VALUE_UNIT_BYTES);
		take = take < n - done ? take : n - done;
		err = load_large(b, w, v, offset + done, take, &part);
		if (!err)
			err = buf_append_bytes(&w->large, part);
	}
	*out = buf_bytes(&w->large);
	return err;
}

void value_window_release(struct value_window *w)
{
	if (w->held)
		lru_release(w->cache, w->held);
	w->held = NULL;
}

void value_window_fini(struct value_window *w)
{
	value_window_release(w);
	blockfile_window_fini(&w->units);
	buf_fini(&w->large);
}
