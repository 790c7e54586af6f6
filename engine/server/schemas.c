/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables that this server knows, by id: read from the lock service's
 * tables/NAME at start, kept true by its watch, and read again when a client
 * knows a later schema.
 *
 * A write that is acknowledged must not vanish with a drop that then
 * succeeds.  So whoever judges that a table or family is empty holds writes
 * first: a hold waits for the mutations under way and keeps new ones waiting,
 * until the table has gone, the new schema is known here, or nothing came of
 * it.  Mutations are judged by the schema that they began with, and no other
 * that drops anything can become true before they end.
 *
 * A table whose schema is damaged at the start is refused, and no other.  Its
 * id is not known, so whatever METADATA has of a table that nobody knows is
 * kept: its rows, its files, and every log of a dead incarnation.
 *
 * A table whose file cannot be read may have gone: until that is known its
 * writes are refused, for they could be acknowledged and never seen again.
 */
#include "engine/base/msg.h"
#include "engine/client/metadata.h"
#include "engine/server/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define FILE_BYTES (sizeof("tables/") + TFS_NAME_MAX)

static bool is_refused(const struct server *s, const char *name)
{
	for (unsigned i = 0; i < s->refused_count; i++)
		if (strcmp(s->refused[i], name) == 0)
			return true;
	return false;
}

/* ---- reading ---- */

/* Puts the schema in and hands it to the tablets, in this order and by one thread at a time. */
static int user_table_set(struct server *s, const struct schema *schema)
{
	const struct tfs_schema *p = schema_public(schema);
	struct store_schema *now = NULL, *old = NULL;
	struct served_tablet **list = NULL;
	struct user_table *u;
	unsigned count = 0;
	bool newer = false;
	int err = schema_store(schema, &now);

	if (err)
		return err;
	load_begin(s);
	/* First all that can fail: a schema known to the server and not to the tablets would be looked for no more. */
	err = served_list(s, p->tablets_id, &list, &count);
	mutex_lock(&s->lock);
	u = user_table_find_locked(s, p->tablets_id);
	if (!err && !u)
		err = user_table_add_locked(s, p->tablets_id, &u);
	if (!err) {
		u->read_err = 0;
		newer = !u->schema || p->generation >= u->generation;
	}
	if (newer) {
		memcpy(u->name, p->name, sizeof(u->name));
		old = u->schema;
		u->schema = store_schema_get(now);
		u->generation = p->generation;
		atomic_store(&u->salt_waits, p->salt != p->salt_in_use);
	}
	mutex_unlock(&s->lock);
	store_schema_put(old);
	for (unsigned i = 0; i < count; i++) {
		if (newer)
			tablet_set_schema(list[i]->tablet, now);
		served_put(list[i]);
	}
	free(list);
	load_end(s);
	store_schema_put(now);
	return err;
}

/* The schema in a file; logs what is wrong but for -ENOENT, and at the start. */
static int schema_read(struct server *s, const char *file, struct schema **out)
{
	struct buf b = {0};
	uint64_t version;
	int err = lock_get(s->locks, file, &b, &version);

	if (!err)
		err = schema_decode_named(buf_slice(&b), strchr(file, '/') + 1, out);
	if (err && err != -ENOENT && !s->recovering && !is_refused(s, strchr(file, '/') + 1))
		msg_error("%s/lock/%s: %s", s->data_dir, file, strerror(-err));
	buf_fini(&b);
	return err;
}

static int user_table_read(struct server *s, const char *file, uint32_t *id)
{
	struct schema *schema = NULL;
	struct user_table *twin = NULL;
	int err = schema_read(s, file, &schema);

	/* Two names of one table, or a user's name for METADATA: made by hand. */
	if (!err && schema_public(schema)->tablets_id < META_FIRST_USER_TABLE)
		err = -EBADMSG;
	if (!err && s->recovering && user_table_get(s, schema_public(schema)->tablets_id, &twin) == 0)
		err = -EBADMSG;
	user_table_put(s, twin);
	if (!err)
		err = user_table_set(s, schema);
	if (!err)
		*id = schema_public(schema)->tablets_id;
	schema_put(schema);
	return err;
}

/* ---- tables that go ---- */

struct search {
	struct server *s;
	uint32_t table;
	bool found;
	int unsure;
};

static bool another_is_named(struct search *f, const char *name)
{
	bool yes = false;

	mutex_lock(&f->s->lock);
	for (unsigned i = 0; i < f->s->table_count && !yes; i++)
		yes = f->s->tables[i]->table != f->table && strcmp(f->s->tables[i]->name, name) == 0;
	mutex_unlock(&f->s->lock);
	return yes;
}

