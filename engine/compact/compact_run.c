/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes entries in key order to one SSTable per locality group that has data.
 *
 * Durable steps: 1 the table's directory is made and its parent synced (by
 * each tablet once, because a crash may have left an existing one unsynced), 2
 * each file is written and synced (sst_writer_finish), 3 the directory is
 * synced.  A crash before the caller's commit leaves unreferenced files;
 * opening a store removes them.
 *
 * A delete of a whole row belongs to every group.  It is written to the groups
 * with files, because it may mask cells there, and to the groups that get cells
 * of the row in this compaction.  For other groups it masks nothing and is
 * dropped.
 *
 * Filter probes are added per row, per column and per row or family delete.
 * If a partition of the filter ends within a row or column they are added
 * again, so that each partition has the probes of all its entries.
 */
#include "engine/compact/compact_internal.h"

#include <stdio.h>
#include <stdlib.h>

#include "engine/base/msg.h"

enum {
	CHECK_EVERY = 256,
	LARGE_BYTES = 256 << 10, /* each time this many bytes of a value count as an entry */
	MAJOR_LEVELS_MORE = 6,   /* zstd: 3 becomes 9 */
	MAJOR_LEVEL_MOST = 9,
};

struct output {
	uint16_t group;
	bool in_memory;
	struct sst_writer *w;
	struct sst *in_use; /* opened before the file exists, so that the collector does not remove it */
	struct tablet_file meta;
	struct props props;
	struct buf last_column; /* encoded, of the last key added */
	size_t last_row_len;
	bool column_has_cell; /* set if the column of the last key has a cell */
	unsigned partition;
	bool any;
	struct buf row_with_delete; /* encoded row whose delete is in this output */
};
struct run {
	const struct run_params *p;
	struct filter filter;
	struct output *outs;
	unsigned n;
	char *dir;
	struct buf row_delete; /* the current row's delete, for groups that get cells of the row later; n 0: there is none */
	size_t row_delete_row; /* length of the row in it */
	struct samples samples;
	uint64_t paced; /* bytes of the outputs passed to compact_pace */
	struct buf probe, scratch;
};

int compact_make_dir(struct tablet *t, char **dir)
{
	char *parent = path_join(t->env->data_dir, "sst");
	int err = -ENOMEM;

	if (!parent || asprintf(dir, "%s/%u", parent, t->table) < 0) {
		*dir = NULL;
		goto out;
	}
	err = 0;
	if (t->dir_durable)
		goto out;
	err = file_mkdir(*dir);
	if (!err || err == -EEXIST)
		err = file_sync_dir(parent);
	t->dir_durable = !err;
out:
	free(parent);
	return err;
}

int compact_sync_dir(const char *dir)
{
	return file_sync_dir(dir);
}

static void output_fini(struct output *o)
{
	sst_writer_free(o->w);
	sst_put(o->in_use);
	tablet_file_fini(&o->meta);
	props_fini(&o->props);
	buf_fini(&o->last_column);
	buf_fini(&o->row_with_delete);
}

/*
 * A flush compresses with lz4 where the group has zstd.  Writers may wait for it, and
 * most of its files are merged soon.  A file that is not merged is rewritten by a
 * major compaction (compact_misplaced).
 *
 * The files of a major compaction stay longest and are read most, and no
 * writer waits for them.  So it uses a higher compression level than merges, and
 * only it trains a dictionary, which would double the time of a merge.
 */
static int major_level(int level)
{
	if (level >= MAJOR_LEVEL_MOST)
		return level;
	return level + MAJOR_LEVELS_MORE < MAJOR_LEVEL_MOST ? level + MAJOR_LEVELS_MORE : MAJOR_LEVEL_MOST;
}

