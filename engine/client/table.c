/* SPDX-License-Identifier: Apache-2.0 */
/* Tables and schemas: calls of the master service, which changes them, and of the lock service, which has them. */
#include "engine/client/salt.h"

#include "engine/base/msg.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- reasons ---- */

int table_why(struct tfs_table *t, int err, const char *fmt, ...)
{
	const struct schema *s = table_schema(t);
	const struct tfs_schema *p = schema_public(s);
	char text[REASON_BYTES];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	err = store_why(t->store, err, "%s %s: %s", p->snapshot_of ? "snapshot" : "table", p->name, text);
	schema_put(s);
	return err;
}

int column_why(struct tfs_table *t, int err, struct tfs_bytes row, const char *family, const struct tfs_bytes *qualifier,
	const char *reason)
{
	return table_why(t, err, "row %s: %s%s%s%s%s", Q(row), family ? family : "", qualifier ? ":" : "",
		qualifier && qualifier->n ? Q(*qualifier) : "", family ? ": " : "", reason);
}

int table_failed(struct tfs_table *t, int err)
{
	if (!err || reason_is_set())
		return err;
	if (err == -ENOENT && table_gone(t))
		return table_why(t, err, "it was dropped");
	return err == -EACCES ? table_why(t, err, "only its owner may do this") : err;
}

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
	reason_clear();
	struct ms_request q = {.method = MS_TABLE_CREATE, .name = name, .uid = uid, .gid = gid, .mode = mode};

	return name_valid(s, name) ? call_master_only(s, &q, NULL) : -EINVAL;
}

int tfs_table_drop(struct tfs_store *s, const char *name)
{
	reason_clear();
	struct ms_request q = {.method = MS_TABLE_DROP, .name = name};
	int err = name_valid(s, name) ? call_master_only(s, &q, NULL) : -EINVAL;

	if (!err)
		table_mark_gone(s, name, 0);
	return err;
}

int tfs_table_rename(struct tfs_store *s, const char *from, const char *to, bool noreplace)
{
	reason_clear();
	struct ms_request q = {.method = MS_TABLE_RENAME, .name = from, .to = to, .noreplace = noreplace};
	struct ms_answer a = {0};
	int err = name_valid(s, from) && name_valid(s, to) ? call_master(s, &q, &a, NULL) : -EINVAL;

	if (!err && a.schema)
		table_mark_gone(s, to, schema_public(a.schema)->table_id);
	ms_answer_fini(&a);
	return err;
}

bool is_snapshot(struct tfs_table *t)
{
	const struct schema *s = table_schema(t);
	const bool yes = schema_public(s)->snapshot_of;

	schema_put(s);
	return yes;
}

int call_for_table(struct tfs_table *t, struct ms_request *q, char **why)
{
	const struct schema *s = table_schema(t);
	int err = -ENOENT;

	if (why)
		*why = NULL;
	q->name = schema_public(s)->name;
	q->table = t->id;
	q->user = table_user(t);
	if (table_gone(t))
		(void)table_failed(t, err);
	else if (q->method == MS_TABLE_CLONE || !schema_public(s)->snapshot_of)
		err = call_master_only(t->store, q, why);
	else
		err = table_why(t, -EROFS, SNAPSHOT_STAYS);
	schema_put(s);
	return err;
}

int tfs_table_truncate(struct tfs_table *t, char **why)
{
	reason_clear();
	struct ms_request q = {.method = MS_TABLE_TRUNCATE};

	return call_for_table(t, &q, why);
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
	reason_clear();
	struct listing l = {after ? after : "", names, 0, max};
	int err = lock_sync(s->o.locks);

	if (!err)
		err = s->o.locks->ops->list(s->o.locks, "tables", listing_add, &l);
	return err < 0 ? user_errno(err) : l.n;
}

int tfs_table_empty(struct tfs_table *t, bool *empty)
{
	reason_clear();
	const struct schema *s = table_schema(t);
	bool has = false;
	int err = -TABLE_DROPPED;

	while (s && err == -TABLE_DROPPED) {
		const struct tfs_schema *p = schema_public(s);
		const uint32_t tablets = p->tablets_id;

		err = table_has_cells(t->store->o.tablets, tablets, p->generation, 0, &has);
		schema_put(s);
		s = err == -TABLE_DROPPED ? table_new_tablets(t, tablets) : NULL;
	}
	schema_put(s);
	if (!err)
		*empty = !has;
	return user_errno(err);
}

int table_no_family(struct tfs_table *t, const char *name)
{
	struct ts_request q = {.method = TS_EXISTS, .row = tfs_str("-")};
	struct ts_answer a = {0};
	int err = table_call_stored_row(t, &q, &a); /* any row shows whether the table still exists */

	ts_answer_fini(&a);
	return err == -ENOENT ? table_why(t, err, "it was dropped")
			      : table_why(t, -EINVAL, "it has no family %s", Q(tfs_str(name ? name : "")));
}

/* Makes the restricted schema of a snapshot. */
static int snapshot_restrict(struct tfs_table *t)
{
	const struct schema *then = table_schema(t), *now = table_schema(t->of), *swap;
	struct schema *made;
	int err = schema_restrict(then, now, false, &made);

	if (!err) {
		mutex_lock(&t->store->lock);
		swap = t->restricted;
		t->restricted = made;
		made = (struct schema *)(uintptr_t)swap;
		swap = t->restricted_by;
		t->restricted_by = now;
		now = swap;
		mutex_unlock(&t->store->lock);
		schema_put(made);
	}
	schema_put(now);
	schema_put(then);
	return err;
}

int tfs_schema_get(struct tfs_table *t, const struct tfs_schema **out)
{
	reason_clear();
	int err;

	t = table_base(t);
	do {
		bool stale = false;

		err = -ENOENT;
		mutex_lock(&t->store->lock);
		if (!t->gone) {
			stale = t->of && t->restricted_by != t->of->schema;
			if (!stale)
				*out = schema_public(schema_get(t->of ? t->restricted : t->schema));
			err = stale;
		}
		mutex_unlock(&t->store->lock);
		if (stale)
			err = snapshot_restrict(t) ? -ENOMEM : 1;
	} while (err > 0);
	return err == -ENOENT ? table_why(t, err, "it was dropped") : err;
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

int tfs_schema_set_text(struct tfs_table *t, struct tfs_bytes text, int64_t mtime_us, char **why)
{
	reason_clear();
	struct ms_request q = {.method = MS_SCHEMA_SET_TEXT, .text = text, .mtime_us = mtime_us};

	return call_for_table(t, &q, why);
}

int tfs_schema_text_begins(struct tfs_table *t, struct tfs_bytes text, char **why)
{
	reason_clear();
	const struct schema *s = table_schema(t);
	char *reason = NULL;
	int err = schema_text_begins(s, text, &reason);

	if (err && reason)
		(void)table_why(t, err, "%s", reason);
	if (why)
		*why = reason;
	else
		free(reason);
	schema_put(s);
	return err;
}

int tfs_schema_change(struct tfs_table *t, const struct tfs_schema_edit *e, char **why)
{
	reason_clear();
	struct ms_request q = {.method = MS_SCHEMA_CHANGE, .edit = e};

	return call_for_table(t, &q, why);
}
