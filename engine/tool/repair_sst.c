/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An SSTable that may be damaged.
 *
 * Each file is verified whole.  One that is damaged is read block by block
 * (sst_salvage), and the entries that can be read become a new file, in the
 * same order, with filters and properties of their own.  A large value of
 * which a chunk is lost is left out as a whole.  The rows between the last
 * entry before lost blocks and the first one behind them are named: cells
 * and deletes of these rows are lost.
 *
 * Durable steps: 1 the new file is written and synced, 2 its directory is
 * synced, 3 the old file gets a second name in DATADIR/repair-NNNN
 * (repair_keep).  METADATA names the old file until repair_meta.c replaces
 * it; a mount in between removes the new one.
 */
#include "engine/cell/cellkey.h"
#include "engine/tablet/props_format.h"
#include "engine/tool/repair.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

struct repair_file {
	struct repair_file *next;
	uint32_t table;
	uint64_t incarnation, number;
	bool changed, gone;
	struct tablet_file now; /* without begin and end */
	struct props p;         /* what it holds; table 0: not known */
};

struct rewrite {
	struct repair *p;
	const char *path;
	struct buf table_name;
	const struct store_schema *schema; /* NULL: the file's group is known */
	struct sst_writer *w;              /* NULL: a dry run */
	unsigned partition;
	struct props props;
	struct buf column; /* of the last key added */
	size_t row_len;
	bool column_has_cell, any;
	struct buf probe, scratch, row; /* row: of the last key read */
	bool rows;                      /* a key has been read */
	bool gap;                       /* blocks behind that key are lost */
	/* a large value, held until its last chunk has come */
	struct buf held; /* pairs: u32 lengths of key and value, key, value */
	uint64_t held_left, held_seq, held_bytes;
	int64_t held_ts;
	uint32_t next_chunk;
	uint64_t broken; /* large values left out */
};

/* ---- the new file ---- */

static int probe(struct rewrite *w, char tag, const struct cellkey *k)
{
	int err;

	buf_reset(&w->probe);
	err = cellkey_probe(&w->probe, tag, k->row, k->family, k->qualifier);
	return err ? err : sst_writer_probe(w->w, buf_slice(&w->probe));
}

/* As a compaction makes them (store/compact_run.c). */
static int probes(struct rewrite *w, const struct cellkey *k, bool new_row, bool new_column)
{
	unsigned partition = sst_writer_partition(w->w);
	bool again = !w->any || partition != w->partition;
	int err = 0;

	w->partition = partition;
	if (again || new_row)
		err = probe(w, 'r', k);
	if (!err && k->kind == CELL_DELETE_ROW)
		return probe(w, 'R', k);
	if (!err && k->kind == CELL_DELETE_FAMILY)
		return probe(w, 'F', k);
	if (!err && (again || new_column))
		err = probe(w, 'c', k);
	if (!err && k->kind == CELL_DELETE_COLUMN)
		err = probe(w, 'C', k);
	return err;
}

static int count(struct rewrite *w, struct slice key, struct slice value, const struct cellkey *k)
{
	struct props *p = &w->props;
	struct props_family *f = props_family(p, k->family);

	if (!f)
		return -ENOMEM;
	p->raw_bytes += key.n + value.n;
	f->raw_bytes += key.n + value.n;
	p->seq_min = k->seq < p->seq_min ? k->seq : p->seq_min;
	p->seq_max = k->seq > p->seq_max ? k->seq : p->seq_max;
	if (k->kind == CELL_VALUE || k->kind == CELL_LARGE) {
		p->cells++;
		f->cells++;
		p->oldest_us = k->ts < p->oldest_us ? k->ts : p->oldest_us;
		p->newest_us = k->ts > p->newest_us ? k->ts : p->newest_us;
	} else if (k->kind != CELL_CHUNK) {
		p->tombstones++;
		f->tombstones++;
		p->row_deletes += k->kind == CELL_DELETE_ROW;
		p->family_deletes += k->kind == CELL_DELETE_FAMILY;
	}
	return 0;
}

