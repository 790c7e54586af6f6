/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Merging and major compactions.
 *
 * Steps of both: 1 pick files of the current view, 2 write the output
 * unlocked, synced with its directory (compact_run.c), 3 one edit, under
 * EDIT, that removes the inputs and adds the outputs, 4 publish the view, 5
 * doom the inputs: they are unlinked when their last reader lets go.
 * A crash before 3 leaves unreferenced outputs, after it unreferenced
 * inputs; opening a store removes either.
 *
 * When step 3 fails the edit may have taken place, so the outputs may not be
 * unlinked, nor the inputs: the same edit is repeated until it succeeds,
 * before any other compaction of its kind.
 *
 * A tablet has at most one merging and one major compaction under way.
 * Flushes may run beside both, as they only add files.  A major compaction
 * begins with a minor one and takes as its input what is there when that
 * ends, with no flush or merge between: then the rules as of that freeze may
 * be applied whole, and no tombstone can have anything left to mask.  From
 * then on merges go on beside it, among the files that came later: a major
 * compaction of a large tablet takes minutes, and without them writers would
 * be slowed down all that while.
 *
 * On a full disk none begins that does not fit (env->space): what it wrote
 * until it failed would be the space that removals and METADATA need.  A major
 * one that frees more than it writes may use a part of the reserve.
 *
 * An input that cannot be read ends its compaction.  It is found out and
 * left alone from then on, so that the others are merged as before; what a
 * damaged block costs is the cells in it.
 */
#include "engine/compact/compact_internal.h"

#include <errno.h>
#include <stdlib.h>

#include "engine/base/file.h"
#include "engine/base/msg.h"
#include "engine/cell/merge.h"

void compact_job_free(struct compact_job *j)
{
	if (!j)
		return;
	file_set_put(&j->in, false);
	file_set_put(&j->out, false);
	free(j);
}

void compact_set_busy(struct tablet *t, const struct file_set *in, bool busy)
{
	for (unsigned i = 0; i < in->n; i++)
		in->v[i]->busy = busy;
	t->debt = view_debt(t->view);
}

void compact_give_up(struct tablet *t, struct compact_job *j)
{
	mutex_lock(&t->lock);
	compact_set_busy(t, &j->in, false);
	mutex_unlock(&t->lock);
	compact_job_free(j);
}

/* Where a job of this kind waits whose edit failed. */
static struct compact_job **pending(struct tablet *t, const struct compact_job *j)
{
	return j->major ? &t->pending_major : &t->pending_merge;
}

static int install_or_keep(struct tablet *t, struct compact_job *j)
{
	struct tablet_env *env = t->env;
	struct tablet_change c = {.edit = {.event = j->major ? "major compaction" : "merging compaction", .major_us = j->major_us},
		.removed = &j->in,
		.added = &j->out};
	int err = tablet_change(t, &c);

	*pending(t, j) = err ? j : NULL;
	if (err) /* t->commit has said why */
		return err;
	for (unsigned i = 0; i < j->in.n; i++)
		env->bytes_compacted_in += j->in.v[i]->meta.bytes;
	for (unsigned i = 0; i < j->out.n; i++)
		env->bytes_compacted_out += j->out.v[i]->meta.bytes;
	if (j->major)
		env->major++;
	else
		env->merging++;
	tablet_drop_files(t, &j->in, true);
	compact_job_free(j);
	if (env->changed)
		env->changed(env->arg, t);
	return 0;
}

int compact_inputs(const struct file_set *in, struct iter **out)
{
	struct iter **kids = calloc(in->n + 1u, sizeof(struct iter *));
	unsigned n = 0;
	int err = 0;

	if (!kids)
		return -ENOMEM;
	for (unsigned i = 0; i < in->n && !err; i++) {
		if (vfile_empty(in->v[i]))
			continue;
		err = vfile_iter(in->v[i], sst_scan_new, NULL, &kids[n]);
		n += !err;
	}
	err = merge_iter_opened(kids, n, err, out);
	free(kids);
	return err;
}

/* For good only if the bytes are wrong: a disk or a network may recover, and a lack of descriptors or memory passes. */
#define LEFT_OUT_US (UINT64_C(600) * 1000000)

static int read_whole(struct tablet *t, struct vfile *f)
{
	struct iter *it;
	int err = vfile_iter(f, sst_scan_new, NULL, &it);

	if (!err) {
		for (iter_seek(it, slice_of(NULL, 0)); it->valid && !err && t->state != TABLET_CLOSING; iter_next(it))
			err = cellkey_column_len(it->key) ? 0 : -EBADMSG;
		err = err ? err : it->err;
		iter_free(it);
	}
	return err;
}