static int output_open(struct run *r, uint16_t group, struct output **out)
{
	const struct run_params *p = r->p;
	struct sst_options options;
	const struct store_group *g = store_schema_group(p->rules.schema, group);
	struct tablet_env *env = p->t->env;
	struct output *o;
	char *path;
	int err;

	if (!r->dir && (err = compact_make_dir(p->t, &r->dir)))
		return err;
	if (array_grow(&r->outs, r->n, sizeof(*r->outs)))
		return -ENOMEM;
	o = &r->outs[r->n];
	*o = (struct output){.group = group, .in_memory = g->sst.in_memory};
	o->meta.incarnation = env->incarnation;
	o->meta.number = env->next_file++;
	o->meta.table = p->t->table;
	o->meta.group = group;
	o->meta.seq_min = UINT64_MAX;
	o->meta.oldest_us = INT64_MAX;
	o->meta.newest_us = INT64_MIN;
	path = tablet_file_path(env->data_dir, o->meta.table, o->meta.incarnation, o->meta.number);
	if (!path)
		return -ENOMEM;
	options = g->sst;
	if (p->rules.major)
		options.level = major_level(options.level);
	if (!p->in && codec_is_slow(options.codec))
		options.codec = SST_LZ4;
	options.no_dictionary = !p->rules.major;
	options.sample = samples_of(&r->samples, group);
	err = sst_new(env->cache, path, o->in_memory, &o->in_use);
	if (!err)
		err = sst_writer_new(path, &options, &o->w);
	free(path);
	if (err) {
		sst_put(o->in_use);
		return err;
	}
	r->n++;
	*out = o;
	return 0;
}

static int run_output(struct run *r, uint16_t group, struct output **out)
{
	for (unsigned i = 0; i < r->n; i++) {
		if (r->outs[i].group == group) {
			*out = &r->outs[i];
			return 0;
		}
	}
	return output_open(r, group, out);
}

static int output_probe(struct run *r, struct output *o, char tag, const struct cellkey *k)
{
	int err;

	buf_reset(&r->probe);
	err = cellkey_probe(&r->probe, tag, k->row, k->family, k->qualifier);
	return err ? err : sst_writer_probe(o->w, buf_bytes(&r->probe));
}

static int output_probes(struct run *r, struct output *o, struct tfs_bytes key, const struct filter_entry *e)
{
	unsigned partition = sst_writer_partition(o->w);
	bool again = !o->any || partition != o->partition;
	bool new_row = again || o->last_row_len != e->row_len || memcmp(o->last_column.p, key.p, e->row_len) != 0;
	bool new_column = again || o->last_column.n != e->column_len || memcmp(o->last_column.p, key.p, e->column_len) != 0;
	struct cellkey k;
	int err;

	o->partition = partition;
	o->any = true;
	if (!new_row && !new_column && e->kind != CELL_DELETE_ROW && e->kind != CELL_DELETE_FAMILY && e->kind != CELL_DELETE_COLUMN)
		return 0;
	if ((err = cellkey_decode(key, &k, &r->scratch)))
		return err;
	if (new_row) {
		if ((err = output_probe(r, o, 'r', &k)))
			return err;
		if (!o->props.first.p && (err = buf_set(&o->props.first, k.row.p, k.row.n)))
			return err;
		if ((err = buf_set(&o->props.last, k.row.p, k.row.n)))
			return err;
	}
	if (e->kind == CELL_DELETE_ROW)
		return output_probe(r, o, 'R', &k);
	if (e->kind == CELL_DELETE_FAMILY)
		return output_probe(r, o, 'F', &k);
	if (new_column && (err = output_probe(r, o, 'c', &k)))
		return err;
	return e->kind == CELL_DELETE_COLUMN ? output_probe(r, o, 'C', &k) : 0;
}

