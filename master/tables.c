/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Creates, drops and renames tables.
 *
 * A table exists if the lock service has a file tables/NAME.  Creating one:
 *	1 take a table id: increment the file "ids"; ids are never reused.  In a cluster
 *	  also write the note dropped/ID, which step 3 removes in the same multi-operation
 *	2 write the METADATA row of its one tablet
 *	3 write tables/NAME, if there is no file of that name
 *	4 have the tablet served (assign.c)
 * A crash before 3 leaves a METADATA row that no schema refers to, without
 * files; the next start removes it, or in a cluster the next pass.  Dropping one:
 *	1 check that it is not protected, block its writes, and check that it has no cell
 *	2 one multi-operation: remove tables/NAME, create the note dropped/ID;
 *	  servers drop its tablets
 *	3 unblock the writes; they find no table, or the table that remains
 *	4 delete its METADATA rows; the collector removes the files (collect.c)
 *	5 remove the note
 * A crash after 2 leaves rows and files that the next start removes.  It does
 * so only because of the note: if tables/NAME was lost for another reason, the
 * table's data must not be removed.
 * A rename is one multi-operation, which also drops a table that is replaced.
 */
#include "engine/base/msg.h"
#include "engine/client/metadata.h"
#include "master/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

int master_table_create(struct master *m, const struct ms_request *q, struct ms_answer *a)
{
	struct schema *s = NULL;
	struct buf b = {0};
	char file[TABLE_FILE_MAX], note[DROP_NOTE_MAX];
	struct lock_op ops[2];
	uint32_t id = 0;
	int err;

	if (!schema_name_valid(tfs_str(q->name)))
		return -EINVAL;
	table_file_name(file, q->name);
	err = master_is_repetition(m, file, q, a);
	if (err)
		return err > 0 ? 0 : err;
	err = master_tablets_create(m, NULL, &id);
	if (!err)
		err = schema_new(q->name, id, q->uid, q->gid, q->mode, clock_now(m->clock), &s);
	if (!err) {
		schema_set_made(s, q->number);
		err = schema_encode(s, &b);
	}
	if (!err) {
		ops[0] = (struct lock_op){.name = file, .contents = buf_bytes(&b), .expect = LOCK_ABSENT};
		ops[1] = drop_note(id, note);
		ops[1].what = LOCK_REMOVE;
		err = master_multi(m, ops, m->o.sole ? 1 : 2);
	}
	if (err && id)
		m->passes.unassigned = true; /* a pass removes the row */
	if (!err) {
		(void)!assign_table(m, id);
		a->schema = schema_get(s);
	}
	schema_put(s);
	buf_fini(&b);
	return err;
}

/* Blocks the table's writes.  -EPERM, -EROFS: master_may_remove; -ENOTEMPTY: it has a cell.  After any error the writes are not blocked. */
static int block_to_drop(struct master *m, const struct tfs_schema *p, char **why)
{
	bool has;
	int err = master_may_remove(p, why);

	if (!err)
		err = master_block_writes(m, p->tablets_id);
	if (err)
		return err;
	err = master_has_cells(m, p, 0, &has);
	if (!err && has)
		err = -ENOTEMPTY;
	if (err)
		master_unblock_writes(m, p->tablets_id);
	return err;
}

int master_table_drop(struct master *m, const struct ms_request *q, struct ms_answer *a)
{
	struct schema *s = NULL;
	char file[TABLE_FILE_MAX], note[DROP_NOTE_MAX];
	struct lock_op ops[2];
	uint64_t version;
	uint32_t id;
	int err = schema_name_valid(tfs_str(q->name)) ? schemas_table(m->locks, q->name, &s, &version) : -EINVAL;

	if (err)
		return err;
	id = schema_public(s)->tablets_id;
	err = master_has_snapshots(m, schema_public(s), &a->why);
	if (!err)
		err = block_to_drop(m, schema_public(s), &a->why);
	if (!err) {
		table_file_name(file, q->name);
		ops[0] = (struct lock_op){.name = file, .what = LOCK_REMOVE, .expect = version};
		ops[1] = drop_note(id, note);
		err = master_multi(m, ops, 2);
		master_unblock_writes(m, id);
	}
	schema_put(s);
	if (!err)
		master_tablets_delete(m, id);
	return err;
}

int master_table_rename(struct master *m, const struct ms_request *q, struct ms_answer *a)
{
	struct schema *from = NULL, *to = NULL, *renamed = NULL;
	char from_file[TABLE_FILE_MAX], to_file[TABLE_FILE_MAX], note[DROP_NOTE_MAX];
	struct buf b = {0};
	uint64_t from_version, to_version = LOCK_ABSENT;
	struct lock_op ops[3];
	bool blocked = false;
	int err;

	if (!schema_name_valid(tfs_str(q->to)) || !schema_name_valid(tfs_str(q->name)))
		return -EINVAL;
	err = schemas_table(m->locks, q->name, &from, &from_version);
	if (err == -ENOENT) {
		table_file_name(to_file, q->to);
		return master_is_repetition(m, to_file, q, a) > 0 ? 0 : err;
	}
	if (err)
		return err;
	if (strcmp(q->name, q->to) == 0) {
		err = q->noreplace ? -EEXIST : 0;
		goto out;
	}
	err = schemas_table(m->locks, q->to, &to, &to_version);
	if (err == -ENOENT) {
		to_version = LOCK_ABSENT;
		err = 0;
	} else if (!err && q->noreplace) {
		err = -EEXIST;
	} else if (!err) {
		err = master_has_snapshots(m, schema_public(to), &a->why);
		if (!err)
			err = block_to_drop(m, schema_public(to), &a->why);
		blocked = !err;
	}
	if (!err)
		err = schema_rename(from, q->to, &renamed);
	if (!err) {
		schema_set_made(renamed, q->number);
		err = schema_encode(renamed, &b);
	}
	if (err)
		goto out;
	table_file_name(from_file, q->name);
	table_file_name(to_file, q->to);
	ops[0] = (struct lock_op){.name = from_file, .what = LOCK_REMOVE, .expect = from_version};
	ops[1] = (struct lock_op){.name = to_file, .contents = buf_bytes(&b), .expect = to_version};
	if (blocked)
		ops[2] = drop_note(schema_public(to)->tablets_id, note);
	err = master_multi(m, ops, blocked ? 3 : 2);
	if (!err)
		a->schema = schema_get(renamed);
out:
	if (blocked)
		master_unblock_writes(m, schema_public(to)->tablets_id);
	if (!err && blocked)
		master_tablets_delete(m, schema_public(to)->tablets_id);
	schema_put(from);
	schema_put(to);
	schema_put(renamed);
	buf_fini(&b);
	return err;
}
