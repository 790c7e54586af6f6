/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bounded cache: byte strings by node, each with a stamp of its user's choice.  When it
 * is full, the oldest entries are removed.  An entry is found by the whole key of its
 * node (node_append_key), so it stays when the kernel forgets the node, and no other node
 * can have it.  `also`: other bytes on which the entry depends; they are part of the key.
 * Threads: any; leaf lock (RANK_FS_NOTIFY).
 */
#ifndef TFS_FS_BASE_CACHE_H
#define TFS_FS_BASE_CACHE_H

#include "engine/base/bytes.h"
#include "engine/base/mutex.h"

struct cached;
struct node;
struct cache {
	struct mutex lock;
	struct cached *entries; /* uthash lists them in the order of age */
	size_t bytes, bytes_max;
	_Atomic bool any; /* something was put: readers of an unused cache take no lock */
};

/* bytes_max bounds the memory of all entries. */
void cache_init(struct cache *c, size_t bytes_max);
void cache_fini(struct cache *c);
/* Copies the bytes, and replaces an entry with the same key.  Out of memory: there is no entry. */
void cache_put(struct cache *c, const struct node *of, struct tfs_bytes also, uint64_t stamp, const void *p, size_t n);
/* Appends the bytes to out, unless that is NULL.  Returns false, and leaves *stamp, if there is no entry or no memory. */
bool cache_get(struct cache *c, const struct node *of, struct tfs_bytes also, uint64_t *stamp, struct buf *out);
/* Removes the entry without `also`.  Copies it to p if it has this stamp and at most *n bytes; then sets *n and returns true. */
bool cache_take(struct cache *c, const struct node *of, uint64_t stamp, void *p, size_t *n);
void cache_remove(struct cache *c, const struct node *of);

#endif
