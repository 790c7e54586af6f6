/* SPDX-License-Identifier: Apache-2.0 */
/*
 * METADATA as it will be, and how it is replaced.
 *
 * Its rows are kept as they are read, with the names of rewritten files in
 * them.  A table whose rows leave a gap, and every table when part of
 * METADATA cannot be read, gets one tablet that covers all rows and lists all
 * SSTables in the table's directory, clipped to nothing, and all records in
 * the logs.  That is right for all live data, because cells carry sequence
 * numbers, and children of a split share their parent's files.  It may show
 * deleted data again: where a compaction dropped deletes together with the
 * cells that they masked, and an older file with these cells was still there
 * (its compaction's last step had not come, or the other child of a split
 * still needed it).  Leaving such files out by a guess could lose data, so
 * none is left out, and the output says so.
 *
 * METADATA's log may have lost records.  If every SSTable that the rows name
 * is there, no other one is there, and the tablets leave no gap, then no
 * change of a file list is missing, and the rows are kept; redo points are
 * added for each table that the log has records of.  If files that they name
 * are gone while others are there, the end of METADATA's log was cut off
 * without a trace, and everything is rebuilt.
 *
 * The new METADATA is a log: one record for each row, under the number of a
 * new incarnation, and a root tablet that has no files and that log.  The
 * next mount replays it.  Durable steps: 5 the files and logs of the old one
 * get a second name in DATADIR/repair-NNNN, and the log is written, 6 lock/root
 * is replaced.  Before 6 the old METADATA holds, after it the new one.
 */
#include "engine/server/server.h"
#include "engine/cell/batch_format.h"
#include "engine/tool/repair.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

struct sst_name {
	uint32_t table;
	uint64_t incarnation, number;
};
struct log_name {
	uint64_t incarnation, from;
	bool named;   /* by a redo set */
	bool of_meta; /* by METADATA's or the root tablet's */
	const struct repair_log_table *tables;
	unsigned table_count;
};
struct plan {
	struct repair *p;
	struct repair_meta *m;
	struct sst_name *ssts; /* that exist */
	unsigned sst_count;
	struct log_name *logs;
	unsigned log_count;
	uint32_t *rebuild; /* tables */
	unsigned rebuild_count;
	bool doubt;     /* METADATA's log lost records */
	uint32_t table; /* of the directory being listed */
};

/* ---- what exists ---- */

static int add_sst(void *arg, const char *name, bool is_dir)
{
	struct plan *k = arg;
	struct sst_name *v;
	uint64_t incarnation, number;
	const char *dash = strchr(name, '-');

	if (is_dir || !server_is_sstable(name, &incarnation))
		return 0;
	number = strtoull(dash + 1, NULL, 10);
	v = realloc(k->ssts, (k->sst_count + 1) * sizeof(*v));
	if (!v)
		return -ENOMEM;
	k->ssts = v;
	v[k->sst_count++] = (struct sst_name){k->table, incarnation, number};
	if (incarnation >= k->p->incarnation)
		k->p->incarnation = incarnation + 1;
	return 0;
}

static int add_sst_dir(void *arg, const char *name, bool is_dir)
{
	struct plan *k = arg;
	char *end, *top = path_join(k->p->dir, "sst"), *path = top ? path_join(top, name) : NULL;
	unsigned long long id = strtoull(name, &end, 10);
	int err = path ? 0 : -ENOMEM;

	if (!err && is_dir && !*end && id && id <= UINT32_MAX) {
		k->table = (uint32_t)id;
		if (k->table > k->p->table_max)
			k->p->table_max = k->table;
		err = file_list(path, add_sst, k);
	}
	free(top);
	free(path);
	return err;
}

static struct log_name *log_named(struct plan *k, uint64_t incarnation)
{
	struct log_name *v;