static int search_one(void *arg, const char *name)
{
	struct search *f = arg;
	struct schema *schema = NULL;
	char file[FILE_BYTES];
	int err;

	if (strlen(name) > TFS_NAME_MAX)
		return 0;
	snprintf(file, sizeof(file), "tables/%s", name);
	err = schema_read(f->s, file, &schema);
	if (err && err != -ENOENT && !another_is_named(f, name) && !is_refused(f->s, name))
		f->unsure = err; /* it might be this one */
	if (!err && schema_public(schema)->tablets_id == f->table) {
		f->found = true;
		err = user_table_set(f->s, schema);
		if (err)
			f->unsure = err;
	}
	schema_put(schema);
	return f->found;
}

static int has_row(void *arg, struct slice row_key, struct meta_tablet *m)
{
	(void)arg, (void)row_key, (void)m;
	return 1;
}

/*
 * The master leaves a note with the drop, and takes it away when the table's
 * METADATA rows have gone.  A name that was lost otherwise, or looked for
 * while it changed, takes no data with it.
 */
static int was_dropped(struct server *s, uint32_t table)
{
	struct buf from = {0}, to = {0};
	char note[32];
	int err;

	snprintf(note, sizeof(note), "dropped/%u", table);
	err = lock_get(s->locks, note, NULL, NULL);
	if (err != -ENOENT)
		return err;
	err = meta_table_begin(&from, table);
	if (!err)
		err = meta_table_begin(&to, table + 1);
	if (!err)
		err = metadata_scan(s->metadata, buf_slice(&from), buf_slice(&to), has_row, NULL);
	buf_fini(&from);
	buf_fini(&to);
	return err > 0 ? -EIO : err;
}

/* A file that named the table does not do so any more: unless another one does, its tablets go. */
static void table_maybe_dropped(struct server *s, uint32_t table, int err)
{
	struct search f = {.s = s, .table = table, .unsure = err};
	struct user_table *u = NULL;
	unsigned i;

	if (!err) {
		err = s->locks->ops->list(s->locks, "tables", search_one, &f);
		if (err < 0)
			f.unsure = err;
		if (!f.found && !f.unsure)
			f.unsure = was_dropped(s, table);
	}
	mutex_lock(&s->lock);
	i = user_table_at_locked(s, table);
	if (i < s->table_count && s->tables[i]->table == table && (!f.found || f.unsure)) {
		u = s->tables[i];
		if (f.unsure) {
			u->read_err = f.unsure;
			u = NULL;
		} else {
			u->dropped = true;
			memmove(s->tables + i, s->tables + i + 1, (s->table_count - i - 1) * sizeof(struct user_table *));
			s->table_count--;
		}
	}
	cond_broadcast(&s->changed);
	mutex_unlock(&s->lock);
	if (u) {
		served_drop_table(s, table);
		user_table_put(s, u);
	}
}

/* A known table of that name other than `is`, above `after`; 0: none. */
static uint32_t named_otherwise(struct server *s, const char *name, uint32_t is, uint32_t after)
{
	uint32_t table = 0;

	mutex_lock(&s->lock);
	for (unsigned i = user_table_at_locked(s, after + 1); i < s->table_count && !table; i++)
		if (s->tables[i]->table != is && strcmp(s->tables[i]->name, name) == 0)
			table = s->tables[i]->table;
	mutex_unlock(&s->lock);
	return table;
}

static void table_look(struct server *s, const char *file)
{
	const char *name = strchr(file, '/') ? strchr(file, '/') + 1 : file;
	uint32_t id = 0, other = 0;
	int err = user_table_read(s, file, &id);

	if (err == -ENOENT)
		err = 0;
	while ((other = named_otherwise(s, name, id, other)))
		table_maybe_dropped(s, other, err);
}

static void table_changed(void *arg, const char *file)
{
	table_look(arg, file);
}

static int read_one(void *arg, const char *name)
{
	char file[FILE_BYTES];
	uint32_t id;
	int err;

	if (strlen(name) > TFS_NAME_MAX)
		return 0; /* not ours */
	snprintf(file, sizeof(file), "tables/%s", name);
	err = user_table_read(arg, file, &id);
	return err == -ENOENT || is_refused(arg, name) ? 0 : err;
}

