/* SPDX-License-Identifier: Apache-2.0 */
/*
 * METADATA read without a server: for each of its tablets, the SSTables of
 * its list clipped to their ranges, a memtable of our own filled from the
 * logs that its redo set names, one merge, and the live cells of that.  The
 * same pieces that a tablet reads through (DESIGN 3.2), but none of its
 * write side, so nothing can be written.
 *
 * Decided against: tablets made with a commit callback that refuses.  They
 * come with a log to write to, workers and compactions, all to be switched
 * off rightly.
 */
#include "engine/store/batch_format.h"
#include "engine/store/memtable.h"
#include "engine/store/merge.h"
#include "engine/tool/look.h"
#include "engine/tool/tool.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#define META_CACHE_BYTES (8u << 20)

char *look_log_dir(const struct look *l, uint64_t incarnation)
{
	char *dir;

	return asprintf(&dir, "%s/log/%" PRIu64, l->dir, incarnation) < 0 ? NULL : dir;
}

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

/* ---- the log's part ---- */

struct refill {
	const struct meta_tablet *t;
	struct memtable *m;
	struct buf key;
};

static int refill_cell(struct refill *f, const struct batch_cell *c, struct slice row, uint64_t seq)
{
	struct cellkey k = {.row = row, .qualifier = c->qualifier, .family = c->family, .kind = c->kind, .ts = c->ts, .seq = seq};
	struct memnode *n;
	uint8_t size[8];
	int err;

	buf_reset(&f->key);
	if (c->kind != CELL_VALUE || c->value.n <= CELL_CHUNK_BYTES) {
		err = cellkey_append(&f->key, &k);
		if (!err)
			err = memtable_prepare(f->m, buf_slice(&f->key), c->value, &n);
		if (!err)
			memtable_insert(f->m, n);
		return err;
	}
	k.kind = CELL_LARGE;
	put_be64(size, c->value.n);
	err = cellkey_append(&f->key, &k);
	if (!err)
		err = memtable_prepare(f->m, buf_slice(&f->key), slice_of(size, 8), &n);
	if (!err)
		memtable_insert(f->m, n);
	k.kind = CELL_CHUNK;
	for (size_t at = 0; at < c->value.n && !err; at += CELL_CHUNK_BYTES, k.chunk++) {
		size_t len = c->value.n - at < CELL_CHUNK_BYTES ? c->value.n - at : CELL_CHUNK_BYTES;

		buf_reset(&f->key);
		err = cellkey_append(&f->key, &k);
		if (!err)
			err = memtable_prepare(f->m, buf_slice(&f->key), slice_of(c->value.p + at, len), &n);
		if (!err)
			memtable_insert(f->m, n);
	}
	return err;
}

static int refill_record(void *arg, const struct log_record *r)
{
	struct refill *f = arg;
	const struct meta_tablet *t = f->t;
	struct batch_reader b;
	struct batch_cell c;
	uint64_t seq = r->seq;
	int err;

	if (r->table != META_TABLE || slice_cmp(r->row_from, buf_slice(&t->begin)) < 0 ||
	    (!t->last && slice_cmp(r->row_from, buf_slice(&t->end)) >= 0))
		return 0;
	err = batch_open(&b, r->batch);
	while (!err) {
		int n = batch_next(&b, &c);

		if (n <= 0)
			return n;
		err = refill_cell(f, &c, b.row, seq++);
	}
	return err;
}

static int refill(struct report *r, struct look *l, const struct meta_tablet *t, struct memtable *m)
{
	struct refill f = {.t = t, .m = m};
	int err = 0;

	for (unsigned i = 0; i < t->redo_count && !err; i++) {
		char *dir = look_log_dir(l, t->redo[i].incarnation), *why = NULL;
		uint64_t last;

		err = dir ? log_replay(dir, t->redo[i].lsn, refill_record, &f, &last, &why) : -ENOMEM;
		if (err == -EBADMSG || err == -ENOENT) {
			report_problem(r, "%s", why ? why : dir);
			l->incomplete = true;
			err = 0;
		} else if (err) {
			complain("%s: %s", why ? why : l->dir, strerror(-err));
		}
		free(why);
		free(dir);
	}
	buf_fini(&f.key);
	return err;
}

