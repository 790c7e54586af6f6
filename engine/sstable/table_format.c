/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks of LevelDB's structures, which the header describes.  A check of a
 * block visits each entry once: about a hundred instructions per kilobyte of
 * small cells, after decompression has taken tens of microseconds.
 *
 * Not checked: the order of keys.  A table out of order returns wrong results
 * but causes no invalid memory access; sst_verify checks the order.
 */
#include "engine/sstable/table_format.h"

enum { TRAILER_BYTES = 5, MAGIC_BYTES = 8, HANDLES_BYTES = 40 };

static const uint8_t magic[MAGIC_BYTES] = {0x57, 0xfb, 0x80, 0x8b, 0x24, 0x75, 0x47, 0xdb};

static uint32_t load_le32(const uint8_t *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* LevelDB's varint32: five bytes at most. */
static inline const uint8_t *varint32(const uint8_t *p, const uint8_t *end, uint32_t *v)
{
	uint32_t x = 0;

	for (unsigned shift = 0; p < end && shift <= 28; shift += 7) {
		uint8_t byte = *p++;

		x |= (uint32_t)(byte & 0x7f) << shift;
		if (byte < 0x80) {
			*v = x;
			return p;
		}
	}
	return NULL;
}

bool table_block_each(struct tfs_bytes unit, table_entry_fn *fn, void *arg)
{
	const uint8_t *p = unit.p, *end, *restarts;
	struct tfs_bytes unshared_key;
	uint64_t key_bytes = 0;
	uint32_t n, at = 0;

	if (unit.n < TRAILER_BYTES + 4 || unit.n > UINT32_MAX || unit.p[unit.n - TRAILER_BYTES] != 0)
		return false;
	end = unit.p + unit.n - TRAILER_BYTES - 4;
	n = load_le32(end);
	if (n == 0 || n > (size_t)(end - unit.p) / 4)
		return false;
	restarts = end - (size_t)n * 4;
	if (load_le32(restarts) != 0)
		return false;
	while (p < restarts) {
		uint32_t shared, unshared, value_bytes;
		bool restart = at < n && load_le32(restarts + (size_t)at * 4) == (uint32_t)(p - unit.p);

		p = varint32(p, restarts, &shared);
		p = p ? varint32(p, restarts, &unshared) : NULL;
		p = p ? varint32(p, restarts, &value_bytes) : NULL;
		if (!p || shared > key_bytes || (restart && shared) || (uint64_t)unshared + value_bytes > (size_t)(restarts - p))
			return false;
		at += restart;
		key_bytes = (uint64_t)shared + unshared;
		unshared_key = tfs_bytes_of(p, unshared);
		p += unshared;
		if (fn && !fn(arg, shared, unshared_key, tfs_bytes_of(p, value_bytes)))
			return false;
		p += value_bytes;
	}
	/* An empty block has one restart, at its end. */
	return at == n || (n == 1 && restarts == unit.p);
}

bool table_block_good(struct tfs_bytes unit)
{
	return table_block_each(unit, NULL, NULL);
}

/* Reads a handle from r.  Returns true if it names unit i of the map. */
static bool handle_is(struct reader *r, const struct bff_map *m, int64_t i)
{
	uint64_t offset, bytes;

	if (!get_varint(r, &offset) || !get_varint(r, &bytes) || i < 0)
		return false;
	return m->at[i].logical == offset && m->at[i + 1].logical - offset >= TRAILER_BYTES &&
		m->at[i + 1].logical - offset - TRAILER_BYTES == bytes;
}

struct index {
	const struct bff_map *m;
	size_t next; /* data block */
};

/* The index names every data block, each once, in their order. */
static bool is_next(void *arg, uint32_t shared, struct tfs_bytes unshared, struct tfs_bytes value)
{
	struct index *x = arg;
	struct reader r = reader_of(value);

	return x->next < x->m->n - TABLE_UNITS && handle_is(&r, x->m, (int64_t)x->next++) && reader_left(&r) == 0;
}

bool table_index_good(struct tfs_bytes unit, const struct bff_map *m)
{
	struct index x = {m, 0};

	return m->n >= TABLE_UNITS && table_block_each(unit, is_next, &x) && x.next == m->n - TABLE_UNITS;
}

bool table_footer_good(struct tfs_bytes unit, const struct bff_map *m)
{
	struct reader r = reader_of(tfs_bytes_of(unit.p, unit.n < HANDLES_BYTES ? unit.n : HANDLES_BYTES));

	if (unit.n != TABLE_FOOTER_BYTES || m->n < TABLE_UNITS || memcmp(unit.p + HANDLES_BYTES, magic, MAGIC_BYTES) != 0)
		return false;
	return handle_is(&r, m, (int64_t)m->n - 3) && handle_is(&r, m, (int64_t)m->n - 2);
}
