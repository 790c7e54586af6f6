/* SPDX-License-Identifier: Apache-2.0 */
/* The entries of keys (value.h). */
#include "engine/sstable/value.h"

#include <errno.h>

int value_encode(struct buf *out, const struct value_ref *v)
{
	int err = buf_u8(out, (uint8_t)v->place);

	if (err || v->place == VALUE_INLINE)
		return err ? err : buf_append(out, v->bytes, (size_t)v->size);
	err = buf_varint(out, v->unit);
	if (!err && v->place == VALUE_IN_UNIT)
		err = buf_varint(out, v->stored) || buf_varint(out, v->at) ? -ENOMEM : 0;
	if (!err)
		err = buf_varint(out, v->size);
	return err || v->place == VALUE_IN_UNIT ? err : buf_append_bytes(out, v->stored_each);
}

bool value_decode(struct tfs_bytes entry, struct value_ref *out)
{
	struct reader r = reader_of(entry);
	uint64_t stored, at;
	uint8_t place;

	if (!get_u8(&r, &place))
		return false;
	*out = (struct value_ref){.place = (enum value_place)place};
	if (place == VALUE_INLINE) {
		out->size = reader_left(&r);
		out->bytes = entry.p + 1;
		return true;
	}
	if (place > VALUE_LARGE || !get_varint(&r, &out->unit))
		return false;
	if (place == VALUE_LARGE) {
		if (!get_varint(&r, &out->size) || out->size <= VALUE_UNIT_BYTES)
			return false;
		out->stored_each = tfs_bytes_of(entry.p + entry.n - reader_left(&r), reader_left(&r));
		return true;
	}
	if (!get_varint(&r, &stored) || !get_varint(&r, &at) || !get_varint(&r, &out->size) || reader_left(&r) ||
		stored > UINT32_MAX || at > UINT32_MAX || out->size == 0)
		return false;
	out->stored = (uint32_t)stored;
	out->at = (uint32_t)at;
	return true;
}

bool value_unit(const struct value_ref *v, uint64_t i, uint64_t *offset, uint32_t *stored)
{
	struct reader r = reader_of(v->stored_each);
	uint64_t at = v->unit, n = 0;

	for (uint64_t k = 0; k <= i; k++) {
		if (at > UINT64_MAX - n)
			return false;
		at += n;
		if (!get_varint(&r, &n) || n > UINT32_MAX)
			return false;
	}
	*offset = at;
	*stored = (uint32_t)n;
	return true;
}