static void find_damaged(struct tablet *t, const struct file_set *in)
{
	for (unsigned i = 0; i < in->n; i++) {
		struct vfile *f = in->v[i];

		int err = vfile_empty(f) || vfile_left_out(f) ? 0 : read_whole(t, f);

		if (err == -EBADMSG) {
			f->left_out_us = UINT64_MAX;
			msg_error("table %u: %s is damaged: it is left out of compactions", t->table, sst_path(f->sst));
		} else if (err == -EIO) {
			f->left_out_us = monotonic_us() + LEFT_OUT_US;
			msg_error("table %u: %s could not be read twice: it is left out of compactions for ten minutes", t->table,
				sst_path(f->sst));
		}
	}
}

int compact_carry_out(struct tablet *t, struct run_params *p, struct compact_job *j, struct iter *merged)
{
	int err = merged ? 0 : compact_inputs(&j->in, &merged);

	p->in = &j->in;
	if (!err)
		err = compact_run(p, merged, &j->out);
	if (!err)
		return install_or_keep(t, j);
	if (err == -EBADMSG || err == -EIO || err == -ENOENT)
		find_damaged(t, &j->in);
	compact_give_up(t, j);
	return err;
}

/*
 * Which rules a file was written under is not known after a start, nor of
 * merges of such files.  If that is the only reason for a major compaction,
 * the files are looked through first: mostly nothing in them is to go.
 */
static bool only_unsure(const struct file_set *in, const struct store_schema *s)
{
	bool unsure = false;

	for (unsigned i = 0; i < in->n; i++) {
		struct vfile *f = in->v[i];

		if (f->meta.tombstones || f->clip || (!vfile_empty(f) && vfile_misplaced(f, s)))
			return false;
		for (unsigned k = 0; k < i; k++)
			if (in->v[k]->meta.group == f->meta.group)
				return false;
		unsure |= compact_unsure(f, s);
	}
	return unsure;
}

/* As good as a major compaction that has written the same again; takes j. */
static int looked_through(struct tablet *t, struct compact_job *j, const struct store_schema *s)
{
	struct tablet_change c = {.edit = {.event = "major compaction: nothing is to go", .major_us = j->major_us}};
	int err = tablet_change(t, &c);

	for (unsigned i = 0; i < j->in.n && !err; i++)
		atomic_store(&j->in.v[i]->looked, s->generation + 1);
	compact_give_up(t, j);
	return err;
}

static int settle(struct tablet *t, struct compact_job *j)
{
	return j ? install_or_keep(t, j) : 0;
}

int compact_settle(struct tablet *t)
{
	int err = settle(t, t->pending_merge);

	return err ? err : settle(t, t->pending_major);
}

/*
 * Merging only tidies up: it must not take the room that writers find, nor
 * fill the disk again and again to find that it does not fit.  So the oldest
 * of the run, mostly the largest, are left out until it does.
 */
static int merge_what_fits(struct tablet *t, struct file_set *in)
{
	unsigned n = in->n;
	uint64_t bytes = 0;

	for (unsigned i = 0; i < n; i++)
		bytes += in->v[i]->meta.bytes + in->v[i]->meta.bytes / 4;
	while (n >= 2 && !compact_space(t, DISK_MERGE, bytes)) {
		n--;
		bytes -= in->v[n]->meta.bytes + in->v[n]->meta.bytes / 4;
	}
	if (n < 2)
		return -ENOSPC;
	mutex_lock(&t->lock);
	while (in->n > n) {
		in->v[--in->n]->busy = false;
		vfile_put(in->v[in->n]); /* the view has it too */
	}
	compact_set_busy(t, in, true);
	mutex_unlock(&t->lock);
	return 0;
}

/* A merging compaction of the files of j, which it takes; they are busy. */
static int merge_run(struct tablet *t, struct compact_job *j, bool paced)
{
	struct run_params p = {.t = t,
		.one_group = true,
		.group = j->in.v[0]->meta.group,
		.freeze_us = INT64_MAX,
		.paced = paced,
		.can_wait = true};
	struct snap snap;
	int err = merge_what_fits(t, &j->in);

	if (err) {
		compact_give_up(t, j);
		return err;
	}
	snap_take(t, &snap);
	p.schema = snap.schema;
	p.rules.schema = snap.schema;
	p.rules.age_asof = clock_collect(t->env->clock) - TABLET_SKEW_US;
	p.rules.counts = true;
	for (unsigned i = 0; i < j->in.n; i++) { /* one set of rules ever since the first was frozen: compact_filter.c */
		p.rules.counts &= j->in.v[i]->schema == snap.schema;
		if (j->in.v[i]->freeze_us < p.freeze_us)
			p.freeze_us = j->in.v[i]->freeze_us;
	}
	p.freeze_schema = p.rules.counts ? snap.schema : NULL;
	p.rules.count_asof = p.freeze_us - TABLET_SKEW_US;
	err = compact_carry_out(t, &p, j, NULL);
	snap_put(&snap);
	return err;
}

