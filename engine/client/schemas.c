/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads schemas.  Clients do so without the master, so that a table can be opened
 * while there is none.  Therefore a table may be renamed during a search for its
 * id: the search lists the names and then reads the files.  If a listed file does
 * not exist any more, the search begins again.
 */
#include "engine/client/schemas.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define SEARCHES_MOST 10

static int file_read(struct lock_service *locks, const char *file, struct schema **out, uint64_t *version)
{
	struct buf b = {0};
	int err = lock_get(locks, file, &b, version);

	if (!err)
		err = schema_decode_file(buf_bytes(&b), file, out);
	buf_fini(&b);
	return err;
}

int schemas_table(struct lock_service *locks, const char *name, struct schema **out, uint64_t *version)
{
	char file[SCHEMA_FILE_MAX];

	if (!schema_name_valid(tfs_str(name)))
		return -ENOENT;
	snprintf(file, sizeof(file), "tables/%s", name);
	return file_read(locks, file, out, version);
}

int schemas_snapshot(struct lock_service *locks, uint32_t table, const char *name, struct schema **out, uint64_t *version)
{
	char file[SCHEMA_FILE_MAX];

	if (!schema_name_valid(tfs_str(name)))
		return -ENOENT;
	schema_snapshot_file(table, name, file);
	return file_read(locks, file, out, version);
}

/* ---- search for an id ---- */

struct search {
	struct lock_service *locks;
	uint32_t id;
	struct schema *found;
	uint64_t version;
	int damaged; /* the error of a damaged schema, which may be the wanted table's */
	bool absent; /* a file did not exist any more */
};

/* Returns 1 if the schema, which was read with this result, is the wanted one.  Otherwise frees it. */
static int search_match(struct search *f, int err, struct schema *s)
{
	if (err == -ENOENT)
		f->absent = true;
	else if (err == -EBADMSG)
		f->damaged = err;
	else if (err)
		return err;
	else if (schema_public(s)->table_id == f->id)
		f->found = s;
	else
		schema_put(s);
	return f->found != NULL;
}

static int search_table(void *arg, const char *name)
{
	struct search *f = arg;
	struct schema *s = NULL;
	int err = schemas_table(f->locks, name, &s, &f->version);

	return search_match(f, err, s);
}

int schemas_table_by_id(struct lock_service *locks, uint32_t id, const char *hint, struct schema **out, uint64_t *version)
{
	struct search f = {.locks = locks, .id = id};
	unsigned searches = 0;
	int err = hint ? search_table(&f, hint) : 0;

	while (err == 0 && searches++ < SEARCHES_MOST) {
		f.absent = false;
		err = locks->ops->list(locks, "tables", search_table, &f);
		if (!f.absent)
			break;
	}
	if (err < 0)
		return err;
	if (!f.found)
		return f.damaged ? f.damaged : -ENOENT;
	*out = f.found;
	if (version)
		*version = f.version;
	return 0;
}

/* ---- snapshots ---- */

struct each_snapshot {
	uint32_t table; /* 0 for all tables */
	schemas_snapshot_fn *fn;
	void *arg;
};

/* The name of a file in snapshots/ is TABLE.NAME.  Names that no snapshot has are passed over. */
static int snapshot_each(void *arg, const char *name)
{
	const struct each_snapshot *e = arg;
	char file[SCHEMA_FILE_MAX];
	char *dot;
	unsigned long table = strtoul(name, &dot, 10);

	if (*dot != '.' || table > UINT32_MAX || (e->table && table != e->table) || !schema_name_valid(tfs_str(dot + 1)))
		return 0;
	schema_snapshot_file((uint32_t)table, dot + 1, file);
	if (strcmp(file + strlen("snapshots/"), name) != 0)
		return 0;
	return e->fn(e->arg, (uint32_t)table, dot + 1);
}

int schemas_each_snapshot(struct lock_service *locks, uint32_t table, schemas_snapshot_fn *fn, void *arg)
{
	struct each_snapshot e = {table, fn, arg};

	return locks->ops->list(locks, "snapshots", snapshot_each, &e);
}

static int search_snapshot(void *arg, uint32_t table, const char *name)
{
	struct search *f = arg;
	struct schema *s = NULL;
	int err = schemas_snapshot(f->locks, table, name, &s, NULL);

	return search_match(f, err, s);
}

int schemas_by_id(struct lock_service *locks, uint32_t id, const char *hint, struct schema **out)
{
	struct search f = {.locks = locks, .id = id};
	int err = schemas_table_by_id(locks, id, hint, out, NULL);

	if (err != -ENOENT)
		return err;
	err = schemas_each_snapshot(locks, 0, search_snapshot, &f);
	if (err < 0)
		return err;
	*out = f.found;
	return f.found ? 0 : -ENOENT;
}
