/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An SSTable that may be damaged.
 *
 * Each file is verified, and compared with its entry in METADATA.  A damaged file is
 * read block by block (sst_salvage), and the entries that can be read become a new
 * file, in the same order, with new filters and properties.  If another file is in its
 * place, it is looked for everywhere below sst/ and read from there.
 *
 * Lost are the rows between the last entry before lost blocks and the first entry
 * after them: cells and deletes of these rows.  If nothing can be read, these are
 * the rows that METADATA states.  They are named for each tablet that uses the
 * file.
 *
 * Durable steps: 1 the new file is written and synced, 2 its directory is
 * synced, 3 the old file is linked in DATADIR/repair-NNNN (repair_keep).
 * METADATA names the old file until repair_write.c replaces METADATA.  A mount
 * in between removes the new file.
 */
#include "engine/base/msg.h"
#include "engine/tool/progress.h"
#include "engine/tool/store/repair.h"
#include "engine/tool/store/sst_count.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

struct rewrite {
	struct repair *p;
	struct repair_file *file;
	const char *path;
	struct sst_writer *w; /* NULL: a dry run */
	unsigned partition;   /* the partition of the filter at the last entry */
	bool column_has_cell;
	struct sst_count count;
	struct buf probe, scratch;
};

/* ---- the new file ---- */

static int write_probes(struct rewrite *w)
{
	const struct cellkey *k = &w->count.k;
	unsigned partition = sst_writer_partition(w->w);
	char tags[5];
	int err = 0;

	/* Each partition of the filter gets the probes of its first row and column, as from a compaction. */
	sst_count_probes(&w->count, partition != w->partition, tags);
	w->partition = partition;
	for (const char *tag = tags; *tag && !err; tag++) {
		buf_reset(&w->probe);
		err = cellkey_probe(&w->probe, *tag, k->row, k->family, k->qualifier);
		if (!err)
			err = sst_writer_probe(w->w, buf_bytes(&w->probe));
	}
	return err;
}

static int write_entry(struct rewrite *w, struct tfs_bytes key, struct tfs_bytes value)
{
	int err = sst_count_add(&w->count, key, value.n);
	enum cell_kind kind = w->count.k.kind;
	bool cell = kind == CELL_VALUE, again = cell && !w->count.new_column && w->column_has_cell;

	if (err || !w->w)
		return err;
	w->column_has_cell = cell || (!w->count.new_column && w->column_has_cell);
	err = write_probes(w);
	return err ? err : sst_writer_add(w->w, key, value, again);
}

/* ---- entries of the old file ---- */

void repair_sst_losses(struct repair *p, const struct meta_tablet *t, const struct repair_file *f)
{
	const struct tablet_file at = {.table = f->table, .incarnation = f->incarnation, .number = f->number};

	for (unsigned i = 0; i < f->lost.count; i++) {
		const struct offline_gap *g = &f->lost.v[i];

		if ((g->to.p && bytes_cmp(buf_bytes(&g->to), buf_bytes(&t->begin)) < 0) ||
			(!t->last && bytes_cmp(buf_bytes(&g->from), buf_bytes(&t->end)) >= 0))
			continue;
		repair_loss(p, "%s: cells of rows from %s to %s in %s", offline_tablet_name(&p->store, t),
			g->from.n ? quoted(buf_bytes(&g->from)) : "the first", g->to.p ? quoted(buf_bytes(&g->to)) : "the last",
			offline_sst_path(&p->store, &at));
	}
}

/* An sst_salvage_fn: writes the entry if it can be read, and notes the rows around gaps and of lost values. */
static int take_entry(void *arg, struct tfs_bytes key, struct tfs_bytes value)
{
	struct rewrite *w = arg;
	struct offline_gaps *lost = &w->file->lost;
	struct cellkey k;
	int err = key.p ? cellkey_decode(key, &k, &w->scratch) : -EBADMSG;

	if (err == -EBADMSG) {
		lost->open = true;
		return 0;
	}
	if (!err)
		err = offline_gaps_row(lost, k.row);
	if (err)
		return err;
	return value.p ? write_entry(w, key, value) : offline_gap_add(lost, k.row, k.row);
}

/* ---- one file ---- */

static int copy_props(struct tablet_file *f, const struct props *p)
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

