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
 * always come first.  Therefore the next few requests for a block are refused
 * if mutations were refused during the last block.  The requests are counted
 * and not timed, because the pauses of client and master grow alike.
 */
#include "engine/server/tables/tables.h"
#include "engine/base/clock.h"
#include "engine/meta/meta.h"

#include <errno.h>
#include <stdlib.h>

#define DRAIN_US 20000u /* how long a request for a block waits for the mutations under way */
#define TURNS 7u        /* requests for a block that are refused, the last one after a client's longest pause */

struct store_schema *tables_metadata(struct server *s)
{
	return store_schema_get(s->tables->metadata);
}

static unsigned at_locked(const struct tables *tables, uint32_t table)
{
	unsigned lo = 0, hi = tables->count;

	while (lo < hi) {
		unsigned mid = lo + (hi - lo) / 2;

		if (tables->v[mid]->table < table)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static struct user_table *find_locked(const struct tables *tables, uint32_t table)
{
	unsigned i = at_locked(tables, table);

	return i < tables->count && tables->v[i]->table == table ? tables->v[i] : NULL;
}

static int add_locked(struct tables *tables, uint32_t table, struct user_table **out)
{
	unsigned i = at_locked(tables, table);
	struct user_table *u;

	if (array_grow(&tables->v, tables->count, sizeof(struct user_table *)))
		return -ENOMEM;
	u = calloc(1, sizeof(*u));
	if (!u)
		return -ENOMEM;
	u->table = table;
	u->refs = 1;
	memmove(tables->v + i + 1, tables->v + i, (tables->count - i) * sizeof(struct user_table *));
	tables->v[i] = u;
	tables->count++;
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

static struct user_table *namesake_locked(const struct tables *tables, const struct user_table *u)
{
	for (unsigned i = 0; i < tables->count; i++)
		if (tables->v[i] != u && !tables->v[i]->frozen && strcmp(tables->v[i]->name, u->name) == 0)
			return tables->v[i];
	return NULL;
}

static void named_locked(struct tables *tables, struct user_table *u)
{
	const struct user_table *other = namesake_locked(tables, u);

	for (unsigned i = 0; other && i < TABLE_TRAFFIC; i++)
		raise_traffic(u, i, atomic_load(&other->traffic[i]));
	for (unsigned k = 0; k < NAMES_LEFT; k++) {
		struct name_left *l = &tables->names_left[k];

		if (strcmp(l->name, u->name))
			continue;
		for (unsigned i = 0; i < TABLE_TRAFFIC; i++)
			raise_traffic(u, i, l->traffic[i]);
		l->name[0] = 0;
	}
}

static void leaves_name_locked(struct tables *tables, const struct user_table *u)
{
	struct user_table *other = namesake_locked(tables, u);
	struct name_left *l = &tables->names_left[tables->next_left % NAMES_LEFT];

	for (unsigned i = 0; i < TABLE_TRAFFIC; i++) {
		if (other)
			raise_traffic(other, i, atomic_load(&u->traffic[i]));
		else
			l->traffic[i] = atomic_load(&u->traffic[i]);
	}
	if (other)
		return;
	memcpy(l->name, u->name, sizeof(l->name));
	tables->next_left++;
}

int user_table_get(struct server *s, uint32_t table, struct user_table **out)
{
	struct user_table *u;

	mutex_lock(&s->tables->lock);
	u = find_locked(s->tables, table);
	if (u)
		u->refs++;
	mutex_unlock(&s->tables->lock);
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
	mutex_lock(&s->tables->lock);
	last = --u->refs == 0;
	mutex_unlock(&s->tables->lock);
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

	mutex_lock(&s->tables->lock);
	schema = store_schema_get(u->schema);
	mutex_unlock(&s->tables->lock);
	return schema;
}

void user_table_name(struct server *s, struct user_table *u, char name[TFS_NAME_MAX + 1])
{
	mutex_lock(&s->tables->lock);
	memcpy(name, u->name, sizeof(u->name));
	mutex_unlock(&s->tables->lock);
}

int user_table_error(struct server *s, struct user_table *u)
{
	int err;

	mutex_lock(&s->tables->lock);
	err = u->read_err;
	mutex_unlock(&s->tables->lock);
	return err;
}

/* ---- schemas ---- */

/* Gives the table a new schema.  Returns the old one in *old and *old_access. */
static void set_schema_locked(struct tables *tables, struct user_table *u, const struct schema *schema, struct store_schema *store,
	struct store_schema **old, const struct schema **old_access)
{
	const struct tfs_schema *p = schema_public(schema);
	const bool named = !p->snapshot_of && strcmp(u->name, p->name) != 0;

	if (named && u->name[0])
		leaves_name_locked(tables, u);
	memcpy(u->name, p->name, sizeof(u->name));
	if (named)
		named_locked(tables, u);
	schema_file_name(p, u->file);
	if (!u->schema) { /* constant, and so read without the lock */
		u->frozen = p->snapshot_of;
		u->frozen_us = p->snapshot_us;
	}
	*old = u->schema;
	*old_access = u->access;
	u->schema = store_schema_get(store);
	u->access = schema_get(schema);
	u->generation = p->generation;
	atomic_store(&u->salt_waits, p->salt != p->salt_in_use && !p->snapshot_of);
}

int user_table_set_schema(struct server *s, const struct schema *schema, struct store_schema *store)
{
	struct tables *tables = s->tables;
	const struct tfs_schema *p = schema_public(schema);
	const struct schema *old_access = NULL;
	struct store_schema *old = NULL;
	struct user_table *u;
	bool newer = false;
	int err = 0;

	mutex_lock(&tables->lock);
	u = find_locked(tables, p->tablets_id);
	if (!u)
		err = add_locked(tables, p->tablets_id, &u);
	if (!err) {
		u->read_err = 0;
		newer = !u->schema || p->generation >= u->generation;
	}
	if (newer)
		set_schema_locked(tables, u, schema, store, &old, &old_access);
	mutex_unlock(&tables->lock);
	store_schema_put(old);
	schema_put(old_access);
	return err ? err : newer;
}

void user_table_tablets_have(struct server *s, uint32_t table, uint64_t generation)
{
	struct user_table *u;

	mutex_lock(&s->tables->lock);
	u = find_locked(s->tables, table);
	if (u)
		u->tablets_generation = generation;
	mutex_unlock(&s->tables->lock);
}

uint32_t tables_with_file(struct server *s, const char *file, uint32_t except, uint32_t after)
{
	struct tables *tables = s->tables;
	uint32_t table = 0;

	mutex_lock(&tables->lock);
	for (unsigned i = at_locked(tables, after + 1); i < tables->count && !table; i++)
		if (tables->v[i]->table != except && strcmp(tables->v[i]->file, file) == 0)
			table = tables->v[i]->table;
	mutex_unlock(&tables->lock);
	return table;
}

uint32_t tables_next(struct server *s, uint32_t after, bool unread, char file[SCHEMA_FILE_MAX])
{
	struct tables *tables = s->tables;
	uint32_t table = 0;

	mutex_lock(&tables->lock);
	for (unsigned i = at_locked(tables, after + 1); i < tables->count && !table; i++)
		if (!unread || tables->v[i]->read_err) {
			memcpy(file, tables->v[i]->file, SCHEMA_FILE_MAX);
			table = tables->v[i]->table;
		}
	mutex_unlock(&tables->lock);
	return table;
}

void user_table_file(struct server *s, const struct user_table *u, char file[SCHEMA_FILE_MAX])
{
	mutex_lock(&s->tables->lock);
	memcpy(file, u->file, SCHEMA_FILE_MAX);
	mutex_unlock(&s->tables->lock);
}

void user_table_set_error(struct server *s, uint32_t table, int err)
{
	struct user_table *u;

	mutex_lock(&s->tables->lock);
	u = find_locked(s->tables, table);
	if (u)
		u->read_err = err;
	mutex_unlock(&s->tables->lock);
}

bool user_table_remove(struct server *s, uint32_t table)
{
	struct tables *tables = s->tables;
	struct user_table *u;
	bool found;

	mutex_lock(&tables->lock);
	u = find_locked(tables, table);
	found = u;
	if (found) {
		const unsigned i = at_locked(tables, table);

		atomic_store(&u->dropped, true);
		if (!u->frozen)
			leaves_name_locked(tables, u);
		memmove(tables->v + i, tables->v + i + 1, (tables->count - i - 1) * sizeof(struct user_table *));
		tables->count--;
	}
	mutex_unlock(&tables->lock);
	user_table_put(s, u);
	return found;
}

bool user_table_is_behind(struct server *s, struct user_table *u, uint64_t generation)
{
	bool behind;

	mutex_lock(&s->tables->lock);
	behind = !u->dropped && (u->read_err || u->tablets_generation < generation);
	mutex_unlock(&s->tables->lock);
	return behind;
}

/* ---- access ---- */

const struct schema *user_table_access(struct server *s, struct user_table *u)
{
	const struct schema *access;

	mutex_lock(&s->tables->lock);
	access = u->access ? schema_get(u->access) : NULL;
	mutex_unlock(&s->tables->lock);
	return access;
}

/* Returns the table of this id; NULL if there is none.  Tables are sorted by their tablets ids, and the tablets id of most tables is the table's id. */
static struct user_table *table_by_id_locked(const struct tables *tables, uint32_t id)
{
	struct user_table *u = find_locked(tables, id);

	for (unsigned i = 0; !(u && u->access && !u->frozen && schema_public(u->access)->table_id == id); i++) {
		if (i == tables->count)
			return NULL;
		u = tables->v[i];
	}
	return u;
}

int user_table_restriction(
	struct server *s, struct user_table *u, const struct schema **then, const struct schema **now, const struct schema **made)
{
	const struct user_table *table;

	mutex_lock(&s->tables->lock);
	table = u->access ? table_by_id_locked(s->tables, schema_public(u->access)->snapshot_of) : NULL;
	*made = table && u->restricted_by == table->access ? schema_get(u->restricted) : NULL;
	if (table && !*made) {
		*then = schema_get(u->access);
		*now = schema_get(table->access);
	}
	mutex_unlock(&s->tables->lock);
	return table ? 0 : -EACCES;
}

void user_table_restrict(struct server *s, struct user_table *u, const struct schema *made, const struct schema *now)
{
	const struct schema *old, *old_by;

	mutex_lock(&s->tables->lock);
	old = u->restricted;
	old_by = u->restricted_by;
	u->restricted = made;
	u->restricted_by = now;
	mutex_unlock(&s->tables->lock);
	schema_put(old);
	schema_put(old_by);
}

static bool is_near_quota(const struct user_table *u)
{
	const uint64_t quota = u->schema && !u->frozen ? u->schema->quota : 0;

	return quota && u->used_bytes + u->since_bytes > quota - quota / 10;
}

struct table_counts tables_count(struct server *s)
{
	struct tables *tables = s->tables;
	struct table_counts n = {0};

	mutex_lock(&tables->lock);
	for (unsigned i = 0; i < tables->count; i++) {
		n.tables += !tables->v[i]->frozen;
		n.snapshots += tables->v[i]->frozen;
		n.salts_waiting += atomic_load(&tables->v[i]->salt_waits);
		n.near_quota += is_near_quota(tables->v[i]);
	}
	n.held_longest_us = tables->held_longest_us;
	mutex_unlock(&tables->lock);
	return n;
}

/* ---- mutations, and holds of them ---- */

int user_table_write_try(struct server *s, struct user_table *u, uint64_t generation, enum on_block on_block, unsigned reads,
	struct store_schema **schema)
{
	int err = 0;

	mutex_lock(&s->tables->lock);
	if (u->dropped)
		err = -TABLE_DROPPED;
	else if (u->read_err && reads)
		err = u->read_err;
	if (!err && u->write_blocks) {
		u->retire_deferred |= on_block == ON_BLOCK_RETURN;
		u->writes_refused |= on_block == ON_BLOCK_REFUSE;
		err = on_block == ON_BLOCK_RETURN ? WRITES_BLOCKED : -EAGAIN;
	}
	if (!err && (u->read_err || (u->generation < generation && reads <= 1)))
		err = WRITES_UNREAD;
	if (!err) {
		u->writers++;
		*schema = store_schema_get(u->schema);
	}
	mutex_unlock(&s->tables->lock);
	return err;
}

void user_table_write_end(struct server *s, struct user_table *u)
{
	mutex_lock(&s->tables->lock);
	if (--u->writers == 0 && u->write_blocks)
		cond_broadcast(&s->tables->drained);
	mutex_unlock(&s->tables->lock);
}

/* Ends one hold.  Returns true if a split or merge was put off. */
static bool hold_end_locked(struct user_table *u)
{
	bool retire_deferred;

	if (--u->write_blocks)
		return false;
	retire_deferred = u->retire_deferred;
	u->retire_deferred = false;
	u->turns = u->writes_refused ? TURNS : 0;
	u->writes_refused = false;
	return retire_deferred;
}

int user_table_hold_writes(struct server *s, uint32_t table)
{
	struct user_table *u;

	mutex_lock(&s->tables->lock);
	u = find_locked(s->tables, table);
	if (u)
		u->write_blocks++;
	mutex_unlock(&s->tables->lock);
	return u ? 0 : -TABLE_DROPPED;
}

bool user_table_release_writes(struct server *s, uint32_t table, uint64_t since_us)
{
	struct tables *tables = s->tables;
	const uint64_t held_us = monotonic_us() - since_us;
	struct user_table *u;
	bool retire_deferred;

	mutex_lock(&tables->lock);
	u = find_locked(tables, table);
	retire_deferred = u && hold_end_locked(u);
	if (held_us > tables->held_longest_us)
		tables->held_longest_us = held_us;
	mutex_unlock(&tables->lock);
	return retire_deferred;
}

static int block_locked(struct server *s, struct user_table *u)
{
	if (!u->blocked && u->turns) {
		u->turns--;
		return -EAGAIN;
	}
	if (!u->blocked)
		u->write_blocks++;
	u->blocked = true;
	if (u->writers)
		(void)cond_wait_us(&s->tables->drained, &s->tables->lock, DRAIN_US);
	return u->writers ? -EAGAIN : 0;
}

int user_table_block_writes(struct server *s, uint32_t table)
{
	struct user_table *u;
	int err = -ENOENT;

	mutex_lock(&s->tables->lock);
	u = find_locked(s->tables, table);
	if (u) {
		u->refs++;
		err = block_locked(s, u);
	}
	mutex_unlock(&s->tables->lock);
	user_table_put(s, u);
	return err;
}

bool user_table_unblock_writes(struct server *s, uint32_t table)
{
	bool retire_deferred = false;
	struct user_table *u;

	mutex_lock(&s->tables->lock);
	u = find_locked(s->tables, table);
	if (u && u->blocked) {
		u->blocked = false;
		retire_deferred = hold_end_locked(u);
	}
	mutex_unlock(&s->tables->lock);
	return retire_deferred;
}

int tables_see_term(struct server *s, uint64_t term, bool *deferred)
{
	struct tables *tables = s->tables;
	int err = 0;

	*deferred = false;
	mutex_lock(&tables->lock);
	if (term < tables->term)
		err = -SESSION_ENDED;
	for (unsigned i = 0; term > tables->term && i < tables->count; i++) {
		struct user_table *u = tables->v[i];

		if (!u->blocked)
			continue;
		/* The former master may have dropped the table, and the watch be late: the next mutation reads the schema first. */
		u->read_err = u->read_err ? u->read_err : -TABLET_MOVED;
		u->blocked = false;
		*deferred |= hold_end_locked(u);
	}
	tables->term = term > tables->term ? term : tables->term;
	mutex_unlock(&tables->lock);
	return err;
}

struct quotas *tables_quotas(struct server *s)
{
	return s->tables->quotas;
}

void tables_set_quotas(struct server *s, struct quotas *q)
{
	s->tables->quotas = q;
}

int tables_with_quota(struct server *s, struct user_table ***out, unsigned *count)
{
	struct tables *tables = s->tables;
	struct user_table **v;
	unsigned n = 0;

	mutex_lock(&tables->lock);
	v = malloc((tables->count + 1u) * sizeof(struct user_table *));
	for (unsigned i = 0; v && i < tables->count; i++) {
		struct user_table *u = tables->v[i];

		if (!u->schema || !u->schema->quota || u->frozen)
			continue;
		u->refs++;
		v[n++] = u;
	}
	mutex_unlock(&tables->lock);
	if (!v)
		return -ENOMEM;
	*out = v;
	*count = n;
	return 0;
}

static int begin(struct server *s, struct task_pool *pool)
{
	mutex_init(&s->tables->lock, RANK_SERVER);
	cond_init(&s->tables->drained);
	return meta_store_schema(&s->tables->metadata);
}

static void end(struct server *s)
{
	struct tables *tables = s->tables;

	for (unsigned i = 0; i < tables->count; i++)
		user_table_put(s, tables->v[i]);
	free(tables->v);
	store_schema_put(tables->metadata);
	cond_fini(&tables->drained);
	mutex_fini(&tables->lock);
}

const struct server_part tables_part = {offsetof(struct server, tables), sizeof(struct tables), begin, NULL, end};
