/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables by name.  A handle is the table itself, counted: it survives a
 * rename, and after a drop every call on it gives -ENOENT.
 * A rename onto an existing empty table drops that table; onto itself it
 * changes nothing.
 */
#include <errno.h>
#include <stdlib.h>

#include "t/model/model_types.h"

bool tfs_name_valid(const char *name)
{
	size_t n = 0;

	if (!name)
		return false;
	for (; name[n]; n++) {
		char c = name[n];
		bool word = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
		if (n >= TFS_NAME_MAX || !(word || (n > 0 && (c == '.' || c == '-'))))
			return false;
	}
	return n > 0;
}

/* The first table whose name is not less; true if it is equal. */
static bool find(const struct tfs_store *s, const char *name, size_t *at)
{
	size_t i = 0;

	while (i < s->n && strcmp(s->table[i]->schema->pub.name, name) < 0)
		i++;
	*at = i;
	return i < s->n && strcmp(s->table[i]->schema->pub.name, name) == 0;
}

static void take_out(struct tfs_store *s, size_t at)
{
	memmove(s->table + at, s->table + at + 1, (s->n - at - 1) * sizeof(*s->table));
	s->n--;
}

static void put_in(struct tfs_store *s, struct tfs_table *t)
{
	size_t at;

	find(s, t->schema->pub.name, &at);
	memmove(s->table + at + 1, s->table + at, (s->n - at) * sizeof(*s->table));
	s->table[at] = t;
	s->n++;
}

static void drop_at(struct tfs_store *s, size_t at)
{
	struct tfs_table *t = s->table[at];

	take_out(s, at);
	t->dropped = true;
	for (size_t i = 0; i < t->n; i++)
		mdl_row_free(t->row[i]);
	t->n = 0;
	mdl_table_put(t);
}

void mdl_table_insert(struct tfs_store *s, struct tfs_table *t)
{
	put_in(s, t);
}

bool mdl_table_named(const struct tfs_store *s, const char *name)
{
	size_t at;

	return find(s, name, &at);
}

void mdl_table_get(struct tfs_table *t)
{
	t->refs++;
	t->store->handles++;
}

/* The store's own reference ends in the same way, although it was not counted as a handle. */
void mdl_table_put(struct tfs_table *t)
{
	if (--t->refs > 0)
		return;
	for (size_t i = 0; i < t->n; i++)
		mdl_row_free(t->row[i]);
	free(t->row);
	mdl_tablets_free(t);
	mdl_schema_unref(t->schema);
	free(t);
}

int tfs_table_create(struct tfs_store *s, const char *name, uid_t uid, gid_t gid, mode_t mode)
{
	struct tfs_table *t = NULL;
	size_t at;
	int r = 0;

	if (!tfs_name_valid(name))
		return -EINVAL;
	mdl_lock();
	if (find(s, name, &at)) {
		r = -EEXIST;
		goto out;
	}
	t = calloc(1, sizeof(*t));
	if (!t || mdl_reserve(&s->table, &s->capacity, s->n + 1, sizeof(*s->table)) < 0) {
		r = -ENOMEM;
		goto out;
	}
	t->schema = mdl_schema_new(s->next_table, name, uid, gid, mode);
	if (!t->schema) {
		r = -ENOMEM;
		goto out;
	}
	t->schema->pub.mtime_us = mdl_now(s);
	t->store = s;
	t->refs = 1;
	t->id = s->next_table++;
	put_in(s, t);
	t = NULL;
out:
	mdl_unlock();
	free(t);
	return r;
}

int mdl_may_remove(const struct tfs_table *t)
{
	return t->schema->pub.readonly ? -EROFS : t->schema->pub.protect ? -EPERM : 0;
}

int tfs_table_drop(struct tfs_store *s, const char *name)
{
	size_t at;
	int r = 0;

	if (!tfs_name_valid(name))
		return -EINVAL;
	mdl_lock();
	if (!find(s, name, &at))
		r = -ENOENT;
	else if (mdl_has_snapshots(s->table[at]))
		r = -EBUSY;
	else if (mdl_may_remove(s->table[at]))
		r = mdl_may_remove(s->table[at]);
	else if (mdl_table_has_cells(s->table[at], 0, true))
		r = -ENOTEMPTY;
	else
		drop_at(s, at);
	mdl_unlock();
	return r;
}

