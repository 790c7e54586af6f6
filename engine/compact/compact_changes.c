/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of changes (engine/tablet/tablet_changes.c): written by minor compactions, merged, and removed when they have expired.
 *
 * Durable steps: as of compact_flush.c and compact_job.c.  A file is removed by the edit that raises the tablet's low mark
 * to the latest change in it.  A purge does this for all files, after a flush.
 *
 * Readers follow the end of the changes, so a file is seldom read, and merges serve two purposes only: small files of many flushes
 * become one file, and a tablet's part of a file that it shares with others after a split becomes a file of its own.  A
 * file expires as a whole.  So no merge makes a file whose changes span more than a part of the time for which they are kept.
 *
 * If the edit of a merge fails, METADATA may have the new file.  The next merge writes another one.  Then two
 * files have the same changes.  A reader gets each of them once, because both copies have the same key.
 */
#include "engine/compact/compact_internal.h"

#include <errno.h>
#include <stdlib.h>

#include "engine/base/msg.h"
#include "engine/cell/change_format.h"
#include "engine/cell/merge.h"

enum {
	SPAN_PARTS = 16, /* a merged file spans at most this part of the time */
	WORTH_FILES = 4, /* so many files are merged, none larger than RATIO times those after it */
	RATIO = 2,
	CHECK_EVERY = 256,
};

struct changes_output {
	struct tablet *t;
	struct sst_writer *w; /* NULL: no change was written */
	struct sst *in_use;   /* as struct output of compact_run.c */
	struct tablet_file meta;
	struct props props;
	char *dir;
};

static int output_open(struct changes_output *o, const struct store_schema *schema)
{
	struct tablet_env *env = o->t->env;
	struct sst_options options = schema->groups[0].sst;
	struct tablet_file *m = &o->meta;
	char *path;
	int err = compact_make_dir(o->t, &o->dir);

	if (err)
		return err;
	*m = (struct tablet_file){.incarnation = env->incarnation,
		.number = env->next_file++,
		.table = o->t->table,
		.group = TABLET_GROUP_CHANGES,
		.seq_min = UINT64_MAX,
		.oldest_us = INT64_MAX,
		.newest_us = INT64_MIN};
	path = tablet_file_path(env->data_dir, m->table, m->incarnation, m->number);
	if (!path)
		return -ENOMEM;
	options.bloom_bits = 0;
	options.in_memory = false;
	if (codec_is_slow(options.codec))
		options.codec = SST_LZ4; /* writers may wait for it */
	err = sst_new(env->cache, path, false, &o->in_use);
	if (!err)
		err = sst_writer_new(path, &options, &o->w);
	free(path);
	return err;
}

static int output_add(struct changes_output *o, struct iter *it, const struct change *c, uint64_t seq)
{
	struct tablet_file *m = &o->meta;
	int err = sst_writer_add_from(o->w, it, false);

	if (!err && (!m->cells || bytes_cmp(c->row, buf_bytes(&m->first)) < 0))
		err = buf_set(&m->first, c->row.p, c->row.n);
	if (!err && (!m->cells || bytes_cmp(c->row, buf_bytes(&m->last)) > 0))
		err = buf_set(&m->last, c->row.p, c->row.n);
	if (err)
		return err;
	m->cells++;
	m->raw_bytes += it->key.n + it->size;
	m->seq_min = seq < m->seq_min ? seq : m->seq_min;
	m->seq_max = seq > m->seq_max ? seq : m->seq_max;
	m->oldest_us = c->stamp < m->oldest_us ? c->stamp : m->oldest_us;
	m->newest_us = c->stamp > m->newest_us ? c->stamp : m->newest_us;
	m->commit_us = m->newest_us;
	return 0;
}

