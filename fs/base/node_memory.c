/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory for nodes (node_memory.h).  The kernel forgets nodes a million at a
 * time.  In malloc's heap their memory would be between cached cells and blocks
 * that stay, so none of it could be returned to the system.  Slabs are aligned
 * regions with places of one size; an empty slab is unmapped.  If few of its
 * places were ever used it stays, because a size of which only one node exists
 * at a time would map and unmap a slab for each.
 *
 * A place's slab is found by its address.  Larger pieces (long keys) are
 * allocated by malloc.  In a build with AddressSanitizer all are, because it
 * finds uses of freed nodes only there.
 */
#include "fs/base/node_memory.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/queue.h>

#define SLAB_BYTES ((size_t)256 << 10)
#define STEP 16u
#define KEPT_BYTES ((size_t)16 << 10)
#define CLASSES 33u /* places of 16 to 512 bytes */

struct slab {
	LIST_ENTRY(slab) link; /* in the list of slabs of its size that have free memory */
	void *freed;           /* list of places: each holds the next */
	uint32_t used, fresh;  /* places in use; bytes from the start that have been in use at some time */
};
static LIST_HEAD(slabs, slab) open_slabs[CLASSES];

static unsigned class_of(size_t bytes)
{
#ifdef __SANITIZE_ADDRESS__
	bytes = SLAB_BYTES;
#endif
	return bytes <= (CLASSES - 1) * STEP ? (unsigned)((bytes + STEP - 1) / STEP) : CLASSES;
}

static struct slab *slab_new(unsigned class)
{
	uint8_t *p = mmap(NULL, 2 * SLAB_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	size_t before;
	struct slab *s;

	if (p == MAP_FAILED)
		return NULL;
	before = -(uintptr_t)p % SLAB_BYTES;
	s = (struct slab *)(void *)(p + before);
	if (before)
		munmap(p, before);
	munmap(p + before + SLAB_BYTES, SLAB_BYTES - before);
	s->fresh = (sizeof(*s) + STEP - 1) / STEP * STEP;
	LIST_INSERT_HEAD(&open_slabs[class], s, link);
	return s;
}

void *node_memory_alloc(size_t bytes)
{
	const unsigned class = class_of(bytes);
	const uint32_t size = class * STEP;
	struct slab *s;
	void *p;

	if (class == CLASSES)
		return calloc(1, bytes);
	s = LIST_FIRST(&open_slabs[class]);
	if (!s)
		s = slab_new(class);
	if (!s)
		return NULL;
	p = s->freed;
	if (p) {
		memcpy(&s->freed, p, sizeof(p));
		memset(p, 0, size);
	} else {
		p = (uint8_t *)s + s->fresh;
		s->fresh += size;
	}
	s->used++;
	if (!s->freed && s->fresh + size > SLAB_BYTES)
		LIST_REMOVE(s, link);
	return p;
}

void node_memory_free(void *p, size_t bytes)
{
	const unsigned class = class_of(bytes);
	struct slab *s = (struct slab *)((uintptr_t)p & ~(SLAB_BYTES - 1));

	if (class == CLASSES) {
		free(p);
		return;
	}
	if (!p)
		return;
	if (!s->freed && s->fresh + class * STEP > SLAB_BYTES)
		LIST_INSERT_HEAD(&open_slabs[class], s, link);
	memcpy(p, &s->freed, sizeof(p));
	s->freed = p;
	if (--s->used == 0 && s->fresh > KEPT_BYTES) {
		LIST_REMOVE(s, link);
		munmap(s, SLAB_BYTES);
	}
}
