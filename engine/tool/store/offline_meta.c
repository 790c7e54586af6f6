/* SPDX-License-Identifier: Apache-2.0 */
/* Reads METADATA without a server: the live cells of its tablets (offline_tablet.c), and the rows that they form. */
#include "engine/cell/merge.h"
#include "engine/meta/meta_format.h"
#include "engine/tool/store/offline.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

#define META_CACHE_BYTES (8u << 20)

static void row_fini(struct offline_row *row)
{
	meta_tablet_fini(&row->m);
	buf_fini(&row->key);
	buf_fini(&row->begin);
	buf_fini(&row->events);
}

static void rows_fini(struct offline_rows *rows)
{
	for (unsigned i = 0; i < rows->count; i++)
		row_fini(&rows->v[i]);
	free(rows->v);
	*rows = (struct offline_rows){0};
}

/* ---- tables and tablets ---- */

const struct offline_row *offline_row_at(const struct offline *store, unsigned i)
{
	const struct offline_rows *levels[] = {&store->root, &store->meta, &store->users};

	for (unsigned n = 0; n < 3; i -= levels[n++]->count)
		if (i < levels[n]->count)
			return &levels[n]->v[i];
	return NULL;
}

const struct offline_row *offline_table_rows(const struct offline_rows *rows, uint32_t table, unsigned *count)
{
	const struct offline_row *first = rows->v, *end = rows->v + rows->count;

	*count = 0;
	while (first < end && first->m.table != table)
		first++;
	while (first + *count < end && first[*count].m.table == table)
		++*count;
	return *count ? first : NULL;
}

bool offline_has_tablet(const struct offline *store, uint32_t table)
{
	unsigned count;

	return offline_table_rows(&store->users, table, &count);
}

struct offline_made offline_made(const struct offline *store, uint32_t table)
{
	struct offline_made made;

	made.next = offline_table_rows(&store->made, table, &made.count);
	return made;
}

bool offline_is_made(struct offline_made *made, const struct meta_tablet *m)
{
	const struct meta_tablet *is = made->count ? &made->next->m : NULL;
	bool same =
		is && is->last == m->last && bytes_eq(buf_bytes(&is->end), buf_bytes(&m->end)) && is->file_count == m->file_count;

	for (unsigned i = 0; same && i < m->file_count; i++)
		same = meta_file_order(&is->files[i], &m->files[i]) == 0;
	if (!same)
		return !meta_rows_can(m);
	made->next++;
	made->count--;
	return true;
}

const char *offline_table_name(const struct offline *store, uint32_t table)
{
	const struct offline_table *t = offline_table(store, table), *of;

	if (table == META_TABLE)
		return "METADATA";
	if (t && t->p->snapshot_of) {
		for (of = store->tables; of < store->tables + store->table_count; of++)
			if (!of->p->snapshot_of && of->p->table_id == t->p->snapshot_of)
				return text("snapshot %s of table %s", t->p->name, of->p->name);
		return text("snapshot %s of table id %u", t->p->name, t->p->snapshot_of);
	}
	return t ? text("table %s", t->p->name) : text("table id %u", table);
}

const char *offline_tablet_name(const struct offline *store, const struct meta_tablet *m)
{
	const char *table = offline_table_name(store, m->table);

	return m->last ? m->begin.n ? text("%s, its last tablet", table) : table
		       : text("%s, the tablet ending at %s", table, quoted(buf_bytes(&m->end)));
}

/* ---- rows ---- */

static int row_for(struct offline_rows *rows, struct tfs_bytes key, struct offline_row **out)
{
	struct offline_row *row;
	int err;

	if (rows->count && bytes_eq(buf_bytes(&rows->v[rows->count - 1].key), key)) {
		*out = &rows->v[rows->count - 1];
		return 0;
	}
	tool_grow(rows->v, rows->count);
	row = &rows->v[rows->count];
	*row = (struct offline_row){0};
	err = buf_append_bytes(&row->key, key);
	if (!err)
		err = meta_tablet_row(&row->m, key);
	if (err) {
		row_fini(row);
		return err;
	}
	rows->count++;
	*out = row;
	return 0;
}

static int add_cell(struct report *r, struct offline *store, struct offline_rows *rows, const struct tfs_cell *c)
{
	struct offline_row *row;
	int err = row_for(rows, c->row, &row);

	if (!err && c->family_id == META_EVENT) {
		err = buf_printf(&row->events, "%" PRId64 " ", c->ts);
		for (size_t i = 1; i < c->value.n && !err; i++) /* after the format byte */
			err = buf_u8(&row->events, c->value.p[i] < 0x20 || c->value.p[i] >= 0x7f ? '.' : c->value.p[i]);
		if (!err)
			err = buf_u8(&row->events, '\n');
	}
	if (!err)
		err = meta_tablet_cell(&row->m, c);
	if (err == -EBADMSG || err == -EPROTO || err == -EINVAL) {
		report_problem(
			r, "METADATA row %s: column %u of it cannot be decoded (%s)", quoted(c->row), c->family_id, strerror(-err));
		store->incomplete = true;
		err = 0;
		if (rows->count)
			rows->v[rows->count - 1].doubt = true;
	}
	return err;
}

