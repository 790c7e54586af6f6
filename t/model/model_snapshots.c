/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots and clones: copies of the rows and of the schema.  A snapshot is a table that no list of tables has. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "t/model/model_types.h"

static struct mdl_row *row_copy(const struct mdl_row *from)
{
	struct mdl_row *r = calloc(1, sizeof(*r));

	if (!r || mdl_reserve(&r->col, &r->capacity, from->n + 1, sizeof(*r->col)) < 0)
		abort();
	r->key = mdl_blob_get(from->key);
	for (size_t i = 0; i < from->n; i++) {
		const struct mdl_column *c = from->col[i];
		struct mdl_column *to = mdl_column_new(c->family, mdl_blob_bytes(c->qualifier));

		if (!to || mdl_reserve(&to->v, &to->capacity, c->n + 1, sizeof(*to->v)) < 0)
			abort();
		for (size_t k = 0; k < c->n; k++) {
			to->v[k] = c->v[k];
			to->v[k].value = mdl_blob_get(c->v[k].value);
		}
		to->n = c->n;
		r->col[r->n++] = to;
	}
	return r;
}

/* A table with t's rows; its schema has the name and is not finished. */
static struct tfs_table *table_copy(struct tfs_table *t, const char *name)
{
	struct tfs_table *c = calloc(1, sizeof(*c));

	if (!c || mdl_reserve(&c->row, &c->capacity, t->n + 1, sizeof(*c->row)) < 0 || !(c->schema = mdl_schema_copy(t->schema)))
		abort();
	for (size_t i = 0; i < t->n; i++)
		c->row[c->n++] = row_copy(t->row[i]);
	mdl_tablets_copy(c, t);
	c->store = t->store;
	c->refs = 1;
	c->id = t->store->next_table++;
	strcpy(c->schema->pub.name, name);
	c->schema->pub.table_id = c->schema->pub.tablets_id = c->id;
	c->schema->pub.is_hidden = false;
	c->schema->pub.generation++;
	return c;
}

static void schema_finish(struct tfs_table *c, const struct tfs_table *t)
{
	if (mdl_schema_finish(c->schema, tfs_bytes_of(t->schema->pub.text, t->schema->pub.text_size)) < 0)
		abort();
}

/* The first snapshot that is not below; true if it is the wanted snapshot. */
static bool find(const struct tfs_store *s, uint32_t table, const char *name, size_t *at)
{
	const struct tfs_schema *p = NULL;
	size_t i = 0;

	for (; i < s->snapshots; i++) {
		p = &s->snapshot[i]->schema->pub;
		if (p->snapshot_of > table || (p->snapshot_of == table && strcmp(p->name, name) >= 0))
			break;
	}
	*at = i;
	return i < s->snapshots && p->snapshot_of == table && strcmp(p->name, name) == 0;
}

bool mdl_has_snapshots(const struct tfs_table *t)
{
	size_t at;

	(void)find(t->store, t->id, "", &at);
	return at < t->store->snapshots && t->store->snapshot[at]->schema->pub.snapshot_of == t->id;
}

void mdl_snapshots_free(struct tfs_store *s)
{
	for (size_t i = 0; i < s->snapshots; i++)
		mdl_table_put(s->snapshot[i]);
	free(s->snapshot);
}

static int create(struct tfs_table *t, const char *name, bool of_all)
{
	struct tfs_store *s = t->store;
	struct tfs_table *c;
	size_t at;

	if (!tfs_name_valid(name))
		return -EINVAL;
	if (t->schema->pub.snapshot_of)
		return -EROFS;
	if (t->dropped)
		return -ENOENT;
	if (find(s, t->id, name, &at))
		return -EEXIST;
	if (mdl_reserve(&s->snapshot, &s->snapshot_capacity, s->snapshots + 1, sizeof(*s->snapshot)) < 0)
		return -ENOMEM;
	c = table_copy(t, name);
	c->schema->pub.snapshot_of = t->id;
	c->schema->pub.snapshot_us = mdl_now(s);
	c->schema->pub.snapshot_of_all = of_all;
	schema_finish(c, t);
	memmove(s->snapshot + at + 1, s->snapshot + at, (s->snapshots - at) * sizeof(*s->snapshot));
	s->snapshot[at] = c;
	s->snapshots++;
	return 0;
}

static int drop(struct tfs_store *s, uint32_t table, const char *name, bool of_all)
{
	struct tfs_table *c;
	size_t at;

	if (!tfs_name_valid(name) || !find(s, table, name, &at) || (of_all && !s->snapshot[at]->schema->pub.snapshot_of_all))
		return -ENOENT;
	c = s->snapshot[at];
	memmove(s->snapshot + at, s->snapshot + at + 1, (s->snapshots - at - 1) * sizeof(*s->snapshot));
	s->snapshots--;
	c->dropped = true;
	for (size_t i = 0; i < c->n; i++)
		mdl_row_free(c->row[i]);
	c->n = 0;
	mdl_table_put(c);
	return 0;
}

