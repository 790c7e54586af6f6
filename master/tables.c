/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables: made, dropped, renamed, listed.
 *
 * A table exists when the lock service's tables/NAME does.  Making one:
 *	1 take a table id: the file "ids" counts up (ids are never reused)
 *	2 write the METADATA row of its one tablet
 *	3 write tables/NAME, if no such name is there
 * A crash before 3 leaves a METADATA row that no schema names; the next start
 * removes it.  Dropping one:
 *	1 hold its writes, and see that it holds no cell
 *	2 remove tables/NAME; servers let its tablets and files go
 *	3 let the writes go (they find no table, or the one that stays)
 *	4 delete its METADATA rows
 * A crash after 2 leaves rows and files that the next start removes.
 * Renaming is one multi-operation; a table that is replaced is dropped by it.
 */
#include "engine/base/msg.h"
#include "engine/client/metadata.h"
#include "master/internal.h"

#include <errno.h>
#include <stdlib.h>

static int take_id(struct master *m, uint32_t *id)
{
	for (;;) {
		uint32_t next = META_FIRST_USER_TABLE;
		struct buf b = {0};
		uint64_t version = LOCK_ABSENT;
		uint8_t bytes[4];
		int err = lock_get(m->locks, "ids", &b, &version);

		if (!err && b.n != sizeof(bytes))
			err = -EBADMSG;
		if (!err)
			next = load_be32(b.p);
		else if (err == -ENOENT)
			version = LOCK_ABSENT;
		buf_fini(&b);
		if (err && err != -ENOENT)
			return err;
		if (next == UINT32_MAX)
			return -ENOSPC;
		put_be32(bytes, next + 1);
		err = lock_put(m->locks, "ids", slice_of(bytes, sizeof(bytes)), version, NULL);
		if (err == -ESTALE || err == -EEXIST)
			continue;
		if (err)
			return err;
		*id = next;
		return 0;
	}
}

static int add_first_tablet(struct master *m, uint32_t table)
{
	struct meta_tablet t = {.table = table, .last = true};
	struct arena arena = {0};
	struct buf key = {0};
	struct op *ops;
	unsigned count;
	int err = meta_row_key(&key, table, true, (struct slice){NULL, 0});

	if (!err)
		err = meta_ops_new(&t, &arena, &ops, &count);
	if (!err)
		err = metadata_mutate(m->tablets, buf_slice(&key), ops, count);
	arena_fini(&arena);
	buf_fini(&key);
	meta_tablet_fini(&t);
	return err;
}

int master_table_create(struct master *m, const struct ms_request *q, struct ms_answer *a)
{
	struct schema *s = NULL;
	struct buf b = {0};
	char file[TABLE_FILE_MAX];
	uint64_t version;
	uint32_t id = 0;
	int err;

	if (!schema_name_valid(slice_str(q->name)))
		return -EINVAL;
	table_file(file, q->name);
	err = lock_get(m->locks, file, &b, &version);
	if (err != -ENOENT) {
		buf_fini(&b);
		return err ? err : -EEXIST;
	}
	err = take_id(m, &id);
	if (!err)
		err = schema_new(q->name, id, q->uid, q->gid, q->mode, clock_now(m->clock), &s);
	if (!err)
		err = add_first_tablet(m, id);
	buf_reset(&b);
	if (!err)
		err = schema_encode(s, &b);
	if (!err)
		err = lock_put(m->locks, file, buf_slice(&b), LOCK_ABSENT, NULL);
	if (err == -ESTALE)
		err = -EEXIST;
	if (!err)
		a->schema = schema_get(s);
	schema_put(s);
	buf_fini(&b);
	return err;
}

static int delete_row(void *arg, struct slice row_key, struct meta_tablet *t)
{
	struct master *m = arg;

	(void)t;
	return metadata_delete(m->tablets, row_key);
}

/* Step 4 of a drop; what fails here is done at the next start. */
static void delete_metadata(struct master *m, uint32_t table)
{
	struct buf from = {0}, to = {0};
	int err = meta_table_begin(&from, table);

	if (!err)
		err = meta_table_begin(&to, table + 1);
	if (!err)
		err = metadata_scan(m->tablets, buf_slice(&from), buf_slice(&to), delete_row, m);
	if (err)
		msg_warning("table %u: dropped, but its METADATA rows stay until the next start: %s", table, strerror(-err));
	buf_fini(&from);
	buf_fini(&to);
}