	for (unsigned i = 0; i < k->log_count; i++)
		if (k->logs[i].incarnation == incarnation)
			return &k->logs[i];
	v = realloc(k->logs, (k->log_count + 1) * sizeof(*v));
	if (!v)
		return NULL;
	k->logs = v;
	v[k->log_count] = (struct log_name){.incarnation = incarnation};
	if (incarnation >= k->p->incarnation)
		k->p->incarnation = incarnation + 1;
	return &v[k->log_count++];
}

static int add_log_dir(void *arg, const char *name, bool is_dir)
{
	char *end;
	uint64_t n = strtoull(name, &end, 10);

	return !is_dir || *end || end == name || log_named(arg, n) ? 0 : -ENOMEM;
}

static int list_dir(struct repair *p, const char *name, int (*fn)(void *, const char *, bool), void *arg)
{
	char *path = path_join(p->dir, name);
	int err = path ? file_list(path, fn, arg) : -ENOMEM;

	if (err == -ENOENT || err == -ENOTDIR) {
		report_problem(&p->r, "%s: this directory of the store is missing", path);
		repair_does(p, "%s: made, empty", path);
		err = p->write ? file_mkdir(path) : 0;
		if (!err && p->write)
			err = file_sync_dir(p->dir);
	}
	free(path);
	return err;
}

/* ---- redo sets ---- */

static int name_redo(struct plan *k, const struct meta_tablet *m, bool meta)
{
	if (m->server >= k->p->incarnation)
		k->p->incarnation = m->server + 1;
	if (m->table > k->p->table_max)
		k->p->table_max = m->table;
	for (unsigned i = 0; i < m->redo_count; i++) {
		struct log_name *g = log_named(k, m->redo[i].incarnation);

		if (!g)
			return -ENOMEM;
		if (!g->named || m->redo[i].lsn < g->from)
			g->from = m->redo[i].lsn;
		g->named = true;
		g->of_meta |= meta;
	}
	return 0;
}

static int name_all_redo(struct plan *k)
{
	struct offline *store = &k->p->store;
	int err = store->has_root ? name_redo(k, &store->root.m, true) : 0;

	for (unsigned i = 0; i < store->meta.count && !err; i++)
		err = name_redo(k, &store->meta.v[i].m, true);
	for (unsigned i = 0; i < store->users.count && !err; i++)
		err = name_redo(k, &store->users.v[i].m, false);
	return err;
}

/* Of all logs if everything is rebuilt, else of those that redo sets name. */
static int look_at_logs(struct plan *k, bool all)
{
	int err = 0;

	for (unsigned i = 0; i < k->log_count && !err; i++) {
		struct log_name *g = &k->logs[i];
		bool lost = false;

		if (!all && !g->named)
			continue;
		err = repair_log_look(k->p, g->incarnation, g->named ? g->from : 0, &lost, &g->tables, &g->table_count);
		k->doubt |= lost && g->of_meta;
		for (unsigned t = 0; t < g->table_count && !err; t++)
			if (g->tables[t].table > k->p->table_max)
				k->p->table_max = g->tables[t].table;
	}
	return err;
}

/* METADATA's own files: damage where its rows were not read, as in a filter, is reason enough to write it anew. */
static int look_at_meta_files(struct plan *k, const struct meta_tablet *m)
{
	int err = 0;

	for (unsigned i = 0; i < m->file_count && !err; i++) {
		const struct tablet_file *f = &m->files[i];
		char *path = tablet_file_path(k->p->dir, f->table, f->incarnation, f->number), *why = NULL;
		uint64_t keys;

		err = path ? sst_verify(path, &keys, &why) : -ENOMEM;
		if (err == -EBADMSG || err == -ENOENT) {
			report_problem(&k->p->r, "%s", why ? why : path);
			k->m->changed = true;
			err = 0;
		}
		free(why);
		free(path);
	}
	return err;
}

static int look_at_metadata(struct plan *k)
{
	const struct offline *store = &k->p->store;
	int err = store->has_root ? look_at_meta_files(k, &store->root.m) : 0;

	for (unsigned i = 0; i < store->meta.count && !err; i++)
		err = look_at_meta_files(k, &store->meta.v[i].m);
	return err;
}