static int new_writer(struct repair *p, const struct props *props, const char *path, struct sst_writer **out)
{
	struct sst_options o = {.codec = SST_ZSTD, .level = 3, .bloom_bits = 10};
	const struct offline_table *t = offline_table(&p->store, props->table);

	if (t)
		o = store_schema_group(t->store, props->group)->sst;
	o.no_dictionary = true;
	return sst_writer_new(path, &o, out);
}

/* Steps 1 and 2. */
static int finish_file(struct rewrite *w, struct repair_file *out)
{
	struct buf blob = {0};
	int err = props_encode(&blob, &w->count.p);

	if (!err)
		err = sst_writer_finish(w->w, buf_bytes(&blob), &out->now.bytes);
	if (!err)
		err = file_sync_parent(w->path);
	buf_fini(&blob);
	return err;
}

/* Prints the contents of the file after the repair, and its losses. entry: METADATA's entry, or the file's own properties, or bytes 0. */
static int report_rewrite(struct rewrite *w, const struct tablet_file *entry)
{
	const struct props *now = &w->count.p;
	struct repair_file *f = w->file;
	uint64_t cells = entry->cells > now->cells ? entry->cells - now->cells : 0,
		 deletes = entry->tombstones > now->tombstones ? entry->tombstones - now->tombstones : 0;
	int err = 0;

	if (!w->count.any)
		repair_step(w->p, "%s: nothing in it can be read; it is taken out of the table", w->path);
	else
		repair_step(w->p, "%s: written anew with %" PRIu64 " cells and %" PRIu64 " deletes", w->path, now->cells,
			now->tombstones);
	if (cells || deletes)
		repair_loss(w->p, "%s: %" PRIu64 " cells and %" PRIu64 " deletes of the rows named", w->path, cells, deletes);
	/* The unreadable stretches do not show which rows were lost, or less exactly than METADATA. */
	if (entry->bytes && (!w->count.any || ((cells || deletes) && !f->lost.count))) {
		offline_gaps_fini(&f->lost);
		err = offline_gap_add(&f->lost, buf_bytes(&entry->first), buf_bytes(&entry->last));
	} else if (!w->count.any && !f->lost.count) {
		err = offline_gap_add(&f->lost, (struct tfs_bytes){0}, (struct tfs_bytes){0});
	}
	return err;
}

/* at: where the file is; path: where it belongs.  entry: as report_rewrite. */
static int rewrite_file(struct repair *p, const struct tablet_file *f, const char *at, const char *path,
	const struct tablet_file *entry, struct repair_file *out)
{
	struct rewrite w = {.p = p, .path = path, .file = out};
	int err = 0;

	out->now.table = f->table;
	out->now.incarnation = p->incarnation;
	out->now.number = p->next_file++;
	sst_count_init(&w.count);
	w.count.p.table = f->table;
	w.count.p.group = entry->group;
	if (p->write)
		err = new_writer(p, &w.count.p, offline_sst_path(&p->store, &out->now), &w.w);
	if (!err)
		err = sst_salvage(at, path, f->bytes, take_entry, &w);
	if (!err)
		err = offline_gaps_end(&out->lost);
	if (!err)
		err = report_rewrite(&w, entry);
	if (err)
		goto out;
	out->changed = true;
	out->gone = !w.count.any;
	err = copy_props(&out->now, &w.count.p);
	if (!err && p->write && w.count.any)
		err = finish_file(&w, out);
	if (!err)
		err = repair_keep(p, path);
out:
	sst_writer_free(w.w);
	sst_count_fini(&w.count);
	buf_fini(&w.probe);
	buf_fini(&w.scratch);
	return err;
}

/*
 * A file of changes is not written anew, because a reader of changes would not notice what is missing.  repair_meta.c raises the
 * tablet's low mark, so the reader gets an error.
 */
static void take_out_changes(struct repair *p, const char *path, struct repair_file *out)
{
	repair_step(p, "%s: taken out of the table", path);
	repair_loss(p, "%s: changes that .changes lists, but no cells", path);
	out->changed = out->gone = true;
}

