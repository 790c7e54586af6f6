/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The master service: reads of schemas, changes of schemas.  A schema is one
 * file of the lock service, changed by compare-and-set; servers learn of it
 * by their watch before the change is answered.
 *
 * A family is dropped only when it holds no cell, or when a written schema
 * says allow_delete: its cells do not exist from the moment the schema is
 * changed, and a major compaction takes them off the disk.
 *
 * What is found empty must stay so until the change is made, or a write that
 * was acknowledged in between would vanish with it.  So writes to the table
 * are held (tablet_service.h) from before the look to after the change.
 */
#include "master/master.h"
#include "engine/base/msg.h"
#include "engine/client/metadata.h"
#include "master/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define LET_GO_US 10000

void table_file(char *file, const char *name)
{
	if (strlen(name) > TFS_NAME_MAX || !schema_name_valid(slice_str(name)))
		name = "-";
	snprintf(file, TABLE_FILE_MAX, "tables/%s", name);
}

int master_read(struct master *m, const char *name, struct schema **out, uint64_t *version)
{
	char file[TABLE_FILE_MAX];
	struct buf b = {0};
	int err;

	if (!schema_name_valid(slice_str(name)))
		return -ENOENT;
	table_file(file, name);
	err = lock_get(m->locks, file, &b, version);
	if (!err)
		err = schema_decode_named(buf_slice(&b), name, out);
	buf_fini(&b);
	return err;
}

struct by_id {
	struct master *m;
	uint32_t table;
	struct schema *found;
	uint64_t version;
	int damaged; /* the error of a schema that cannot be read: its table is refused, and might be this one */
};

static int match_id(void *arg, const char *name)
{
	struct by_id *f = arg;
	struct schema *s = NULL;
	int err = master_read(f->m, name, &s, &f->version);

	if (err == -ENOENT)
		return 0;
	if (err == -EBADMSG) {
		f->damaged = err;
		return 0;
	}
	if (err)
		return err;
	if (schema_public(s)->table_id == f->table) {
		f->found = s;
		return 1;
	}
	schema_put(s);
	return 0;
}

int master_read_by_id(struct master *m, uint32_t table, const char *hint, struct schema **out, uint64_t *version)
{
	struct by_id f = {.m = m, .table = table};
	int err = hint ? match_id(&f, hint) : 0;

	if (err == 0)
		err = m->locks->ops->list(m->locks, "tables", match_id, &f);
	if (err < 0)
		return err;
	if (!f.found)
		return f.damaged ? f.damaged : -ENOENT;
	*out = f.found;
	*version = f.version;
	return 0;
}

int master_hold(struct master *m, uint32_t table)
{
	struct ts_request q = {.method = TS_HOLD, .table = table};
	struct ts_answer a = {0};
	int err = ts_call(m->tablets, &q, &a);

	ts_answer_fini(&a);
	return err == -ENOENT ? -EIO : err; /* there is a schema, and the server does not know it */
}

void master_let_go(struct master *m, uint32_t table)
{
	struct ts_request q = {.method = TS_LET_GO, .table = table};
	struct ts_answer a = {0};
	int err;

	/* Held for ever is worse than a while: nothing but a lack of memory keeps this from the server. */
	while ((err = ts_call(m->tablets, &q, &a)) == -ENOMEM)
		(void)usleep(LET_GO_US);
	if (err)
		msg_error("table %u: its writes stay held: %s", table, strerror(-err));
	ts_answer_fini(&a);
}

static const struct tfs_family *family_by_id(const struct tfs_schema *p, uint16_t id)
{
	for (unsigned i = 0; i < p->family_count; i++)
		if (p->families[i].id == id)
			return &p->families[i];
	return NULL;
}

/* -EBUSY, with a reason, when the change would delete cells and allow is not set.  The caller holds writes. */
static int judge(struct master *m, const struct tfs_schema *old, const struct tfs_schema *next, char **why)
{
	bool has;
	int err;

	for (unsigned i = 0; i < old->family_count; i++) {
		const struct tfs_family *was = &old->families[i];

		if (family_by_id(next, was->id))
			continue;
		err = master_has_cells(m, old, was->id, &has);
		if (err)
			return err;
		if (has) {
			free(*why);
			if (asprintf(why, "family \"%s\" holds cells: only a .schema with allow_delete = true deletes it",
				    was->name) < 0)
				*why = NULL;
			return -EBUSY;
		}
	}
	return 0;
}

/* Does next leave out one of the families? */
static bool leaves_out(const struct tfs_schema *old, const struct tfs_schema *next)
{
	for (unsigned i = 0; i < old->family_count; i++)
		if (!family_by_id(next, old->families[i].id))
			return true;
	return false;
}

int write_schema(struct master *m, const struct tfs_schema *old, const struct schema *s, uint64_t version)
{
	char file[TABLE_FILE_MAX], note[NOTE_MAX];
	struct lock_op ops[2] = {{.name = file, .expect = version}, note_of(old->tablets_id, note)};
	struct buf b = {0};
	int err = schema_encode(s, &b);

	table_file(file, schema_public(s)->name);
	ops[0].contents = buf_slice(&b);
	if (!err)
		err = lock_multi(m->locks, ops, old->tablets_id == schema_public(s)->tablets_id ? 1 : 2, NULL);
	buf_fini(&b);
	return err;
}

