/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The METADATA of the repaired store.
 *
 * Each row that can be read is copied, with the names of rewritten files in it.
 * A row is in doubt if cells of it, or of a row below it, may be missing: around
 * unreadable stretches of METADATA's files (offline_meta.c), where tablets leave
 * a gap, and everywhere if METADATA's own rows or records of its log are lost.
 * A tablet in doubt also lists all SSTables of its table's directory that have
 * rows of it, and gets redo points for all records of its table in the logs.
 * That is right for live data, because cells carry sequence numbers and the
 * children of a split share their parent's files.  Deleted data may show again:
 * a compaction can have dropped deletes together with the cells that they
 * masked while an older file with these cells was still there.  A file cannot
 * be left out without risking live data, so the output says so.
 *
 * Files of another table's directory are in the rows of snapshots and clones
 * only.  The lock service has these rows as they were made (lock/rows).  A
 * snapshot in doubt gets them as they are; a clone in doubt also lists their
 * files, if they are still there.
 *
 * METADATA's own log may have lost records.  The rows are still complete if
 * the directories contain exactly the SSTables that the rows name and no
 * tablet is missing.  Then each tablet only gets redo points for all records
 * that the logs have of its table.  If tablets are missing although METADATA's
 * files are whole, or files that the rows name are missing and others are there,
 * the end of METADATA's log was cut off without a trace.
 */
#include "engine/meta/meta_format.h"
#include "engine/server/server.h"
#include "engine/tool/store/repair.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

/* ---- existing files ---- */

static void note_incarnation(struct repair *p, uint64_t n)
{
	if (n >= p->incarnation)
		p->incarnation = n + 1;
}

static int add_sst(void *arg, uint32_t table, uint64_t incarnation, uint64_t number)
{
	struct repair *p = arg;

	repair_file_get(p, table, incarnation, number)->exists = true;
	note_incarnation(p, incarnation);
	if (table > p->table_max)
		p->table_max = table;
	return 0;
}

static int add_log_dir(void *arg, const char *name, bool is_dir)
{
	struct repair *p = arg;
	char *end;
	uint64_t n = strtoull(name, &end, 10);

	if (!is_dir || *end || end == name)
		return 0;
	note_incarnation(p, n);
	(void)repair_log_get(p, n);
	return 0;
}

/* Makes a directory of the store that could not be listed because it is missing.  listed: the result of the listing. */
static int make_missing_dir(struct repair *p, const char *name, int listed)
{
	const char *path = text("%s/%s", p->dir, name);
	int err = listed;

	if (err == -ENOENT || err == -ENOTDIR) {
		report_problem(&p->r, "%s: this directory of the store is missing", path);
		repair_step(p, "%s: made, empty", path);
		err = p->write ? file_mkdir(path) : 0;
		if (!err && p->write)
			err = file_sync_dir(p->dir);
	}
	return err;
}

/* ---- logs and METADATA's own files ---- */

static void note_redo_points(struct repair *p, const struct meta_tablet *m)
{
	note_incarnation(p, m->server);
	if (m->table > p->table_max)
		p->table_max = m->table;
	for (unsigned i = 0; i < m->redo_count; i++) {
		struct repair_log *g = repair_log_get(p, m->redo[i].incarnation);

		note_incarnation(p, g->incarnation);
		if (!g->named || m->redo[i].lsn < g->from)
			g->from = m->redo[i].lsn;
		g->named = true;
		g->of_meta |= m->table == META_TABLE;
	}
}

/* Examines the logs that redo sets name, or all. */
static int examine_logs(struct repair *p, bool all)
{
	int err = 0;

	for (struct repair_log *g = p->logs; g && !err; g = g->next) {
		bool lost_meta = false;

		if (!all && !g->named)
			continue;
		err = repair_log_examine(p, g, &lost_meta);
		p->lost_meta |= lost_meta && g->of_meta;
		g->copied = all || g->damaged;
		p->rewrites_meta |= g->copied;
		for (unsigned t = 0; t < g->table_count && !err; t++)
			if (g->tables[t].table > p->table_max)
				p->table_max = g->tables[t].table;
	}
	return err;
}

