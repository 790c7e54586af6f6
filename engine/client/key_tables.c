/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of a key.  Each question reads the schemas of its tables, so that a rename counts at once. */
#include "engine/client/key_tables.h"

#include "engine/client/schemas.h"

#include <stdlib.h>

struct wanted {
	struct lock_service *locks;
	uint32_t id;
};

/* A schemas_snapshot_fn.  Returns 1 if the snapshot has the id. */
static int snapshot_has(void *arg, uint32_t table, const char *name)
{
	const struct wanted *w = arg;
	struct schema *s;
	int has;

	if (schemas_snapshot(w->locks, table, name, &s, NULL))
		return 0;
	has = schema_public(s)->table_id == w->id || schema_public(s)->tablets_id == w->id;
	schema_put(s);
	return has;
}

/* Returns true if the table of this name has the id or, if `snapshots` is set, one of its snapshots has it. */
static bool table_has(struct lock_service *locks, const char *name, uint32_t id, bool snapshots)
{
	struct wanted w = {locks, id};
	const struct tfs_schema *p;
	struct schema *s;
	bool has;

	if (schemas_table(locks, name, &s, NULL))
		return false;
	p = schema_public(s);
	has = p->table_id == id || p->tablets_id == id;
	if (!has && snapshots)
		has = schemas_each_snapshot(locks, p->table_id, snapshot_has, &w) == 1;
	schema_put(s);
	return has;
}

static bool any_has(struct lock_service *locks, const struct key *k, uint32_t id, bool snapshots)
{
	bool has = !k->table_count;

	for (unsigned i = 0; i < k->table_count && !has; i++)
		has = table_has(locks, k->tables[i], id, snapshots);
	return has;
}

bool key_has_id(struct lock_service *locks, const struct key *k, uint32_t id)
{
	return any_has(locks, k, id, false) || any_has(locks, k, id, true);
}

bool key_has_file(struct lock_service *locks, const struct key *k, const char *file)
{
	static const char tables[] = "tables/", snapshots[] = "snapshots/";
	char *dot;
	unsigned long id;

	if (!k->table_count)
		return true;
	if (strncmp(file, tables, strlen(tables)) == 0)
		return key_has_table(k, file + strlen(tables));
	if (strncmp(file, snapshots, strlen(snapshots)) != 0)
		return false;
	id = strtoul(file + strlen(snapshots), &dot, 10);
	return *dot == '.' && id <= UINT32_MAX && any_has(locks, k, (uint32_t)id, false);
}
