/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The METADATA of the repaired store.
 *
 * A table's rows are copied as they are read, with the names of rewritten
 * files in them.  If a table's tablets leave a gap, or part of METADATA cannot
 * be read, the table gets one tablet over all rows.  It lists all SSTables of
 * the table's directory, unclipped, and all records in the logs.  That is
 * right for live data, because cells carry sequence numbers and the children
 * of a split share their parent's files.  Deleted data may show again: a
 * compaction can have dropped deletes together with the cells that they
 * masked while an older file with these cells was still there.  A file cannot
 * be left out without risking live data, so all files are listed, and the
 * output says so.
 *
 * METADATA's own log may have lost records.  The rows are still complete if
 * the directories contain exactly the SSTables that the rows name and no
 * tablet is missing.  Then the rows are copied, and each tablet gets redo points
 * for all records that the logs have of its table.  If files that the rows
 * name are missing and others are there, the end of METADATA's log was cut
 * off without a trace, and every table is rebuilt.
 */
#include "engine/server/server.h"
#include "engine/tool/repair.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

/* ---- existing files ---- */

static void note_incarnation(struct repair *p, uint64_t n)
{
	if (n >= p->incarnation)
		p->incarnation = n + 1;
}

static int add_sst(void *arg, const char *name, bool is_dir)
{
	struct repair *p = arg;
	uint64_t incarnation, number;

	if (is_dir || !meta_sstable_parse(name, &incarnation, &number))
		return 0;
	repair_file_get(p, p->listed, incarnation, number)->exists = true;
	note_incarnation(p, incarnation);
	return 0;
}

