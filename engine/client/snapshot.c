/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Snapshots and clones: calls of the master service, and the sizes of snapshots.
 *
 * The client flushes the table before it asks the master for a copy.  The
 * master's request contains another minor compaction, and the master serves no
 * other request during it.  After the flush this compaction is short.
 *
 * METADATA's rows list the SSTables of all tables.  From them the client
 * computes the bytes that only one snapshot uses.
 */
#include "engine/client/client.h"

#include "engine/base/msg.h"

#include <errno.h>
#include <stdlib.h>

#define NO_SNAPSHOT "there is no snapshot %s"
#define LIST_MOST 1000 /* names in one call of tfs_table_list */

static int create(struct tfs_table *t, const char *name, bool of_all)
{
	struct ms_request q = {.method = MS_SNAPSHOT_CREATE, .to = name, .of_all = of_all};
	int err;

	if (!name_valid(t->store, name))
		return -EINVAL;
	if (is_snapshot(t))
		return table_why(t, -EROFS, SNAPSHOT_STAYS);
	err = tfs_flush(t);
	return err ? err : call_for_table(t, &q, NULL);
}

static int drop(struct tfs_table *t, const char *name, bool of_all)
{
	struct ms_request q = {.method = MS_SNAPSHOT_DROP, .to = name, .of_all = of_all};
	int err = tfs_name_valid(name) ? call_for_table(t, &q, NULL)
				       : table_why(t, -ENOENT, NO_SNAPSHOT, Q(tfs_str(name ? name : "")));

	if (!err)
		snapshot_mark_gone(t->store, t->id, name);
	return err;
}

int tfs_snapshot_create(struct tfs_table *t, const char *name)
{
	reason_clear();
	return create(t, name, false);
}

int tfs_snapshot_drop(struct tfs_table *t, const char *name)
{
	reason_clear();
	return drop(t, name, false);
}

/* Reads the schema of the snapshot of a table.  -ENOENT: t is dropped, or there is no such snapshot. */
static int snapshot_schema(struct tfs_table *t, uint32_t table, const char *name, struct schema **out)
{
	struct lock_service *locks = t->store->o.locks;
	int err = table_gone(t) ? -ENOENT : lock_sync(locks);

	return user_errno(err ? err : schemas_snapshot(locks, table, name, out, NULL));
}

int tfs_snapshot_open(struct tfs_table *t, const char *name, struct tfs_table **out)
{
	reason_clear();
	const struct schema *s = table_schema(t);
	const uint32_t table = schema_public(s)->snapshot_of ? schema_public(s)->snapshot_of : t->id;
	struct tfs_table *of = schema_public(s)->snapshot_of ? table_base(t)->of : table_base(t), *snapshot = NULL;
	struct schema *found = NULL;
	int err;

	schema_put(s);
	err = tfs_name_valid(name) ? snapshot_schema(t, table, name, &found) : -ENOENT;
	if (err == -ENOENT)
		return table_gone(t) ? table_failed(t, err) : table_why(t, err, NO_SNAPSHOT, Q(tfs_str(name ? name : "")));
	if (!err)
		err = table_open(t->store, found, of, &snapshot);
	if (!err && table_user(t)) {
		struct tfs_table *as = NULL;

		err = tfs_table_as(snapshot, table_user(t), &as);
		tfs_table_close(snapshot);
		snapshot = as;
	}
	if (!err)
		*out = snapshot;
	return err;
}

int tfs_table_clone(struct tfs_table *t, const char *name)
{
	reason_clear();
	struct ms_request q = {.method = MS_TABLE_CLONE, .to = name};
	int err = name_valid(t->store, name) ? 0 : -EINVAL;

	if (!err && !is_snapshot(t))
		err = tfs_flush(t);
	return err ? err : call_for_table(t, &q, NULL);
}

/* ---- sizes ---- */

struct file_key {
	uint64_t incarnation, number;
	uint32_t table, zero;
};
struct file_user {
	UT_hash_handle hh;
	struct file_key key;
	uint64_t bytes;
	uint32_t table; /* the table or snapshot whose tablets list the file; 0: several list it */
	bool wanted;    /* the snapshot whose sizes are computed lists the file */
};
struct sizes {
	struct file_user *files;
	uint32_t snapshot;
};

static int sizes_add(struct sizes *z, uint32_t table, const struct tablet_file *f)
{
	const struct file_key key = {.incarnation = f->incarnation, .number = f->number, .table = f->table};
	struct file_user *u;

	HASH_FIND(hh, z->files, &key, sizeof(key), u);
	if (!u) {
		u = calloc(1, sizeof(*u));
		if (!u)
			return -ENOMEM;
		u->key = key;
		u->bytes = f->bytes;
		u->table = table;
		HASH_ADD(hh, z->files, key, sizeof(u->key), u);
		if (!u->hh.tbl) {
			free(u);
			return -ENOMEM;
		}
	}
	if (u->table != table)
		u->table = 0;
	return 0;
}

