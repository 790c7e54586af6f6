/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables whose schemas this server has, by id, and the holds of their
 * writes.  schemas.c reads the schemas.
 *
 * A write that is acknowledged must not vanish with a drop that then
 * succeeds.  So the master holds a table's writes before it decides whether
 * the table or a family is empty: schemas_hold waits for the mutations under
 * way, and new ones wait until the table has been dropped, the new schema is
 * read here, or the master ends the hold.
 */
#include "engine/server/internal.h"

#include <errno.h>
#include <stdlib.h>

/* Where the table is, or would be inserted. */
unsigned known_at_locked(const struct server *s, uint32_t table)
{
	unsigned lo = 0, hi = s->known_count;

	while (lo < hi) {
		unsigned mid = lo + (hi - lo) / 2;

		if (s->known[mid]->table < table)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

struct known *known_find_locked(const struct server *s, uint32_t table)
{
	unsigned i = known_at_locked(s, table);

	return i < s->known_count && s->known[i]->table == table ? s->known[i] : NULL;
}

int known_add_locked(struct server *s, uint32_t table, struct known **out)
{
	unsigned i = known_at_locked(s, table);
	struct known *k;

	if (s->known_count == s->known_cap) {
		unsigned cap = s->known_cap ? s->known_cap * 2 : 16;
		struct known **grown = realloc(s->known, cap * sizeof(struct known *));

		if (!grown)
			return -ENOMEM;
		s->known = grown;
		s->known_cap = cap;
	}
	k = calloc(1, sizeof(*k));
	if (!k)
		return -ENOMEM;
	k->table = table;
	k->refs = 1;
	memmove(s->known + i + 1, s->known + i, (s->known_count - i) * sizeof(struct known *));
	s->known[i] = k;
	s->known_count++;
	*out = k;
	return 0;
}

int known_get(struct server *s, uint32_t table, struct known **out)
{
	struct known *k;

	mutex_lock(&s->lock);
	k = known_find_locked(s, table);
	if (k)
		k->refs++;
	mutex_unlock(&s->lock);
	if (!k)
		return -EIDRM;
	*out = k;
	return 0;
}

void known_put(struct server *s, struct known *k)
{
	bool last;

	if (!k)
		return;
	mutex_lock(&s->lock);
	last = --k->refs == 0;
	mutex_unlock(&s->lock);
	if (!last)
		return;
	if (k->gone)
		s->table_dropped(s, k->table);
	store_schema_put(k->schema);
	free(k);
}

struct store_schema *known_schema(struct server *s, struct known *k)
{
	struct store_schema *schema;

	mutex_lock(&s->lock);
	schema = store_schema_get(k->schema);
	mutex_unlock(&s->lock);
	return schema;
}

bool known_gone(struct server *s, struct known *k)
{
	bool gone;

	mutex_lock(&s->lock);
	gone = k->gone;
	mutex_unlock(&s->lock);
	return gone;
}

/* ---- holds of writes ---- */

void known_write_end(struct server *s, struct known *k)
{
	mutex_lock(&s->lock);
	if (--k->writers == 0 && k->holds)
		cond_broadcast(&s->changed);
	mutex_unlock(&s->lock);
}

int schemas_hold(struct server *s, uint32_t table)
{
	struct known *k;

	mutex_lock(&s->lock);
	k = known_find_locked(s, table);
	if (k) {
		k->holds++;
		k->refs++;
		while (k->writers)
			cond_wait(&s->changed, &s->lock);
	}
	mutex_unlock(&s->lock);
	if (!k)
		return -ENOENT;
	known_put(s, k);
	return 0;
}

void schemas_let_go(struct server *s, uint32_t table)
{
	bool left_off = false;
	struct known *k;

	mutex_lock(&s->lock);
	k = known_find_locked(s, table);
	if (k && k->holds && --k->holds == 0) {
		cond_broadcast(&s->changed);
		left_off = k->left_off;
		k->left_off = false;
	}
	mutex_unlock(&s->lock);
	if (left_off && !s->no_background && !s->recovering && !s->closing)
		task_queue(&s->split);
}

void schemas_wait(struct server *s, uint32_t table)
{
	struct known *k;

	mutex_lock(&s->lock);
	while ((k = known_find_locked(s, table)) != NULL && k->holds)
		cond_wait(&s->changed, &s->lock);
	mutex_unlock(&s->lock);
}
