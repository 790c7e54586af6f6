/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the schemas of user tables and of snapshots from the lock service's files
 * tables/NAME and snapshots/TABLE.NAME: at the start, after a watch has reported a
 * change, and when a client has a later schema than this server.  A snapshot is a
 * table that nothing changes.
 *
 * A watch only records the name of the file and queues the task, which reads the
 * file.  In an embedded store the watch is called before the change returns, and each
 * later request reads the recorded files first (schemas_current).  So a schema is in
 * force when its writer has an answer.  A server of a cluster leaves the files to the
 * task: a request must not wait for the lock service because of another table.
 *
 * In a cluster a watch may report a change late.  So the server does not rely on it where a
 * mutation could be lost: before the master ends a block of a table's writes, the
 * server reads the table's file (user_table_refresh), and then refuses mutations of
 * a table or a family that was dropped.  It also reads the schemas of the tables of a
 * LOAD (user_tables_read): a tablet may have cells of a family that is new to this
 * server, and a compaction would remove them.  The watch only ends the use of files
 * and memory sooner.
 *
 * A mutation is checked against the schema with which it began.  The master
 * blocks the table's writes (tables.c) while it drops a table or a family that
 * must be empty.  So no mutation is under way when the cells of its family cease
 * to exist.
 *
 * A table whose schema is damaged at the start is refused; all other tables are served.
 * The damaged file does not show the table's id, so any table without a schema may be the
 * refused one.  If a table is refused, the master keeps METADATA's rows of all tables
 * without a schema, and with them their files and the logs that they need.
 *
 * If a table's schema cannot be read later, the table may have been dropped.  Its
 * writes are refused until the schema is read, because they could be
 * acknowledged and then lost.  If a watch has found that, the server reads the
 * schema again after a second, because a dropped table may get no more requests.
 */
#include "engine/base/msg.h"
#include "engine/client/metadata.h"
#include "engine/server/tables/set.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define READ_AGAIN_US 1000000u

void schemas_soon(struct server *s)
{
	server_queue(s, &s->schemas->task);
}

const char *schemas_refused(const struct server *s, unsigned i)
{
	return i < s->schemas->refused_count ? s->schemas->refused[i] : NULL;
}

static bool table_is_refused(const struct server *s, const char *file)
{
	for (unsigned i = 0; i < s->schemas->refused_count; i++)
		if (strcmp(s->schemas->refused[i], file) == 0)
			return true;
	return false;
}

struct listing {
	const char *dir;
	int (*fn)(void *arg, const char *file);
	void *arg;
};

/* A longer name is not a schema's name. */
static int listing_file(void *arg, const char *name)
{
	const struct listing *l = arg;
	char file[2 * SCHEMA_FILE_MAX];

	return (size_t)snprintf(file, sizeof(file), "%s/%s", l->dir, name) < sizeof(file) ? l->fn(l->arg, file) : 0;
}

/* Calls fn for each file that may be a schema's.  A non-zero value ends the calls and is returned. */
static int schemas_list(struct server *s, int (*fn)(void *arg, const char *file), void *arg)
{
	static const char *const dirs[] = {"tables", "snapshots"};
	int err = 0;

	for (unsigned i = 0; i < 2 && !err; i++) {
		struct listing l = {dirs[i], fn, arg};

		err = s->locks->ops->list(s->locks, dirs[i], listing_file, &l);
	}
	return err;
}

/* ---- reading schemas ---- */

/* Stores the schema, unless the table has a newer one, and sets it for the table's tablets. */
static int user_table_set(struct server *s, const struct schema *schema)
{
	const struct tfs_schema *p = schema_public(schema);
	struct served_tablet **list = NULL;
	struct store_schema *now = NULL;
	unsigned count = 0;
	int err = schema_store(schema, &now);

	if (err)
		return err;
	set_begin(s);
	/*
	 * Everything that can fail comes first.  If it failed after the server
	 * has the schema, the server would not read the schema again, and its
	 * tablets would not get it.
	 */
	err = served_list_any(s, p->tablets_id, &list, &count);
	if (!err)
		err = user_table_set_schema(s, schema, now);
	for (unsigned i = 0; err == 1 && i < count; i++)
		tablet_set_schema(list[i]->tablet, now);
	served_list_put(list, count);
	/* The generation is set last, because a client that knows it may read its families from any of the tablets. */
	if (err == 1)
		user_table_tablets_have(s, p->tablets_id, p->generation);
	set_end(s);
	store_schema_put(now);
	return err < 0 ? err : 0;
}