/* ---- rows in doubt ---- */

static bool has_data(const struct meta_tablet *m)
{
	return m->file_count || m->redo_count;
}

static const struct tfs_schema *table_schema(const struct repair *p, uint32_t table)
{
	const struct offline_table *t = offline_table(&p->store, table);

	return t ? t->p : NULL;
}

/* Returns true if the table has data that must stay.  The rest of a dropped table, or of a table that was never made, has none. */
static bool is_wanted(const struct repair *p, const struct meta_tablet *m)
{
	return !offline_is_dropped(&p->store, m->table) && (table_schema(p, m->table) || has_data(m));
}

/* Returns true if a row between row i and the previous row is missing. */
static bool has_gap(const struct offline_row *row)
{
	return bytes_cmp(buf_bytes(&row->m.begin), buf_bytes(&row->begin)) > 0;
}

/* Counts files that no row names, files that rows name and that are missing, and tables that lack tablets. */
static unsigned compare_lists(struct repair *p, unsigned *unnamed, unsigned *missing)
{
	const struct offline *store = &p->store;
	unsigned gaps = 0;

	*unnamed = *missing = 0;
	for (unsigned i = 0; i < store->users.count; i++) {
		const struct meta_tablet *m = &store->users.v[i].m;

		gaps += is_wanted(p, m) &&
			(has_gap(&store->users.v[i]) ||
				(!m->last && (i + 1 == store->users.count || m[0].table != store->users.v[i + 1].m.table)));
		for (unsigned n = 0; n < m->file_count; n++) {
			struct repair_file *f = repair_file_get(p, m->files[n].table, m->files[n].incarnation, m->files[n].number);

			f->named = true;
			*missing += !f->exists;
		}
	}
	for (unsigned i = 0; i < store->table_count; i++)
		gaps += !offline_has_tablet(store, store->tables[i].p->tablets_id);
	for (const struct repair_file *f = p->files; f; f = f->hh.next)
		*unnamed += f->table >= META_FIRST_USER_TABLE && f->exists && !f->named;
	return gaps;
}

/* ---- the new rows ---- */

/* Takes *t, and leaves {0}. */
static void add_tablet(struct repair *p, struct meta_tablet *t)
{
	tool_grow(p->tablets, p->tablet_count);
	p->tablets[p->tablet_count++] = *t;
	*t = (struct meta_tablet){0};
}

/* Adds redo points for all records that the logs have of the table.  A record may be replayed that a file contains. */
static void add_redo_points(const struct repair *p, struct meta_tablet *t)
{
	for (const struct repair_log *g = p->logs; g; g = g->next)
		for (unsigned n = 0; n < g->table_count; n++) {
			const struct redo_point point = {g->incarnation, g->tables[n].first_lsn};

			if (g->tables[n].table != t->table)
				continue;
			if (g->tables[n].seq_bound > t->seq_mark)
				t->seq_mark = g->tables[n].seq_bound;
			if (meta_redo_add(t, point, false))
				no_memory();
		}
}

/* Restricts the rows for which t uses the file to the rows of t.  Returns false if the file has no such row. */
static int clip(const struct meta_tablet *t, struct tablet_file *f)
{
	int err = 0;

	if (bytes_cmp(buf_bytes(&f->begin), buf_bytes(&t->begin)) < 0)
		err = buf_set(&f->begin, t->begin.p, t->begin.n);
	if (!err && !t->last && (!f->end.p || bytes_cmp(buf_bytes(&t->end), buf_bytes(&f->end)) < 0))
		err = buf_set(&f->end, t->end.p, t->end.n);
	if (err)
		return err;
	return bytes_cmp(buf_bytes(&f->last), buf_bytes(&f->begin)) >= 0 &&
		(!f->end.p ||
			(bytes_cmp(buf_bytes(&f->first), buf_bytes(&f->end)) < 0 &&
				bytes_cmp(buf_bytes(&f->begin), buf_bytes(&f->end)) < 0));
}