/* ---- which tables are rebuilt ---- */

static bool is_rebuilt(const struct plan *k, uint32_t table)
{
	for (unsigned i = 0; i < k->rebuild_count; i++)
		if (k->rebuild[i] == table)
			return true;
	return false;
}

static int rebuild_table(struct plan *k, uint32_t table)
{
	uint32_t *v;
	char note[32];

	snprintf(note, sizeof(note), "dropped/%u", table);
	if (table < META_FIRST_USER_TABLE || is_rebuilt(k, table) || offline_file(&k->p->store, note))
		return 0;
	v = realloc(k->rebuild, (k->rebuild_count + 1) * sizeof(*v));
	if (!v)
		return -ENOMEM;
	k->rebuild = v;
	v[k->rebuild_count++] = table;
	return 0;
}

/* Tables of which there are files or a schema. */
static int rebuild_all(struct plan *k)
{
	int err = 0;

	for (unsigned i = 0; i < k->p->store.table_count && !err; i++)
		err = rebuild_table(k, k->p->store.tables[i].p->tablets_id);
	for (unsigned i = 0; i < k->sst_count && !err; i++)
		err = rebuild_table(k, k->ssts[i].table);
	for (unsigned i = 0; i < k->p->store.users.count && !err; i++) {
		const struct meta_tablet *m = &k->p->store.users.v[i].m;

		if (m->file_count || m->redo_count)
			err = rebuild_table(k, m->table);
	}
	return err;
}

static bool has_gap(const struct offline_row *row, const struct offline_row *next)
{
	if (slice_cmp(buf_slice(&row->m.begin), buf_slice(&row->begin)) > 0)
		return true;
	if (!row->m.last && slice_cmp(buf_slice(&row->begin), buf_slice(&row->m.end)) >= 0)
		return true;
	return !row->m.last && (!next || next->m.table != row->m.table);
}

/* Tables whose rows leave a gap, and those that have none. */
static int find_gaps(struct plan *k)
{
	const struct offline *store = &k->p->store;
	int err = 0;

	for (unsigned i = 0; i < store->users.count && !err; i++) {
		const struct offline_row *row = &store->users.v[i], *next = i + 1 < store->users.count ? row + 1 : NULL;

		if (!has_gap(row, next) || (!offline_table(store, row->m.table) && !row->m.file_count && !row->m.redo_count))
			continue;
		report_problem(&k->p->r, "METADATA: table id %u: its tablets leave a gap", row->m.table);
		err = rebuild_table(k, row->m.table);
	}
	for (unsigned i = 0; i < store->table_count && !err; i++) {
		bool has = false;

		for (unsigned u = 0; u < store->users.count && !has; u++)
			has = store->users.v[u].m.table == store->tables[i].p->tablets_id;
		if (has)
			continue;
		report_problem(&k->p->r, "METADATA: no tablet of table %s", store->tables[i].p->name);
		err = rebuild_table(k, store->tables[i].p->tablets_id);
	}
	return err;
}

static bool is_listed(const struct offline *store, const struct sst_name *s)
{
	for (unsigned i = 0; i < store->users.count; i++)
		for (unsigned f = 0; f < store->users.v[i].m.file_count; f++) {
			const struct tablet_file *x = &store->users.v[i].m.files[f];

			if (x->table == s->table && x->incarnation == s->incarnation && x->number == s->number)
				return true;
		}
	return false;
}

/* Files that the rows do not name, and files named that are not there. */
static void compare_lists(const struct plan *k, unsigned *unnamed, unsigned *missing)
{
	const struct offline *store = &k->p->store;

	*unnamed = *missing = 0;
	for (unsigned i = 0; i < k->sst_count; i++)
		*unnamed += k->ssts[i].table >= META_FIRST_USER_TABLE && !is_listed(store, &k->ssts[i]);
	for (unsigned i = 0; i < store->users.count; i++)
		for (unsigned f = 0; f < store->users.v[i].m.file_count; f++) {
			const struct tablet_file *x = &store->users.v[i].m.files[f];
			char *path = tablet_file_path(k->p->dir, x->table, x->incarnation, x->number);

			*missing += !path || !repair_exists(path);
			free(path);
		}
}