static int report_missing(struct repair *p, const struct tablet_file *f, const char *path, struct repair_file *out)
{
	report_problem(&p->r, "%s: missing", path);
	if (f->group == TABLET_GROUP_CHANGES) {
		take_out_changes(p, path, out);
		return 0;
	}
	repair_step(p, "%s: taken out of the table", path);
	repair_loss(p, "%s: %" PRIu64 " cells and %" PRIu64 " deletes of the rows named", path, f->cells, f->tombstones);
	out->changed = out->gone = true;
	return offline_gap_add(&out->lost, buf_bytes(&f->first), buf_bytes(&f->last));
}

/* Returns true if METADATA describes the file with these properties. */
static bool is_listed_as(const struct tablet_file *f, const struct props *p, uint64_t bytes)
{
	return p->table == f->table &&
		(!f->bytes ||
			(f->bytes == bytes && f->group == p->group && f->cells == p->cells && f->tombstones == p->tombstones));
}

static int read_properties(struct repair *p, const char *path, struct props *out)
{
	struct buf blob = {0};
	struct sst *s = NULL;
	int err = sst_new(p->store.cache, path, false, &s);

	if (!err)
		err = sst_properties(s, &blob);
	if (!err)
		err = props_decode(buf_bytes(&blob), out);
	sst_put(s);
	buf_fini(&blob);
	return err == -EBADMSG || err == -EIO ? 0 : err; /* sst_verify reports it */
}

static int examine_file(struct repair *p, const struct tablet_file *f, const char *path, struct repair_file *out)
{
	const char *at = offline_sst_find(&p->store, f);
	struct tablet_file entry = {.group = f->group};
	struct props said = {0};
	uint64_t keys, bytes = 0;
	char *why = NULL;
	int err = file_stat_size(at, &bytes);

	if (err == -ENOENT)
		return report_missing(p, f, path, out);
	if (!err)
		err = read_properties(p, at, &said);
	if (!err && strcmp(at, path) != 0) {
		why_set(&why, "%s: another SSTable is in its place, or none; %s is this file", path, at);
		err = -EBADMSG;
	} else if (!err) {
		err = sst_verify(path, f->bytes, &keys, &why);
	}
	if (!err && said.table && is_listed_as(f, &said, bytes)) {
		out->now.table = f->table;
		out->now.incarnation = f->incarnation;
		out->now.number = f->number;
		out->now.bytes = bytes;
		err = copy_props(&out->now, &said);
	} else if (!err || err == -EBADMSG) {
		report_problem(&p->r, "%s", why ? why : path);
		if (!f->bytes && said.table) {
			entry.group = said.group;
			entry.bytes = bytes;
			entry.cells = said.cells;
			entry.tombstones = said.tombstones;
			entry.first = said.first; /* borrowed */
			entry.last = said.last;
		}
		if (entry.group == TABLET_GROUP_CHANGES) {
			take_out_changes(p, path, out);
			err = repair_keep(p, path);
		} else {
			err = rewrite_file(p, f, at, path, f->bytes ? f : &entry, out);
		}
	}
	if (err)
		complain("%s: %s", path, strerror(-err));
	progress_add(bytes);
	props_fini(&said);
	free(why);
	return err;
}

struct repair_file *repair_file_get(struct repair *p, uint32_t table, uint64_t incarnation, uint64_t number)
{
	const uint64_t id[] = {table, incarnation, number};
	struct repair_file *f;

	HASH_FIND(hh, p->files, id, sizeof(id), f);
	if (f)
		return f;
	f = calloc(1, sizeof(*f));
	if (!f)
		no_memory();
	*f = (struct repair_file){.id = {table, incarnation, number}, .table = table, .incarnation = incarnation, .number = number};
	HASH_ADD(hh, p->files, id, sizeof(f->id), f);
	if (!f->hh.tbl)
		no_memory();
	return f;
}

int repair_sst(struct repair *p, const struct tablet_file *f, const struct repair_file **out)
{
	struct repair_file *x = repair_file_get(p, f->table, f->incarnation, f->number);
	int err = x->examined ? 0 : examine_file(p, f, offline_sst_path(&p->store, f), x);

	x->examined = true;
	*out = x;
	return err;
}

void repair_ssts_fini(struct repair *p)
{
	struct repair_file *x, *next;

	HASH_ITER(hh, p->files, x, next)
	{
		HASH_DEL(p->files, x);
		tablet_file_fini(&x->now);
		offline_gaps_fini(&x->lost);
		free(x);
	}
}
