/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a scan batch.  A reset batch keeps its array of cells and the
 * arena's first block, so that a scan fetched batch by batch settles into
 * not allocating.
 */
#include "engine/store/op.h"

#include <stdlib.h>

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