int tfs_table_rename(struct tfs_store *s, const char *from, const char *to, bool noreplace)
{
	struct mdl_schema *next = NULL;
	size_t at, target;
	int r = 0;

	if (!tfs_name_valid(from) || !tfs_name_valid(to))
		return -EINVAL;
	mdl_lock();
	if (!find(s, from, &at)) {
		r = -ENOENT;
		goto out;
	}
	bool exists = find(s, to, &target);
	if (exists && noreplace) {
		r = -EEXIST;
		goto out;
	}
	if (at == target && exists)
		goto out;
	if (exists && mdl_has_snapshots(s->table[target])) {
		r = -EBUSY;
		goto out;
	}
	if (exists && (mdl_may_remove(s->table[target]) || mdl_table_has_cells(s->table[target], 0, true))) {
		r = mdl_may_remove(s->table[target]) ? mdl_may_remove(s->table[target]) : -ENOTEMPTY;
		goto out;
	}
	struct tfs_table *t = s->table[at];
	next = mdl_schema_copy(t->schema);
	if (!next) {
		r = -ENOMEM;
		goto out;
	}
	memcpy(next->pub.name, to, strlen(to) + 1);
	next->pub.generation++;
	r = mdl_schema_finish(next, tfs_bytes_of(t->schema->pub.text, t->schema->pub.text_size));
	if (r < 0)
		goto out;
	if (exists) {
		drop_at(s, target);
		find(s, from, &at);
	}
	take_out(s, at);
	mdl_schema_unref(t->schema);
	t->schema = next;
	next = NULL;
	put_in(s, t);
out:
	mdl_schema_unref(next);
	mdl_unlock();
	return r;
}

int tfs_table_truncate(struct tfs_table *t, char **why)
{
	int r = 0;

	if (why)
		*why = NULL;
	mdl_lock();
	r = t->dropped ? -ENOENT : t->schema->pub.snapshot_of ? -EROFS : mdl_has_snapshots(t) ? -EBUSY : mdl_may_remove(t);
	if (!r) {
		for (size_t i = 0; i < t->n; i++)
			mdl_row_free(t->row[i]);
		t->n = 0;
		t->schema->pub.salt_in_use = t->schema->pub.salt;
		t->schema->pub.generation++;
		mdl_tablets_renew(t);
	}
	mdl_unlock();
	return r;
}

int tfs_table_list(struct tfs_store *s, const char *after, char (*names)[TFS_NAME_MAX + 1], int max)
{
	int n = 0;

	mdl_lock();
	for (size_t i = 0; i < s->n && n < max; i++) {
		const char *name = s->table[i]->schema->pub.name;
		if (strcmp(name, after) > 0)
			memcpy(names[n++], name, strlen(name) + 1);
	}
	mdl_unlock();
	return n;
}

int tfs_table_open(struct tfs_store *s, const char *name, struct tfs_table **out)
{
	size_t at;
	int r = 0;

	if (!tfs_name_valid(name))
		return -EINVAL;
	mdl_lock();
	if (find(s, name, &at)) {
		*out = s->table[at];
		mdl_table_get(*out);
	} else {
		r = -ENOENT;
	}
	mdl_unlock();
	return r;
}

void tfs_table_close(struct tfs_table *t)
{
	if (!t)
		return;
	mdl_lock();
	t->store->handles--;
	mdl_table_put(t);
	mdl_unlock();
}

uint32_t tfs_table_id(const struct tfs_table *t)
{
	return t->id;
}

int tfs_table_empty(struct tfs_table *t, bool *empty)
{
	int r = 0;

	mdl_lock();
	if (t->dropped)
		r = -ENOENT;
	else
		*empty = !mdl_table_has_cells(t, 0, true);
	mdl_unlock();
	return r;
}

int tfs_usage(struct tfs_table *t, const char *family, struct tfs_usage *u)
{
	struct tfs_usage sum = {0};
	const struct tfs_family *f = NULL;
	int r = 0;

	mdl_lock();
	if (t->dropped)
		r = -ENOENT;
	else if (family && !(f = mdl_schema_family(t->schema, family)))
		r = -EINVAL;
	for (size_t i = 0; r == 0 && i < t->n; i++)
		for (size_t j = 0; j < t->row[i]->n; j++) {
			const struct mdl_column *c = t->row[i]->col[j];
			if (f && c->family != f->id)
				continue;
			sum.cells += c->n;
			for (size_t k = 0; k < c->n; k++)
				sum.memory_bytes += t->row[i]->key->size + c->qualifier->size + 10 + c->v[k].value->size;
		}
	mdl_unlock();
	if (r == 0)
		*u = sum;
	return r;
}

int tfs_flush(struct tfs_table *t)
{
	mdl_lock();
	int r = t->dropped ? -ENOENT : 0;
	mdl_unlock();
	return r;
}

/* The model has no disk, and keeps no changes. */
int tfs_purge(struct tfs_table *t)
{
	return tfs_compact(t);
}

/* Cells that the rules hide now stay hidden, even if a rule is loosened later. */
int tfs_compact(struct tfs_table *t)
{
	int r = 0;

	mdl_lock();
	if (t->dropped)
		r = -ENOENT;
	else if (t->schema->pub.snapshot_of)
		r = -EROFS;
	else
		mdl_table_collect(t);
	mdl_unlock();
	return r;
}