static int sizes_row(void *arg, struct tfs_bytes row_key, struct meta_tablet *m)
{
	struct sizes *z = arg;
	int err = 0;

	(void)row_key;
	for (; m && !err; m = m->merge)
		for (unsigned i = 0; i < m->file_count && !err; i++)
			err = sizes_add(z, m->table, &m->files[i]);
	return err;
}

static int sizes_mark(void *arg, struct tfs_bytes row_key, struct meta_tablet *m)
{
	const struct sizes *z = arg;

	(void)row_key;
	for (unsigned i = 0; i < m->file_count; i++) {
		const struct tablet_file *f = &m->files[i];
		const struct file_key key = {.incarnation = f->incarnation, .number = f->number, .table = f->table};
		struct file_user *u;

		HASH_FIND(hh, z->files, &key, sizeof(key), u);
		if (u)
			u->wanted = true;
	}
	return 0;
}

/* Sets the sizes of the snapshot with this tablets id. */
static int sizes_of(struct tfs_store *s, struct sizes *z, uint32_t tablets, struct tfs_snapshot *out)
{
	int err = metadata_scan_table(s->o.tablets, tablets, sizes_mark, z);

	for (struct file_user *u = z->files; u; u = u->hh.next) {
		if (u->wanted && !err) {
			out->bytes += u->bytes;
			out->pinned_bytes += u->table == tablets ? u->bytes : 0;
		}
		u->wanted = false;
	}
	return err;
}

static int sizes_read(struct tfs_store *s, struct sizes *z)
{
	return metadata_scan(s->o.tablets, tfs_bytes_of("", 0), (struct tfs_bytes){NULL, 0}, sizes_row, z);
}

static void sizes_fini(struct sizes *z)
{
	struct file_user *u, *tmp;

	HASH_ITER(hh, z->files, u, tmp)
	{
		HASH_DEL(z->files, u);
		free(u);
	}
}

/* ---- listing ---- */

/* *out is set except for its name. */
static int info_of(struct tfs_store *s, const struct tfs_schema *p, struct sizes *z, struct tfs_snapshot *out)
{
	struct tfs_snapshot info = {.time_us = p->snapshot_us, .of_all = p->snapshot_of_all};
	int err = z ? sizes_of(s, z, p->tablets_id, &info) : 0;

	if (!err)
		*out = info;
	return err;
}

/* -ENOENT. */
static int snapshot_info(struct tfs_table *t, const char *name, struct sizes *z, struct tfs_snapshot *out)
{
	struct schema *s = NULL;
	int err = tfs_name_valid(name) ? snapshot_schema(t, t->id, name, &s) : -ENOENT;

	if (!err)
		err = info_of(t->store, schema_public(s), z, out);
	schema_put(s);
	return err;
}

int tfs_snapshot_usage(struct tfs_table *t, struct tfs_snapshot *out)
{
	reason_clear();
	const struct schema *s = table_schema(t);
	struct sizes z = {0};
	int err = !schema_public(s)->snapshot_of ? table_why(t, -EINVAL, "it is no snapshot")
		: table_gone(t)                  ? table_failed(t, -ENOENT)
						 : sizes_read(t->store, &z);

	if (!err)
		err = info_of(t->store, schema_public(s), &z, out);
	sizes_fini(&z);
	schema_put(s);
	return err;
}

struct names {
	struct tfs_store *store;
	bool of_all; /* only snapshots that were made with of_all */
	char (*v)[TFS_NAME_MAX + 1];
	uint32_t count;
};

static int names_add(void *arg, uint32_t table, const char *name)
{
	struct names *n = arg;
	struct schema *s = NULL;
	bool wanted = true;

	if (n->of_all) {
		wanted = schemas_snapshot(n->store->o.locks, table, name, &s, NULL) == 0 && schema_public(s)->snapshot_of_all;
		schema_put(s);
	}
	if (!wanted)
		return 0;
	if (array_grow(&n->v, n->count, sizeof(*n->v)))
		return -ENOMEM;
	strcpy(n->v[n->count++], name);
	return 0;
}