static int put(struct rewrite *w, struct slice key, struct slice value)
{
	size_t row_len = cellkey_row_len(key), column_len = cellkey_column_len(key);
	bool new_row = !w->any || w->row_len != row_len || memcmp(w->column.p, key.p, row_len) != 0;
	bool new_column = new_row || w->column.n != column_len || memcmp(w->column.p, key.p, column_len) != 0;
	struct cellkey k;
	bool cell;
	unsigned flags;
	int err = cellkey_decode(key, &k, &w->scratch);

	if (err)
		return err;
	cell = k.kind == CELL_VALUE || k.kind == CELL_LARGE;
	flags = k.kind == CELL_CHUNK ? SST_CHUNK : cell && !new_column && w->column_has_cell ? SST_AGAIN : 0;
	w->column_has_cell = cell || (!new_column && w->column_has_cell);
	if (!w->any)
		err = buf_set(&w->props.first, k.row.p, k.row.n);
	if (!w->any && w->schema) { /* the group of a file that nothing tells */
		const struct store_family *f = store_schema_family(w->schema, k.family);

		w->props.group = store_schema_group(w->schema, f ? f->group : 0)->id;
	}
	if (!err)
		err = buf_set(&w->props.last, k.row.p, k.row.n);
	if (!err && w->w)
		err = probes(w, &k, new_row, new_column);
	if (!err && w->w)
		err = sst_writer_add(w->w, key, value, flags);
	if (!err)
		err = buf_set(&w->column, key.p, column_len);
	w->row_len = row_len;
	w->any = true;
	return err ? err : count(w, key, value, &k);
}

/* ---- what is read of the old one ---- */

static void lost_rows(struct rewrite *w, bool from, bool to, struct slice row)
{
	struct buf a = {0}, b = {0};

	repair_loses(w->p, "%s: cells of rows from %s to %s in %s",
		buf_slice(&w->table_name).n ? (char *)w->table_name.p : "a table",
		from ? quoted(&a, buf_slice(&w->row)) : "the first", to ? quoted(&b, row) : "the last", w->path);
	buf_fini(&a);
	buf_fini(&b);
}

/* The large value held is not whole. */
static void drop_held(struct rewrite *w)
{
	if (!w->held_left)
		return;
	w->held_left = 0;
	w->broken++;
	lost_rows(w, true, true, buf_slice(&w->row));
}

static int hold(struct rewrite *w, struct slice key, struct slice value)
{
	int err = buf_be32(&w->held, (uint32_t)key.n);

	if (!err)
		err = buf_be32(&w->held, (uint32_t)value.n);
	if (!err)
		err = buf_append_slice(&w->held, key);
	return err ? err : buf_append_slice(&w->held, value);
}

static int put_held(struct rewrite *w)
{
	struct reader r = reader_of(buf_slice(&w->held));
	struct slice key, value;
	uint32_t a, b;
	int err = 0;

	while (!err && get_be32(&r, &a) && get_be32(&r, &b) && get_bytes(&r, a, &key) && get_bytes(&r, b, &value))
		err = put(w, key, value);
	return err;
}

static int salvaged(void *arg, struct slice key, struct slice value)
{
	struct rewrite *w = arg;
	struct cellkey k;
	int err;

	if (!key.p) {
		w->gap = true;
		return 0;
	}
	err = cellkey_decode(key, &k, &w->scratch);
	if (err == -EBADMSG) { /* not a key that any writer writes */
		w->gap = true;
		return 0;
	}
	if (err)
		return err;
	if (w->gap)
		lost_rows(w, w->rows, true, k.row);
	if (k.kind == CELL_CHUNK) {
		uint64_t want = w->held_left < CELL_CHUNK_BYTES ? w->held_left : CELL_CHUNK_BYTES;

		if (w->held_left && (k.chunk != w->next_chunk || k.seq != w->held_seq || k.ts != w->held_ts || value.n != want))
			drop_held(w);
		if (w->held_left) {
			err = hold(w, key, value);
			w->held_left -= want;
			w->next_chunk++;
			if (!err && !w->held_left)
				err = put_held(w);
		}
	} else {
		drop_held(w);
	}
	w->gap = false;
	w->rows = true;
	if (!err)
		err = buf_set(&w->row, k.row.p, k.row.n);
	if (err || k.kind == CELL_CHUNK)
		return err;
	if (k.kind != CELL_LARGE || value.n != 8)
		return put(w, key, value);
	buf_reset(&w->held);
	w->held_left = load_be64(value.p);
	w->held_seq = k.seq;
	w->held_ts = k.ts;
	w->next_chunk = 0;
	return hold(w, key, value);
}