static int output_finish(struct changes_output *o, struct vfile **out)
{
	const struct tablet *t = o->t;
	struct tablet_file *m = &o->meta;
	struct props p = {.table = m->table,
		.group = m->group,
		.seq_min = m->seq_min,
		.seq_max = m->seq_max,
		.oldest_us = m->oldest_us,
		.newest_us = m->newest_us,
		.cells = m->cells,
		.raw_bytes = m->raw_bytes,
		.first = m->first, /* borrowed, as `last` */
		.last = m->last};
	struct buf blob = {0};
	struct vfile *f = NULL;
	int err;

	if ((err = props_encode(&blob, &p)) || (err = buf_append(&m->begin, t->begin.p, t->begin.n)) ||
		(err = tablet_end_copy(&m->end, buf_bytes(&t->end))) || (err = vfile_new(t->env, t->table, m, false, &f)))
		goto out;
	err = sst_writer_finish(o->w, buf_bytes(&blob), &f->meta.bytes);
	if (!err) {
		sst_expect_bytes(f->sst, f->meta.bytes);
		err = compact_sync_dir(o->dir);
		if (err)
			sst_retire(f->sst);
	}
	if (err) {
		vfile_put(f);
		f = NULL;
	}
out:
	buf_fini(&blob);
	*out = f;
	return err;
}

static void output_fini(struct changes_output *o)
{
	sst_writer_free(o->w);
	sst_put(o->in_use);
	tablet_file_fini(&o->meta);
	free(o->dir);
}

/* Writes the tablet's changes above low_us.  Takes `merged`.  *out is NULL if there are none. */
static int changes_write(
	struct tablet *t, const struct store_schema *schema, int64_t low_us, bool waits, struct iter *merged, struct vfile **out)
{
	struct changes_output o = {.t = t};
	struct buf scratch = {0};
	struct change c;
	uint64_t seq, n = 0;
	int err = 0;

	*out = NULL;
	for (iter_seek(merged, tfs_bytes_of(NULL, 0)); merged->valid && !err; iter_next(merged)) {
		if (++n % CHECK_EVERY == 0 && (t->state == TABLET_CLOSING || (waits && (t->leaves || t->split_wanted))))
			err = -ECANCELED;
		buf_reset(&scratch);
		if (!err)
			err = change_decode(merged->key, &c, &seq, &scratch);
		if (err || c.stamp <= low_us || !tablet_contains_row(t, c.row))
			continue;
		if (!o.w)
			err = output_open(&o, schema);
		if (!err)
			err = output_add(&o, merged, &c, seq);
	}
	if (!err)
		err = merged->err;
	if (!err && o.w)
		err = output_finish(&o, out);
	iter_free(merged);
	output_fini(&o);
	buf_fini(&scratch);
	return err;
}

int compact_changes_flush(struct tablet *t, const struct tablet_freeze *f, struct file_set *out)
{
	const int64_t low_us = tablet_changes_low(t);
	struct iter *kids[VIEW_MEMS], *merged;
	struct vfile *file;
	unsigned n = 0;
	int err = 0;

	for (unsigned i = 0; i < f->mem_count && !err && low_us; i++)
		if (f->mems[i]->changes) {
			err = memtable_iter_new(f->mems[i]->changes, &kids[n]);
			n += !err;
		}
	if (!n && !err)
		return 0;
	if ((err = merge_iter_new(kids, n, err, &merged)) || (err = changes_write(t, f->schema, low_us, false, merged, &file)) ||
		!file)
		return err;
	err = file_set_add(out, file);
	if (err)
		sst_retire(file->sst);
	vfile_put(file);
	return err;
}

/* ---- merging and removing ---- */

/* Since low_us was chosen, changes may have been switched off, or off and on again, which raises the mark. */
static int prepare_removal(struct tablet *t, struct tablet_change *c, bool *needless)
{
	if (t->changes_low_us > c->edit.changes_low_us)
		c->edit.changes_low_us = t->changes_low_us;
	c->edit.set_changes = c->edit.set_changes && t->changes_low_us;
	return 0;
}

/* Commits the removal of `in`, of which the changes up to low_us are all. */
static int changes_install(struct tablet *t, const struct file_set *in, struct vfile *made, int64_t low_us, const char *event)
{
	struct file_set out = {.v = &made, .n = made != NULL};
	struct tablet_change c = {.prepare = prepare_removal,
		.edit = {.event = event, .set_changes = low_us != 0, .changes_low_us = low_us},
		.removed = in,
		.added = &out};

	return tablet_change(t, &c);
}