static int read_rows(
	struct report *r, struct offline *store, struct iter *it, const struct live_options *o, struct offline_rows *rows)
{
	struct scan_batch batch = {0};
	struct live *live;
	struct scan_returned already = {0};
	int err = live_new(it, o, &live);

	if (err)
		return err;
	while (!err && !batch.done) {
		scan_batch_reset(&batch);
		err = scan_fill(live, o->spec, &already, &batch);
		for (uint32_t i = 0; i < batch.count && !err; i++)
			err = add_cell(r, store, rows, &batch.cells[i]);
	}
	scan_batch_fini(&batch);
	live_free(live);
	return err;
}

/* Appends all rows of t, a METADATA tablet or the root tablet. */
static int read_meta_tablet(struct report *r, struct offline *store, const struct meta_tablet *t, struct store_schema *schema,
	struct offline_rows *rows)
{
	struct scan_spec spec = {.pub.what = TFS_SCAN_CELLS};
	struct live_options o = {
		.rules = {store_schema_rule, schema},
		.seq = UINT64_MAX,
		.now = (int64_t)time(NULL) * 1000000,
		.spec = &spec,
		.row_begin = buf_bytes(&t->begin),
		.row_end = t->last ? (struct tfs_bytes){NULL, 0} : buf_bytes(&t->end),
	};
	struct offline_view v = {.r = r, .store = store, .t = t};
	struct iter *it;
	int err = offline_view_open(&v, &it);

	if (!err)
		err = read_rows(r, store, it, &o, rows);
	if (v.part_missing)
		store->incomplete = true;
	if (err == -EBADMSG || err == -EIO) {
		report_problem(r, "METADATA: the tablet ending at %s can be read in part only (%s)",
			t->last ? "the end" : quoted(buf_bytes(&t->end)), strerror(-err));
		store->incomplete = true;
		err = 0;
	}
	offline_view_close(&v);
	return err;
}

/* Sets where each tablet begins: at the end of the previous one of its table, or at first.  Completes unfinished merges. */
static int set_begins(struct report *r, struct offline_rows *rows, struct tfs_bytes first)
{
	int err = 0;

	for (unsigned i = 0; i < rows->count && !err; i++) {
		struct offline_row *row = &rows->v[i];
		const struct meta_tablet *prev = i ? &rows->v[i - 1].m : NULL;
		struct tfs_bytes begin = first;

		if (prev && prev->table == row->m.table)
			begin = buf_bytes(&prev->end);
		err = meta_tablet_resolve_merge(&row->m, begin);
		if (err == -EBADMSG) {
			report_problem(r, "METADATA: table id %u: an unfinished merge of a tablet names one that is not below it",
				row->m.table);
			err = 0;
		}
		if (!err)
			err = buf_set(&row->begin, begin.p, begin.n);
	}
	return err;
}

/* ---- past damage, for repair ---- */

/* A row is in doubt if cells of it, or of a row between it and the previous row, may be missing. */
static void find_doubt(struct offline *store)
{
	struct tfs_bytes before = {(const uint8_t *)"", 0};

	for (unsigned i = 0; i < store->users.count; i++) {
		struct offline_row *row = &store->users.v[i];
		struct tfs_bytes key = buf_bytes(&row->key);

		row->doubt |= store->all_in_doubt;
		for (unsigned k = 0; k < store->gaps.count; k++) {
			const struct offline_gap *g = &store->gaps.v[k];

			row->doubt |=
				bytes_cmp(buf_bytes(&g->from), key) <= 0 && (!g->to.p || bytes_cmp(buf_bytes(&g->to), before) > 0);
		}
		before = key;
	}
}

static int add_meta_file(void *arg, const char *name, bool is_dir)
{
	struct meta_tablet *m = arg;
	struct tablet_file f = {.table = META_TABLE};

	if (is_dir || !meta_sstable_parse(name, &f.incarnation, &f.number))
		return 0;
	tool_grow(m->files, m->file_count);
	m->files[m->file_count++] = f;
	return 0;
}

static int add_meta_log(void *arg, const char *name, bool is_dir)
{
	struct meta_tablet *m = arg;
	char *end;
	uint64_t n = strtoull(name, &end, 10);

	if (!is_dir || end == name || (*end && strcmp(end, ".dead") != 0))
		return 0;
	tool_grow(m->redo, m->redo_count);
	m->redo[m->redo_count++] = (struct redo_point){n, 0};
	return 0;
}

/*
 * The list of METADATA's own files is lost: reads all files in its directory and all logs.
 * An old file can have cells that were deleted since, so all rows are in doubt.
 */
