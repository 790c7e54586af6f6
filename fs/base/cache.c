/* SPDX-License-Identifier: Apache-2.0 */
/* A bounded cache of byte strings by node (cache.h).  If there is no memory for its table, uthash adds nothing. */
#include "fs/base/cache.h"

#include "engine/base/hashtable.h"
#include "fs/base/node.h"

#include <stdlib.h>

struct cached {
	UT_hash_handle hh;
	uint64_t stamp;
	size_t key_n, n;
	uint8_t data[]; /* the key, then the bytes */
};

/* With malloc's overhead and a bucket. */
static size_t cached_bytes(const struct cached *e)
{
	return sizeof(*e) + e->key_n + e->n + 24;
}

void cache_init(struct cache *c, size_t bytes_max)
{
	*c = (struct cache){.bytes_max = bytes_max};
	mutex_init(&c->lock, RANK_FS_NOTIFY);
}

static int key_of(const struct node *of, struct tfs_bytes also, struct buf *key)
{
	int err = node_append_key(of, key);

	return err ? err : buf_append_bytes(key, also);
}

static struct cached *find_locked(struct cache *c, const struct buf *key)
{
	struct cached *e;

	HASH_FIND(hh, c->entries, key->p, key->n, e);
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

void cache_put(struct cache *c, const struct node *of, struct tfs_bytes also, uint64_t stamp, const void *p, size_t n)
{
	struct cached *e = NULL, *old;
	struct buf key = {0};

	if (key_of(of, also, &key))
		goto out;
	e = malloc(sizeof(*e) + key.n + n);
	if (e) {
		*e = (struct cached){.stamp = stamp, .key_n = key.n, .n = n};
		if (key.n)
			memcpy(e->data, key.p, key.n);
		if (n)
			memcpy(e->data + key.n, p, n);
	}
	mutex_lock(&c->lock);
	old = find_locked(c, &key);
	if (old)
		remove_locked(c, old);
	if (e) {
		HASH_ADD_KEYPTR(hh, c->entries, e->data, e->key_n, e);
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
out:
	buf_fini(&key);
}

bool cache_get(struct cache *c, const struct node *of, struct tfs_bytes also, uint64_t *stamp, struct buf *out)
{
	const struct cached *e;
	struct buf key = {0};
	bool found = false;

	if (!c->any)
		return false;
	if (key_of(of, also, &key) == 0) {
		mutex_lock(&c->lock);
		e = find_locked(c, &key);
		found = e && (!out || buf_append(out, e->data + e->key_n, e->n) == 0);
		if (found)
			*stamp = e->stamp;
		mutex_unlock(&c->lock);
	}
	buf_fini(&key);
	return found;
}

bool cache_take(struct cache *c, const struct node *of, uint64_t stamp, void *p, size_t *n)
{
	struct buf key = {0};
	struct cached *e;
	bool found = false;

	if (!c->any)
		return false;
	if (key_of(of, tfs_bytes_of(NULL, 0), &key) == 0) {
		mutex_lock(&c->lock);
		e = find_locked(c, &key);
		found = e && e->stamp == stamp && e->n <= *n;
		if (found) {
			if (e->n)
				memcpy(p, e->data + e->key_n, e->n);
			*n = e->n;
		}
		if (e)
			remove_locked(c, e);
		mutex_unlock(&c->lock);
	}
	buf_fini(&key);
	return found;
}

void cache_remove(struct cache *c, const struct node *of)
{
	size_t n = 0;

	(void)cache_take(c, of, 0, NULL, &n);
}
