/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bump allocator.
 *
 * Blocks form a chain.  Its head is the block being filled, its last element
 * is the first block.  Blocks start small, because thousands of idle objects
 * may have an arena each, and double up to a limit.  A request larger than
 * the next block gets a block of its own after the head: one big value does
 * not waste the rest of the head.
 */
#include "engine/base/bytes.h"

#include <errno.h>
#include <stdlib.h>

enum { ARENA_FIRST_BYTES = 1024, ARENA_MOST_BYTES = 1 << 20, ARENA_ALIGN = 8 };

struct arena_block {
	struct arena_block *next;
	size_t cap, used;
	_Alignas(8) uint8_t data[];
};

static struct arena_block *block_new(size_t cap)
{
	struct arena_block *b = malloc(sizeof(*b) + cap);

	if (b)
		*b = (struct arena_block){.cap = cap};
	return b;
}

static void *block_take(struct arena *a, struct arena_block *b, size_t n)
{
	void *p = b->data + b->used;

	b->used += n;
	a->used_bytes += n;
	return p;
}

void *arena_alloc(struct arena *a, size_t n)
{
	struct arena_block *b = a->head, *fresh;
	size_t cap;

	if (n > (size_t)PTRDIFF_MAX)
		return NULL;
	n = n ? (n + ARENA_ALIGN - 1) & ~(size_t)(ARENA_ALIGN - 1) : ARENA_ALIGN;
	if (b && b->cap - b->used >= n)
		return block_take(a, b, n);

	cap = ARENA_FIRST_BYTES;
	if (b)
		cap = b->cap < ARENA_MOST_BYTES / 2 ? b->cap * 2 : ARENA_MOST_BYTES;
	fresh = block_new(n > cap ? n : cap);
	if (!fresh)
		return NULL;
	if (b && n > cap) {
		fresh->next = b->next;
		b->next = fresh;
	} else {
		fresh->next = b;
		a->head = fresh;
	}
	return block_take(a, fresh, n);
}

const char *arena_text(struct arena *a, const char *text)
{
	struct tfs_bytes copy;

	return arena_dup(a, tfs_bytes_of(text, strlen(text) + 1), &copy) ? (const char *)copy.p : NULL;
}

bool arena_dup(struct arena *a, struct tfs_bytes s, struct tfs_bytes *out)
{
	uint8_t *p;

	if (s.n == 0) {
		*out = (struct tfs_bytes){0};
		return true;
	}
	p = arena_alloc(a, s.n);
	if (!p)
		return false;
	memcpy(p, s.p, s.n);
	*out = (struct tfs_bytes){p, s.n};
	return true;
}

int bytes_own(struct tfs_bytes *b, struct arena *a)
{
	if (b->p && b->n == 0)
		*b = TFS_S("");
	else if (!arena_dup(a, *b, b))
		return -ENOMEM;
	return 0;
}

void arena_reset(struct arena *a)
{
	struct arena_block *b = a->head, *next;

	if (!b)
		return;
	for (; b->next; b = next) {
		next = b->next;
		free(b);
	}
	b->used = 0;
	a->head = b;
	a->used_bytes = 0;
}

void arena_fini(struct arena *a)
{
	arena_reset(a);
	free(a->head);
	*a = (struct arena){0};
}