/* Reads and decodes the file.  Logs errors, except -ENOENT, at the start, and for refused tables. */
static int schema_read(struct server *s, const char *file, struct schema **out)
{
	struct buf b = {0};
	int err = lock_get(s->locks, file, &b, NULL);

	if (!err)
		err = schema_decode_file(buf_bytes(&b), file, out);
	if (err && err != -ENOENT && !s->recovering && !table_is_refused(s, file))
		msg_error("%s/lock/%s: %s", s->o.data_dir, file, error_text(err));
	buf_fini(&b);
	return err;
}

/* Reads the table's file and sets the schema.  Sets *id to the table's id on 0. */
static int user_table_read(struct server *s, const char *file, uint32_t *id)
{
	struct schema *schema = NULL;
	struct user_table *twin = NULL;
	int err = schema_read(s, file, &schema);

	/* Two files name one table, or a file names METADATA.  Only an edit of lock/ by hand does this. */
	if (!err && schema_public(schema)->tablets_id < META_FIRST_USER_TABLE)
		err = -EBADMSG;
	if (!err && s->schemas->loading && user_table_get(s, schema_public(schema)->tablets_id, &twin) == 0)
		err = -EBADMSG;
	user_table_put(s, twin);
	if (!err)
		err = user_table_set(s, schema);
	if (!err)
		*id = schema_public(schema)->tablets_id;
	schema_put(schema);
	return err;
}

/* ---- dropped tables ---- */

/* The search for the file of a table that may have been renamed. */
struct search {
	struct server *s;
	uint32_t table;
	bool found;
	int unsure; /* an error that leaves open whether the table was dropped, or 0 */
};

/* If the file is the table's, sets its schema and ends the search. */
static int table_search_file(void *arg, const char *file)
{
	struct search *f = arg;
	struct schema *schema = NULL;
	int err = schema_read(f->s, file, &schema);

	if (err && err != -ENOENT && !tables_with_file(f->s, file, f->table, 0) && !table_is_refused(f->s, file))
		f->unsure = err; /* the file may be this table's */
	if (!err && schema_public(schema)->tablets_id == f->table) {
		f->found = true;
		err = user_table_set(f->s, schema);
		if (err)
			f->unsure = err;
	}
	schema_put(schema);
	return f->found;
}

static int found_row(void *arg, struct tfs_bytes row_key, struct meta_tablet *m)
{
	(void)arg, (void)row_key, (void)m;
	return 1;
}

static int table_has_file(void *arg, const char *file)
{
	struct search *f = arg;
	struct schema *schema = NULL;
	int err = schema_read(f->s, file, &schema);

	if (err)
		f->unsure = err == -ENOENT ? -EAGAIN : err; /* the file may have been renamed since then */
	f->found = !err && schema_public(schema)->tablets_id == f->table;
	schema_put(schema);
	return f->found;
}

int table_exists(struct server *s, uint32_t table)
{
	struct search f = {.s = s, .table = table};
	int err = lock_sync(s->locks);

	if (!err)
		err = schemas_list(s, table_has_file, &f);
	return f.found ? 0 : err ? err : f.unsure ? f.unsure : -ECANCELED;
}

/* Returns 0 if the lock service has dropped/ID of the table, else -ENOENT or -errno. */
static int table_drop_noted(struct server *s, uint32_t table)
{
	char note[32];

	snprintf(note, sizeof(note), "dropped/%u", table);
	return lock_get(s->locks, note, NULL, NULL);
}

/*
 * Returns 0 if the table, which has no file, was dropped, else -EIO or another
 * -errno.  The master writes dropped/ID with the drop and removes it after the
 * table's METADATA rows.  So a table with METADATA rows and without dropped/ID
 * was not dropped.  Its file was lost or is being renamed, and its data stays.
 */
static int check_dropped(struct server *s, uint32_t table)
{
	int err = table_drop_noted(s, table);

	if (err != -ENOENT)
		return err;
	err = metadata_scan_table(s->metadata, table, found_row, NULL);
	return err > 0 ? -EIO : err;
}

/*
 * Called for a table that the file of its name does not name any more.  If another
 * file names it, it was renamed; else it was dropped.  err: the file could not be
 * read.
 */
static void table_maybe_dropped(struct server *s, uint32_t table, int err)
{
	struct search f = {.s = s, .table = table, .unsure = err};

	if (!err) {
		err = schemas_list(s, table_search_file, &f);
		if (err < 0)
			f.unsure = err;
		if (!f.found && !f.unsure)
			f.unsure = check_dropped(s, table);
	}
	if (f.unsure)
		user_table_set_error(s, table, f.unsure);
	else if (!f.found && user_table_remove(s, table))
		served_drop_table(s, table);
	if (f.unsure && !s->o.no_background && !s->closing)
		task_queue_after(&s->schemas->task, READ_AGAIN_US);
}

