/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Predicates of operations, and the memory of a scan batch.  A reset batch
 * keeps its array of cells and the arena's first block, so a scan that is
 * fetched batch by batch soon stops allocating.
 */
#include "engine/cell/op.h"

#include <stdlib.h>

static bool op_empties(const struct op *op)
{
	return op->kind == OP_WRITE && !op->w.range_count && !op->w.append.n && !op->value.n &&
		(op->w.truncate_to == 0 || (op->w.truncate_to == UINT64_MAX && op->w.base == TFS_BASE_EMPTY));
}

bool op_deletes(const struct op *op)
{
	return op->kind == OP_DELETE_VERSION || op->kind == OP_DELETE_COLUMN || op->kind == OP_DELETE_FAMILY ||
		op->kind == OP_DELETE_ROW;
}

bool ops_only_remove(const struct op *ops, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		if (!op_deletes(&ops[i]) && ops[i].kind != OP_CHECK && !op_empties(&ops[i]))
			return false;
	return true;
}

uint64_t cell_fingerprint(uint16_t family, struct tfs_bytes qualifier, int64_t ts, uint64_t seq, int64_t commit_us)
{
	uint8_t place[26];

	put_be16(place, family);
	put_be64(place + 2, (uint64_t)ts);
	put_be64(place + 10, seq);
	put_be64(place + 18, (uint64_t)commit_us);
	return hash64(qualifier, hash64(tfs_bytes_of(place, sizeof(place)), 0));
}

void scan_batch_reset(struct scan_batch *b)
{
	arena_reset(&b->arena);
	b->count = 0;
	b->done = b->damaged = false;
}

void scan_batch_fini(struct scan_batch *b)
{
	arena_fini(&b->arena);
	free(b->cells);
	*b = (struct scan_batch){0};
}
