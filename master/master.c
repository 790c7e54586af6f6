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
};

static int match_id(void *arg, const char *name)
{
	struct by_id *f = arg;
	struct schema *s = NULL;
	int err = master_read(f->m, name, &s, &f->version);

	if (err == -ENOENT)
		return 0;
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
		return -ENOENT;
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

void master_note_refused(struct master *m, uint32_t table, bool refused)
{
	uint32_t *more;

	for (unsigned i = 0; i < m->refused_count; i++)
		if (m->refused[i] == table)
			m->refused[i--] = m->refused[--m->refused_count];
	more = refused ? reallocarray(m->refused, m->refused_count + 1, sizeof(*more)) : NULL;
	if (more) { /* or else the next start asks */
		m->refused = more;
		more[m->refused_count++] = table;
	}
}

void master_let_go(struct master *m, uint32_t table, int refuse)
{
	struct ts_request q = {.method = TS_LET_GO, .table = table, .refuse = refuse};
	struct ts_answer a = {0};
	int err;

	if (refuse)
		master_note_refused(m, table, refuse < 0);
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

static int refuse(char **why, const char *what, const char *name, const char *reason)
{
	free(*why);
	if (asprintf(why, "%s \"%s\" holds cells: %s", what, name, reason) < 0)
		*why = NULL;
	return -EBUSY;
}

/* The family's cells (0: all), those too that its rules hide: a looser rule would show them, under another key or as something else. */
static int look_for(struct master *m, const struct tfs_schema *p, uint16_t family, bool *has, bool *seen)
{
	int err = master_has_cells(m, p, family, true, has);

	if (!err && *has)
		err = master_has_cells(m, p, family, false, seen);
	return err;
}

/* Ids are not used again: of the old families' cells, hidden or not, none will be seen, under whatever key. */
static bool keeps_none(const struct tfs_schema *old, const struct tfs_schema *next)
{
	for (unsigned i = 0; i < old->family_count; i++)
		if (family_by_id(next, old->families[i].id))
			return false;
	return true;
}

/*
 * -EBUSY, with a reason, when the change would take cells away or make them
 * something else; families whose cells are texts to be made counters, and
 * rows to be salted, go to convert.  `kept` families are those of the same id and type; with
 * allow, left-out ones may hold cells.  The caller holds writes.
 */
static int judge(struct master *m, const struct tfs_schema *old, const struct tfs_schema *next, bool allow, char **why,
		 struct conversion *convert)
{
	static const char hidden[] = "all are hidden by gc; until \"compact\" in .ctl has removed them";
	char reason[160];
	bool has, seen = true;
	int err;

	for (unsigned i = 0; i < old->family_count; i++) {
		const struct tfs_family *was = &old->families[i], *is = family_by_id(next, was->id);

		if (is ? is->type == was->type : allow)
			continue;
		err = is ? look_for(m, old, was->id, &has, &seen) :
			   master_has_cells(m, old, was->id, false, &has);
		if (err)
			return err;
		if (has && is && !old->is_set && is->type == TFS_TYPE_COUNTER) {
			err = convert_judge(m, old, was->id, convert);
			if (err == -EBUSY)
				return refuse(why, "family", was->name, "not all are decimal numbers, so it cannot be a counter");
			if (err)
				return err;
			continue;
		}
		snprintf(reason, sizeof(reason), "%s%sits type cannot change", seen ? "" : hidden, seen ? "" : " ");
		if (has)
			return refuse(why, "family", was->name, is ? reason : "only a .schema with allow_delete = true deletes it");
	}
	if (old->salt == next->salt || keeps_none(old, next))
		return 0;
	err = look_for(m, old, 0, &has, &seen);
	if (err || !has)
		return err;
	snprintf(reason, sizeof(reason), "%s%sits salt cannot change", seen ? "" : hidden, seen ? "" : " ");
	if (old->is_set)
		return refuse(why, "table", old->name, reason);
	err = convert_judge_salt(m, old, next->salt, convert);
	return err == -EBUSY ? refuse(why, "table", old->name, "a row's first byte is less than the salt, so that has to be set before "
				      "the rows are written") : err;
}

/* Whether judge would look at any cell. */
static bool takes_judging(const struct tfs_schema *old, const struct tfs_schema *next, bool allow)
{
	for (unsigned i = 0; i < old->family_count; i++) {
		const struct tfs_family *is = family_by_id(next, old->families[i].id);

		if (is ? is->type != old->families[i].type : !allow)
			return true;
	}
	return old->salt != next->salt;
}

int write_schema(struct master *m, const struct schema *s, uint64_t version, struct lock_op more)
{
	struct lock_op ops[2] = {{0}, more};
	char file[TABLE_FILE_MAX];
	struct buf b = {0};
	int err = schema_encode(s, &b);

	table_file(file, schema_public(s)->name);
	ops[0] = (struct lock_op){.name = file, .contents = buf_slice(&b), .expect = version};
	if (!err)
		err = lock_multi(m->locks, ops, more.name ? 2 : 1, NULL);
	buf_fini(&b);
	return err;
}

/* Judges next and makes it the table's schema. */
static int replace(struct master *m, const struct schema *old, const struct schema *next, uint64_t version, bool allow,
		   struct ms_answer *a)
{
	const struct tfs_schema *p = schema_public(old), *n = schema_public(next);
	int pending = convert_pending(m, p->table_id), refuse = 0, err = pending == -ENOENT ? 0 : pending;
	bool held = pending == 0 || takes_judging(p, n, allow), given_up = false;
	struct conversion convert = {0};
	struct lock_op more = {0};

	if (!err && held)
		err = master_hold(m, p->table_id);
	if (err)
		return err;
	if (pending == 0) {
		err = convert_run(m, p);
		refuse = err ? err : 1;
		given_up = err && allow && keeps_none(p, n);
		if (given_up) {
			convert_end_step(&convert, p->table_id, &more);
			err = 0;
		}
	}
	if (!err && held && !given_up)
		err = judge(m, p, n, allow, &a->why, &convert);
	if (!err && conversion_is(&convert))
		err = convert_step(&convert, p->table_id, &more);
	if (!err)
		err = write_schema(m, next, version, more);
	if (!err && conversion_is(&convert))
		err = convert_run(m, n);
	if (given_up && convert_pending(m, p->table_id) == -ENOENT) {
		refuse = 1;
		msg_notice("table %s: its families have been deleted, so there is nothing to be converted any more", p->name);
	}
	if (err && conversion_is(&convert) && convert_pending(m, p->table_id) != -ENOENT) {
		refuse = err;
		m->retry_told = 0;
		convert_tell(m, p, err);
		convert_later(m);
	}
	if (held)
		master_let_go(m, p->table_id, refuse ? refuse : !err);
	conversion_fini(&convert);
	if (!err)
		a->schema = schema_get(next);
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

	if (!err)
		err = schema_set_text(old, q->text, mtime, &next, &dropped, &dropped_count, &allow, &a->why);
	if (!err)
		err = replace(m, old, next, version, allow, a);
	free(dropped);
	schema_put(old);
	schema_put(next);
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
	schema_put(next);
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
		[MS_TABLE_CREATE] = master_table_create, [MS_TABLE_DROP] = master_table_drop,
		[MS_TABLE_RENAME] = master_table_rename, [MS_TABLE_LIST] = master_table_list,
		[MS_SCHEMA_BY_NAME] = by_name,           [MS_SCHEMA_BY_ID] = by_table_id,
		[MS_SCHEMA_SET_TEXT] = set_text,         [MS_SCHEMA_CHANGE] = change,
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

int master_new(struct lock_service *locks, struct tablet_service *tablets, struct clock *clock, bool no_background,
	       struct master **out)
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
		task_cancel(&m->retry);
		task_pool_free(m->pool);
	}
	mutex_fini(&m->lock);
	free(m->refused);
	free(m);
}

struct master_service *master_service(struct master *m)
{
	return &m->service;
}