/* Reads the file again, then finds out what happened to other tables that this server has with it. */
static void table_file_changed(struct server *s, const char *file)
{
	uint32_t id = 0, other = 0;
	int err = user_table_read(s, file, &id);

	if (err == -ENOENT)
		err = 0;
	while ((other = tables_with_file(s, file, id, other)))
		table_maybe_dropped(s, other, err);
}

/* Reads the files of all tables that this server has or, if `all` is not set, of the tables whose schema could not be read. */
static void tables_read_again(struct server *s, bool all)
{
	char file[SCHEMA_FILE_MAX];
	uint32_t table = 0;

	while (!s->closing && (table = tables_next(s, table, !all, file)))
		table_file_changed(s, file);
}

static int user_table_read_file(void *arg, const char *file)
{
	uint32_t id;
	int err = user_table_read(arg, file, &id);

	return err == -ENOENT || table_is_refused(arg, file) ? 0 : err;
}

/* After the start a damaged schema stops only its table. */
static int user_table_read_any(void *arg, const char *file)
{
	int err = user_table_read_file(arg, file);

	return err == -EBADMSG ? 0 : err;
}

int schemas_read_all(struct server *s)
{
	int err = lock_sync(s->locks);

	return err ? err : schemas_list(s, user_table_read_any, s);
}

/* ---- changes that a watch has reported ---- */

/* The watch of tables/ and snapshots/. */
static void table_changed(void *arg, const char *file)
{
	struct schemas *x = arg;
	struct changed_files *c = &x->changed;
	unsigned i = 0;

	mutex_lock(&x->lock);
	while (i < c->count && strcmp(c->files[i], file) != 0)
		i++;
	if (i == CHANGED_FILES)
		c->all = true;
	else if (i == c->count && strlen(file) < SCHEMA_FILE_MAX) /* a longer name is not a schema's name */
		strcpy(c->files[c->count++], file);
	c->reports++;
	atomic_store(&x->has_changed, true);
	mutex_unlock(&x->lock);
	schemas_soon(x->s);
}

/*
 * Reads the files that a watch has reported.  The caller is not between set_begin and set_end.
 * Several threads may do this at the same time, because a file can be read again at any time.
 */
static void schemas_catch_up(struct server *s)
{
	struct schemas *x = s->schemas;
	struct changed_files c;

	mutex_lock(&x->lock);
	c = x->changed;
	mutex_unlock(&x->lock);
	for (unsigned i = 0; i < c.count; i++)
		table_file_changed(s, c.files[i]);
	if (c.all) {
		tables_read_again(s, true);
		(void)!schemas_list(s, user_table_read_any, s);
	}
	mutex_lock(&x->lock);
	if (x->changed.reports == c.reports) { /* if not, files may have changed after they were read here */
		x->changed.count = 0;
		x->changed.all = false;
		atomic_store(&x->has_changed, false);
	}
	mutex_unlock(&x->lock);
}

void schemas_current(struct server *s)
{
	if (!s->fence && atomic_load(&s->schemas->has_changed))
		schemas_catch_up(s);
}

/* Reads the schemas that a watch has reported, and again the schemas that could not be read. */
static void task_run(struct task *t)
{
	struct schemas *x = (struct schemas *)(void *)((char *)t - offsetof(struct schemas, task));
	struct server *s = x->s;

	if (s->closing)
		return;
	if (atomic_load(&x->has_changed))
		schemas_catch_up(s);
	tables_read_again(s, false);
}

void user_table_learn(struct server *s, uint32_t table)
{
	struct user_table *u;

	if (user_table_get(s, table, &u) == 0)
		user_table_put(s, u);
	else
		(void)!schemas_read_all(s);
}

int user_tables_read(struct server *s, const struct ts_assigned *v, uint32_t count)
{
	char file[SCHEMA_FILE_MAX];
	struct user_table *u;
	int err = lock_sync(s->locks);

	schemas_current(s);
	for (uint32_t i = 0; i < count && !err; i++) {
		if (i && v[i].table == v[i - 1].table)
			continue;
		if (user_table_get(s, v[i].table, &u)) {
			err = schemas_list(s, user_table_read_any, s);
			continue;
		}
		user_table_file(s, u, file);
		if (s->fence || user_table_error(s, u))
			table_file_changed(s, file);
		user_table_put(s, u);
	}
	return err;
}

