/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What can be judged of an operation without the row, and the bytes of a
 * general write.
 */
#include <errno.h>

#include "t/model/model_types.h"

static bool when_valid(struct tfs_ts ts)
{
	return ts.when == TFS_AT || ts.when == TFS_NEWEST;
}

static int add_bytes(uint64_t *bytes, uint64_t n)
{
	*bytes += n;
	return n > TFS_VALUE_MAX ? -EFBIG : 0;
}

static int check_write(const struct tfs_write *w, uint64_t *bytes)
{
	uint64_t end;
	int r = add_bytes(bytes, w->append.n);

	if (w->base != TFS_BASE_EMPTY && w->base != TFS_BASE_NEWEST && w->base != TFS_BASE_VERSION)
		return -EINVAL;
	if (w->truncate_to != UINT64_MAX && w->truncate_to > TFS_VALUE_MAX)
		r = -EFBIG;
	for (unsigned i = 0; r == 0 && i < w->range_count; i++) {
		const struct tfs_range *range = &w->ranges[i];
		if (range->data.n == 0)
			continue;
		r = add_bytes(bytes, range->data.n);
		if (__builtin_add_overflow(range->offset, range->data.n, &end) || end > TFS_VALUE_MAX)
			r = -EFBIG;
	}
	return r;
}

int mdl_op_check(const struct mdl_op *op, const struct mdl_schema *s, uint64_t *bytes)
{
	int r = 0;

	if (op->kind == MDL_DELETE_ROW)
		return 0;
	if (!op->family || !mdl_schema_family(s, op->family) || op->qualifier.n > TFS_QUALIFIER_MAX)
		return -EINVAL;
	if (!when_valid(op->ts))
		return -EINVAL;
	*bytes += op->qualifier.n;
	switch (op->kind) {
	case MDL_PUT:
		r = add_bytes(bytes, op->value.n);
		break;
	case MDL_WRITE:
		r = check_write(&op->write, bytes);
		break;
	case MDL_MOVE:
		if (!op->to_family || !mdl_schema_family(s, op->to_family) || op->to_qualifier.n > TFS_QUALIFIER_MAX ||
			!when_valid(op->to))
			return -EINVAL;
		*bytes += op->to_qualifier.n;
		break;
	case MDL_CHECK:
		if (op->check > TFS_CHECK_FAMILY)
			return -EINVAL;
		break;
	case MDL_DELETE_VERSION:
	case MDL_DELETE_COLUMN:
	case MDL_DELETE_FAMILY:
	case MDL_DELETE_ROW:
	case MDL_SET_TIME:
	case MDL_INCREMENT:
		break;
	}
	return r;
}

int mdl_value_build(const struct mdl_blob *base, const struct tfs_write *w, struct mdl_blob **out)
{
	uint64_t kept = base ? base->size : 0, size;

	if (w->truncate_to != UINT64_MAX) {
		size = w->truncate_to;
		if (kept > size)
			kept = size;
	} else {
		size = kept;
	}
	for (unsigned i = 0; i < w->range_count; i++) {
		uint64_t end = w->ranges[i].offset + w->ranges[i].data.n;
		if (w->ranges[i].data.n > 0 && end > size)
			size = end;
	}
	if (size + w->append.n > TFS_VALUE_MAX)
		return -EFBIG;
	struct mdl_blob *b = mdl_blob_new(NULL, size + w->append.n);
	if (!b)
		return -ENOMEM;
	if (kept > 0)
		memcpy(b->data, base->data, kept);
	for (unsigned i = 0; i < w->range_count; i++)
		if (w->ranges[i].data.n > 0)
			memcpy(b->data + w->ranges[i].offset, w->ranges[i].data.p, w->ranges[i].data.n);
	if (w->append.n > 0)
		memcpy(b->data + size, w->append.p, w->append.n);
	*out = b;
	return 0;
}