static int writer_for(struct repair *p, uint32_t table, uint16_t group, const char *path, struct sst_writer **out)
{
	struct sst_options o = {.codec = SST_ZSTD, .level = 3, .block_bytes = 16 * 1024, .bloom_bits = 10};
	const struct offline_table *t = offline_table(&p->store, table);

	if (t)
		o = store_schema_group(t->store, group)->sst;
	o.no_dictionary = true;
	return sst_writer_new(path, &o, out);
}

static int from_props(struct tablet_file *f, const struct props *p)
{
	f->group = p->group;
	f->raw_bytes = p->raw_bytes;
	f->cells = p->cells;
	f->tombstones = p->tombstones;
	f->row_deletes = p->row_deletes;
	f->family_deletes = p->family_deletes;
	f->seq_min = p->seq_min;
	f->seq_max = p->seq_max;
	f->oldest_us = p->oldest_us;
	f->newest_us = p->newest_us;
	return buf_set(&f->first, p->first.p, p->first.n) || buf_set(&f->last, p->last.p, p->last.n) ? -ENOMEM : 0;
}

static int finish(struct rewrite *w, struct repair_file *out)
{
	struct buf blob = {0};
	char *top = path_join(w->p->dir, "sst"), *dir = NULL;
	int err = top && asprintf(&dir, "%s/%u", top, out->table) >= 0 ? props_encode(&blob, &w->props) : -ENOMEM;

	if (!err)
		err = sst_writer_finish(w->w, buf_slice(&blob), &out->now.bytes);
	if (!err)
		err = file_sync_dir(dir);
	free(top);
	free(dir);
	buf_fini(&blob);
	return err;
}

static int rewrite(
	struct repair *p, const struct tablet_file *f, const char *path, const struct props *said, struct repair_file *out)
{
	struct rewrite w = {.p = p,
		.path = path,
		.props = {.table = f->table,
			.group = f->group,
			.seq_min = UINT64_MAX,
			.oldest_us = INT64_MAX,
			.newest_us = INT64_MIN}};
	uint64_t cells = said->table ? said->cells
		: f->bytes           ? f->cells
				     : 0,
		 deletes = said->table ? said->tombstones : f->tombstones;
	char *to = tablet_file_path(p->dir, f->table, p->incarnation, p->next_file);
	struct buf name = {0};
	int err = to ? buf_printf(&w.table_name, "%s", repair_table_name(&name, p, f->table)) : -ENOMEM;

	if (!err)
		err = buf_u8(&w.table_name, 0);
	if (said->table == f->table)
		w.props.group = said->group;
	else if (!f->bytes && offline_table(&p->store, f->table))
		w.schema = offline_table(&p->store, f->table)->store;
	if (!err && p->write)
		err = writer_for(p, f->table, f->group, to, &w.w);
	if (!err)
		err = sst_salvage(path, salvaged, &w);
	if (!err)
		drop_held(&w);
	if (!err && w.gap)
		lost_rows(&w, w.rows, false, slice_of(NULL, 0));
	if (err)
		goto out;
	if (!w.any)
		repair_does(p, "%s: nothing in it can be read; it is taken out of the table", path);
	else
		repair_does(p, "%s: written anew with %" PRIu64 " cells and %" PRIu64 " deletes", path, w.props.cells,
			w.props.tombstones);
	if (cells > w.props.cells || deletes > w.props.tombstones)
		repair_loses(p, "%s: %" PRIu64 " cells and %" PRIu64 " deletes of the rows named", path,
			cells > w.props.cells ? cells - w.props.cells : 0,
			deletes > w.props.tombstones ? deletes - w.props.tombstones : 0);
	else if (!w.any)
		lost_rows(&w, false, false, slice_of(NULL, 0));
	out->changed = true;
	out->gone = !w.any;
	out->now.table = f->table;
	out->now.incarnation = p->incarnation;
	out->now.number = p->next_file;
	err = from_props(&out->now, &w.props);
	if (!err && p->write && w.any)
		err = finish(&w, out);
	if (!err)
		err = repair_keep(p, path);
	p->next_file++;
	props_fini(&out->p);
	out->p = w.props;
	w.props = (struct props){0};
out:
	if (err)
		complain("%s: %s", path, strerror(-err));
	sst_writer_free(w.w);
	props_fini(&w.props);
	buf_fini(&w.table_name);
	buf_fini(&w.column);
	buf_fini(&w.probe);
	buf_fini(&w.scratch);
	buf_fini(&w.row);
	buf_fini(&w.held);
	buf_fini(&name);
	free(to);
	return err;
}