/* Adds the file as it is after the repair, if anything of it is left, for the rows of f that belong to the tablet. */
static int add_file(struct repair *p, struct meta_tablet *t, const struct tablet_file *f)
{
	struct tablet_file now = {0};
	const struct repair_file *x;
	int err = repair_sst(p, f, &x);

	if (err)
		return err;
	p->rewrites_meta |= x->changed;
	repair_sst_losses(p, t, x);
	if (x->gone && f->group == TABLET_GROUP_CHANGES && t->changes_low_us && f->newest_us > t->changes_low_us)
		t->changes_low_us = f->newest_us; /* a reader of the lost changes gets an error */
	if (x->gone)
		return 0;
	err = tablet_file_copy(&now, &x->now);
	if (!err)
		err = buf_set(&now.begin, f->begin.p, f->begin.n);
	if (!err && f->end.p)
		err = buf_set(&now.end, f->end.p, f->end.n);
	if (!err && (err = clip(t, &now)) > 0) {
		t->seq_mark = now.seq_max > t->seq_mark ? now.seq_max : t->seq_mark;
		return meta_files_add(t, &now, false);
	}
	tablet_file_fini(&now);
	return err;
}

/* Adds the files that a tablet in doubt may have. */
static int add_possible_files(struct repair *p, struct meta_tablet *t)
{
	unsigned count;
	const struct offline_row *made = offline_table_rows(&p->store.made, t->table, &count);
	int err = 0;

	t->changes_low_us = 0; /* not all its changes may be there */
	for (struct repair_file *f = p->files; f && !err; f = f->hh.next) {
		const struct tablet_file x = {.table = f->table, .incarnation = f->incarnation, .number = f->number};

		if (f->table == t->table && f->exists)
			err = add_file(p, t, &x);
	}
	for (unsigned i = 0; i < count; i++)
		for (unsigned n = 0; n < made[i].m.file_count && !err; n++) {
			const struct tablet_file *f = &made[i].m.files[n];

			if (f->table != t->table && repair_file_get(p, f->table, f->incarnation, f->number)->exists)
				err = add_file(p, t, f);
		}
	return err;
}

/* Copies a row.  begin: where the tablet begins. */
static int copy_row(struct repair *p, const struct meta_tablet *m, const struct buf *begin, bool doubt)
{
	struct meta_tablet t = {0}, bare = *m;
	int err;

	bare.begin = *begin; /* borrowed */
	bare.files = NULL;
	bare.file_count = 0;
	err = meta_tablet_copy(&bare, &t);
	for (unsigned i = 0; i < m->file_count && !err; i++)
		err = add_file(p, &t, &m->files[i]);
	if (!err && doubt) {
		err = add_possible_files(p, &t);
		repair_step(p, "METADATA: %s: all %u SSTables that may be of it; data that was deleted may show again",
			offline_tablet_name(&p->store, &t), t.file_count);
		p->rewrites_meta = true;
	}
	if (!err && (doubt || p->lost_meta))
		add_redo_points(p, &t);
	if (!err)
		add_tablet(p, &t);
	meta_tablet_fini(&t);
	return err;
}

/* Makes a tablet from the end of the last row of the table on. */
static int add_last_tablet(struct repair *p, uint32_t table, const struct offline_row *before)
{
	const struct meta_tablet t = {.table = table, .last = true, .server = p->incarnation};
	const struct buf none = {.p = (uint8_t *)""};

	return copy_row(p, &t, before ? &before->m.end : &none, true);
}

