/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The schemas that this server knows, by table id: read from the lock
 * service's tables/NAME at start, kept true by its watch, and read again
 * when a client knows a later one.
 */
#include "engine/base/msg.h"
#include "engine/server/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static struct known *known_find_locked(struct server *s, uint32_t table)
{
	for (unsigned i = 0; i < s->known_count; i++)
		if (s->known[i].table == table)
			return &s->known[i];
	return NULL;
}

/* Puts the schema in; hands the tablets the new one. */
static int known_set(struct server *s, const struct schema *schema)
{
	const struct tfs_schema *p = schema_public(schema);
	struct store_schema *now = NULL, *old = NULL;
	struct held **list = NULL;
	struct known *k;
	unsigned count = 0;
	int err = schema_store(schema, &now);

	if (err)
		return err;
	mutex_lock(&s->lock);
	k = known_find_locked(s, p->table_id);
	if (!k && s->known_count == s->known_cap) {
		unsigned cap = s->known_cap ? s->known_cap * 2 : 16;
		struct known *grown = realloc(s->known, cap * sizeof(*grown));

		if (!grown) {
			mutex_unlock(&s->lock);
			store_schema_put(now);
			return -ENOMEM;
		}
		s->known = grown;
		s->known_cap = cap;
	}
	if (!k) {
		k = &s->known[s->known_count++];
		*k = (struct known){.table = p->table_id};
	}
	memcpy(k->name, p->name, sizeof(k->name));
	if (!k->schema || p->generation >= k->generation) {
		old = k->schema;
		k->schema = store_schema_get(now);
		k->generation = p->generation;
	}
	mutex_unlock(&s->lock);
	store_schema_put(old);
	err = held_list(s, p->table_id, &list, &count);
	for (unsigned i = 0; i < count; i++) {
		tablet_set_schema(list[i]->tablet, now);
		held_put(list[i]);
	}
	free(list);
	store_schema_put(now);
	return err;
}

static int known_read(struct server *s, const char *file)
{
	struct schema *schema = NULL;
	struct buf b = {0};
	uint64_t version;
	int err = lock_get(s->locks, file, &b, &version);

	if (!err)
		err = schema_decode(buf_slice(&b), &schema);
	if (!err)
		err = known_set(s, schema);
	if (err && err != -ENOENT)
		msg_error("lock service file %s: %s", file, strerror(-err));
	schema_put(schema);
	buf_fini(&b);
	return err;
}

static int read_one(void *arg, const char *name)
{
	char file[sizeof("tables/") + TFS_NAME_MAX + 1];
	int err;

	snprintf(file, sizeof(file), "tables/%s", name);
	err = known_read(arg, file);
	return err == -ENOENT ? 0 : err;
}

struct present {
	struct server *s;
	uint32_t *ids;
	unsigned count, cap;
};

static int note_present(void *arg, const char *name)
{
	struct present *p = arg;
	char file[sizeof("tables/") + TFS_NAME_MAX + 1];
	struct schema *schema = NULL;
	struct buf b = {0};
	uint64_t version;
	int err;

	snprintf(file, sizeof(file), "tables/%s", name);
	err = lock_get(p->s->locks, file, &b, &version);
	if (!err)
		err = schema_decode(buf_slice(&b), &schema);
	if (!err && p->count == p->cap) {
		unsigned cap = p->cap ? p->cap * 2 : 16;
		uint32_t *ids = realloc(p->ids, cap * sizeof(*ids));

		if (ids) {
			p->ids = ids;
			p->cap = cap;
		} else {
			err = -ENOMEM;
		}
	}
	if (!err)
		p->ids[p->count++] = schema_public(schema)->table_id;
	schema_put(schema);
	buf_fini(&b);
	return err == -ENOENT ? 0 : err;
}

/* A name went: unless the table lives on under another one, its tablets go too. */
static void forget_missing(struct server *s)
{
	struct present p = {.s = s};

	if (s->locks->ops->list(s->locks, "tables", note_present, &p))
		goto out; /* unsure: keep serving; a client of a dropped table has no schema to speak with */
	for (;;) {
		struct store_schema *schema = NULL;
		uint32_t gone = 0;

		mutex_lock(&s->lock);
		for (unsigned i = 0; i < s->known_count && !gone; i++) {
			bool found = false;

			for (unsigned j = 0; j < p.count && !found; j++)
				found = p.ids[j] == s->known[i].table;
			if (!found) {
				gone = s->known[i].table;
				schema = s->known[i].schema;
				s->known[i] = s->known[--s->known_count];
			}
		}
		mutex_unlock(&s->lock);
		if (!gone)
			break;
		store_schema_put(schema);
		held_drop_table(s, gone);
	}
out:
	free(p.ids);
}

static void table_changed(void *arg, const char *name)
{
	if (known_read(arg, name) == -ENOENT)
		forget_missing(arg);
}

bool schemas_know(struct server *s, uint32_t table)
{
	bool known;

	mutex_lock(&s->lock);
	known = known_find_locked(s, table) != NULL;
	mutex_unlock(&s->lock);
	return known;
}

int schemas_load(struct server *s)
{
	int err = s->locks->ops->watch(s->locks, "tables/", table_changed, s);

	if (err)
		return err;
	return s->locks->ops->list(s->locks, "tables", read_one, s);
}

int schemas_get(struct server *s, uint32_t table, uint64_t generation, struct store_schema **out)
{
	for (int pass = 0; pass < 2; pass++) {
		struct known *k;
		bool current;

		mutex_lock(&s->lock);
		k = known_find_locked(s, table);
		current = k && (k->generation >= generation || pass == 1);
		if (current)
			*out = store_schema_get(k->schema);
		mutex_unlock(&s->lock);
		if (current)
			return 0;
		if (pass == 0) {
			int err = s->locks->ops->list(s->locks, "tables", read_one, s);

			if (err)
				return err;
		}
	}
	return -ENOENT;
}

void schemas_free(struct server *s)
{
	s->locks->ops->unwatch(s->locks, table_changed, s);
	for (unsigned i = 0; i < s->known_count; i++)
		store_schema_put(s->known[i].schema);
	free(s->known);
	s->known = NULL;
	s->known_count = s->known_cap = 0;
}
