/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Creates and drops snapshots, and clones tables.
 *
 * A snapshot is a table that nothing changes.  It exists if the lock service
 * has a file snapshots/TABLE.NAME with its schema: the schema of its table at
 * that time, with an id of its own.  Its tablets in METADATA share the SSTables
 * of its table's tablets.  A clone is a table that begins with the SSTables of
 * another table or of a snapshot.  Creating either:
 *	1 take a table id
 *	2 write the note dropped/ID
 *	3 the servers write the METADATA rows (server/copy.c)
 *	  These must be the rows of all tablets: a tablet that no server served is
 *	  missing.  Copies of the rows are written to rows/ID.N in the lock service,
 *	  because nothing else but METADATA names the files of another table that
 *	  this table uses.  tabletctl repair needs them if METADATA is lost
 *	4 one multi-operation: create the file of the schema, remove the note
 *	5 the servers load the tablets
 * Step 4 decides.  A crash before it leaves the note, so that the next start
 * deletes the rows; the SSTables still belong to the source.  After an error of
 * a step before it, the rows and the note are deleted (drop.c).  If it is
 * unknown whether step 4 took place, both stay until the next pass, and with
 * them the SSTables.  A table must not lose its rows while the schema of its
 * snapshot may exist.
 *
 * Dropping a snapshot is dropping a table, except that a snapshot has no
 * writers:
 *	1 one multi-operation: remove the file, create the note dropped/ID;
 *	  servers drop its tablets
 *	2 delete its METADATA rows; the collector removes the SSTables that no other
 *	  table uses
 *	3 remove the note
 *
 * No schema changes between the steps, because the master handles one request at a
 * time.  A table that has snapshots is not dropped (master_has_snapshots).
 */
#include "engine/base/clock.h"
#include "engine/base/msg.h"
#include "engine/client/metadata.h"
#include "master/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- creating ---- */

/* Step 2. */
static int note_write(struct master *m, uint32_t id)
{
	char name[DROP_NOTE_MAX];
	struct lock_op note = drop_note(id, name);

	return master_multi(m, &note, 1);
}

/* Rows of one table.  Each row must begin where the previous row ends. */
struct chain {
	struct master *m;
	struct meta_rows rows;
	struct buf begin;
	bool last, broken;
};

static int rows_write(void *arg, const char *name, struct tfs_bytes rows)
{
	return master_put(arg, name, rows, LOCK_ANY);
}

static int chain_row(void *arg, struct tfs_bytes row_key, struct meta_tablet *t)
{
	struct chain *c = arg;
	int err = meta_rows_add(&c->rows, t);

	(void)row_key;
	if (err == -EFBIG) {
		msg_warning("table id %u: a tablet's list of files is too large to be kept for a repair", t->table);
		err = 0;
	}
	c->broken |= !bytes_eq(buf_bytes(&t->begin), buf_bytes(&c->begin));
	c->last = t->last;
	if (!err && !t->last)
		err = buf_set(&c->begin, t->end.p, t->end.n);
	return err;
}

/* -EAGAIN: a tablet is missing. */
static int rows_check(struct master *m, uint32_t id)
{
	struct chain c = {.m = m, .rows = {.table = id, .write = rows_write, .arg = m}};
	int err = metadata_scan_table(m->tablets, id, chain_row, &c), ended = err ? err : meta_rows_end(&c.rows);

	buf_fini(&c.rows.rows);
	buf_fini(&c.begin);
	return ended ? ended : c.last && !c.broken ? 0 : -EAGAIN;
}

/* Step 3.  *us: the instant that the rows show. */
static int rows_copy(struct master *m, uint32_t from, uint32_t id, int64_t *us)
{
	struct ts_request q = {.method = TS_COPY_TABLE, .table = from, .to_table = id, .term = master_term(m)};
	struct ts_answer a = {0};
	int err = ts_call(m->tablets, &q, &a);

	*us = a.ts;
	ts_answer_fini(&a);
	if (!err)
		err = rows_check(m, id);
	return err == -TABLE_DROPPED ? -ENOENT : err;
}

/* Step 4.  *unknown is set if it may have taken place although the result is an error. */
static int schema_create(struct master *m, const struct schema *s, bool *unknown)
{
	char file[SCHEMA_FILE_MAX], name[DROP_NOTE_MAX];
	struct lock_op ops[2] = {{.name = file, .expect = LOCK_ABSENT}, drop_note(schema_public(s)->tablets_id, name)};
	struct buf b = {0};
	int err = schema_encode(s, &b);

	schema_file_name(schema_public(s), file);
	ops[0].contents = buf_bytes(&b);
	ops[1].what = LOCK_REMOVE;
	if (!err) {
		err = master_multi(m, ops, 2);
		*unknown = err && lock_get(m->locks, file, NULL, NULL) != -ENOENT;
	}
	buf_fini(&b);
	return err;
}

