/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deletes the METADATA rows of a table that was dropped, or whose copy did not
 * succeed.  The note dropped/ID exists, so no schema has this id, and none ever will:
 * one multi-operation of the lock service makes the schema and removes the note, or
 * the reverse.
 *
 *	1 BURY (pass_servers.c): no late request can insert a row of the table
 *	2 sync all logs: an insert that failed may be in a log that still refuses
 *	  writes, and a later replay would apply it
 *	3 delete the rows; their files are candidates of the collector
 *	4 remove the files rows/ID.N (snapshots.c), then the note
 * If a step fails, or a server does not answer, rows and note stay, and a later pass
 * (assign.c) repeats all steps.  A store in one process has passes at its start only.
 *
 * A master whose term has ended, and that does not know it, could meet notes of tables
 * that a later master makes.  The later master has sent its BURY before it makes
 * tables.  The earlier master's BURY came before that, and the earlier master had read
 * the next table id before.  So the earlier master ignores tables from that id on.
 */
#include "engine/base/msg.h"
#include "engine/base/units.h"
#include "engine/client/metadata.h"
#include "master/pass.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* Step 2. */
static int logs_sync(struct master *m)
{
	const struct ts_request q = {.method = TS_SYNC};
	struct ts_answer a = {0};
	int err = ts_call(m->tablets, &q, &a);

	ts_answer_fini(&a);
	return err;
}

static int delete_row(void *arg, struct tfs_bytes row_key, struct meta_tablet *t)
{
	struct master *m = arg;
	int err = metadata_delete(m->tablets, row_key);

	for (; t && !err; t = t->merge)
		for (unsigned i = 0; i < t->file_count; i++)
			(void)!collect_add(
				m, (struct file_name){t->files[i].table, t->files[i].incarnation, t->files[i].number}, false);
	return err;
}

struct rows {
	struct master *m;
	uint32_t table;
};

static int remove_rows(void *arg, const char *name)
{
	const struct rows *r = arg;
	char path[ROWS_NAME_MAX];
	char *end;

	if (strtoul(name, &end, 10) != r->table || *end != '.' || strlen(name) > 30)
		return 0;
	snprintf(path, sizeof(path), META_ROWS_DIR "/%s", name);
	return master_remove(r->m, path);
}

static int tablets_delete(struct pass *p, uint32_t table)
{
	char name[DROP_NOTE_MAX];
	struct lock_op note = drop_note(table, name);
	struct rows rows = {p->m, table};
	int err = !p->quiet || (!p->m->o.sole && table >= p->next_id) ? -EAGAIN : logs_sync(p->m);

	note.what = LOCK_REMOVE;
	if (!err)
		err = metadata_scan_table(p->m->tablets, table, delete_row, p->m);
	if (!err)
		err = p->m->locks->ops->list(p->m->locks, META_ROWS_DIR, remove_rows, &rows);
	if (!err)
		err = master_multi(p->m, &note, 1);
	master_collect_soon(p->m, false);
	return err;
}

void master_tablets_delete(struct master *m, uint32_t table)
{
	struct pass p = {.m = m, .quiet = m->o.sole};
	int err = m->o.sole ? 0 : pass_servers(&p);

	if (!err)
		err = tablets_delete(&p, table);
	if (err) {
		msg_warning("table %u: dropped, but its METADATA rows stay until the next %s: %s", table,
			m->o.sole ? "start" : "pass", error_text(err));
		m->passes.unassigned = true;
	}
	pass_fini(&p);
}

/* ---- in a pass ---- */

static int note_add(void *arg, const char *name)
{
	struct pass *p = arg;
	uint64_t id;

	if (!number_parse(name, 0, &id, NULL) || !id || id > UINT32_MAX)
		return 0;
	if (array_grow(&p->notes, p->note_count, sizeof(*p->notes)))
		return -ENOMEM;
	p->notes[p->note_count++] = (uint32_t)id;
	return 0;
}

/* Reads a file rows/ID.N: if one of its copies is damaged, the lock service writes it again. */
static int look_at_rows(void *arg, const char *name)
{
	const struct pass *p = arg;
	char path[ROWS_NAME_MAX + 256];

	snprintf(path, sizeof(path), META_ROWS_DIR "/%s", name);
	if (lock_get(p->m->locks, path, NULL, NULL) == -EBADMSG)
		msg_damage("lock/%s: damaged; 'tabletctl repair' writes it again", path);
	return 0;
}

int pass_notes(struct pass *p)
{
	int err = p->m->o.sole ? p->m->locks->ops->list(p->m->locks, META_ROWS_DIR, look_at_rows, p) : 0;

	return err ? err : p->m->locks->ops->list(p->m->locks, "dropped", note_add, p);
}

bool pass_noted(const struct pass *p, uint32_t table)
{
	for (unsigned i = 0; i < p->note_count; i++)
		if (p->notes[i] == table)
			return true;
	return false;
}

void pass_drop(struct pass *p)
{
	for (unsigned i = 0; i < p->note_count; i++)
		p->failed += tablets_delete(p, p->notes[i]) != 0;
}
