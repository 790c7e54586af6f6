/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The master's work before the store serves requests.  It lists each .schema
 * again that was unlinked during the last mount, checks that the next table id
 * is above all ids in use, collects the tables with a pending salt (change.c), and
 * has all tablets served (assign.c).
 */
#include "engine/base/msg.h"
#include "master/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* Adds a table or snapshot. */
static int start_add(struct start *s, uint32_t id, const char *name)
{
	if (array_grow(&s->tables, s->table_count, sizeof(*s->tables)))
		return -ENOMEM;
	s->tables[s->table_count].id = id;
	snprintf(s->tables[s->table_count++].name, sizeof(s->tables->name), "%s", name);
	return 0;
}

static int by_id(const void *a, const void *b)
{
	const uint32_t x = ((const struct known_table *)a)->id, y = ((const struct known_table *)b)->id;

	return (x > y) - (x < y);
}

static int schema_show(struct master *m, const struct schema *s, uint64_t version)
{
	const struct tfs_schema_edit shown = {.op = TFS_SCHEMA_HIDE, .flag = false};
	struct schema *next = NULL;
	int err = schema_edit(s, &shown, clock_now(m->clock), &next, NULL);

	if (!err)
		err = master_schema_write(m, schema_public(s), next, version);
	schema_put(next);
	return err;
}

static int start_snapshot(void *arg, uint32_t table, const char *name)
{
	struct start *s = arg;
	struct schema *schema = NULL;
	uint64_t version;
	int err = schemas_snapshot(s->m->locks, table, name, &schema, &version);

	if (err == -EBADMSG)
		s->refused++;
	if (err)
		return err == -EBADMSG || err == -ENOENT ? 0 : err; /* the same as for a table */
	if (schema_public(schema)->table_id >= s->next_id) {
		err = -EBADMSG;
		why_set(s->why, "lock/ids: the next table id is %u, but snapshot %s of table id %u has id %u", s->next_id, name,
			table, schema_public(schema)->table_id);
	}
	if (!err)
		err = start_add(s, schema_public(schema)->tablets_id, name);
	schema_put(schema);
	return err;
}

static int start_table(void *arg, const char *name)
{
	struct start *s = arg;
	struct schema *schema = NULL;
	const struct tfs_schema *p;
	uint64_t version;
	int err = schemas_table(s->m->locks, name, &schema, &version);

	if (err == -EBADMSG) {
		s->refused++;
		return 0; /* the server refuses the table, and has logged it */
	}
	if (err == -ENOENT)
		return 0;
	if (err) {
		why_set(s->why, "table %s: its schema: %s", name, error_text(err));
		return err;
	}
	p = schema_public(schema);
	if (p->tablets_id >= s->next_id || p->table_id > p->tablets_id) {
		err = -EBADMSG;
		why_set(s->why, "lock/ids: the next table id is %u, but table %s has id %u", s->next_id, name, p->tablets_id);
	} else if (p->is_hidden) {
		err = schema_show(s->m, schema, version);
		if (err)
			why_set(s->why, "table %s: its .schema cannot be shown again: %s", name, error_text(err));
	}
	if (!err)
		err = start_add(s, p->tablets_id, p->name);
	if (!err && salt_is_pending(p))
		salt_watch(s->m, p->table_id);
	if (!err)
		snapshots_watch(s->m, p);
	schema_put(schema);
	return err;
}

int master_start(struct master *m, char **why)
{
	struct start s = {.m = m, .why = why};
	uint64_t version;
	int err;

	mutex_lock(&m->lock);
	err = master_ids_read(m, &s.next_id, &version);
	if (err)
		why_set(why, "lock/ids: %s", error_text(err));
	if (!err) {
		err = master_incarnation(m, &s.latest_incarnation);
		if (err)
			why_set(why, "lock/incarnation: %s", error_text(err));
		s.latest_incarnation -= m->o.sole; /* METADATA of an embedded store can name only earlier incarnations */
	}
	if (!err)
		err = m->locks->ops->list(m->locks, "tables", start_table, &s);
	if (!err)
		err = schemas_each_snapshot(m->locks, 0, start_snapshot, &s);
	if (s.table_count)
		qsort(s.tables, s.table_count, sizeof(*s.tables), by_id);
	if (!err)
		err = assign_first(m, &s, why);
	mutex_unlock(&m->lock);
	free(s.tables);
	return err;
}
