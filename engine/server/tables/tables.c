/* SPDX-License-Identifier: Apache-2.0 */
/*
 * User tables by id, and holds of their writes.  schemas.c reads their schemas.
 *
 * A drop must not remove a write that was acknowledged.  So the master blocks a
 * table's writes before it checks whether the table or a family is empty.  A
 * snapshot holds them while it freezes the table's tablets.  Meanwhile new
 * mutations get -EAGAIN, and their clients send them again, so that none of them
 * occupies a worker.
 *
 * A master's block belongs to its term.  The master sends it again until no
 * mutation is under way.  It ends with TS_UNBLOCK_WRITES, or when the server
 * sees a later term: a master that has died cannot end its blocks.
 *
 * A client pauses before it sends a mutation again, so the next block could
 * always come first.  Therefore the next few requests for a block are refused if
 * mutations were refused during the last one.  The requests are counted and not
 * timed, because the pauses of both sides grow alike.
 */
#include "engine/base/clock.h"
#include "engine/server/internal.h"

#include <errno.h>
#include <stdlib.h>

#define DRAIN_US 20000u /* a request for a block waits so long for the mutations under way */
#define TURNS 7u        /* requests for a block that are refused: the last one after a client's longest pause */

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

/* ---- the counters of a name ---- */

static void raise_traffic(struct user_table *u, unsigned i, uint64_t to)
{
	uint64_t n = atomic_load(&u->traffic[i]);

	while (n < to && !atomic_compare_exchange_weak(&u->traffic[i], &n, to))
		;
}

static struct user_table *namesake_locked(const struct server *s, const struct user_table *u)
{
	for (unsigned i = 0; i < s->table_count; i++)
		if (s->tables[i] != u && !s->tables[i]->frozen && strcmp(s->tables[i]->name, u->name) == 0)
			return s->tables[i];
	return NULL;
}

void user_table_named_locked(struct server *s, struct user_table *u)
{
	const struct user_table *other = namesake_locked(s, u);

	for (unsigned i = 0; other && i < TABLE_TRAFFIC; i++)
		raise_traffic(u, i, atomic_load(&other->traffic[i]));
	for (unsigned k = 0; k < NAMES_LEFT; k++) {
		struct name_left *l = &s->names_left[k];

		if (strcmp(l->name, u->name))
			continue;
		for (unsigned i = 0; i < TABLE_TRAFFIC; i++)
			raise_traffic(u, i, l->traffic[i]);
		l->name[0] = 0;
	}
}

void user_table_leaves_name_locked(struct server *s, const struct user_table *u)
{
	struct user_table *other = namesake_locked(s, u);
	struct name_left *l = &s->names_left[s->next_left % NAMES_LEFT];

	for (unsigned i = 0; i < TABLE_TRAFFIC; i++) {
		if (other)
			raise_traffic(other, i, atomic_load(&u->traffic[i]));
		else
			l->traffic[i] = atomic_load(&u->traffic[i]);
	}
	if (other)
		return;
	memcpy(l->name, u->name, sizeof(l->name));
	s->next_left++;
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
		return -TABLE_DROPPED;
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
	schema_put(u->restricted);
	schema_put(u->restricted_by);
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

int user_table_error(struct server *s, struct user_table *u)
{
	int err;

	mutex_lock(&s->lock);
	err = u->read_err;
	mutex_unlock(&s->lock);
	return err;
}

/* ---- holds of writes ---- */

void user_table_write_end(struct server *s, struct user_table *u)
{
	mutex_lock(&s->lock);
	if (--u->writers == 0 && u->write_blocks)
		cond_broadcast(&s->changed);
	mutex_unlock(&s->lock);
}

/* Ends one hold.  Returns true if moves_task must run. */
static bool hold_end_locked(struct server *s, struct user_table *u)
{
	bool move_deferred;

	if (--u->write_blocks)
		return false;
	cond_broadcast(&s->changed);
	move_deferred = u->move_deferred;
	u->move_deferred = false;
	u->turns = u->writes_refused ? TURNS : 0;
	u->writes_refused = false;
	return move_deferred;
}

int user_table_hold_writes(struct server *s, uint32_t table)
{
	struct user_table *u;

	mutex_lock(&s->lock);
	u = user_table_find_locked(s, table);
	if (u)
		u->write_blocks++;
	mutex_unlock(&s->lock);
	return u ? 0 : -TABLE_DROPPED;
}

void user_table_release_writes(struct server *s, uint32_t table)
{
	struct user_table *u;
	bool move_deferred;

	mutex_lock(&s->lock);
	u = user_table_find_locked(s, table);
	move_deferred = u && hold_end_locked(s, u);
	mutex_unlock(&s->lock);
	if (move_deferred)
		server_queue(s, &s->moves_task);
}

static int block_locked(struct server *s, struct user_table *u, uint64_t term)
{
	if (!u->blocked && u->turns) {
		u->turns--;
		return -EAGAIN;
	}
	if (!u->blocked)
		u->write_blocks++;
	u->blocked = true;
	u->block_term = term;
	if (u->writers)
		(void)cond_wait_us(&s->changed, &s->lock, DRAIN_US);
	return u->writers ? -EAGAIN : 0;
}

int user_table_block_writes(struct server *s, uint32_t table, uint64_t term)
{
	struct user_table *u;
	int err = -ENOENT;

	mutex_lock(&s->lock);
	u = user_table_find_locked(s, table);
	if (u) {
		u->refs++;
		err = block_locked(s, u, term);
	}
	mutex_unlock(&s->lock);
	user_table_put(s, u);
	return err;
}

void user_table_unblock_writes(struct server *s, uint32_t table)
{
	bool move_deferred = false;
	struct user_table *u;

	mutex_lock(&s->lock);
	u = user_table_find_locked(s, table);
	if (u && u->blocked) {
		u->blocked = false;
		move_deferred = hold_end_locked(s, u);
	}
	mutex_unlock(&s->lock);
	if (move_deferred)
		server_queue(s, &s->moves_task);
}

int server_see_term(struct server *s, uint64_t term)
{
	bool move_deferred = false;
	int err = 0;

	mutex_lock(&s->lock);
	if (term < s->term)
		err = -SESSION_ENDED;
	for (unsigned i = 0; term > s->term && i < s->table_count; i++) {
		struct user_table *u = s->tables[i];

		if (!u->blocked)
			continue;
		/* The former master may have dropped the table, and the watch be late: the next mutation reads the schema first. */
		u->read_err = u->read_err ? u->read_err : -TABLET_MOVED;
		u->blocked = false;
		move_deferred |= hold_end_locked(s, u);
	}
	s->term = term > s->term ? term : s->term;
	mutex_unlock(&s->lock);
	if (move_deferred)
		server_queue(s, &s->moves_task);
	return err;
}