/* ---- one file ---- */

static bool fits(const struct tablet_file *f, const struct props *p, uint64_t bytes)
{
	return p->table == f->table &&
		(!f->bytes ||
			(f->bytes == bytes && f->group == p->group && f->cells == p->cells && f->tombstones == p->tombstones));
}

static int look_at(struct repair *p, const struct tablet_file *f, const char *path, struct repair_file *out)
{
	struct buf blob = {0}, name = {0};
	struct props said = {0};
	struct sst *s = NULL;
	uint64_t keys, bytes = 0;
	char *why = NULL;
	int err = file_stat_size(path, &bytes);

	if (err == -ENOENT) {
		struct buf a = {0}, b = {0};

		report_problem(&p->r, "%s: missing", path);
		repair_does(p, "%s: taken out of the table", path);
		repair_loses(p, "%s: cells of rows from %s to %s in %s", repair_table_name(&name, p, f->table),
			quoted(&a, buf_slice(&f->first)), quoted(&b, buf_slice(&f->last)), path);
		repair_loses(p, "%s: %" PRIu64 " cells and %" PRIu64 " deletes of the rows named", path, f->cells, f->tombstones);
		out->changed = out->gone = true;
		buf_fini(&a);
		buf_fini(&b);
		err = 0;
		goto out;
	}
	if (err)
		goto out;
	err = sst_new(p->store.cache, path, false, &s);
	if (!err)
		err = sst_properties(s, &blob);
	if (!err)
		err = props_decode(buf_slice(&blob), &said);
	if (err == -EBADMSG)
		err = 0;
	if (!err)
		err = sst_verify(path, &keys, &why);
	if (!err && said.table && fits(f, &said, bytes)) {
		out->now.table = f->table;
		out->now.incarnation = f->incarnation;
		out->now.number = f->number;
		out->now.bytes = bytes;
		err = from_props(&out->now, &said);
		out->p = said;
		said = (struct props){0};
		goto out;
	}
	if (err && err != -EBADMSG)
		goto out;
	report_problem(&p->r, "%s", why ? why : path);
	err = rewrite(p, f, path, &said, out);
out:
	if (err)
		complain("%s: %s", path, strerror(-err));
	if (s)
		sst_put(s);
	props_fini(&said);
	buf_fini(&blob);
	buf_fini(&name);
	free(why);
	return err;
}

int repair_sst(struct repair *p, const struct tablet_file *f, struct tablet_file *out, bool *changed, bool *gone)
{
	struct repair_file *x;
	char *path;
	int err = 0;

	for (x = p->files; x; x = x->next)
		if (x->table == f->table && x->incarnation == f->incarnation && x->number == f->number)
			break;
	if (!x) {
		path = tablet_file_path(p->dir, f->table, f->incarnation, f->number);
		x = calloc(1, sizeof(*x));
		if (!x || !path) {
			free(x);
			free(path);
			return -ENOMEM;
		}
		*x = (struct repair_file){.next = p->files, .table = f->table, .incarnation = f->incarnation, .number = f->number};
		p->files = x;
		err = look_at(p, f, path, x);
		free(path);
	}
	*changed = x->changed;
	*gone = x->gone;
	return err ? err : x->gone ? 0 : tablet_file_copy(out, &x->now);
}

const struct props *repair_sst_props(const struct repair *p, const struct tablet_file *f)
{
	for (const struct repair_file *x = p->files; x; x = x->next)
		if (x->table == f->table &&
			((x->incarnation == f->incarnation && x->number == f->number) ||
				(x->now.incarnation == f->incarnation && x->now.number == f->number)))
			return &x->p;
	return NULL;
}

void repair_ssts_fini(struct repair *p)
{
	while (p->files) {
		struct repair_file *x = p->files;

		p->files = x->next;
		tablet_file_fini(&x->now);
		props_fini(&x->p);
		free(x);
	}
}
