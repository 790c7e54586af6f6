/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compactions on a full disk.
 *
 * A major compaction frees the space of removed cells, but first it needs
 * space for everything that stays in the tablet.  If there is less than that,
 * the tablet's files are rewritten one by one (compact_purge), each in its
 * place by age, without the cells that tombstones in newer files delete.  The
 * newer files are read for their tombstones only.  A file from which
 * everything was removed needs no space at all.  So a disk that one tablet has
 * filled can be freed, however little space is left.
 *
 * This drops what a merging compaction of the file with all newer ones would
 * drop, by the same rules (compact_filter.c), so every read returns the same.
 * A tombstone that several files contain stays in each of them.
 *
 * Each file has the durable steps of a merging compaction (compact.c).
 */
#include "engine/compact/compact_internal.h"

#include <stdlib.h>

#include "engine/base/msg.h"
#include "engine/cell/merge.h"

bool compact_space(struct tablet *t, enum disk_use use, uint64_t bytes)
{
	uint64_t free_bytes;

	if (t->env->space)
		return t->env->space(t->env->arg, use, bytes);
	return file_free_bytes(t->env->data_dir, &free_bytes) || bytes <= free_bytes;
}

/* Returns bytes * of / all. */
static double bytes_share(double bytes, uint64_t of, uint64_t all)
{
	return all ? bytes * (double)of / (double)all : 0;
}

/* Adds a margin, because a compaction that runs out of space has written in vain. */
static uint64_t with_margin(double bytes)
{
	return bytes > 0 ? (uint64_t)(bytes * 17 / 16) + (64u << 10) : 0;
}

/*
 * The output of a compaction that can wait is estimated from the number of
 * tombstones.  On a full disk that is not exact enough, because the number does
 * not show how much they delete.  Then there must be space for the whole tablet.
 */
int compact_major_space(struct tablet *t, struct run_params *p, const struct file_set *in)
{
	struct tablet_stats st;
	bool own = true;
	uint64_t bytes;
	enum disk_use use;

	tablet_get_stats(t, &st);
	p->can_wait = p->gives_way && !tablet_disk_full(t);
	if (p->can_wait) {
		uint64_t kept = st.tombstones < st.cells ? st.cells - st.tombstones : 0;

		use = DISK_MERGE;
		bytes = with_margin(bytes_share((double)st.disk_bytes, kept, st.cells));
	} else {
		for (unsigned i = 0; i < in->n; i++)
			own &= !sst_shared(in->v[i]->sst);
		use = own ? DISK_FREES : DISK_PUT;
		bytes = with_margin((double)st.disk_bytes);
	}
	return compact_space(t, use, bytes) ? 0 : -ENOSPC;
}

/* ---- one file ---- */

/* A merge of f, which is the child *only, with the files whose tombstones may mask its cells. */
static int purge_iter(const struct view *v, struct vfile *f, const struct iter **only, struct iter **out)
{
	struct file_set in = {0};
	int err = file_set_add(&in, f);

	for (unsigned i = 0; i < v->file_count && !err; i++) {
		struct vfile *o = v->files[i];

		if (o != f && o->meta.tombstones && o->meta.seq_max >= f->meta.seq_min && !vfile_excluded(o))
			err = file_set_add(&in, o);
	}
	if (!err)
		err = compact_inputs(&in, only, out);
	file_set_put(&in);
	return err;
}

static int purge_file(struct tablet *t, const struct snap *snap, struct vfile *f, bool background, bool *did)
{
	struct run_params p = {
		.t = t,
		.one_group = true,
		.group = f->meta.group,
		.freeze_us = f->freeze_us,
		.freeze_schema = f->schema,
		.gives_way = background,
		.paced = background,
		.rules = {.schema = snap->schema, .age_asof = clock_collect(t->env->clock) - TABLET_SKEW_US},
	};
	struct compact_job *j = calloc(1, sizeof *j);
	struct iter *it;
	uint64_t kept, bytes;
	bool all;
	int err = j ? file_set_add(&j->in, f) : -ENOMEM;

	if (!err)
		err = purge_iter(snap->view, f, &p.only, &it);
	if (!err) {
		p.in = &j->in;
		err = compact_count(&p, it, false, &kept, &all);
	}
	if (err)
		goto out;
	bytes = with_margin(bytes_share((double)f->meta.bytes, kept, f->meta.raw_bytes));
	if (all || bytes > f->meta.bytes / 8 * 7 || !compact_space(t, DISK_FREES, bytes) ||
		(err = purge_iter(snap->view, f, &p.only, &it)))
		goto out;
	mutex_lock(&t->lock);
	compact_set_busy(t, &j->in, true);
	mutex_unlock(&t->lock);
	err = compact_run_job(t, &p, j, it);
	j = NULL;
	*did |= !err;
out:
	compact_job_free(j);
	/* Other files may be rewritten, but none before an edit that failed was repeated. */
	return !t->pending_merge && (is_no_space(err) || is_damage(err)) ? 0 : err;
}

/* The files that may be rewritten, the oldest first: those contain the most removed cells. */
static int purge_list_files(struct tablet *t, struct file_set *out)
{
	struct snap snap;
	int err = 0;

	snap_take(t, &snap);
	for (unsigned i = snap.view->file_count; i-- > 0 && !err;) {
		struct vfile *f = snap.view->files[i];

		if (!vfile_empty(f) && !vfile_excluded(f) && !sst_shared(f->sst))
			err = file_set_add(out, f);
	}
	snap_put(&snap);
	return err;
}

int compact_purge(struct tablet *t, bool background, bool *did)
{
	struct file_set files = {0};
	int err;

	*did = false;
	if (background && !tablet_disk_full(t))
		return 0;
	err = tablet_job_begin(t, &t->merging);
	if (err)
		return err;
	err = compact_repeat_edits(t);
	if (!err)
		err = purge_list_files(t, &files);
	/* Until tablet_job_end only purge_file removes files from the list. */
	for (unsigned i = 0; i < files.n && !err; i++) {
		struct snap snap; /* one for each file: a file that it refers to is not removed */

		snap_take(t, &snap);
		err = purge_file(t, &snap, files.v[i], background, did);
		snap_put(&snap);
		vfile_put(files.v[i]);
		files.v[i] = NULL;
	}
	file_set_put(&files);
	tablet_job_end(t, &t->merging);
	if (*did)
		msg_info("table %u: removed cells were dropped from single files, because there is no space for a major compaction",
			t->table);
	return err;
}
