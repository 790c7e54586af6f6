/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hidden primary key of a table of cells: the lengths, then the timestamp, row, family and
 * qualifier.  It exists during one statement only, in this process, so it is no format.
 */
#include "sql/internal.h"

SQLITE_EXTENSION_INIT3

struct head {
	int64_t ts;
	uint32_t row, family, qualifier, zero; /* without a gap: SQLite compares the bytes of keys */
};

struct tfs_bytes cell_id_make(const struct tfs_cell *cell)
{
	const struct head h = {.ts = cell->ts,
		.row = (uint32_t)cell->row.n,
		.family = (uint32_t)strlen(cell->family) + 1,
		.qualifier = (uint32_t)cell->qualifier.n};
	const size_t n = sizeof(h) + h.row + h.family + h.qualifier;
	uint8_t *p = sqlite3_malloc64(n);

	if (!p)
		return tfs_bytes_of(NULL, 0);
	memcpy(p, &h, sizeof(h));
	memcpy(p + sizeof(h), cell->row.p, h.row);
	memcpy(p + sizeof(h) + h.row, cell->family, h.family);
	if (h.qualifier)
		memcpy(p + sizeof(h) + h.row + h.family, cell->qualifier.p, h.qualifier);
	return tfs_bytes_of(p, n);
}

bool cell_id_parse(struct tfs_bytes b, struct cell_id *out)
{
	const uint8_t *p = b.p + sizeof(struct head);
	struct head h;

	if (b.n < sizeof(h))
		return false;
	memcpy(&h, b.p, sizeof(h));
	if (h.family == 0 || (uint64_t)h.row + h.family + h.qualifier != b.n - sizeof(h) || p[h.row + h.family - 1] != 0)
		return false;
	*out = (struct cell_id){.row = tfs_bytes_of(p, h.row),
		.family = (const char *)p + h.row,
		.qualifier = tfs_bytes_of(p + h.row + h.family, h.qualifier),
		.ts = h.ts};
	return true;
}
