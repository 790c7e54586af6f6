/* SPDX-License-Identifier: Apache-2.0 */
/* A chained hash table, which grows with the entries, and a list in the order of age. */
#include "fs/base/cache.h"

#include <stdlib.h>

#define BUCKETS_MIN 64u

struct cached {
	struct cached *next; /* in the bucket */
	TAILQ_ENTRY(cached) age;
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
	TAILQ_INIT(&c->age);
}

void cache_fini(struct cache *c)
{
	struct cached *e, *next;

	TAILQ_FOREACH_SAFE (e, &c->age, age, next)
		free(e);
	free(c->bucket);
	mutex_fini(&c->lock);
}

/* The link to the entry with the key, or the end of its bucket. */
static struct cached **cache_find(struct cache *c, uint64_t key)
{
	struct cached **link = &c->bucket[(key ^ key >> 32) & (c->buckets - 1)];

	while (*link && (*link)->key != key)
		link = &(*link)->next;
	return link;
}

static void cache_unlink(struct cache *c, struct cached **link)
{
	struct cached *e = *link;

	*link = e->next;
	TAILQ_REMOVE(&c->age, e, age);
	c->bytes -= cached_bytes(e);
	c->count--;
}

/* Longer chains, if there is no memory. */
static void cache_grow(struct cache *c)
{
	size_t buckets = c->buckets ? c->buckets * 2 : BUCKETS_MIN;
	struct cached **bucket = calloc(buckets, sizeof(struct cached *)), *e;

	if (!bucket)
		return;
	free(c->bucket);
	c->bucket = bucket;
	c->buckets = buckets;
	TAILQ_FOREACH (e, &c->age, age) {
		e->next = NULL;
		*cache_find(c, e->key) = e;
	}
}

void cache_put(struct cache *c, uint64_t key, uint64_t stamp, const void *p, size_t n)
{
	struct cached *e = malloc(sizeof(*e) + n), **link, *old = NULL;

	if (e) {
		*e = (struct cached){.key = key, .stamp = stamp, .n = n};
		if (n)
			memcpy(e->data, p, n);
	}
	mutex_lock(&c->lock);
	if (c->count >= c->buckets)
		cache_grow(c);
	if (c->buckets && *(link = cache_find(c, key))) {
		old = *link;
		cache_unlink(c, link);
	}
	if (e && c->buckets) {
		*cache_find(c, key) = e;
		TAILQ_INSERT_TAIL(&c->age, e, age);
		c->bytes += cached_bytes(e);
		c->count++;
		c->any = true;
		e = NULL;
	}
	while (c->bytes > c->bytes_max) {
		struct cached *first = TAILQ_FIRST(&c->age);

		cache_unlink(c, cache_find(c, first->key));
		free(first);
	}
	mutex_unlock(&c->lock);
	free(e);
	free(old);
}

bool cache_get(struct cache *c, uint64_t key, uint64_t *stamp, struct buf *out)
{
	const struct cached *e;
	bool found;

	if (!c->any)
		return false;
	mutex_lock(&c->lock);
	e = *cache_find(c, key);
	found = e && (!out || buf_append(out, e->data, e->n) == 0);
	if (found)
		*stamp = e->stamp;
	mutex_unlock(&c->lock);
	return found;
}

bool cache_take(struct cache *c, uint64_t key, uint64_t stamp, void *p, size_t *n)
{
	struct cached **link, *e = NULL;
	bool found;

	if (!c->any)
		return false;
	mutex_lock(&c->lock);
	link = cache_find(c, key);
	if (*link) {
		e = *link;
		cache_unlink(c, link);
	}
	mutex_unlock(&c->lock);
	found = e && e->stamp == stamp && e->n <= *n;
	if (found) {
		if (e->n)
			memcpy(p, e->data, e->n);
		*n = e->n;
	}
	free(e);
	return found;
}

void cache_remove(struct cache *c, uint64_t key)
{
	size_t n = 0;

	(void)cache_take(c, key, 0, NULL, &n);
}