int user_table_find(struct server *s, uint32_t table, struct user_table **out)
{
	int err = user_table_get(s, table, out);

	bool doubt = false;

	mutex_lock(&s->lock);
	for (unsigned i = 0; err && !doubt && i < s->table_count; i++)
		doubt = s->tables[i]->read_err;
	mutex_unlock(&s->lock);
	if (doubt) {
		err = s->locks->ops->list(s->locks, "tables", read_one, s);
		if (!err)
			err = user_table_get(s, table, out);
	}
	return err;
}

struct first_read {
	struct server *s;
	char **why;
};

/* The file's bytes are no schema; not: another table's, or one that was made by hand. */
static bool is_damaged(struct server *s, const char *name)
{
	struct schema *schema = NULL;
	char file[FILE_BYTES];
	struct buf b = {0};
	int err;

	snprintf(file, sizeof(file), "tables/%s", name);
	err = lock_get(s->locks, file, &b, NULL);
	if (!err)
		err = schema_decode(buf_slice(&b), &schema);
	schema_put(schema);
	buf_fini(&b);
	return err == -EBADMSG;
}

static int refuse(struct server *s, const char *name)
{
	void *grown = reallocarray(s->refused, s->refused_count + 1, sizeof(*s->refused));

	if (!grown)
		return -ENOMEM;
	s->refused = grown;
	strcpy(s->refused[s->refused_count++], name); /* read_one has bounded it */
	msg_error("%s/lock/tables/%s: damaged: table %s is refused, and nothing of it is removed; tabletctl repair %s", s->data_dir,
		name, name, s->data_dir);
	return 0;
}

static int read_first(void *arg, const char *name)
{
	struct first_read *r = arg;
	int err = read_one(r->s, name);

	if (err == -EBADMSG && is_damaged(r->s, name))
		err = refuse(r->s, name);
	if (err && asprintf(r->why, "%s/lock/tables/%s: %s", r->s->data_dir, name, strerror(-err)) < 0)
		*r->why = NULL;
	return err;
}

int schemas_load(struct server *s, char **why)
{
	struct first_read r = {s, why};
	int err = s->locks->ops->watch(s->locks, "tables/", table_changed, s);

	if (err)
		return err;
	return s->locks->ops->list(s->locks, "tables", read_first, &r);
}

/* ---- writers and holds ---- */

/* What stands in the way of a write, looked at once more: the table's own file, then, for a newer schema, all. */
static int look_again(struct server *s, struct user_table *u, bool all)
{
	char file[FILE_BYTES];
	int err = 0;

	mutex_lock(&s->lock);
	snprintf(file, sizeof(file), "tables/%s", u->name);
	mutex_unlock(&s->lock);
	table_look(s, file);
	if (all)
		err = s->locks->ops->list(s->locks, "tables", read_one, s);
	return err;
}

bool user_table_read_again(struct server *s, struct user_table *u, uint64_t generation)
{
	bool behind;

	mutex_lock(&s->lock);
	behind = !u->dropped && (u->read_err || u->generation < generation);
	mutex_unlock(&s->lock);
	return behind && look_again(s, u, true) == 0;
}

int user_table_write_begin(
	struct server *s, struct user_table *u, uint64_t generation, enum on_hold on_hold, struct store_schema **schema)
{
	unsigned looked = 0;
	int err = 0;

	mutex_lock(&s->lock);
	for (;;) {
		if (u->dropped)
			err = -EIDRM;
		else if (u->read_err && looked)
			err = u->read_err;
		if (!err && u->holds && on_hold == ON_HOLD_RETURN) {
			u->move_deferred = true;
			err = WRITES_HELD;
		}
		if (err)
			break;
		if (u->holds && on_hold == ON_HOLD_WAIT) {
			cond_wait(&s->changed, &s->lock);
			continue;
		}
		if (!u->read_err && (u->generation >= generation || looked > 1))
			break;
		mutex_unlock(&s->lock);
		err = look_again(s, u, looked > 0);
		looked++;
		mutex_lock(&s->lock);
		if (err)
			break;
	}
	if (!err) {
		u->writers++;
		*schema = store_schema_get(u->schema);
	}
	mutex_unlock(&s->lock);
	return err;
}

void schemas_free(struct server *s)
{
	s->locks->ops->unwatch(s->locks, table_changed, s);
	for (unsigned i = 0; i < s->table_count; i++)
		user_table_put(s, s->tables[i]);
	free(s->tables);
	free(s->refused);
	s->refused = NULL;
	s->refused_count = 0;
	s->tables = NULL;
	s->table_count = s->table_cap = 0;
}