/* Removes the files whose changes are all expired, or are not kept any more; `all`: all files. */
static int changes_expire(struct tablet *t, const struct store_schema *schema, bool all, bool *did)
{
	const int64_t keep_us = schema ? schema->changes_us : 0;
	int64_t low, upto;
	struct file_set in = {0};
	int err = 0;

	mutex_lock(&t->lock);
	low = t->changes_low_us;
	upto = all || !low ? INT64_MAX : low;
	if (low && keep_us && clock_collect(t->env->clock) - keep_us > upto)
		upto = clock_collect(t->env->clock) - keep_us;
	for (unsigned i = t->view->file_count; i < view_all_files(t->view) && !err; i++)
		if (t->view->files[i]->meta.newest_us <= upto)
			err = file_set_add(&in, t->view->files[i]);
	mutex_unlock(&t->lock);
	for (unsigned i = 0; low && i < in.n; i++)
		low = in.v[i]->meta.newest_us > low ? in.v[i]->meta.newest_us : low;
	if (!err && in.n)
		err = changes_install(t, &in, NULL, low, all ? "changes purged" : "changes removed");
	*did = !err && in.n;
	tablet_drop_files(&in, *did);
	return err;
}

/* Chooses files, adjacent in age, of which merging makes one that does not span too much. */
static int changes_pick(struct tablet *t, int64_t span_us, struct file_set *in)
{
	const struct view *v;
	int err = 0;

	mutex_lock(&t->lock);
	v = t->view;
	for (unsigned i = v->file_count; i < view_all_files(v) && !in->n && !err; i++) {
		uint64_t bytes = v->files[i]->meta.bytes;
		unsigned k = i + 1;

		while (k < view_all_files(v) && v->files[k]->meta.bytes <= RATIO * bytes &&
			v->files[i]->meta.newest_us - v->files[k]->meta.oldest_us <= span_us)
			bytes += v->files[k++]->meta.bytes;
		if (k - i < WORTH_FILES && !(v->files[i]->clip && !vfile_empty(v->files[i])))
			continue;
		if (k - i < WORTH_FILES)
			k = i + 1;
		for (; i < k && !err; i++)
			err = file_set_add(in, v->files[i]);
	}
	mutex_unlock(&t->lock);
	if (err)
		file_set_put(in);
	return err;
}

static int changes_merge(struct tablet *t, const struct store_schema *schema, bool *did)
{
	struct file_set in = {0};
	struct iter **kids, *merged;
	struct vfile *made = NULL;
	uint64_t bytes = 0;
	unsigned n = 0;
	int err = changes_pick(t, schema->changes_us / SPAN_PARTS, &in);

	if (err || !in.n)
		return err;
	kids = calloc(in.n, sizeof(struct iter *));
	err = kids ? 0 : -ENOMEM;
	for (unsigned i = 0; i < in.n && !err; i++) {
		bytes += in.v[i]->meta.bytes;
		err = sst_scan_new(in.v[i]->sst, &kids[n]);
		n += !err;
	}
	if (kids)
		err = merge_iter_new(kids, n, err, &merged);
	free(kids);
	if (!err && !compact_space(t, DISK_MERGE, bytes)) {
		iter_free(merged);
		err = -ENOSPC;
	} else if (!err) {
		err = changes_write(t, schema, tablet_changes_low(t), true, merged, &made);
	}
	if (!err)
		err = changes_install(t, &in, made, 0, "changes merged");
	*did = !err;
	vfile_put(made); /* after an error METADATA may have it */
	tablet_drop_files(&in, *did);
	return err;
}

int compact_changes_purge(struct tablet *t)
{
	bool did;
	int err = tablet_job_begin(t, &t->merging);

	if (err)
		return err;
	err = changes_expire(t, NULL, true, &did);
	tablet_job_end(t, &t->merging);
	return err;
}

int compact_changes(struct tablet *t, bool *did)
{
	struct snap snap;
	int err = 0;

	snap_take(t, &snap);
	*did = false;
	if (snap.schema->changes_us ? !tablet_changes_low(t) : snap.view->change_count != 0)
		err = tablet_ensure_changes(t); /* maybe no write follows that does it */
	if (!err && snap.view->change_count)
		err = changes_expire(t, snap.schema, false, did);
	if (!err && !*did && snap.schema->changes_us && snap.view->change_count)
		err = changes_merge(t, snap.schema, did);
	snap_put(&snap);
	return err;
}
