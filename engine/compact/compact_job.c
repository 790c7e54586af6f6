/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A merging or major compaction from its input files to METADATA: opening the
 * input, writing (compact_run.c), the edit, and repeating an edit that failed.
 */
#include "engine/compact/compact_internal.h"

#include <errno.h>
#include <stdlib.h>

#include "engine/base/msg.h"
#include "engine/cell/merge.h"

#define REPEAT_US (UINT64_C(1000) * 1000) /* a failed edit is repeated after this time, unless a compaction repeats it before */

void compact_job_free(struct compact_job *j)
{
	if (!j)
		return;
	file_set_put(&j->in);
	file_set_put(&j->out);
	free(j);
}

void compact_set_busy(struct tablet *t, const struct file_set *in, bool busy)
{
	for (unsigned i = 0; i < in->n; i++)
		in->v[i]->busy = busy;
	t->debt = view_debt(t->view);
}

void compact_cancel_job(struct tablet *t, struct compact_job *j)
{
	mutex_lock(&t->lock);
	compact_set_busy(t, &j->in, false);
	mutex_unlock(&t->lock);
	compact_job_free(j);
}

/* The tablet's pointer to a job of this kind whose edit failed. */
static struct compact_job **compact_pending(struct tablet *t, const struct compact_job *j)
{
	return j->major ? &t->pending_major : &t->pending_merge;
}

static int compact_install(struct tablet *t, struct compact_job *j)
{
	struct tablet_env *env = t->env;
	struct tablet_change c = {.edit = {.event = j->major ? "major compaction" : "merging compaction", .major_us = j->major_us},
		.removed = &j->in,
		.added = &j->out};
	int err = tablet_change(t, &c);

	*compact_pending(t, j) = err ? j : NULL;
	if (j->major)
		t->major_unfinished = err != 0;
	if (err) { /* t->commit has logged the error */
		if (!env->no_background && t->state == TABLET_SERVING)
			task_queue_after(j->major ? &t->major_task : &t->merge_task, REPEAT_US);
		return err;
	}
	for (unsigned i = 0; i < j->in.n; i++)
		env->bytes_compacted_in += j->in.v[i]->meta.bytes;
	for (unsigned i = 0; i < j->out.n; i++)
		env->bytes_compacted_out += j->out.v[i]->meta.bytes;
	if (j->major)
		env->major++;
	else
		env->merging++;
	tablet_drop_files(&j->in, true);
	compact_job_free(j);
	if (env->changed)
		env->changed(env->arg, t);
	return 0;
}

int compact_inputs(const struct file_set *in, const struct iter **first, struct iter **out)
{
	struct iter **kids = calloc(in->n + 1u, sizeof(struct iter *));
	unsigned n = 0;
	int err = 0;

	if (!kids)
		return -ENOMEM;
	for (unsigned i = 0; i < in->n && !err; i++) {
		if (vfile_empty(in->v[i]))
			continue;
		err = vfile_iter(in->v[i], sst_scan_new, 0, NULL, &kids[n]);
		n += !err;
	}
	if (first && n)
		*first = kids[0];
	err = merge_iter_new(kids, n, err, out);
	free(kids);
	return err;
}

/* Called for a file that could not be read.  A file with wrong bytes is excluded until the tablet is opened again. */
#define EXCLUDED_US (UINT64_C(600) * 1000000)

static int vfile_read_whole(struct tablet *t, struct vfile *f)
{
	struct iter *it;
	int err = vfile_iter(f, sst_scan_new, 0, NULL, &it);

	if (!err) {
		for (iter_seek(it, tfs_bytes_of(NULL, 0)); it->valid && !err && t->state != TABLET_CLOSING; iter_next(it))
			err = cellkey_column_len(it->key) ? 0 : -EBADMSG;
		err = err ? err : it->err;
		iter_free(it);
	}
	return err;
}

static void compact_exclude_damaged(struct tablet *t, const struct file_set *in)
{
	for (unsigned i = 0; i < in->n; i++) {
		struct vfile *f = in->v[i];

		int err = vfile_empty(f) || vfile_excluded(f) ? 0 : vfile_read_whole(t, f);

		if (err == -EBADMSG) {
			f->excluded_until_us = UINT64_MAX;
			msg_error("table %u: %s is damaged: it is excluded from compactions", t->table, sst_path(f->sst));
		} else if (err == -EIO) {
			f->excluded_until_us = monotonic_us() + EXCLUDED_US;
			msg_error("table %u: %s could not be read twice: it is excluded from compactions for ten minutes", t->table,
				sst_path(f->sst));
		}
	}
}

int compact_run_job(struct tablet *t, struct run_params *p, struct compact_job *j, struct iter *merged)
{
	int err = merged ? 0 : compact_inputs(&j->in, NULL, &merged);

	p->in = &j->in;
	if (!err)
		err = compact_run(p, merged, &j->out);
	if (!err)
		return compact_install(t, j);
	if (err == -EBADMSG || err == -EIO || err == -ENOENT)
		compact_exclude_damaged(t, &j->in);
	compact_cancel_job(t, j);
	return err;
}

int compact_repeat_edit(struct tablet *t, struct compact_job *j)
{
	return j ? compact_install(t, j) : 0;
}

int compact_repeat_edits(struct tablet *t)
{
	int err = compact_repeat_edit(t, t->pending_merge);

	return err ? err : compact_repeat_edit(t, t->pending_major);
}