int master_table_drop(struct master *m, const struct ms_request *q, struct ms_answer *a)
{
	struct schema *s = NULL;
	struct lock_op op = {.remove = true};
	char file[TABLE_FILE_MAX];
	uint64_t version;
	uint32_t id = 0;
	bool has;
	int err = schema_name_valid(slice_str(q->name)) ? master_read(m, q->name, &s, &version) : -EINVAL;

	(void)a;
	if (err)
		return err;
	id = schema_public(s)->table_id;
	err = master_hold(m, id);
	if (err)
		goto out;
	err = table_has_cells(m->tablets, id, schema_public(s)->generation, 0, &has);
	if (!err && has)
		err = -ENOTEMPTY;
	if (!err) {
		table_file(file, q->name);
		op.name = file;
		op.expect = version;
		err = lock_multi(m->locks, &op, 1, NULL);
	}
	master_let_go(m, id);
out:
	schema_put(s);
	if (!err)
		delete_metadata(m, id);
	return err;
}

int master_table_rename(struct master *m, const struct ms_request *q, struct ms_answer *a)
{
	struct schema *from = NULL, *to = NULL, *renamed = NULL;
	char from_file[TABLE_FILE_MAX], to_file[TABLE_FILE_MAX];
	struct buf b = {0};
	uint64_t from_version, to_version = LOCK_ABSENT;
	struct lock_op ops[2];
	bool has, held = false;
	int err;

	if (!schema_name_valid(slice_str(q->to)) || !schema_name_valid(slice_str(q->name)))
		return -EINVAL;
	err = master_read(m, q->name, &from, &from_version);
	if (err)
		return err;
	if (strcmp(q->name, q->to) == 0) {
		err = q->noreplace ? -EEXIST : 0;
		goto out;
	}
	err = master_read(m, q->to, &to, &to_version);
	if (err == -ENOENT) {
		to_version = LOCK_ABSENT;
		err = 0;
	} else if (!err && q->noreplace) {
		err = -EEXIST;
	} else if (!err) {
		err = master_hold(m, schema_public(to)->table_id);
		held = !err;
		if (!err)
			err = table_has_cells(m->tablets, schema_public(to)->table_id, schema_public(to)->generation, 0, &has);
		if (!err && has)
			err = -ENOTEMPTY;
	}
	if (!err)
		err = schema_rename(from, q->to, &renamed);
	if (!err)
		err = schema_encode(renamed, &b);
	if (err)
		goto out;
	table_file(from_file, q->name);
	table_file(to_file, q->to);
	ops[0] = (struct lock_op){.name = from_file, .remove = true, .expect = from_version};
	ops[1] = (struct lock_op){.name = to_file, .contents = buf_slice(&b), .expect = to_version};
	err = lock_multi(m->locks, ops, 2, NULL);
	if (err)
		goto out;
	a->schema = schema_get(renamed);
out:
	if (held)
		master_let_go(m, schema_public(to)->table_id);
	if (!err && held)
		delete_metadata(m, schema_public(to)->table_id);
	schema_put(from);
	schema_put(to);
	schema_put(renamed);
	buf_fini(&b);
	return err;
}

struct listing {
	const struct ms_request *q;
	struct ms_answer *a;
};

static int list_one(void *arg, const char *name)
{
	struct listing *l = arg;

	if (strcmp(name, l->q->name) <= 0 || strlen(name) > TFS_NAME_MAX)
		return 0;
	if (l->a->name_count == l->q->count)
		return 1;
	strcpy(l->a->names[l->a->name_count++], name);
	return 0;
}

int master_table_list(struct master *m, const struct ms_request *q, struct ms_answer *a)
{
	struct listing l = {q, a};
	int err;

	if (q->count > 100000)
		return -EINVAL;
	a->names = calloc(q->count ? q->count : 1, sizeof(*a->names));
	if (!a->names)
		return -ENOMEM;
	err = m->locks->ops->list(m->locks, "tables", list_one, &l);
	return err > 0 ? 0 : err;
}
