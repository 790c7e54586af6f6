/* SPDX-License-Identifier: Apache-2.0 */
/* Tables and schemas: calls of the master service. */
#include "engine/client/client.h"

#include <errno.h>
#include <stdlib.h>

bool tfs_name_valid(const char *name)
{
	return schema_name_valid(slice_str(name));
}

static int simple_call(struct tfs_store *s, const struct ms_request *q, char **why)
{
	struct ms_answer a = {0};
	int err = master_call(s, q, &a, why);

	ms_answer_fini(&a);
	return err;
}

int tfs_table_create(struct tfs_store *s, const char *name, uid_t uid, gid_t gid, mode_t mode)
{
	struct ms_request q = {.method = MS_TABLE_CREATE, .name = name, .uid = uid, .gid = gid, .mode = mode};

	return simple_call(s, &q, NULL);
}

int tfs_table_drop(struct tfs_store *s, const char *name)
{
	struct ms_request q = {.method = MS_TABLE_DROP, .name = name};

	return simple_call(s, &q, NULL);
}

int tfs_table_rename(struct tfs_store *s, const char *from, const char *to, bool noreplace)
{
	struct ms_request q = {.method = MS_TABLE_RENAME, .name = from, .to = to, .noreplace = noreplace};

	return simple_call(s, &q, NULL);
}

int tfs_table_list(struct tfs_store *s, const char *after, char (*names)[TFS_NAME_MAX + 1], int max)
{
	struct ms_request q = {.method = MS_TABLE_LIST, .name = after, .count = max > 0 ? (uint32_t)max : 0};
	struct ms_answer a = {0};
	int err = master_call(s, &q, &a, NULL);

	if (!err) {
		for (uint32_t i = 0; i < a.name_count; i++)
			memcpy(names[i], a.names[i], sizeof(names[i]));
		err = (int)a.name_count;
	}
	ms_answer_fini(&a);
	return err;
}

int tfs_table_empty(struct tfs_table *t, bool *empty)
{
	const struct schema *s = table_schema(t);
	bool has = false;
	int err = table_has_cells(t->store->o.tablets, t->id, schema_public(s)->generation, 0, &has);

	schema_put(s);
	if (!err)
		*empty = !has;
	return err;
}

int table_no_family(struct tfs_table *t)
{
	struct ts_request q = {.method = TS_EXISTS, .table = t->id, .row = slice_str("-")};
	struct ts_answer a = {0};
	int err = ts_call(t->store->o.tablets, &q, &a);

	ts_answer_fini(&a);
	return err == -ENOENT ? err : -EINVAL;
}

int tfs_schema_get(struct tfs_table *t, const struct tfs_schema **out)
{
	*out = schema_public(table_schema(t));
	return 0;
}

void tfs_schema_put(const struct tfs_schema *s)
{
	if (s)
		schema_put(schema_of(s));
}

const struct tfs_family *tfs_schema_family(const struct tfs_schema *s, const char *name)
{
	for (unsigned i = 0; i < s->family_count; i++)
		if (strcmp(s->families[i].name, name) == 0)
			return &s->families[i];
	return NULL;
}

int tfs_schema_set_text(struct tfs_table *t, struct tfs_bytes text, int64_t mtime_us, char **why)
{
	const struct schema *s = table_schema(t);
	struct ms_request q = {
		.method = MS_SCHEMA_SET_TEXT,
		.name = schema_public(s)->name,
		.table = t->id,
		.text = slice_of_bytes(text),
		.mtime_us = mtime_us,
	};
	int err = simple_call(t->store, &q, why);

	schema_put(s);
	return err;
}

int tfs_schema_change(struct tfs_table *t, const struct tfs_schema_edit *e, char **why)
{
	const struct schema *s = table_schema(t);
	struct ms_request q = {
		.method = MS_SCHEMA_CHANGE, .name = schema_public(s)->name, .table = t->id, .edit = e};
	int err = simple_call(t->store, &q, why);

	schema_put(s);
	return err;
}