/* q: has the name of a new table, or (snapshot) of a new snapshot of `from`. */
static int source_copy(struct master *m, const struct schema *from, const struct ms_request *q, bool snapshot, struct schema **out)
{
	const char *to = q->to;
	struct schema *s = NULL;
	bool unknown = false;
	int64_t us = 0;
	uint32_t id;
	int err = master_ids_take(m, &id);

	if (!err)
		err = note_write(m, id);
	if (err)
		return err; /* a note without rows is removed by the next start */
	err = rows_copy(m, schema_public(from)->tablets_id, id, &us);
	if (!err)
		err = snapshot ? schema_snapshot(from, to, id, us, q->of_all, &s) : schema_table_clone(from, to, id, &s);
	if (!err) {
		schema_set_made(s, q->number);
		err = schema_create(m, s, &unknown);
	}
	if (!err)
		(void)!assign_table(m, id);
	if (unknown) {
		m->passes.unassigned = true; /* a pass is due */
		msg_error("table id %u: it is unknown if it was created as \"%s\": %s; its files stay until the next %s", id, to,
			error_text(err), m->o.sole ? "start" : "pass");
	} else if (err) {
		master_tablets_delete(m, id);
	}
	if (!err)
		*out = schema_get(s);
	schema_put(s);
	return err;
}

/*
 * A snapshot shows the cells that are live at the clock's time, and expires by that
 * time.  With a wrong clock it would lack cells for ever, or be dropped at once.
 */
static int clock_trusted(struct master *m, const char *table, const char *name)
{
	struct clock_state st;

	clock_get_state(m->clock, &st);
	if (st.trusted)
		return 0;
	msg_warning("%s/.snap/%s: no snapshot is made while the clock may be wrong; if it is right: "
		    "echo confirm-clock > MOUNTPOINT/.tabletfs/ctl",
		table, name);
	return -EBUSY;
}

int master_snapshot_create(struct master *m, const struct ms_request *q, struct ms_answer *a)
{
	char file[SCHEMA_FILE_MAX];
	struct schema *of = NULL, *s = NULL;
	uint64_t version;
	int err = schema_name_valid(tfs_str(q->to)) ? schemas_table_by_id(m->locks, q->table, q->name, &of, &version) : -EINVAL;

	if (!err)
		err = schema_owned_by(schema_public(of), q->user);
	if (!err) {
		schema_snapshot_file(q->table, q->to, file);
		err = master_is_repetition(m, file, q, a);
	}
	if (!err)
		err = clock_trusted(m, schema_public(of)->name, q->to);
	if (!err)
		err = source_copy(m, of, q, true, &s);
	if (!err) {
		snapshots_watch(m, schema_public(of));
		a->schema = s;
	}
	schema_put(of);
	return err > 0 ? 0 : err;
}

/* Sets *out to the schema that a clone of the table or snapshot has. */
static int source_schema(struct master *m, const struct ms_request *q, struct schema **out)
{
	struct schema *of = NULL, *now = NULL, *restricted;
	int err = schemas_by_id(m->locks, q->table, q->name, &of);

	if (!err && schema_public(of)->snapshot_of)
		err = schemas_table_by_id(m->locks, schema_public(of)->snapshot_of, NULL, &now, NULL);
	if (!err)
		err = schema_owned_by(schema_public(now ? now : of), q->user);
	if (!err && now) {
		err = schema_restrict(of, now, true, &restricted);
		if (!err) {
			schema_put(of);
			of = restricted;
		}
	}
	schema_put(now);
	if (err)
		schema_put(of);
	else
		*out = of;
	return err;
}

int master_table_clone(struct master *m, const struct ms_request *q, struct ms_answer *a)
{
	char file[TABLE_FILE_MAX];
	struct schema *of = NULL, *s = NULL;
	int err = schema_name_valid(tfs_str(q->to)) ? source_schema(m, q, &of) : -EINVAL;

	if (!err) {
		table_file_name(file, q->to);
		err = master_is_repetition(m, file, q, a);
	}
	if (!err)
		err = source_copy(m, of, q, false, &s);
	if (!err) {
		if (salt_is_pending(schema_public(s)))
			salt_watch(m, schema_public(s)->table_id);
		a->schema = s;
	}
	schema_put(of);
	return err > 0 ? 0 : err;
}

/* ---- dropping ---- */

int master_snapshot_drop(struct master *m, const struct ms_request *q, struct ms_answer *a)
{
	struct schema *of = NULL, *s = NULL;
	uint64_t version;
	int err = schemas_table_by_id(m->locks, q->table, q->name, &of, NULL);

	(void)a;
	if (!err)
		err = schema_owned_by(schema_public(of), q->user);
	if (!err)
		err = schemas_snapshot(m->locks, q->table, q->to, &s, &version);
	if (!err && q->of_all && !schema_public(s)->snapshot_of_all)
		err = -ENOENT;
	if (!err)
		err = snapshot_drop_one(m, schema_public(s), version);
	schema_put(of);
	schema_put(s);
	return err;
}