/* `it` stands on the entry. */
static int output_add(struct run *r, struct output *o, struct iter *it, const struct filter_entry *e)
{
	struct props_family *f = props_family(&o->props, e->family);
	const struct tfs_bytes key = it->key;
	struct tablet_file *m = &o->meta;
	bool cell = e->kind == CELL_VALUE;
	int64_t commit;
	bool again, same = o->last_column.n == e->column_len && memcmp(o->last_column.p, key.p, e->column_len) == 0;
	int err;

	if (!f)
		return -ENOMEM;
	again = cell && same && o->column_has_cell;
	o->column_has_cell = cell || (same && o->column_has_cell);
	if ((err = output_probes(r, o, key, e)) || (err = buf_set(&o->last_column, key.p, e->column_len)))
		return err;
	o->last_row_len = e->row_len;
	if ((err = sst_writer_add_from(o->w, it, again)))
		return err;
	m->seq_min = e->seq < m->seq_min ? e->seq : m->seq_min;
	m->seq_max = e->seq > m->seq_max ? e->seq : m->seq_max;
	m->raw_bytes += key.n + it->size;
	f->raw_bytes += key.n + it->size;
	if (cell) {
		m->cells++;
		f->cells++;
		m->oldest_us = e->ts < m->oldest_us ? e->ts : m->oldest_us;
		m->newest_us = e->ts > m->newest_us ? e->ts : m->newest_us;
		if (!cellkey_commit(key, e->column_len, e->ts, &commit))
			return -EBADMSG;
		m->commit_us = commit > m->commit_us ? commit : m->commit_us;
	} else {
		m->tombstones++;
		f->tombstones++;
		m->row_deletes += e->kind == CELL_DELETE_ROW;
		m->family_deletes += e->kind == CELL_DELETE_FAMILY;
	}
	return 0;
}

/* Adds the current row's delete to o, unless it is there. */
static int output_add_row_delete(struct run *r, struct output *o)
{
	struct tfs_bytes row = tfs_bytes_of(r->row_delete.p, r->row_delete_row);
	struct iter it = {.key = buf_bytes(&r->row_delete)}; /* without a value */
	struct filter_entry e = {.family = 0, .row_len = row.n, .column_len = row.n + 4};
	int err;

	if (bytes_eq(buf_bytes(&o->row_with_delete), row))
		return 0;
	cellkey_suffix(it.key, e.column_len, &e.ts, &e.seq, &e.kind);
	err = buf_set(&o->row_with_delete, row.p, row.n);
	return err ? err : output_add(r, o, &it, &e);
}

static int run_row_delete(struct run *r, struct tfs_bytes key, const struct filter_entry *e)
{
	const struct view *v = r->p->present;
	struct output *o;
	int err = buf_set(&r->row_delete, key.p, key.n);

	r->row_delete_row = e->row_len;
	if (!err && r->p->one_group) {
		err = run_output(r, r->p->group, &o);
		return err ? err : output_add_row_delete(r, o);
	}
	for (unsigned i = 0; v && i < v->file_count && !err; i++) {
		err = run_output(r, v->files[i]->meta.group, &o);
		if (!err)
			err = output_add_row_delete(r, o);
	}
	return err;
}

static int run_add(struct run *r, struct iter *it, const struct filter_entry *e)
{
	const struct tfs_bytes key = it->key;
	struct output *o;
	int err;

	if (r->row_delete.n && (r->row_delete_row != e->row_len || memcmp(r->row_delete.p, key.p, e->row_len) != 0))
		r->row_delete.n = 0;
	if (e->kind == CELL_DELETE_ROW)
		return run_row_delete(r, key, e);
	err = run_output(r, r->p->one_group ? r->p->group : run_group(r->p, e->family)->id, &o);
	if (!err && r->row_delete.n)
		err = output_add_row_delete(r, o);
	return err ? err : output_add(r, o, it, e);
}

/* Step 2 for one file. */
static int output_finish(struct run *r, struct output *o, struct file_set *out)
{
	const struct tablet *t = r->p->t;
	struct tablet_file *m = &o->meta;
	struct vfile *f;
	struct props *p = &o->props;
	struct buf blob = {0};
	int err;

	p->table = m->table;
	p->group = m->group;
	p->seq_min = m->seq_min;
	p->seq_max = m->seq_max;
	p->oldest_us = m->oldest_us;
	p->newest_us = m->newest_us;
	p->cells = m->cells;
	p->tombstones = m->tombstones;
	p->row_deletes = m->row_deletes;
	p->family_deletes = m->family_deletes;
	p->raw_bytes = m->raw_bytes;
	if ((err = props_encode(&blob, p)) || (err = buf_append(&m->first, p->first.p, p->first.n)) ||
		(err = buf_append(&m->last, p->last.p, p->last.n)) || (err = buf_append(&m->begin, t->begin.p, t->begin.n)) ||
		(err = tablet_end_copy(&m->end, buf_bytes(&t->end))) || (err = vfile_new(t->env, t->table, m, o->in_memory, &f)))
		goto out;
	/* On error the writer unlinks the file. */
	err = sst_writer_finish(o->w, buf_bytes(&blob), &f->meta.bytes);
	if (!err) {
		sst_expect_bytes(f->sst, f->meta.bytes);
		vfile_set_usage(f, p);
		f->schema = r->p->freeze_schema ? store_schema_get(r->p->freeze_schema) : NULL;
		f->freeze_us = r->p->freeze_us;
		err = file_set_add(out, f);
		if (err)
			sst_retire(f->sst);
	}
	vfile_put(f);
out:
	buf_fini(&blob);
	return err;
}