int user_table_find(struct server *s, uint32_t table, struct user_table **out)
{
	int err = user_table_get(s, table, out);
	char file[SCHEMA_FILE_MAX];

	if (err && tables_next(s, 0, true, file)) {
		err = schemas_read_all(s);
		if (!err)
			err = user_table_get(s, table, out);
	}
	return err;
}

struct first_read {
	struct server *s;
	char **why;
};

/* Returns true if the file's bytes are not a schema.  A valid schema in the wrong file, or with a wrong id, is not damaged: it ends the start. */
static bool schema_is_damaged(struct server *s, const char *file)
{
	struct schema *schema = NULL;
	struct buf b = {0};
	int err = lock_get(s->locks, file, &b, NULL);

	if (!err)
		err = schema_decode(buf_bytes(&b), &schema);
	schema_put(schema);
	buf_fini(&b);
	return err == -EBADMSG;
}

static int table_refuse(struct server *s, const char *file)
{
	struct schemas *x = s->schemas;

	if (strlen(file) >= sizeof(*x->refused))
		return -EBADMSG; /* no schema has a file with so long a name */
	if (array_grow(&x->refused, x->refused_count, sizeof(*x->refused)))
		return -ENOMEM;
	strcpy(x->refused[x->refused_count++], file);
	if (strncmp(file, "tables/", 7) == 0)
		msg_damage("%s/lock/%s: damaged: table %s is refused, and nothing of it is removed; tabletctl repair %s",
			s->o.data_dir, file, file + 7, s->o.data_dir);
	else
		msg_damage("%s/lock/%s: damaged: this snapshot is refused, and nothing of it is removed; tabletctl repair %s",
			s->o.data_dir, file, s->o.data_dir);
	return 0;
}

static int first_read_file(void *arg, const char *file)
{
	struct first_read *r = arg;
	int err = user_table_read_file(r->s, file);

	if (err == -EBADMSG && schema_is_damaged(r->s, file))
		err = table_refuse(r->s, file);
	if (err && asprintf(r->why, "%s/lock/%s: %s", r->s->o.data_dir, file, error_text(err)) < 0)
		*r->why = NULL;
	return err;
}

int schemas_load(struct server *s, char **why)
{
	struct first_read r = {s, why};
	int err = s->locks->ops->watch(s->locks, "tables/", table_changed, s->schemas);

	if (!err)
		err = s->locks->ops->watch(s->locks, "snapshots/", table_changed, s->schemas);
	s->schemas->loading = true;
	if (!err)
		err = schemas_list(s, first_read_file, &r);
	s->schemas->loading = false;
	return err;
}

/* ---- writes ---- */

/* Reads the table's file again.  all: then the files of all tables, because after a rename the newer schema is in another file. */
static int user_table_read_files(struct server *s, struct user_table *u, bool all)
{
	char file[SCHEMA_FILE_MAX];
	int err = lock_sync(s->locks);

	if (err)
		return err;
	user_table_file(s, u, file);
	table_file_changed(s, file);
	if (all)
		err = schemas_list(s, user_table_read_any, s);
	return err;
}

void user_table_refresh(struct server *s, uint32_t table)
{
	struct user_table *u;
	int err;

	if (user_table_get(s, table, &u))
		return;
	err = user_table_read_files(s, u, false);
	if (err)
		user_table_set_error(s, table, err);
	user_table_put(s, u);
}

bool user_table_read_again(struct server *s, struct user_table *u, uint64_t generation)
{
	bool read = false;

	for (unsigned all = 0; all < 2 && user_table_is_behind(s, u, generation); all++) {
		if (user_table_read_files(s, u, all))
			break;
		read = true;
	}
	return read;
}

int user_table_write_begin(
	struct server *s, struct user_table *u, uint64_t generation, enum on_block on_block, struct store_schema **schema)
{
	unsigned reads = 0;
	int err;

	while ((err = user_table_write_try(s, u, generation, on_block, reads, schema)) == WRITES_UNREAD) {
		err = user_table_read_files(s, u, reads++ > 0);
		if (err)
			break;
	}
	return err;
}

/* ---- lifetime ---- */

static int begin(struct server *s, struct task_pool *pool)
{
	s->schemas->s = s;
	mutex_init(&s->schemas->lock, RANK_FILES);
	task_init(&s->schemas->task, pool, task_run);
	return 0;
}

static void stop(struct server *s)
{
	task_cancel(&s->schemas->task);
}

static void end(struct server *s)
{
	s->locks->ops->unwatch(s->locks, table_changed, s->schemas);
	free(s->schemas->refused);
	mutex_fini(&s->schemas->lock);
}

const struct server_part schemas_part = {offsetof(struct server, schemas), sizeof(struct schemas), begin, stop, end};