/* Judges *next, takes it, and makes it the table's schema. */
static int replace(
	struct master *m, const struct schema *old, struct schema *next, uint64_t version, bool allow, struct ms_answer *a)
{
	const struct tfs_schema *p = schema_public(old);
	const bool judged = !allow && leaves_out(p, schema_public(next)), held = judged || salt_waits(schema_public(next));
	int err = held ? master_hold(m, p->tablets_id) : 0;

	if (err)
		goto out;
	if (judged)
		err = judge(m, p, schema_public(next), &a->why);
	if (!err && salt_waits(schema_public(next)))
		err = salt_use(m, p, &next);
	if (!err)
		err = write_schema(m, p, next, version);
	if (held)
		master_let_go(m, p->tablets_id);
	if (!err && schema_public(next)->tablets_id != p->tablets_id)
		delete_metadata(m, p->tablets_id);
	if (!err && salt_waits(schema_public(next))) {
		msg_notice("table %s: it holds cells: salt = %d takes effect when it is empty", p->name, schema_public(next)->salt);
		salt_watch(m, p->table_id);
	}
	if (!err)
		a->schema = schema_get(next);
out:
	schema_put(next);
	return err;
}

static int set_text(struct master *m, const struct ms_request *q, struct ms_answer *a)
{
	struct schema *old = NULL, *next = NULL;
	uint16_t *dropped = NULL;
	unsigned dropped_count = 0;
	bool allow = false;
	uint64_t version;
	int err = master_read_by_id(m, q->table, q->name, &old, &version);
	int64_t mtime = q->mtime_us == TFS_NO_TIME ? clock_now(m->clock) : q->mtime_us;
	struct tfs_user user = {.uid = q->uid, .gid = q->gid, .groups = q->groups, .group_count = q->group_count};

	if (!err)
		err = schema_set_text(old, q->text, mtime, &next, &dropped, &dropped_count, &allow, &a->why);
	if (!err && user.uid != 0)
		err = schema_limit_owners(old, next, &user, &a->why);
	if (!err)
		err = replace(m, old, next, version, allow, a);
	free(dropped);
	schema_put(old);
	return err;
}

static int change(struct master *m, const struct ms_request *q, struct ms_answer *a)
{
	struct schema *old = NULL, *next = NULL;
	uint16_t dropped = 0;
	uint64_t version;
	int err = q->edit ? master_read_by_id(m, q->table, q->name, &old, &version) : -EINVAL;

	if (!err)
		err = schema_edit(old, q->edit, clock_now(m->clock), &next, &dropped, &a->why);
	if (!err)
		err = replace(m, old, next, version, false, a);
	schema_put(old);
	return err;
}

static int by_name(struct master *m, const struct ms_request *q, struct ms_answer *a)
{
	struct schema *s = NULL;
	uint64_t version;
	int err = master_read(m, q->name, &s, &version);

	if (!err)
		a->schema = s;
	return err;
}

static int by_table_id(struct master *m, const struct ms_request *q, struct ms_answer *a)
{
	struct schema *s = NULL;
	uint64_t version;
	int err = master_read_by_id(m, q->table, q->name, &s, &version);

	if (!err)
		a->schema = s;
	return err;
}

static int call(struct master_service *service, const struct ms_request *q, struct ms_answer *a)
{
	static int (*const calls[MS_METHODS])(struct master *, const struct ms_request *, struct ms_answer *) = {
		[MS_TABLE_CREATE] = master_table_create,
		[MS_TABLE_DROP] = master_table_drop,
		[MS_TABLE_RENAME] = master_table_rename,
		[MS_TABLE_LIST] = master_table_list,
		[MS_SCHEMA_BY_NAME] = by_name,
		[MS_SCHEMA_BY_ID] = by_table_id,
		[MS_SCHEMA_SET_TEXT] = set_text,
		[MS_SCHEMA_CHANGE] = change,
	};
	struct master *m = (struct master *)service;
	struct ms_request named = *q;
	int err;

	if (q->method < MS_TABLE_CREATE || q->method >= MS_METHODS)
		return -ENOSYS;
	/* Whoever calls may leave out any string; of those that a call must have there is no good empty one. */
	if (!named.name)
		named.name = "";
	if (!named.to)
		named.to = "";
	mutex_lock(&m->lock);
	err = calls[q->method](m, &named, a);
	mutex_unlock(&m->lock);
	a->err = err;
	return err;
}

static const struct master_service_ops master_ops = {.call = call};

int master_new(
	struct lock_service *locks, struct tablet_service *tablets, struct clock *clock, bool no_background, struct master **out)
{
	struct master *m = calloc(1, sizeof(*m));

	if (!m)
		return -ENOMEM;
	m->service.ops = &master_ops;
	m->locks = locks;
	m->tablets = tablets;
	m->clock = clock;
	m->no_background = no_background;
	mutex_init(&m->lock, RANK_MASTER);
	*out = m;
	return 0;
}

void master_free(struct master *m)
{
	if (!m)
		return;
	if (m->pool) {
		task_cancel(&m->look);
		task_pool_free(m->pool);
	}
	mutex_fini(&m->lock);
	free(m->waiting);
	free(m);
}

struct master_service *master_service(struct master *m)
{
	return &m->service;
}