static int name_cmp(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* Reads the names of the snapshots of the table, or (0) of all tables.  Each is in n.v once, in order. */
static int names_read(struct names *n, uint32_t table)
{
	struct lock_service *locks = n->store->o.locks;
	uint32_t kept = 0;
	int err = lock_sync(locks);

	if (!err)
		err = schemas_each_snapshot(locks, table, names_add, n);
	if (!err && n->count)
		qsort(n->v, n->count, sizeof(*n->v), name_cmp);
	for (uint32_t i = 0; i < n->count; i++)
		if (i == 0 || strcmp(n->v[i], n->v[kept - 1]) != 0)
			memmove(n->v[kept++], n->v[i], sizeof(*n->v));
	n->count = kept;
	return user_errno(err);
}

int tfs_snapshot_list(struct tfs_table *t, bool usage, int (*fn)(void *arg, const struct tfs_snapshot *snapshot), void *arg)
{
	reason_clear();
	struct names names = {.store = t->store};
	struct sizes z = {0};
	int err = table_gone(t) ? table_failed(t, -ENOENT) : names_read(&names, t->id);

	if (!err && usage && names.count)
		err = sizes_read(t->store, &z);
	for (uint32_t i = 0; i < names.count && !err; i++) {
		struct tfs_snapshot info;

		err = snapshot_info(t, names.v[i], usage ? &z : NULL, &info);
		if (err == -ENOENT) { /* just dropped */
			err = 0;
			continue;
		}
		info.name = names.v[i];
		if (!err)
			err = fn(arg, &info);
	}
	sizes_fini(&z);
	free(names.v);
	return err;
}

/* ---- all tables ---- */

typedef int each_table_fn(void *arg, struct tfs_table *t);

/* Calls fn for each table.  A non-zero value ends the calls and is returned. */
static int tables_each(struct tfs_store *s, each_table_fn *fn, void *arg)
{
	char(*names)[TFS_NAME_MAX + 1] = calloc(LIST_MOST, sizeof(*names));
	char after[TFS_NAME_MAX + 1] = "";
	int err = names ? 0 : -ENOMEM, n = LIST_MOST;

	while (!err && n == LIST_MOST) {
		n = tfs_table_list(s, after, names, LIST_MOST);
		err = n < 0 ? n : 0;
		for (int i = 0; i < n && !err; i++) {
			struct tfs_table *t;

			err = tfs_table_open(s, names[i], &t);
			if (!err) {
				err = fn(arg, t);
				tfs_table_close(t);
			} else if (err == -ENOENT) { /* just dropped */
				err = 0;
			}
		}
		if (!err && n > 0)
			memcpy(after, names[n - 1], sizeof(after));
	}
	free(names);
	if (!err)
		reason_clear(); /* tables that were just dropped have left one */
	return err;
}

struct of_all {
	const char *name;
	unsigned done;
	struct tfs_snapshot info;
};

static int absent_from(void *arg, struct tfs_table *t)
{
	struct of_all *o = arg;
	int err = snapshot_info(t, o->name, NULL, &o->info);

	return err == -ENOENT ? 0 : err ? err : table_why(t, -EEXIST, "it has a snapshot %s already", o->name);
}

static int create_in(void *arg, struct tfs_table *t)
{
	struct of_all *o = arg;
	int err = create(t, o->name, true);

	o->done += !err;
	return err == -ENOENT ? 0 : err;
}

static int drop_from(void *arg, struct tfs_table *t)
{
	struct of_all *o = arg;
	int err = drop(t, o->name, true);

	o->done += !err;
	return err == -ENOENT ? 0 : err;
}

int tfs_snapshot_create_all(struct tfs_store *s, const char *name)
{
	reason_clear();
	struct of_all o = {.name = name};
	int err = name_valid(s, name) ? tables_each(s, absent_from, &o) : -EINVAL;
	struct reason reason;

	if (err)
		return err;
	err = tables_each(s, create_in, &o);
	if (err) {
		reason_get(&reason);
		(void)!tables_each(s, drop_from, &o);
		reason_put(&reason);
	}
	return err;
}

int tfs_snapshot_drop_all(struct tfs_store *s, const char *name)
{
	reason_clear();
	struct of_all o = {.name = name};
	int err = tables_each(s, drop_from, &o);

	return err ? err : o.done ? 0 : store_why(s, -ENOENT, NO_SNAPSHOT, Q(tfs_str(name)));
}

static int find_in(void *arg, struct tfs_table *t)
{
	struct of_all *o = arg;
	int err = snapshot_info(t, o->name, NULL, &o->info);

	return err == -ENOENT ? 0 : err ? err : o->info.of_all;
}

int tfs_snapshot_list_all(struct tfs_store *s, int (*fn)(void *arg, const struct tfs_snapshot *snapshot), void *arg)
{
	reason_clear();
	struct names names = {.store = s, .of_all = true};
	int err = names_read(&names, 0);

	for (uint32_t i = 0; i < names.count && !err; i++) {
		struct of_all o = {.name = names.v[i]};

		err = tables_each(s, find_in, &o);
		if (err > 0) {
			o.info.name = names.v[i];
			err = fn(arg, &o.info);
		}
	}
	free(names.v);
	return err;
}
