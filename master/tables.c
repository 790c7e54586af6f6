/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables: made, dropped, renamed, listed.
 *
 * A table exists when the lock service's tables/NAME does.  Making one:
 *	1 take a table id: the file "ids" counts up (ids are never reused)
 *	2 write the METADATA row of its one tablet
 *	3 write tables/NAME, if no such name is there
 * A crash before 3 leaves a METADATA row that no schema names, without files;
 * the next start removes it.  Dropping one:
 *	1 hold its writes, and see that it holds no cell
 *	2 one multi-operation: remove tables/NAME, make the note dropped/ID;
 *	  servers let its tablets and files go
 *	3 let the writes go (they find no table, or the one that stays)
 *	4 delete its METADATA rows
 *	5 remove the note
 * A crash after 2 leaves rows and files that the next start removes.  Without
 * the note it would not: a tables/NAME that was lost otherwise must not take
 * the table's data with it.
 * Renaming is one multi-operation; a table that is replaced is dropped by it.
 */
#include "engine/base/msg.h"
#include "engine/client/metadata.h"
#include "master/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

int ids_read(struct master *m, uint32_t *next, uint64_t *version)
{
	struct buf b = {0};
	int err = lock_get(m->locks, "ids", &b, version);

	if (!err && b.n != 4) {
		err = -EBADMSG;
	} else if (!err) {
		*next = load_be32(b.p);
		err = *next < META_FIRST_USER_TABLE ? -EBADMSG : 0;
	} else if (err == -ENOENT) {
		*next = META_FIRST_USER_TABLE;
		*version = LOCK_ABSENT;
		err = 0;
	}
	buf_fini(&b);
	return err;
}

static int take_id(struct master *m, uint32_t *id)
{
	for (;;) {
		uint8_t bytes[4];
		uint64_t version;
		uint32_t next;
		int err = ids_read(m, &next, &version);

		if (err)
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

int make_tablets(struct master *m, uint32_t *id)
{
	int err = take_id(m, id);

	return err ? err : add_first_tablet(m, *id);
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
	err = make_tablets(m, &id);
	if (!err)
		err = schema_new(q->name, id, q->uid, q->gid, q->mode, clock_now(m->clock), &s);
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

struct lock_op note_of(uint32_t table, char *name)
{
	snprintf(name, NOTE_MAX, "dropped/%u", table);
	return (struct lock_op){.name = name, .expect = LOCK_ANY};
}

/* Steps 4 and 5 of a drop. */
void delete_metadata(struct master *m, uint32_t table)
{
	char name[NOTE_MAX];
	struct lock_op note = note_of(table, name);
	struct buf from = {0}, to = {0};
	int err = meta_table_begin(&from, table);

	if (!err)
		err = meta_table_begin(&to, table + 1);
	if (!err)
		err = metadata_scan(m->tablets, buf_slice(&from), buf_slice(&to), delete_row, m);
	note.remove = true;
	if (!err)
		err = lock_multi(m->locks, &note, 1, NULL);
	if (err)
		msg_warning("table %u: dropped, but its METADATA rows stay until the next start: %s", table, strerror(-err));
	buf_fini(&from);
	buf_fini(&to);
}

int master_has_cells(struct master *m, const struct tfs_schema *p, uint16_t family, bool *has)
{
	*has = false;
	return p->family_count ? table_has_cells(m->tablets, p->tablets_id, p->generation, family, has) : 0;
}

int master_table_drop(struct master *m, const struct ms_request *q, struct ms_answer *a)
{
	struct schema *s = NULL;
	char file[TABLE_FILE_MAX], note[NOTE_MAX];
	struct lock_op ops[2];
	uint64_t version;
	uint32_t id = 0;
	bool has;
	int err = schema_name_valid(slice_str(q->name)) ? master_read(m, q->name, &s, &version) : -EINVAL;

	(void)a;
	if (err)
		return err;
	id = schema_public(s)->tablets_id;
	err = master_hold(m, id);
	if (err)
		goto out;
	err = master_has_cells(m, schema_public(s), 0, &has);
	if (!err && has)
		err = -ENOTEMPTY;
	if (!err) {
		table_file(file, q->name);
		ops[0] = (struct lock_op){.name = file, .remove = true, .expect = version};
		ops[1] = note_of(id, note);
		err = lock_multi(m->locks, ops, 2, NULL);
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
	char from_file[TABLE_FILE_MAX], to_file[TABLE_FILE_MAX], note[NOTE_MAX];
	struct buf b = {0};
	uint64_t from_version, to_version = LOCK_ABSENT;
	struct lock_op ops[3];
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
		err = master_hold(m, schema_public(to)->tablets_id);
		held = !err;
		if (!err)
			err = master_has_cells(m, schema_public(to), 0, &has);
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
	if (held)
		ops[2] = note_of(schema_public(to)->tablets_id, note);
	err = lock_multi(m->locks, ops, held ? 3 : 2, NULL);
	if (err)
		goto out;
	a->schema = schema_get(renamed);
out:
	if (held)
		master_let_go(m, schema_public(to)->tablets_id);
	if (!err && held)
		delete_metadata(m, schema_public(to)->tablets_id);
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
