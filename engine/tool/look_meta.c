/* SPDX-License-Identifier: Apache-2.0 */
/*
 * METADATA read without a server: the live cells of each of its tablets
 * (look_view.c), and the rows that they make up.
 */
#include "engine/cell/merge.h"
#include "engine/tool/look.h"
#include "engine/tool/tool.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#define META_CACHE_BYTES (8u << 20)

static void row_fini(struct look_row *row)
{
	meta_tablet_fini(&row->m);
	buf_fini(&row->key);
	buf_fini(&row->begin);
	buf_fini(&row->events);
}

static void rows_fini(struct look_rows *rows)
{
	for (unsigned i = 0; i < rows->count; i++)
		row_fini(&rows->v[i]);
	free(rows->v);
	*rows = (struct look_rows){0};
}

/* ---- rows ---- */

static const struct gc_rule *rule_of(const void *arg, uint16_t family, bool *known)
{
	const struct store_family *f = store_schema_family(arg, family);

	*known = f != NULL;
	return f ? f->rule : NULL;
}

static int row_for(struct look_rows *rows, struct slice key, struct look_row **out)
{
	struct look_row *row;
	int err;

	if (rows->count && slice_eq(buf_slice(&rows->v[rows->count - 1].key), key)) {
		*out = &rows->v[rows->count - 1];
		return 0;
	}
	if (rows->count == rows->cap) {
		unsigned cap = rows->cap ? rows->cap * 2 : 16;
		struct look_row *v = realloc(rows->v, cap * sizeof(*v));

		if (!v)
			return -ENOMEM;
		rows->v = v;
		rows->cap = cap;
	}
	row = &rows->v[rows->count];
	*row = (struct look_row){0};
	err = buf_append_slice(&row->key, key);
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

static int take_cell(struct report *r, struct look *l, struct look_rows *rows, const struct scan_cell *c)
{
	struct buf q = {0};
	struct look_row *row;
	int err = row_for(rows, c->row, &row);

	if (!err && c->family == META_EVENT) {
		err = buf_printf(&row->events, "%" PRId64 " ", c->ts);
		for (size_t i = 1; i < c->value.n && !err; i++) /* the format byte first */
			err = buf_u8(&row->events, c->value.p[i] < 0x20 ? '.' : c->value.p[i]);
		if (!err)
			err = buf_u8(&row->events, '\n');
	}
	if (!err)
		err = meta_tablet_cell(&row->m, c);
	if (err == -EBADMSG || err == -EPROTO || err == -EINVAL) {
		report_problem(r, "METADATA row %s: column %u of it cannot be decoded (%s)", quoted(&q, c->row), c->family,
			strerror(-err));
		l->incomplete = true;
		err = 0;
	}
	buf_fini(&q);
	return err;
}

static int read_rows(struct report *r, struct look *l, struct iter *it, const struct live_options *o, struct look_rows *rows)
{
	struct scan_batch batch = {0};
	struct live *live;
	uint64_t already = 0;
	int err = live_new(it, o, &live);

	if (err)
		return err;
	while (!err && !batch.done) {
		scan_batch_reset(&batch);
		err = scan_fill(live, o->spec, &already, &batch);
		for (uint32_t i = 0; i < batch.count && !err; i++)
			err = take_cell(r, l, rows, &batch.cells[i]);
	}
	scan_batch_fini(&batch);
	live_free(live);
	return err;
}

/* All rows that the METADATA (or root) tablet t holds. */
static int read_tablet(
	struct report *r, struct look *l, const struct meta_tablet *t, struct store_schema *schema, struct look_rows *rows)
{
	struct clock *clock = clock_new(NULL, NULL);
	struct scan_spec spec = {.what = SCAN_CELLS};
	struct live_options o = {
		.rules = {rule_of, schema},
		.seq = UINT64_MAX,
		.spec = &spec,
		.row_begin = buf_slice(&t->begin),
		.row_end = t->last ? (struct slice){NULL, 0} : buf_slice(&t->end),
	};
	struct look_view v = {.r = r, .l = l, .t = t};
	struct iter *it;
	struct buf q = {0};
	int err = clock ? look_view_open(&v, &it) : -ENOMEM;

	if (!err) {
		o.now = clock_now(clock);
		err = read_rows(r, l, it, &o, rows);
	}
	if (v.part_missing)
		l->incomplete = true;
	if (err == -EBADMSG || err == -EIO) {
		report_problem(r, "METADATA: the tablet ending at %s can be read in part only (%s)",
			t->last ? "the end" : quoted(&q, buf_slice(&t->end)), strerror(-err));
		l->incomplete = true;
		err = 0;
	}
	look_view_close(&v);
	if (clock)
		clock_free(clock);
	buf_fini(&q);
	return err;
}

/* A tablet begins where the previous one of its table ends; `first` is where METADATA's begin.  A merge half done is done. */
static int set_begins(struct report *r, struct look_rows *rows, struct slice first)
{
	int err = 0;

	for (unsigned i = 0; i < rows->count && !err; i++) {
		struct look_row *row = &rows->v[i];
		const struct meta_tablet *prev = i ? &rows->v[i - 1].m : NULL;
		struct slice begin = first;

		if (prev && prev->table == row->m.table)
			begin = buf_slice(&prev->end);
		err = meta_tablet_settle(&row->m, begin);
		if (err == -EBADMSG) {
			report_problem(
				r, "METADATA: table id %u: a tablet is to be merged with one that is not below it", row->m.table);
			err = 0;
		}
		if (!err)
			err = buf_set(&row->begin, begin.p, begin.n);
	}
	return err;
}

static int read_levels(struct report *r, struct look *l, struct store_schema *schema, struct slice root_end)
{
	struct meta_tablet *root = &l->root.m;
	int err;

	if (root->table != META_TABLE || root->last || !slice_eq(buf_slice(&root->end), root_end)) {
		report_problem(r, "%s/lock/root: the root tablet does not cover METADATA's own rows", l->dir);
		l->incomplete = true;
		return 0;
	}
	err = meta_row_key(&l->root.key, META_TABLE, false, root_end);
	if (!err)
		err = read_tablet(r, l, root, schema, &l->meta);
	if (!err)
		err = set_begins(r, &l->meta, root_end);
	for (unsigned i = 0; i < l->meta.count && !err; i++) {
		struct meta_tablet m = l->meta.v[i].m;

		m.begin = l->meta.v[i].begin; /* the true one, borrowed */
		err = read_tablet(r, l, &m, schema, &l->users);
	}
	if (!err)
		err = set_begins(r, &l->users, (struct slice){(const uint8_t *)"", 0});
	return err;
}

static int found(void *arg, const char *name, bool is_dir)
{
	(void)arg, (void)name, (void)is_dir;
	return 1;
}

/* What opening asks too before it makes a root tablet (engine/server/recover.c). */
static bool is_used(const struct look *l)
{
	char *sst = path_join(l->dir, "sst");
	bool used = l->table_count || l->next_table || (sst && file_list(sst, found, NULL) > 0);

	free(sst);
	return used;
}

int look_metadata(struct report *r, struct look *l)
{
	struct store_schema *schema = NULL;
	struct buf root_end = {0};
	int err = sst_cache_new(META_CACHE_BYTES, META_CACHE_BYTES, &l->cache);

	if (!err && !l->has_root) {
		if (!l->incomplete && is_used(l))
			report_problem(r, "%s/lock/root: missing", l->dir);
		else if (!l->incomplete)
			report_note(r, "%s: a store half made; the next mount will finish it", l->dir);
		l->incomplete = true;
		return 0;
	}
	if (!err)
		err = meta_store_schema(&schema);
	if (!err)
		err = meta_root_end(&root_end);
	if (!err)
		err = read_levels(r, l, schema, buf_slice(&root_end));
	if (!err && l->meta.count == 0 && !l->incomplete) {
		if (l->table_count)
			report_problem(r, "METADATA: the root tablet has no row for it");
		else
			report_note(r, "%s: a store half made; the next mount will finish it", l->dir);
	}
	store_schema_put(schema);
	buf_fini(&root_end);
	return err;
}

void look_metadata_close(struct look *l)
{
	rows_fini(&l->users);
	rows_fini(&l->meta);
	row_fini(&l->root);
	if (l->cache)
		sst_cache_free(l->cache);
}

int look_open(const char *dir, struct report *r, struct look *l)
{
	int err;

	*l = (struct look){.dir = dir};
	err = look_locks(r, l);
	if (!err)
		err = look_metadata(r, l);
	if (err == -ENOMEM)
		complain("%s: %s", dir, strerror(ENOMEM));
	if (err)
		look_close(l);
	return err;
}

void look_close(struct look *l)
{
	look_metadata_close(l);
	look_locks_close(l);
}