static int add_sst_dir(void *arg, const char *name, bool is_dir)
{
	struct repair *p = arg;
	char *end;
	unsigned long long id = strtoull(name, &end, 10);

	if (!is_dir || *end || !id || id > UINT32_MAX)
		return 0;
	p->listed = (uint32_t)id;
	if (p->listed > p->table_max)
		p->table_max = p->listed;
	return file_list(text("%s/sst/%s", p->dir, name), add_sst, p);
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

static int list_dir(struct repair *p, const char *name, int (*fn)(void *, const char *, bool))
{
	const char *path = text("%s/%s", p->dir, name);
	int err = file_list(path, fn, p);

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

/* Damage in a METADATA file that reading its rows did not meet, as in a filter, is a reason to write METADATA anew. */
static int verify_meta_files(struct repair *p, const struct meta_tablet *m)
{
	int err = 0;

	for (unsigned i = 0; i < m->file_count && !err; i++) {
		const char *path = offline_sst_path(&p->store, &m->files[i]);
		char *why = NULL;
		uint64_t keys;

		err = sst_verify(path, &keys, &why);
		if (err == -EBADMSG || err == -ENOENT) {
			report_problem(&p->r, "%s", why ? why : path);
			p->rewrites_meta = true;
			err = 0;
		}
		free(why);
	}
	return err;
}

/* ---- which tables are rebuilt ---- */

static bool is_rebuilt(const struct repair *p, uint32_t table)
{
	for (unsigned i = 0; i < p->rebuild_count; i++)
		if (p->rebuild[i] == table)
			return true;
	return false;
}

static void rebuild_table(struct repair *p, uint32_t table)
{
	if (table < META_FIRST_USER_TABLE || is_rebuilt(p, table) || offline_is_dropped(&p->store, table))
		return;
	tool_grow(p->rebuild, p->rebuild_count);
	p->rebuild[p->rebuild_count++] = table;
}

static bool has_data(const struct meta_tablet *m)
{
	return m->file_count || m->redo_count;
}

/* Rebuilds each table that has a schema, files or a row with data. */
static void rebuild_all(struct repair *p)
{
	const struct offline *store = &p->store;

	for (unsigned i = 0; i < store->table_count; i++)
		rebuild_table(p, store->tables[i].p->tablets_id);
	for (const struct repair_file *f = p->files; f; f = f->next)
		if (f->exists)
			rebuild_table(p, f->table);
	for (unsigned i = 0; i < store->users.count; i++)
		if (has_data(&store->users.v[i].m))
			rebuild_table(p, store->users.v[i].m.table);
}

/* Rebuilds tables whose tablets leave a gap, and tables without tablets. */
static void rebuild_gaps(struct repair *p)
{
	const struct offline *store = &p->store;

	for (unsigned i = 0; i < store->users.count; i++) {
		const struct meta_tablet *m = &store->users.v[i].m;

		if (!offline_has_gap(&store->users, i) || (!offline_table(store, m->table) && !has_data(m)))
			continue;
		report_problem(&p->r, "METADATA: table id %u: its tablets leave a gap", m->table);
		rebuild_table(p, m->table);
	}
	for (unsigned i = 0; i < store->table_count; i++) {
		if (offline_has_tablet(store, store->tables[i].p->tablets_id))
			continue;
		report_problem(&p->r, "METADATA: no tablet of table %s", store->tables[i].p->name);
		rebuild_table(p, store->tables[i].p->tablets_id);
	}
}

/* Counts files that no row names, and files that rows name and that are missing. */
static void compare_lists(struct repair *p, unsigned *unnamed, unsigned *missing)
{
	const struct offline *store = &p->store;

	*unnamed = *missing = 0;
	for (unsigned i = 0; i < store->users.count; i++)
		for (unsigned n = 0; n < store->users.v[i].m.file_count; n++) {
			const struct tablet_file *x = &store->users.v[i].m.files[n];
			struct repair_file *f = repair_file_get(p, x->table, x->incarnation, x->number);

			f->named = true;
			*missing += !f->exists;
		}
	for (const struct repair_file *f = p->files; f; f = f->next)
		*unnamed += f->table >= META_FIRST_USER_TABLE && f->exists && !f->named;
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
			unsigned at = 0;

			if (g->tables[n].table != t->table)
				continue;
			if (g->tables[n].seq_bound > t->seq_mark)
				t->seq_mark = g->tables[n].seq_bound;
			while (at < t->redo_count && t->redo[at].incarnation != g->incarnation)
				at++;
			if (at < t->redo_count)
				continue;
			t->redo = reallocarray(t->redo, t->redo_count + 1, sizeof(*t->redo));
			if (!t->redo)
				no_memory();
			t->redo[t->redo_count++] = (struct redo_point){g->incarnation, g->tables[n].first_lsn};
		}
}

/* Appends the file as it is after the repair, if anything of it is left, for the same rows as before. */
static int add_file(struct repair *p, struct meta_tablet *t, const struct tablet_file *f)
{
	struct tablet_file now = {0};
	const struct repair_file *x;
	int err = repair_sst(p, f, &x);

	if (err)
		return err;
	p->rewrites_meta |= x->changed;
	if (x->gone)
		return 0;
	err = tablet_file_copy(&now, &x->now);
	if (!err)
		err = buf_set(&now.begin, f->begin.p, f->begin.n);
	if (!err && f->end.p)
		err = buf_set(&now.end, f->end.p, f->end.n);
	if (err) {
		tablet_file_fini(&now);
		return err;
	}
	tool_grow(t->files, t->file_count);
	if (now.seq_max > t->seq_mark)
		t->seq_mark = now.seq_max;
	t->files[t->file_count++] = now;
	return 0;
}

static int copy_row(struct repair *p, const struct offline_row *row)
{
	struct meta_tablet t = {0}, bare = row->m;
	int err;

	bare.begin = row->begin; /* borrowed */
	bare.files = NULL;
	bare.file_count = 0;
	err = meta_tablet_copy(&bare, &t);
	for (unsigned i = 0; i < row->m.file_count && !err; i++)
		err = add_file(p, &t, &row->m.files[i]);
	if (!err && p->lost_meta)
		add_redo_points(p, &t);
	if (!err)
		add_tablet(p, &t);
	meta_tablet_fini(&t);
	return err;
}

/* Makes the one tablet of a rebuilt table. */
static int build_row(struct repair *p, uint32_t table)
{
	struct meta_tablet t = {.table = table, .last = true, .server = p->incarnation};
	const struct offline *store = &p->store;
	int err = 0;

	for (unsigned i = 0; i < store->users.count; i++)
		if (store->users.v[i].m.table == table && store->users.v[i].m.seq_mark > t.seq_mark)
			t.seq_mark = store->users.v[i].m.seq_mark;
	for (const struct repair_file *f = p->files; f && !err; f = f->next) {
		const struct tablet_file x = {.table = table, .incarnation = f->incarnation, .number = f->number};

		if (f->table == table && f->exists)
			err = add_file(p, &t, &x);
	}
	if (!err) {
		add_redo_points(p, &t);
		repair_step(p,
			"METADATA: %s: one tablet over all its rows, with all %u SSTables of its directory; data that was deleted "
			"may show again",
			offline_table_name(store, table), t.file_count);
		add_tablet(p, &t);
	}
	p->rewrites_meta = true;
	meta_tablet_fini(&t);
	return err;
}

static int compare_tablets(const void *a, const void *b)
{
	const struct meta_tablet *x = a, *y = b;

	if (x->table != y->table)
		return x->table > y->table ? 1 : -1;
	return x->last != y->last ? x->last - y->last : slice_cmp(buf_slice(&x->end), buf_slice(&y->end));
}

/* Decides which tables are rebuilt.  *all: each of them. */
static int choose_tables(struct repair *p, bool *all)
{
	unsigned unnamed, missing;
	int err;

	compare_lists(p, &unnamed, &missing);
	if (!*all)
		rebuild_gaps(p);
	/* Nothing else shows that the end of a log was cut off. */
	if (!*all && !p->lost_meta && unnamed && missing) {
		report_problem(&p->r, "METADATA: %u SSTables that it names are missing, and %u are there that it does not name",
			missing, unnamed);
		repair_loss(p, "%s/log: the end of a log; how many records it had is not known", p->dir);
		p->lost_meta = true;
	}
	p->rewrites_meta |= *all || p->lost_meta;
	if (!*all && !(p->lost_meta && (p->rebuild_count || unnamed || missing)))
		return 0;
	*all = true;
	err = examine_logs(p, true);
	if (!err)
		rebuild_all(p);
	return err;
}

int repair_meta_plan(struct repair *p)
{
	const struct offline *store = &p->store;
	const struct offline_row *row;
	bool all = store->incomplete || !store->root.count;
	int err = list_dir(p, "sst", add_sst_dir);

	if (!err)
		err = list_dir(p, "log", add_log_dir);
	for (unsigned i = 0; (row = offline_row_at(store, i)) && !err; i++)
		note_redo_points(p, &row->m);
	/* The next mount makes the root tablet of a store that was never used. */
	if (!err && !store->root.count && !store->table_count && !p->files && !store->next_table && p->table_max == 0)
		return 0;
	for (unsigned i = 0; (row = offline_row_at(store, i)) && !err; i++)
		if (row->m.table == META_TABLE)
			err = verify_meta_files(p, &row->m);
	if (!err)
		err = examine_logs(p, all);
	if (!err)
		err = choose_tables(p, &all);
	for (unsigned i = 0; i < store->users.count && !err && !all; i++)
		if (!is_rebuilt(p, store->users.v[i].m.table))
			err = copy_row(p, &store->users.v[i]);
	for (unsigned i = 0; i < p->rebuild_count && !err; i++)
		err = build_row(p, p->rebuild[i]);
	if (!err && p->tablet_count)
		qsort(p->tablets, p->tablet_count, sizeof(*p->tablets), compare_tablets);
	if (!err && p->rewrites_meta)
		repair_step(p, "METADATA: written anew, %u rows; %s/lock/root names it", p->tablet_count, p->dir);
	return err;
}

void repair_meta_fini(struct repair *p)
{
	for (unsigned i = 0; i < p->tablet_count; i++)
		meta_tablet_fini(&p->tablets[i]);
	free(p->tablets);
	free(p->rebuild);
	p->tablets = NULL;
	p->rebuild = NULL;
	p->tablet_count = p->rebuild_count = 0;
}