/* ---- tablets as they will be ---- */

static int add_tablet(struct repair_meta *m, struct meta_tablet *t)
{
	struct meta_tablet *v = realloc(m->v, (m->count + 1) * sizeof(*v));

	if (!v)
		return -ENOMEM;
	m->v = v;
	v[m->count++] = *t;
	*t = (struct meta_tablet){0};
	return 0;
}

/* Redo points for whatever the logs have of the table.  Replaying more than is needed does no harm. */
static int add_redo(const struct plan *k, struct meta_tablet *t)
{
	struct redo_point *v;

	for (unsigned i = 0; i < k->log_count; i++) {
		const struct log_name *g = &k->logs[i];
		unsigned at = 0;

		for (unsigned n = 0; n < g->table_count; n++) {
			if (g->tables[n].table != t->table)
				continue;
			if (g->tables[n].seq_max > t->seq_mark)
				t->seq_mark = g->tables[n].seq_max;
			while (at < t->redo_count && t->redo[at].incarnation != g->incarnation)
				at++;
			if (at < t->redo_count)
				continue;
			v = realloc(t->redo, (t->redo_count + 1) * sizeof(*v));
			if (!v)
				return -ENOMEM;
			t->redo = v;
			v[t->redo_count++] = (struct redo_point){g->incarnation, g->tables[n].first_lsn};
		}
	}
	return 0;
}

/* f, whose begin and end are kept, as repair_sst has left it; taken off the list if it is gone. */
static int settle_file(struct plan *k, struct meta_tablet *t, unsigned *at)
{
	struct tablet_file *f = &t->files[*at], now = {0};
	bool changed, gone;
	int err = repair_sst(k->p, f, &now, &changed, &gone);

	if (err)
		return err;
	k->m->changed |= changed;
	if (!changed) {
		tablet_file_fini(&now);
		(*at)++;
		return 0;
	}
	if (!gone) {
		now.begin = f->begin;
		now.end = f->end;
		f->begin = f->end = (struct buf){0};
		if (now.seq_max > t->seq_mark)
			t->seq_mark = now.seq_max;
	}
	tablet_file_fini(f);
	if (!gone) {
		*f = now;
		(*at)++;
		return 0;
	}
	memmove(f, f + 1, (--t->file_count - *at) * sizeof(*f));
	return 0;
}

static int keep_row(struct plan *k, const struct offline_row *row)
{
	struct meta_tablet t = {0};
	int err = meta_tablet_copy(&row->m, &t);

	if (!err)
		err = buf_set(&t.begin, row->begin.p, row->begin.n);
	for (unsigned i = 0; i < t.file_count && !err;)
		err = settle_file(k, &t, &i);
	if (!err && k->doubt)
		err = add_redo(k, &t);
	if (!err)
		err = add_tablet(k->m, &t);
	meta_tablet_fini(&t);
	return err;
}

static int list_file(struct plan *k, const struct sst_name *s, struct meta_tablet *t)
{
	struct tablet_file f = {.table = s->table, .incarnation = s->incarnation, .number = s->number}, now = {0}, *v;
	bool changed, gone;
	int err = repair_sst(k->p, &f, &now, &changed, &gone);

	if (err || gone)
		return err;
	v = realloc(t->files, (t->file_count + 1) * sizeof(*v));
	if (!v) {
		tablet_file_fini(&now);
		return -ENOMEM;
	}
	t->files = v;
	v[t->file_count++] = now;
	if (now.seq_max > t->seq_mark)
		t->seq_mark = now.seq_max;
	return 0;
}