static int read_everything(struct report *r, struct offline *store, struct store_schema *schema)
{
	struct meta_tablet all = {.table = META_TABLE, .last = true};
	int err = file_list(text("%s/sst/%u", store->dir, META_TABLE), add_meta_file, &all);
	unsigned n = 0;

	rows_fini(&store->meta);
	rows_fini(&store->users);
	store->all_in_doubt = true;
	err = err == -ENOENT || err == -ENOTDIR ? 0 : err;
	if (!err)
		err = file_list(text("%s/log", store->dir), add_meta_log, &all);
	err = err == -ENOENT || err == -ENOTDIR ? 0 : err;
	if (!err)
		err = buf_set(&all.begin, "", 0);
	if (!err)
		err = read_meta_tablet(r, store, &all, schema, &store->users);
	for (unsigned i = 0; i < store->users.count; i++) {
		if (bytes_cmp(buf_bytes(&store->users.v[i].key), META_ROOT_END) < 0)
			row_fini(&store->users.v[i]);
		else
			store->users.v[n++] = store->users.v[i];
	}
	store->users.count = n;
	meta_tablet_fini(&all);
	return err ? err : set_begins(r, &store->users, (struct tfs_bytes){(const uint8_t *)"", 0});
}

/* Returns true if METADATA's own rows are incomplete. */
static bool meta_has_gap(const struct offline *store)
{
	const struct offline_rows *rows = &store->meta;

	for (unsigned i = 0; i < rows->count; i++)
		if (rows->v[i].doubt || bytes_cmp(buf_bytes(&rows->v[i].m.begin), buf_bytes(&rows->v[i].begin)) > 0)
			return true;
	return !rows->count || !rows->v[rows->count - 1].m.last;
}

static int read_levels(struct report *r, struct offline *store, struct store_schema *schema)
{
	struct meta_tablet *root = &store->root.v->m;
	int err;

	if (root->table != META_TABLE || root->last || !bytes_eq(buf_bytes(&root->end), META_ROOT_END)) {
		report_problem(r, "%s/lock/root: the root tablet does not cover METADATA's own rows", store->dir);
		store->incomplete = true;
		return store->replay ? read_everything(r, store, schema) : 0;
	}
	err = meta_row_key(&store->root.v->key, META_TABLE, false, META_ROOT_END);
	if (!err)
		err = read_meta_tablet(r, store, root, schema, &store->meta);
	if (!err)
		err = set_begins(r, &store->meta, META_ROOT_END);
	if (!err && store->replay && (store->gaps.count || meta_has_gap(store)))
		return read_everything(r, store, schema);
	for (unsigned i = 0; i < store->meta.count && !err; i++) {
		struct meta_tablet m = store->meta.v[i].m;

		m.begin = store->meta.v[i].begin; /* borrowed */
		err = read_meta_tablet(r, store, &m, schema, &store->users);
	}
	if (!err)
		err = set_begins(r, &store->users, (struct tfs_bytes){(const uint8_t *)"", 0});
	return err;
}

static int stop_listing(void *arg, const char *name, bool is_dir)
{
	(void)arg, (void)name, (void)is_dir;
	return 1;
}

/* Returns true if the store must have a root tablet.  An opening decides this in the same way. */
static bool offline_is_used(const struct offline *store)
{
	return store->table_count || store->next_table || file_list(text("%s/sst", store->dir), stop_listing, NULL) > 0;
}

int offline_metadata(struct report *r, struct offline *store)
{
	struct store_schema *schema = NULL;
	int err = sst_cache_new(META_CACHE_BYTES, META_CACHE_BYTES, &store->cache);

	if (!err && !store->root.count) {
		if (!store->incomplete && offline_is_used(store))
			report_problem(r, "%s/lock/root: missing", store->dir);
		else if (!store->incomplete)
			report_note(r, "%s: the creation of this store is not complete; the next mount completes it", store->dir);
		store->incomplete = true;
		if (!store->replay)
			return 0;
	}
	if (!err)
		err = meta_store_schema(&schema);
	if (!err && !store->root.count)
		err = read_everything(r, store, schema);
	else if (!err)
		err = read_levels(r, store, schema);
	if (!err)
		find_doubt(store);
	if (!err && store->meta.count == 0 && !store->incomplete) {
		if (store->table_count)
			report_problem(r, "METADATA: the root tablet has no row for it");
		else
			report_note(r, "%s: the creation of this store is not complete; the next mount completes it", store->dir);
	}
	store_schema_put(schema);
	return err;
}

int offline_open(const char *dir, struct report *r, struct offline *store)
{
	int err;

	*store = (struct offline){.dir = dir};
	err = offline_locks(r, store);
	if (!err)
		err = offline_metadata(r, store);
	if (err == -ENOMEM)
		complain("%s: %s", dir, strerror(ENOMEM));
	if (err)
		offline_close(store);
	return err;
}

void offline_close(struct offline *store)
{
	offline_gaps_fini(&store->gaps);
	free(store->strays);
	rows_fini(&store->made);
	rows_fini(&store->users);
	rows_fini(&store->meta);
	rows_fini(&store->root);
	sst_cache_free(store->cache);
	offline_locks_close(store);
}
