/* SPDX-License-Identifier: Apache-2.0 */
/* If there is no memory for its table, uthash adds nothing. */
#include "fs/base/cache.h"

#include <stdlib.h>
#define HASH_NONFATAL_OOM 1 /* uthash's default is to end the process */
#include <uthash.h>

struct cached {
	UT_hash_handle hh;
	uint64_t key, stamp;
	size_t n;
	uint8_t data[];
};

/* With malloc's overhead and a bucket. */
static size_t cached_bytes(const struct cached *e)
{
	return sizeof(*e) + e->n + 24;
}

void cache_init(struct cache *c, size_t bytes_max)
{
	*c = (struct cache){.bytes_max = bytes_max};
	mutex_init(&c->lock, RANK_FS_NOTIFY);
}

static struct cached *find_locked(struct cache *c, uint64_t key)
{
	struct cached *e;

	HASH_FIND(hh, c->entries, &key, sizeof(key), e);
	return e;
}

static void remove_locked(struct cache *c, struct cached *e)
{
	c->bytes -= cached_bytes(e);
	HASH_DELETE(hh, c->entries, e);
	free(e);
}

void cache_fini(struct cache *c)
{
	while (c->entries)
		remove_locked(c, c->entries);
	mutex_fini(&c->lock);
}

void cache_put(struct cache *c, uint64_t key, uint64_t stamp, const void *p, size_t n)
{
	struct cached *e = malloc(sizeof(*e) + n), *old;

	if (e) {
		*e = (struct cached){.key = key, .stamp = stamp, .n = n};
		if (n)
			memcpy(e->data, p, n);
	}
	mutex_lock(&c->lock);
	old = find_locked(c, key);
	if (old)
		remove_locked(c, old);
	if (e) {
		HASH_ADD(hh, c->entries, key, sizeof(e->key), e);
		if (e->hh.tbl) {
			c->bytes += cached_bytes(e);
			c->any = true;
		} else {
			free(e);
		}
	}
	while (c->bytes > c->bytes_max)
		remove_locked(c, c->entries);
	mutex_unlock(&c->lock);
}

bool cache_get(struct cache *c, uint64_t key, uint64_t *stamp, struct buf *out)
{
	const struct cached *e;
	bool found;

	if (!c->any)
		return false;
	mutex_lock(&c->lock);
	e = find_locked(c, key);
	found = e && (!out || buf_append(out, e->data, e->n) == 0);
	if (found)
		*stamp = e->stamp;
	mutex_unlock(&c->lock);
	return found;
}

bool cache_take(struct cache *c, uint64_t key, uint64_t stamp, void *p, size_t *n)
{
	struct cached *e;
	bool found;

	if (!c->any)
		return false;
	mutex_lock(&c->lock);
	e = find_locked(c, key);
	found = e && e->stamp == stamp && e->n <= *n;
	if (found) {
		if (e->n)
			memcpy(p, e->data, e->n);
		*n = e->n;
	}
	if (e)
		remove_locked(c, e);
	mutex_unlock(&c->lock);
	return found;
}

void cache_remove(struct cache *c, uint64_t key)
{
	size_t n = 0;

	(void)cache_take(c, key, 0, NULL, &n);
}