int compact_merge(struct tablet *t, bool paced, bool *did)
{
	struct compact_job *j = NULL;
	int err = job_begin(t, &t->merging);

	*did = false;
	if (err)
		return err;
	if (t->state == TABLET_LOADING)
		goto out;
	if (t->pending_merge) {
		err = settle(t, t->pending_merge);
		*did = !err;
		goto out;
	}
	j = calloc(1, sizeof *j);
	if (!j) {
		err = -ENOMEM;
		goto out;
	}
	mutex_lock(&t->lock);
	err = compact_pick(t->view, &j->in);
	if (!err)
		compact_set_busy(t, &j->in, true);
	mutex_unlock(&t->lock);
	if (!err && j->in.n) {
		err = merge_run(t, j, paced);
		j = NULL;
		*did = !err;
	}
out:
	compact_job_free(j);
	job_end(t, &t->merging);
	return err;
}

static int pick_all(struct tablet *t, struct file_set *in)
{
	int err = 0;

	mutex_lock(&t->lock);
	for (unsigned i = 0; i < t->view->file_count && !err; i++)
		err = file_set_add(in, t->view->files[i]);
	if (!err)
		compact_set_busy(t, in, true);
	mutex_unlock(&t->lock);
	if (err)
		file_set_put(in, false);
	return err;
}

/* A minor compaction, and what there is then; no merge is under way meanwhile. */
static int major_inputs(struct tablet *t, struct freeze *f, struct file_set *in)
{
	int err = job_begin(t, &t->merging), picked;

	if (err)
		return err;
	err = settle(t, t->pending_merge);
	if (!err)
		err = job_begin(t, &t->flushing);
	if (!err) {
		err = flush_all(t, f);
		picked = err ? 0 : pick_all(t, in);
		flush_end(t, err);
		if (err)
			tablet_want_flush(t);
		else
			err = picked;
	}
	job_end(t, &t->merging);
	return err;
}

static int major(struct tablet *t, bool background)
{
	struct compact_job *j = calloc(1, sizeof *j);
	struct run_params p = {.t = t, .gives_way = background, .paced = background};
	struct freeze f = {0};
	bool nothing = false;
	uint64_t kept;
	int err;

	if (!j)
		return -ENOMEM;
	err = major_inputs(t, &f, &j->in);
	if (err || !j->in.n)
		goto out;
	j->major = true;
	j->major_us = f.at_us;
	p.schema = f.schema;
	p.rules.schema = f.schema;
	p.freeze_schema = f.counts ? f.schema : NULL;
	p.freeze_us = f.us;
	p.rules.major = f.counts; /* else a tombstone still to be replayed may be older than one seen here */
	p.rules.counts = f.counts;
	p.rules.count_asof = p.rules.age_asof = f.us - TABLET_SKEW_US;
	if (background && f.counts && only_unsure(&j->in, f.schema))
		err = compact_count(t, &p, &j->in, true, &kept, &nothing);
	if (err != -ECANCELED && (err || !nothing)) { /* compact_run reports read errors */
		err = compact_major_space(t, &p, &j->in);
		if (err)
			compact_give_up(t, j);
		else
			err = compact_carry_out(t, &p, j, NULL);
	} else if (err) {
		compact_give_up(t, j);
	} else {
		err = looked_through(t, j, f.schema);
	}
	j = NULL;
out:
	compact_job_free(j);
	store_schema_put(f.schema);
	return err;
}

int compact_major(struct tablet *t, bool background)
{
	int err = job_begin(t, &t->majoring);
	bool purged;

	if (err)
		return err;
	do {
		purged = false;
		err = settle(t, t->pending_major);
		if (!err)
			err = major(t, background);
		/* It does not fit: file by file it may, and then there is more space. */
		if (no_space(err) && compact_purge(t, background, &purged))
			break;
	} while (no_space(err) && purged);
	job_end(t, &t->majoring);
	if (!err)
		tablet_want_merge(t);
	return err;
}

int tablet_compact(struct tablet *t)
{
	int err;

	tablet_enter(t);
	tablet_replay_done(t);
	err = compact_major(t, false);
	tablet_leave(t);
	return err;
}

int tablet_compact_step(struct tablet *t, bool *did)
{
	bool done;
	int err;

	tablet_enter(t);
	err = compact_merge(t, false, &done);
	tablet_leave(t);
	if (!err)
		*did = done;
	return err;
}

void tablet_compact_soon(struct tablet *t)
{
	tablet_want_merge(t);
}

static int flush_memtables(struct tablet *t)
{
	return flush_all(t, NULL);
}

static void drop_jobs(struct tablet *t)
{
	flush_job_free(t->pending);
	compact_job_free(t->pending_merge);
	compact_job_free(t->pending_major);
}

const struct tablet_compactor compact_functions = {
	.flush_task = tablet_flush_task,
	.merge_task = tablet_merge_task,
	.major_task = tablet_major_task,
	.flush = flush_memtables,
	.repeat_edits = compact_settle,
	.drop_jobs = drop_jobs,
};