static void run_pace(struct run *r)
{
	uint64_t bytes = 0;

	for (unsigned i = 0; i < r->n; i++)
		bytes += sst_writer_bytes(r->outs[i].w);
	if (bytes > r->paced)
		compact_pace(r->p->t, bytes - r->paced);
	r->paced = bytes;
}

static int run_consume(struct run *r, struct iter *it)
{
	struct filter_entry e;
	uint64_t n = 0;
	int keep, err;

	for (iter_seek(it, tfs_bytes_of(NULL, 0)); it->valid; iter_next(it)) {
		n += 1 + it->size / LARGE_BYTES;
		if (n >= CHECK_EVERY) {
			if (run_must_stop(r->p))
				return -ECANCELED;
			if (r->p->paced)
				run_pace(r);
			n = 0;
		}
		keep = filter_key(&r->filter, it->key, &e);
		if (keep < 0) {
			if (keep == -EBADMSG)
				msg_error("table %u: a compaction found a malformed cell key", r->p->t->table);
			return keep;
		}
		if (keep && run_writes(r->p, it->key) && (err = run_add(r, it, &e)))
			return err;
	}
	return it->err;
}

int compact_run(const struct run_params *p, struct iter *merged, struct file_set *out)
{
	struct run r = {.p = p};
	struct file_set set = {0};
	int err;

	filter_init(&r.filter, &p->rules);
	err = samples_take(p, merged, &r.samples);
	if (!err)
		err = run_consume(&r, merged);
	for (unsigned i = 0; i < r.n && !err; i++)
		err = output_finish(&r, &r.outs[i], &set);
	if (!err && set.n)
		err = compact_sync_dir(r.dir);
	iter_free(merged);
	samples_fini(&r.samples);
	filter_fini(&r.filter);
	for (unsigned i = 0; i < r.n; i++)
		output_fini(&r.outs[i]);
	free(r.outs);
	free(r.dir);
	buf_fini(&r.row_delete);
	buf_fini(&r.probe);
	buf_fini(&r.scratch);
	for (unsigned i = 0; err && i < set.n; i++)
		sst_retire(set.v[i]->sst);
	if (err)
		file_set_put(&set);
	else
		*out = set;
	return err;
}

int compact_count(const struct run_params *p, struct iter *it, bool any, uint64_t *kept, bool *all)
{
	uint64_t bytes = 0, read = 0, stored = 0, raw = 0;
	bool dropped = false;
	struct filter_entry e;
	struct filter filter;
	int keep = 1, err;

	for (unsigned i = 0; i < p->in->n; i++) {
		stored += p->in->v[i]->meta.bytes;
		raw += p->in->v[i]->meta.raw_bytes;
	}
	filter_init(&filter, &p->rules);
	iter_seek(it, tfs_bytes_of(NULL, 0));
	for (unsigned n = 1; it->valid && !(any && dropped); n++) {
		if (n % CHECK_EVERY == 0) {
			if (p->paced && raw)
				compact_pace(p->t, (uint64_t)((double)read * (double)stored / (double)raw));
			read = 0;
			if (run_must_stop(p)) {
				keep = -ECANCELED;
				break;
			}
		}
		read += it->key.n + it->size;
		keep = filter_key(&filter, it->key, &e);
		if (keep < 0)
			break;
		if (run_writes(p, it->key)) {
			bytes += keep ? it->key.n + it->size : 0;
			dropped |= !keep;
		}
		iter_next(it);
	}
	err = keep < 0 ? keep : it->err;
	*kept = bytes;
	*all = !dropped;
	filter_fini(&filter);
	iter_free(it);
	return err;
}
