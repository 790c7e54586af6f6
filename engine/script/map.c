/* SPDX-License-Identifier: Apache-2.0 */
/* An open hash table of entries; a key's slot is the first free one from its hash on. */
#include "engine/script/map.h"
#include "engine/base/hash.h"

#include <stdlib.h>

static struct map_entry **slot_of(const struct map *m, struct tfs_bytes key, uint64_t hash)
{
	size_t i = hash & (m->capacity - 1);

	while (m->slots[i] && (m->slots[i]->hash != hash || !bytes_eq(map_key(m->slots[i]), key)))
		i = (i + 1) & (m->capacity - 1);
	return &m->slots[i];
}

static int set_capacity(struct map *m, struct budget *b, size_t capacity)
{
	struct map old = *m;
	int err;

	m->slots = budget_alloc(b, capacity * sizeof(*m->slots), &err);
	if (!m->slots) {
		*m = old;
		return err;
	}
	m->capacity = capacity;
	for (size_t i = 0; i < old.capacity; i++) {
		if (old.slots[i])
			*slot_of(m, map_key(old.slots[i]), old.slots[i]->hash) = old.slots[i];
	}
	budget_free(b, old.slots, old.capacity * sizeof(*m->slots));
	return 0;
}

int map_get(struct map *m, struct budget *b, struct tfs_bytes key, struct map_entry **out)
{
	const uint64_t hash = hash_private(0, key);
	struct map_entry **slot = m->capacity ? slot_of(m, key, hash) : NULL, *e;
	int err;

	if (slot && *slot) {
		*out = *slot;
		return 0;
	}
	if ((m->count + 1) * 4 > m->capacity * 3) {
		err = set_capacity(m, b, m->capacity ? m->capacity * 2 : 16);
		if (err)
			return err;
		slot = slot_of(m, key, hash);
	}
	e = budget_alloc(b, sizeof(*e) + key.n, &err);
	if (!e)
		return err;
	e->hash = hash;
	e->key_bytes = key.n;
	if (key.n)
		memcpy(e->key, key.p, key.n);
	*slot = e;
	m->count++;
	*out = e;
	return 0;
}

static void free_entry(struct map_entry *e, struct budget *b)
{
	budget_free(b, e, sizeof(*e) + e->key_bytes);
}

int map_filter(struct map *m, struct budget *b, bool (*drop)(struct map_entry *e, void *arg), void *arg)
{
	for (size_t i = 0; i < m->capacity; i++) {
		if (m->slots[i] && drop(m->slots[i], arg)) {
			free_entry(m->slots[i], b);
			m->slots[i] = NULL;
			m->count--;
		}
	}
	return m->capacity ? set_capacity(m, b, m->capacity) : 0;
}

void map_free(struct map *m, struct budget *b)
{
	for (size_t i = 0; i < m->capacity; i++) {
		if (m->slots[i])
			free_entry(m->slots[i], b);
	}
	budget_free(b, m->slots, m->capacity * sizeof(*m->slots));
	*m = (struct map){0};
}

static int key_order(const void *a, const void *b)
{
	return bytes_cmp(map_key(*(struct map_entry *const *)a), map_key(*(struct map_entry *const *)b));
}

static int count_order(const void *a, const void *b)
{
	const struct map_entry *x = *(struct map_entry *const *)a, *y = *(struct map_entry *const *)b;

	return x->count != y->count ? (x->count < y->count) - (x->count > y->count) : bytes_cmp(map_key(x), map_key(y));
}

struct map_entry **map_sorted(const struct map *m, struct budget *b, bool by_count, int *err)
{
	struct map_entry **all = budget_alloc(b, (m->count + 1) * sizeof(struct map_entry *), err);
	size_t n = 0;

	if (!all)
		return NULL;
	for (size_t i = 0; i < m->capacity; i++) {
		if (m->slots[i])
			all[n++] = m->slots[i];
	}
	qsort(all, n, sizeof(*all), by_count ? count_order : key_order);
	return all;
}