int tfs_snapshot_create(struct tfs_table *t, const char *name)
{
	int r;

	mdl_lock();
	r = create(t, name, false);
	mdl_unlock();
	return r;
}

int tfs_snapshot_drop(struct tfs_table *t, const char *name)
{
	int r;

	mdl_lock();
	r = drop(t->store, t->id, name, false);
	mdl_unlock();
	return r;
}

int tfs_snapshot_open(struct tfs_table *t, const char *name, struct tfs_table **out)
{
	size_t at;
	int r = -ENOENT;

	mdl_lock();
	if (tfs_name_valid(name) && find(t->store, t->schema->pub.snapshot_of ? t->schema->pub.snapshot_of : t->id, name, &at)) {
		*out = t->store->snapshot[at];
		mdl_table_get(*out);
		r = 0;
	}
	mdl_unlock();
	return r;
}

static struct tfs_snapshot info_of(const struct tfs_table *c)
{
	const struct tfs_schema *p = &c->schema->pub;

	return (struct tfs_snapshot){.name = p->name, .time_us = p->snapshot_us, .of_all = p->snapshot_of_all};
}

int tfs_snapshot_list(struct tfs_table *t, bool usage, int (*fn)(void *arg, const struct tfs_snapshot *snapshot), void *arg)
{
	char name[TFS_NAME_MAX + 1] = "";
	size_t at;
	int r = 0;

	(void)usage;
	for (;;) {
		struct tfs_snapshot info = {0};

		mdl_lock();
		at = find(t->store, t->id, name, &at) ? at + 1 : at;
		if (at < t->store->snapshots && t->store->snapshot[at]->schema->pub.snapshot_of == t->id) {
			info = info_of(t->store->snapshot[at]);
			strcpy(name, info.name);
			info.name = name;
		}
		mdl_unlock();
		if (!info.name || r)
			return r;
		r = fn(arg, &info);
	}
}

int tfs_snapshot_usage(struct tfs_table *t, struct tfs_snapshot *out)
{
	int r = 0;

	mdl_lock();
	if (!t->schema->pub.snapshot_of)
		r = -EINVAL;
	else if (t->dropped)
		r = -ENOENT;
	if (!r) {
		*out = info_of(t);
		out->name = NULL;
	}
	mdl_unlock();
	return r;
}

int tfs_snapshot_create_all(struct tfs_store *s, const char *name)
{
	size_t at;
	int r = tfs_name_valid(name) ? 0 : -EINVAL;

	mdl_lock();
	for (size_t i = 0; i < s->n && !r; i++)
		r = find(s, s->table[i]->id, name, &at) ? -EEXIST : 0;
	for (size_t i = 0; i < s->n && !r; i++)
		r = create(s->table[i], name, true);
	mdl_unlock();
	return r;
}

int tfs_snapshot_drop_all(struct tfs_store *s, const char *name)
{
	int r = -ENOENT;

	mdl_lock();
	for (size_t i = 0; i < s->n; i++)
		if (drop(s, s->table[i]->id, name, true) == 0)
			r = 0;
	mdl_unlock();
	return r;
}

int tfs_snapshot_list_all(struct tfs_store *s, int (*fn)(void *arg, const struct tfs_snapshot *snapshot), void *arg)
{
	char last[TFS_NAME_MAX + 1] = "", name[TFS_NAME_MAX + 1];
	int r = 0;

	while (!r) {
		struct tfs_snapshot info = {0};

		mdl_lock();
		for (size_t i = 0; i < s->snapshots; i++) {
			const struct tfs_schema *p = &s->snapshot[i]->schema->pub;

			if (p->snapshot_of_all && strcmp(p->name, last) > 0 && (!info.name || strcmp(p->name, info.name) < 0)) {
				info = info_of(s->snapshot[i]);
				strcpy(name, p->name);
				info.name = name;
			}
		}
		mdl_unlock();
		if (!info.name)
			break;
		strcpy(last, name);
		r = fn(arg, &info);
	}
	return r;
}

int tfs_table_clone(struct tfs_table *t, const char *name)
{
	struct tfs_store *s = t->store;
	struct tfs_table *c;
	int r = 0;

	mdl_lock();
	if (!tfs_name_valid(name))
		r = -EINVAL;
	else if (t->dropped)
		r = -ENOENT;
	else if (mdl_table_named(s, name))
		r = -EEXIST;
	else if (mdl_reserve(&s->table, &s->capacity, s->n + 1, sizeof(*s->table)) < 0)
		r = -ENOMEM;
	if (!r) {
		c = table_copy(t, name);
		c->schema->pub.snapshot_of = 0;
		c->schema->pub.snapshot_us = 0;
		c->schema->pub.snapshot_of_all = false;
		schema_finish(c, t);
		mdl_table_insert(s, c);
	}
	mdl_unlock();
	return r;
}
