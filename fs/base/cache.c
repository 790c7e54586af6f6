/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A ring of bytes with the values in order of age, and a hash of their
 * places by node address.  A node address may be reused: so an entry also
 * holds the node's inode number, and one whose change count is not the
 * present one is not believed (any commit at all empties the cache in effect:
 * it serves readers, and costs writers nothing).
 */
#include "fs/base/cache.h"

#include <errno.h>
#include <stdlib.h>

#define SLOTS 16384

struct slot {
	const struct node *node;
	uint64_t ino, changes, at; /* at: running position in the ring */
	uint32_t size;
};

static struct {
	struct mutex lock;
	struct slot *slot;
	uint8_t *ring;
	uint64_t head;
} cache;

int cache_init(void)
{
	mutex_init(&cache.lock, RANK_FS_NOTIFY);
	cache.slot = calloc(SLOTS, sizeof(*cache.slot));
	cache.ring = malloc(CACHE_BYTES);
	if (!cache.slot || !cache.ring) {
		cache_fini();
		return -ENOMEM;
	}
	return 0;
}

void cache_fini(void)
{
	free(cache.slot);
	free(cache.ring);
	cache.slot = NULL;
	cache.ring = NULL;
	mutex_fini(&cache.lock);
}

static struct slot *slot_of(const struct node *n)
{
	return &cache.slot[(n->ino ^ n->ino >> 32) % SLOTS];
}

void cache_put(const struct node *n, const void *value, size_t size, uint64_t changes)
{
	size_t room;
	struct slot *s;

	if (size > CACHE_VALUE_MAX)
		return;
	mutex_lock(&cache.lock);
	room = CACHE_BYTES - (size_t)(cache.head % CACHE_BYTES);
	if (room < size)
		cache.head += room;
	s = slot_of(n);
	*s = (struct slot){n, n->ino, changes, cache.head, (uint32_t)size};
	if (size)
		memcpy(cache.ring + cache.head % CACHE_BYTES, value, size);
	cache.head += size;
	mutex_unlock(&cache.lock);
}

bool cache_take(const struct node *n, void *buf, size_t *size)
{
	struct slot *s;
	bool found;

	mutex_lock(&cache.lock);
	s = slot_of(n);
	found = s->node == n && s->ino == n->ino && s->changes == atomic_load(&fs.changes) && s->at + CACHE_BYTES >= cache.head;
	if (found) {
		if (s->size)
			memcpy(buf, cache.ring + s->at % CACHE_BYTES, s->size);
		*size = s->size;
		s->node = NULL;
	}
	mutex_unlock(&cache.lock);
	return found;
}
