/* SPDX-License-Identifier: Apache-2.0 */
/*
 * User tables by id, and blocks of their writes.  schemas.c reads their schemas.
 *
 * A drop must not remove a write that was acknowledged.  So the master blocks a
 * table's writes before it checks whether the table or a family is empty.
 * user_table_block_writes waits for the mutations under way.  New mutations wait
 * until the master ends the block, or until the table was dropped.
 */
#include "engine/server/internal.h"

#include <errno.h>
#include <stdlib.h>

unsigned user_table_at_locked(const struct server *s, uint32_t table)
{
	unsigned lo = 0, hi = s->table_count;

	while (lo < hi) {
		unsigned mid = lo + (hi - lo) / 2;

		if (s->tables[mid]->table < table)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

struct user_table *user_table_find_locked(const struct server *s, uint32_t table)
{
	unsigned i = user_table_at_locked(s, table);

	return i < s->table_count && s->tables[i]->table == table ? s->tables[i] : NULL;
}

int user_table_add_locked(struct server *s, uint32_t table, struct user_table **out)
{
	unsigned i = user_table_at_locked(s, table);
	struct user_table *u;

	if (array_grow(&s->tables, s->table_count, sizeof(struct user_table *)))
		return -ENOMEM;
	u = calloc(1, sizeof(*u));
	if (!u)
		return -ENOMEM;
	u->table = table;
	u->refs = 1;
	memmove(s->tables + i + 1, s->tables + i, (s->table_count - i) * sizeof(struct user_table *));
	s->tables[i] = u;
	s->table_count++;
	*out = u;
	return 0;
}

int user_table_get(struct server *s, uint32_t table, struct user_table **out)
{
	struct user_table *u;

	mutex_lock(&s->lock);
	u = user_table_find_locked(s, table);
	if (u)
		u->refs++;
	mutex_unlock(&s->lock);
	if (!u)
		return -EIDRM;
	*out = u;
	return 0;
}

void user_table_put(struct server *s, struct user_table *u)
{
	bool last;

	if (!u)
		return;
	mutex_lock(&s->lock);
	last = --u->refs == 0;
	mutex_unlock(&s->lock);
	if (!last)
		return;
	store_schema_put(u->schema);
	schema_put(u->access);
	free(u);
}

struct store_schema *user_table_schema(struct server *s, struct user_table *u)
{
	struct store_schema *schema;

	mutex_lock(&s->lock);
	schema = store_schema_get(u->schema);
	mutex_unlock(&s->lock);
	return schema;
}

bool user_table_dropped(struct server *s, struct user_table *u)
{
	bool dropped;

	mutex_lock(&s->lock);
	dropped = u->dropped;
	mutex_unlock(&s->lock);
	return dropped;
}

/* ---- blocks of writes ---- */

void user_table_write_end(struct server *s, struct user_table *u)
{
	mutex_lock(&s->lock);
	if (--u->writers == 0 && u->write_blocks)
		cond_broadcast(&s->changed);
	mutex_unlock(&s->lock);
}

int user_table_hold_writes(struct server *s, uint32_t table)
{
	struct user_table *u;

	mutex_lock(&s->lock);
	u = user_table_find_locked(s, table);
	if (u)
		u->write_blocks++;
	mutex_unlock(&s->lock);
	return u ? 0 : -EIDRM;
}

int user_table_block_writes(struct server *s, uint32_t table)
{
	struct user_table *u;

	mutex_lock(&s->lock);
	u = user_table_find_locked(s, table);
	if (u) {
		u->write_blocks++;
		u->refs++;
		while (u->writers)
			cond_wait(&s->changed, &s->lock);
	}
	mutex_unlock(&s->lock);
	if (!u)
		return -ENOENT;
	user_table_put(s, u);
	return 0;
}

void user_table_unblock_writes(struct server *s, uint32_t table)
{
	bool move_deferred = false;
	struct user_table *u;

	mutex_lock(&s->lock);
	u = user_table_find_locked(s, table);
	if (u && u->write_blocks && --u->write_blocks == 0) {
		cond_broadcast(&s->changed);
		move_deferred = u->move_deferred;
		u->move_deferred = false;
	}
	mutex_unlock(&s->lock);
	if (move_deferred)
		server_queue(s, &s->moves_task);
}

void user_table_wait_for_unblock(struct server *s, uint32_t table)
{
	struct user_table *u;

	mutex_lock(&s->lock);
	while ((u = user_table_find_locked(s, table)) != NULL && u->write_blocks)
		cond_wait(&s->changed, &s->lock);
	mutex_unlock(&s->lock);
}