/* ---- the SSTables' part ---- */

/* The usable rows of f within t as an iterator; *out NULL when the file is not there (and the report says so). */
static int file_iter(struct report *r, struct look *l, const struct meta_tablet *t, const struct tablet_file *f, struct iter **out)
{
	struct slice begin = buf_slice(&t->begin), end = t->last ? (struct slice){NULL, 0} : buf_slice(&t->end);
	struct buf from = {0}, to = {0};
	struct iter *it = NULL;
	struct sst *s = NULL;
	uint64_t bytes;
	char *path = tablet_file_path(l->dir, f->table, f->incarnation, f->number);
	int err = path ? file_stat_size(path, &bytes) : -ENOMEM;

	*out = NULL;
	if (err == -ENOENT) {
		report_problem(r, "%s: missing; it holds rows of METADATA", path);
		l->incomplete = true;
		err = 0;
		goto out;
	}
	if (slice_cmp(buf_slice(&f->begin), begin) > 0)
		begin = buf_slice(&f->begin);
	if (f->end.p && (!end.p || slice_cmp(buf_slice(&f->end), end) < 0))
		end = buf_slice(&f->end);
	if (!err)
		err = cellkey_row_prefix(&from, begin);
	if (!err && end.p)
		err = cellkey_row_prefix(&to, end);
	if (!err)
		err = sst_new(l->cache, path, false, &s);
	if (!err)
		err = sst_scan_new(s, &it);
	if (err == -EBADMSG) {
		report_problem(r, "%s: damaged; it holds rows of METADATA", path);
		l->incomplete = true;
		err = 0;
	} else if (!err) {
		err = clip_iter_new(it, buf_slice(&from), end.p ? buf_slice(&to) : (struct slice){NULL, 0}, out);
	}
out:
	if (s)
		sst_put(s);
	buf_fini(&from);
	buf_fini(&to);
	free(path);
	return err;
}

static int merged(struct report *r, struct look *l, const struct meta_tablet *t, struct memtable *m, struct iter **out)
{
	struct iter **children = calloc(t->file_count + 1, sizeof(struct iter *));
	unsigned n = 0;
	int err = children ? memtable_iter_new(m, &children[n]) : -ENOMEM;

	if (!err)
		n++;
	for (unsigned i = 0; i < t->file_count && !err; i++) {
		err = file_iter(r, l, t, &t->files[i], &children[n]);
		if (!err && children[n])
			n++;
	}
	if (!err)
		err = merge_iter_new(children, n, out);
	else
		while (n > 0)
			iter_free(children[--n]);
	free(children);
	return err;
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
static int read_tablet(struct report *r, struct look *l, const struct meta_tablet *t, struct store_schema *schema,
		       struct look_rows *rows)
{
	struct clock *clock = clock_new();
	struct scan_spec spec = {.what = SCAN_CELLS};
	struct live_options o = {
		.rules = {rule_of, schema},
		.seq = UINT64_MAX,
		.spec = &spec,
		.row_begin = buf_slice(&t->begin),
		.row_end = t->last ? (struct slice){NULL, 0} : buf_slice(&t->end),
	};
	struct memtable *m = NULL;
	struct iter *it;
	struct buf q = {0};
	int err = clock ? memtable_new(&m) : -ENOMEM;

	if (!err) {
		o.now = clock_now(clock);
		err = refill(r, l, t, m);
	}
	if (!err)
		err = merged(r, l, t, m, &it);
	if (!err)
		err = read_rows(r, l, it, &o, rows);
	if (err == -EBADMSG || err == -EIO) {
		report_problem(r, "METADATA: the tablet ending at %s can be read in part only (%s)",
			       t->last ? "the end" : quoted(&q, buf_slice(&t->end)), strerror(-err));
		l->incomplete = true;
		err = 0;
	}
	if (m)
		memtable_put(m);
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
			report_problem(r, "METADATA: table id %u: a tablet is to be merged with one that is not below it", row->m.table);
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
