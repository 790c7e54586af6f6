/* SPDX-License-Identifier: Apache-2.0 */
/* Loads values from their units. */
#include "engine/sstable/load.h"

#include <errno.h>

/* *out: n bytes from offset on of the unit, which has at least `size` bytes of values at `at`. */
static int load_part(struct blockfile *b, struct value_window *w, uint64_t unit, uint32_t stored, uint64_t at, size_t n,
	struct tfs_bytes *out)
{
	int err = blockfile_read_unit(b, &w->units, unit, stored);

	if (err)
		return err;
	if (at > w->units.raw.n || n > w->units.raw.n - at)
		return blockfile_unit_unsound(b, unit);
	*out = tfs_bytes_of(w->units.raw.p + at, n);
	return 0;
}

/* As load_part, of a value above VALUE_UNIT_BYTES, within one of its units. */
static int load_large(struct blockfile *b, struct value_window *w, const struct value_ref *v, uint64_t offset, size_t n,
	struct tfs_bytes *out)
{
	uint64_t unit;
	uint32_t stored;

	if (!value_unit(v, offset / VALUE_UNIT_BYTES, &unit, &stored))
		return blockfile_unit_unsound(b, v->unit);
	return load_part(b, w, unit, stored, offset % VALUE_UNIT_BYTES, n, out);
}

int value_load(struct blockfile *b, struct value_window *w, const struct value_ref *v, uint64_t offset, size_t n, struct tfs_bytes *out)
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

void value_window_fini(struct value_window *w)
{
	blockfile_window_fini(&w->units);
	buf_fini(&w->large);
}
