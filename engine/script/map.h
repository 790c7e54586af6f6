/* SPDX-License-Identifier: Apache-2.0 */
/* A table from keys to sums and counts, whose memory counts against a budget. */
#ifndef TFS_SCRIPT_MAP_H
#define TFS_SCRIPT_MAP_H

#include "engine/script/budget.h"
#include "engine/script/total.h"

struct map_entry {
	struct total total; /* count_by, sum_by */
	uint64_t count;     /* top, quantiles */
	double least;       /* quantiles */
	uint64_t hash;
	size_t key_bytes;
	uint8_t key[];
};

struct map {
	struct map_entry **slots; /* NULL: free */
	size_t capacity, count;   /* capacity: a power of two, or 0 */
};

/* Finds the entry of a key, or adds one with zeros.  The map owns it. */
int map_get(struct map *m, struct budget *b, struct tfs_bytes key, struct map_entry **out) TFS_MUST;
/* Removes the entries for which drop() returns true; it may change entries.  After an error the map can only be freed. */
int map_filter(struct map *m, struct budget *b, bool (*drop)(struct map_entry *e, void *arg), void *arg) TFS_MUST;
void map_free(struct map *m, struct budget *b);
/* Returns an array of m->count entries in the order of their keys, or of their counts from the greatest, then keys; NULL and *err.  The caller frees it with budget_free. */
struct map_entry **map_sorted(const struct map *m, struct budget *b, bool by_count, int *err) TFS_MUST;
static inline struct tfs_bytes map_key(const struct map_entry *e)
{
	return tfs_bytes_of(e->key, e->key_bytes);
}

#endif
