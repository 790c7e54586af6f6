/* SPDX-License-Identifier: Apache-2.0 */
/* Tables and schemas: calls of the master service, which changes them, and of the lock service, which has them. */
#include "engine/client/salt.h"

#include <errno.h>
#include <stdlib.h>

/* Calls the master and drops the answer. */
static int call_master_only(struct tfs_store *s, const struct ms_request *q, char **why)
{
	struct ms_answer a = {0};
	int err = call_master(s, q, &a, why);

	ms_answer_fini(&a);
	return err;
}

int tfs_table_create(struct tfs_store *s, const char *name, uid_t uid, gid_t gid, mode_t mode)
{
	struct ms_request q = {.method = MS_TABLE_CREATE, .name = name, .uid = uid, .gid = gid, .mode = mode};

	return tfs_name_valid(name) ? call_master_only(s, &q, NULL) : -EINVAL;
}

int tfs_table_drop(struct tfs_store *s, const char *name)
{
	struct ms_request q = {.method = MS_TABLE_DROP, .name = name};
	int err = tfs_name_valid(name) ? call_master_only(s, &q, NULL) : -EINVAL;

	if (!err)
		table_mark_gone(s, name, 0);
	return err;
}

int tfs_table_rename(struct tfs_store *s, const char *from, const char *to, bool noreplace)
{
	struct ms_request q = {.method = MS_TABLE_RENAME, .name = from, .to = to, .noreplace = noreplace};
	struct ms_answer a = {0};
	int err = tfs_name_valid(from) && tfs_name_valid(to) ? call_master(s, &q, &a, NULL) : -EINVAL;

	if (!err && a.schema)
		table_mark_gone(s, to, schema_public(a.schema)->table_id);
	ms_answer_fini(&a);
	return err;
}

int tfs_table_truncate(struct tfs_table *t, char **why)
{
	const struct schema *s = table_schema(t);
	const struct tfs_user *user = table_user(t);
	struct ms_request q = {
		.method = MS_TABLE_TRUNCATE, .name = schema_public(s)->name, .table = t->id, .uid = user ? user->uid : 0};
	int err;

	if (why)
		*why = NULL;
	err = table_gone(t) ? -ENOENT : schema_public(s)->snapshot_of ? -EROFS : call_master_only(t->store, &q, why);
	schema_put(s);
	return err;
}

struct listing {
	const char *after;
	char (*names)[TFS_NAME_MAX + 1];
	int n, max;
};

static int listing_add(void *arg, const char *name)
{
	struct listing *l = arg;

	if (strcmp(name, l->after) <= 0 || strlen(name) > TFS_NAME_MAX)
		return 0;
	if (l->n == l->max)
		return 1;
	strcpy(l->names[l->n++], name);
	return 0;
}

int tfs_table_list(struct tfs_store *s, const char *after, char (*names)[TFS_NAME_MAX + 1], int max)
{
	struct listing l = {after ? after : "", names, 0, max};
	int err = lock_sync(s->o.locks);

	if (!err)
		err = s->o.locks->ops->list(s->o.locks, "tables", listing_add, &l);
	return err < 0 ? err : l.n;
}

int tfs_table_empty(struct tfs_table *t, bool *empty)
{
	const struct schema *s = table_schema(t);
	bool has = false;
	int err = -EIDRM;

	while (s && err == -EIDRM) {
		const struct tfs_schema *p = schema_public(s);
		const uint32_t tablets = p->tablets_id;

		err = table_has_cells(t->store->o.tablets, tablets, p->generation, 0, &has);
		schema_put(s);
		s = err == -EIDRM ? table_new_tablets(t, tablets) : NULL;
	}
	schema_put(s);
	if (err == -EIDRM)
		err = -ENOENT;
	if (!err)
		*empty = !has;
	return err;
}

int table_no_family(struct tfs_table *t)
{
	struct ts_request q = {.method = TS_EXISTS, .row = slice_str("-")};
	struct ts_answer a = {0};
	int err = table_call_stored_row(t, &q, &a); /* any row shows whether the table still exists */

	ts_answer_fini(&a);
	return err == -ENOENT ? err : -EINVAL;
}

int tfs_schema_get(struct tfs_table *t, const struct tfs_schema **out)
{
	int err = -ENOENT;

	t = table_base(t);
	mutex_lock(&t->store->lock);
	if (!t->gone) {
		*out = schema_public(schema_get(t->schema));
		err = 0;
	}
	mutex_unlock(&t->store->lock);
	return err;
}

void tfs_schema_put(const struct tfs_schema *s)
{
	if (s)
		schema_put(schema_of(s));
}

const struct tfs_family *tfs_schema_family(const struct tfs_schema *s, const char *name)
{
	return schema_family(schema_of(s), name);
}

const struct tfs_group *tfs_schema_group(const struct tfs_schema *s, const char *name)
{
	return schema_group(schema_of(s), name);
}

/* A change of the schema of t. */
static int schema_call(struct tfs_table *t, const struct ms_request *q, char **why)
{
	const struct schema *s = table_schema(t);
	const bool snapshot = schema_public(s)->snapshot_of;

	schema_put(s);
	if (!snapshot)
		return call_master_only(t->store, q, why);
	if (why)
		*why = NULL;
	return -EROFS;
}

int tfs_schema_set_text(struct tfs_table *t, struct tfs_bytes text, int64_t mtime_us, char **why)
{
	static const struct tfs_user root;

	return tfs_schema_set_text_as(t, text, mtime_us, &root, why);
}

int tfs_schema_set_text_as(struct tfs_table *t, struct tfs_bytes text, int64_t mtime_us, const struct tfs_user *user, char **why)
{
	const struct schema *s = table_schema(t);
	struct ms_request q = {
		.method = MS_SCHEMA_SET_TEXT,
		.name = schema_public(s)->name,
		.table = t->id,
		.text = slice_of_bytes(text),
		.mtime_us = mtime_us,
		.uid = user->uid,
		.gid = user->gid,
		.groups = user->groups,
		.group_count = user->group_count,
	};
	int err = schema_call(t, &q, why);

	schema_put(s);
	return err;
}

int tfs_schema_text_begins(struct tfs_table *t, struct tfs_bytes text, char **why)
{
	const struct schema *s = table_schema(t);
	int err;

	if (why)
		*why = NULL;
	err = schema_text_begins(s, slice_of_bytes(text), why);
	schema_put(s);
	return err;
}

int tfs_schema_change(struct tfs_table *t, const struct tfs_schema_edit *e, char **why)
{
	const struct schema *s = table_schema(t);
	struct ms_request q = {.method = MS_SCHEMA_CHANGE, .name = schema_public(s)->name, .table = t->id, .edit = e};
	int err = schema_call(t, &q, why);

	schema_put(s);
	return err;
}