/* Copies the rows of a snapshot as they were made. */
static int restore_snapshot(struct repair *p, const struct offline_row *made, unsigned count)
{
	int err = 0;

	repair_step(p, "METADATA: %s: its %u rows from %s/lock/rows", offline_table_name(&p->store, made->m.table), count, p->dir);
	p->rewrites_meta = true;
	for (unsigned i = 0; i < count && !err; i++)
		err = copy_row(p, &made[i].m, &made[i].begin, false);
	return err;
}

/* Returns true if the rows, which are sorted, leave no gap. */
static bool is_whole(const struct offline_row *row, unsigned count)
{
	struct tfs_bytes end = tfs_bytes_of((const uint8_t *)"", 0);

	for (unsigned i = 0; i < count; end = buf_bytes(&row[i++].m.end))
		if (!bytes_eq(buf_bytes(&row[i].begin), end) || row[i].m.last != (i + 1 == count))
			return false;
	return count > 0;
}

static int plan_table(struct repair *p, uint32_t table)
{
	const struct tfs_schema *schema = table_schema(p, table);
	unsigned count, made_count;
	const struct offline_row *row = offline_table_rows(&p->store.users, table, &count),
				 *made = offline_table_rows(&p->store.made, table, &made_count);
	bool doubt = p->all_in_doubt || !count || !row[count - 1].m.last, wanted = !count || schema, whole;
	int err = 0;

	for (unsigned i = 0; i < count; i++)
		wanted |= has_data(&row[i].m);
	wanted &= !offline_is_dropped(&p->store, table);
	for (unsigned i = 0; i < count && wanted; i++)
		doubt |= row[i].doubt || has_gap(&row[i]);
	doubt &= wanted;
	if (doubt)
		report_problem(&p->r, "METADATA: %s: not all of its rows can be read", offline_table_name(&p->store, table));
	whole = made && is_whole(made, made_count);
	if (doubt && schema && schema->snapshot_of && whole)
		return restore_snapshot(p, made, made_count);
	if (doubt && !whole && (made || (schema && schema->snapshot_of) || repair_lock_had_rows(p, table)))
		repair_loss(p, "%s: cells of rows from the first to the last in files of another table, whose names are lost",
			offline_table_name(&p->store, table));
	for (unsigned i = 0; i < count && !err; i++)
		if (row[i].m.last || bytes_cmp(buf_bytes(&row[i].begin), buf_bytes(&row[i].m.end)) < 0)
			err = copy_row(
				p, &row[i].m, &row[i].begin, wanted && (p->all_in_doubt || row[i].doubt || has_gap(&row[i])));
	if (!err && wanted && (!count || !row[count - 1].m.last))
		err = add_last_tablet(p, table, count ? &row[count - 1] : NULL);
	return err;
}

/* ---- all tables ---- */

struct ids {
	uint32_t *v;
	unsigned count;
};

static void add_id(struct ids *ids, uint32_t id)
{
	for (unsigned i = 0; i < ids->count; i++)
		if (ids->v[i] == id)
			return;
	tool_grow(ids->v, ids->count);
	ids->v[ids->count++] = id;
}