static int build_tablet(struct plan *k, uint32_t table)
{
	struct meta_tablet t = {.table = table, .last = true, .server = k->p->incarnation};
	const struct offline *store = &k->p->store;
	struct buf name = {0};
	int err = 0;

	/* What METADATA still says of it is true or too little. */
	for (unsigned i = 0; i < store->users.count; i++) {
		const struct meta_tablet *m = &store->users.v[i].m;

		if (m->table != table)
			continue;
		t.seq_mark = m->seq_mark > t.seq_mark ? m->seq_mark : t.seq_mark;
		t.clock_mark = m->clock_mark > t.clock_mark ? m->clock_mark : t.clock_mark;
	}
	for (unsigned i = 0; i < k->sst_count && !err; i++)
		if (k->ssts[i].table == table)
			err = list_file(k, &k->ssts[i], &t);
	if (!err)
		err = add_redo(k, &t);
	if (!err)
		repair_does(k->p,
			"METADATA: %s: one tablet over all its rows, with all %u SSTables of its directory; data that was deleted "
			"may show again",
			repair_table_name(&name, k->p, table), t.file_count);
	if (!err)
		err = add_tablet(k->m, &t);
	k->m->changed = true;
	meta_tablet_fini(&t);
	buf_fini(&name);
	return err;
}

static int by_place(const void *a, const void *b)
{
	const struct meta_tablet *x = a, *y = b;

	if (x->table != y->table)
		return x->table > y->table ? 1 : -1;
	return x->last != y->last ? x->last - y->last : slice_cmp(buf_slice(&x->end), buf_slice(&y->end));
}

int repair_meta_plan(struct repair *p, struct repair_meta *m)
{
	struct plan k = {.p = p, .m = m};
	struct offline *store = &p->store;
	bool all = store->incomplete || !store->has_root;
	unsigned unnamed, missing;
	int err = list_dir(p, "sst", add_sst_dir, &k);

	if (!err)
		err = list_dir(p, "log", add_log_dir, &k);
	if (!err)
		err = name_all_redo(&k);
	/* A store that has never been used has neither: the next mount makes its root tablet. */
	if (!err && !store->has_root && !store->table_count && !k.sst_count && !store->next_table && p->table_max == 0)
		goto out;
	if (!err)
		err = look_at_metadata(&k);
	if (!err)
		err = look_at_logs(&k, all);
	if (!err && !all)
		err = find_gaps(&k);
	compare_lists(&k, &unnamed, &missing);
	/* As a log leaves it whose end was cut off: nothing else shows that. */
	if (!err && !all && !k.doubt && unnamed && missing) {
		report_problem(&p->r, "METADATA: %u SSTables that it names are missing, and %u are there that it does not name",
			missing, unnamed);
		repair_loses(p, "%s/log: the end of a log; how many records it had is not known", p->dir);
		k.doubt = true;
	}
	if (!err && (all || (k.doubt && (k.rebuild_count || unnamed || missing)))) {
		if (!all) {
			all = true;
			err = look_at_logs(&k, true);
		}
		if (!err)
			err = rebuild_all(&k);
		m->changed = true;
	}
	if (!err && k.doubt)
		m->changed = true;
	for (unsigned i = 0; i < store->users.count && !err && !all; i++)
		if (!is_rebuilt(&k, store->users.v[i].m.table))
			err = keep_row(&k, &store->users.v[i]);
	for (unsigned i = 0; i < k.rebuild_count && !err; i++)
		err = build_tablet(&k, k.rebuild[i]);
	if (!err && m->count)
		qsort(m->v, m->count, sizeof(*m->v), by_place);
	if (!err && m->changed)
		repair_does(p, "METADATA: written anew, %u rows; %s/lock/root names it", m->count, p->dir);
out:
	free(k.ssts);
	free(k.logs);
	free(k.rebuild);
	return err;
}

/* ---- writing it ---- */

