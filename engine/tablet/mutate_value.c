/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks an operation's arguments, and computes the bytes of the cell that a
 * write makes.
 */
#include "engine/tablet/mutate_impl.h"

#include <errno.h>

static int op_add_bytes(uint64_t *bytes, uint64_t n)
{
	*bytes += n;
	return n > MUTATION_VALUE_MAX ? -EFBIG : 0;
}

bool op_is_whole(const struct op *o)
{
	return o->w.base == TFS_BASE_EMPTY && !o->w.range_count && !o->w.append.n && (o->w.truncate_to == UINT64_MAX || o->value.n);
}

static int op_check_write(const struct op *o, uint64_t *bytes)
{
	int err;

	if (o->w.base > TFS_BASE_VERSION)
		return -EINVAL;
	if ((err = op_add_bytes(bytes, o->value.n)) || (err = op_add_bytes(bytes, o->w.append.n)))
		return err;
	if (o->w.truncate_to != UINT64_MAX && o->w.truncate_to > MUTATION_VALUE_MAX)
		return -EFBIG;
	for (uint32_t i = 0; i < o->w.range_count; i++) {
		uint64_t end;

		if (!o->w.ranges[i].data.n)
			continue;
		if ((err = op_add_bytes(bytes, o->w.ranges[i].data.n)))
			return err;
		if (__builtin_add_overflow(o->w.ranges[i].offset, o->w.ranges[i].data.n, &end) || end > MUTATION_VALUE_MAX)
			return -EFBIG;
	}
	return 0;
}

int op_check(const struct store_schema *s, const struct op *o, uint64_t *bytes)
{
	if (o->kind == OP_DELETE_ROW)
		return 0;
	if (o->kind < OP_WRITE || o->kind >= OP_KINDS || !store_schema_family(s, o->family))
		return -EINVAL;
	*bytes += o->w.qualifier.n;
	if (o->kind == OP_WRITE)
		return op_check_write(o, bytes);
	if (o->kind == OP_MOVE) {
		*bytes += o->to_qualifier.n;
		return store_schema_family(s, o->to_family) ? 0 : -EINVAL;
	}
	if (o->kind == OP_CHECK && o->check > TFS_CHECK_FAMILY)
		return -EINVAL;
	return 0; /* a pattern is compiled where its time is counted */
}

int op_value(struct mutation *m, const struct op *o, struct tfs_bytes base, struct tfs_bytes *out)
{
	uint64_t copied = base.n, size;
	uint8_t *p;

	if (op_is_whole(o)) {
		*out = o->value;
		return 0;
	}
	size = o->w.truncate_to == UINT64_MAX ? copied : o->w.truncate_to;
	if (copied > size)
		copied = size;
	for (uint32_t i = 0; i < o->w.range_count; i++)
		if (o->w.ranges[i].data.n && o->w.ranges[i].offset + o->w.ranges[i].data.n > size)
			size = o->w.ranges[i].offset + o->w.ranges[i].data.n;
	if (size + o->w.append.n > MUTATION_VALUE_MAX)
		return -EFBIG;
	p = arena_alloc(&m->arena, size + o->w.append.n + 1);
	if (!p)
		return -ENOMEM;
	if (copied)
		memcpy(p, base.p, copied);
	memset(p + copied, 0, size - copied);
	for (uint32_t i = 0; i < o->w.range_count; i++)
		if (o->w.ranges[i].data.n)
			memcpy(p + o->w.ranges[i].offset, o->w.ranges[i].data.p, o->w.ranges[i].data.n);
	if (o->w.append.n)
		memcpy(p + size, o->w.append.p, o->w.append.n);
	*out = tfs_bytes_of(p, size + o->w.append.n);
	return 0;
}