static int compare_ids(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Returns true if a table had tablets of this id and has other tablets now, because it was emptied or split anew. */
static bool is_replaced(const struct repair *p, uint32_t id)
{
	for (unsigned i = 0; i < p->store.table_count; i++) {
		const struct tfs_schema *s = p->store.tables[i].p;

		if (s->table_id == id && s->tablets_id != id)
			return true;
	}
	return false;
}

/* Files that rows name come before others of their directories, because METADATA states the contents of a damaged file. */
static int examine_named(struct repair *p)
{
	const struct offline_rows *rows = &p->store.users;
	const struct repair_file *x;
	int err = 0;

	for (unsigned i = 0; i < rows->count; i++)
		for (unsigned n = 0; n < rows->v[i].m.file_count && !err; n++)
			if (is_wanted(p, &rows->v[i].m) && !is_replaced(p, rows->v[i].m.table))
				err = repair_sst(p, &rows->v[i].m.files[n], &x);
	return err;
}

static int plan_tables(struct repair *p)
{
	const struct offline *store = &p->store;
	struct ids ids = {0};
	int err = examine_named(p);

	for (unsigned i = 0; i < store->table_count; i++)
		add_id(&ids, store->tables[i].p->tablets_id);
	for (unsigned i = 0; i < store->users.count; i++) {
		const struct meta_tablet *m = &store->users.v[i].m;

		if (!is_replaced(p, m->table)) {
			add_id(&ids, m->table);
		} else if (is_wanted(p, m)) {
			repair_step(p, "METADATA: table id %u: its rows are removed, because its table was emptied", m->table);
			p->rewrites_meta = true;
		}
	}
	for (unsigned i = 0; i < store->made.count; i++)
		if (!offline_is_dropped(store, store->made.v[i].m.table))
			add_id(&ids, store->made.v[i].m.table);
	for (const struct repair_file *f = p->files; f; f = f->hh.next)
		if (p->all_in_doubt && f->exists && f->table >= META_FIRST_USER_TABLE && !offline_is_dropped(store, f->table) &&
			!is_replaced(p, f->table))
			add_id(&ids, f->table);
	if (ids.count)
		qsort(ids.v, ids.count, sizeof(*ids.v), compare_ids);
	for (unsigned i = 0; i < ids.count && !err; i++)
		err = plan_table(p, ids.v[i]);
	free(ids.v);
	return err;
}

/* Decides whether all rows are in doubt. */
static int find_doubt(struct repair *p)
{
	unsigned unnamed, missing, gaps = compare_lists(p, &unnamed, &missing);

	/* Nothing else shows that the end of a log was cut off. */
	if (!p->store.all_in_doubt && !p->lost_meta && !p->store.gaps.count && (gaps || (unnamed && missing))) {
		report_problem(&p->r,
			"METADATA: %u tablets are missing; %u SSTables that it names are missing, and %u are there that it does "
			"not name",
			gaps, missing, unnamed);
		repair_loss(p, "%s/log: the end of a log; how many records it had is not known", p->dir);
		p->lost_meta = true;
	}
	p->all_in_doubt = p->store.all_in_doubt || (p->lost_meta && (gaps || unnamed || missing));
	p->rewrites_meta |= p->all_in_doubt || p->lost_meta || p->store.meta_damaged;
	for (unsigned i = 0; i < p->store.users.count && !gaps; i++)
		gaps += p->store.users.v[i].doubt;
	return gaps || p->all_in_doubt ? examine_logs(p, true) : 0;
}

int repair_meta_plan(struct repair *p)
{
	const struct offline *store = &p->store;
	const struct offline_row *row;
	int err = make_missing_dir(p, "sst", offline_list_ssts(store, &p->r, add_sst, p));

	if (!err)
		err = make_missing_dir(p, "log", file_list(text("%s/log", p->dir), add_log_dir, p));
	for (unsigned i = 0; (row = offline_row_at(store, i)) && !err; i++)
		note_redo_points(p, &row->m);
	for (unsigned i = 0; i < store->made.count; i++)
		p->table_max = store->made.v[i].m.table > p->table_max ? store->made.v[i].m.table : p->table_max;
	/* The next mount makes the root tablet of a store that was never used. */
	if (!err && !store->root.count && !store->table_count && !p->files && !store->next_table && p->table_max == 0)
		return 0;
	if (!err)
		err = examine_logs(p, store->all_in_doubt);
	if (!err)
		err = find_doubt(p);
	if (!err)
		err = plan_tables(p);
	if (!err && p->rewrites_meta)
		repair_step(p, "METADATA: written anew, %u rows; %s/lock/root names it", p->tablet_count, p->dir);
	return err;
}

void repair_meta_fini(struct repair *p)
{
	for (unsigned i = 0; i < p->tablet_count; i++)
		meta_tablet_fini(&p->tablets[i]);
	free(p->tablets);
	p->tablets = NULL;
	p->tablet_count = 0;
}