static int add_record(struct log_record *r, struct arena *a, const struct meta_tablet *t, uint64_t *seq, int64_t now)
{
	struct buf key = {0}, batch = {0};
	struct op *ops;
	unsigned count;
	int err = meta_row_key(&key, t->table, t->last, t->last ? (struct slice){NULL, 0} : buf_slice(&t->end));

	if (!err)
		err = meta_ops_new(t, a, &ops, &count);
	if (!err)
		err = batch_begin(&batch, buf_slice(&key));
	for (unsigned i = 0; i < count && !err; i++) {
		struct batch_cell c = {.kind = CELL_VALUE,
			.family = ops[i].family,
			.qualifier = ops[i].qualifier,
			.value = ops[i].value,
			.ts = now};

		err = batch_add(&batch, &c);
	}
	if (!err)
		batch_set_commit(&batch, now);
	*r = (struct log_record){.table = META_TABLE, .seq = *seq};
	if (!err && (!arena_dup(a, buf_slice(&key), &r->row_from) || !arena_dup(a, buf_slice(&batch), &r->batch)))
		err = -ENOMEM;
	if (!err) {
		r->row_to = r->row_from;
		*seq += count;
	}
	buf_fini(&key);
	buf_fini(&batch);
	return err;
}

/* METADATA's own row, which the root tablet holds, and one for each tablet of users. */
static int make_records(
	const struct repair *p, const struct repair_meta *m, struct log_record *v, struct arena *a, struct meta_tablet *root)
{
	struct redo_point redo = {p->incarnation, 1};
	struct meta_tablet meta = {.table = META_TABLE, .last = true, .server = p->incarnation, .redo = &redo, .redo_count = 1};
	struct timespec t;
	uint64_t seq = 1;
	int64_t now;
	int err = meta_root_end(&meta.begin);

	clock_gettime(CLOCK_REALTIME, &t);
	now = (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
	if (!err)
		err = add_record(&v[0], a, &meta, &seq, now);
	root->seq_mark = seq;
	for (unsigned i = 0; i < m->count && !err; i++)
		err = add_record(&v[i + 1], a, &m->v[i], &seq, now);
	buf_fini(&meta.begin);
	return err;
}

/* The old METADATA's files and logs: the next mount removes them. */
static int keep_in(void *arg, const char *name, bool is_dir);
struct keep {
	struct repair *p;
	const char *dir;
};
static int keep_below(struct repair *p, const char *dir, const char *name)
{
	char *path = path_join(dir, name);
	struct keep k = {p, path};
	int err = path ? file_list(path, keep_in, &k) : -ENOMEM;

	free(path);
	return err == -ENOENT ? 0 : err;
}
static int keep_in(void *arg, const char *name, bool is_dir)
{
	struct keep *k = arg;
	char *path;
	int err;

	if (is_dir)
		return keep_below(k->p, k->dir, name);
	path = path_join(k->dir, name);
	err = path ? repair_keep(k->p, path) : -ENOMEM;
	free(path);
	return err;
}

int repair_meta_write(struct repair *p, const struct repair_meta *m)
{
	struct redo_point redo = {p->incarnation, 1};
	struct meta_tablet root = {.table = META_TABLE, .server = p->incarnation, .redo = &redo, .redo_count = 1};
	struct log_record *v = calloc(m->count + 1, sizeof(*v));
	struct arena a = {0};
	struct buf b = {0};
	int err = v ? make_records(p, m, v, &a, &root) : -ENOMEM;

	if (!err)
		err = keep_below(p, p->dir, "log");
	if (!err)
		err = keep_below(p, p->dir, "sst/1");
	if (!err)
		err = repair_log_new(p, p->incarnation, v, m->count + 1);
	if (!err)
		err = meta_root_end(&root.end);
	if (!err)
		err = meta_root_encode(&root, &b);
	if (!err)
		err = repair_lock_file(p, "root", buf_slice(&b));
	buf_fini(&root.end);
	buf_fini(&b);
	arena_fini(&a);
	free(v);
	return err;
}

void repair_meta_fini(struct repair_meta *m)
{
	for (unsigned i = 0; i < m->count; i++)
		meta_tablet_fini(&m->v[i]);
	free(m->v);
}
