/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Merging and major compactions.
 *
 * Steps of a flush and of a merge:
 *	1 pick files of the current view
 *	2 write the output without a lock, and sync it with its directory
 *	  (compact_run.c)
 *	3 one edit, under EDIT, that removes the inputs and adds the outputs
 *	4 publish the view
 *	5 mark the inputs: they are reported to the collector after their last
 *	  reader
 * A crash before 3 leaves unreferenced outputs, after it unreferenced inputs.
 * The collector removes either.
 *
 * If step 3 fails, the edit may have been written.  So neither outputs nor
 * inputs are reported, and the same edit is repeated until it succeeds, before
 * any other compaction of its kind.
 *
 * A tablet has at most one merging and one major compaction under way.
 * Flushes may run at the same time, because they only add files.  A major
 * compaction begins with a minor one.  Its input is the list of files at the
 * end of the minor compaction, and no flush or merge takes place between the
 * two.  Then the rules as of that freeze may be applied completely, and no
 * tombstone has anything left to mask. Meanwhile files that are added later may
 * be merged: a major compaction of a large tablet takes minutes, and without
 * merges writers would be slowed down.
 *
 * On a full disk no compaction begins that does not fit (env->space), because
 * until it failed it would use the space that removals and METADATA need.  A
 * major one that frees more than it writes may use a part of the reserve.
 *
 * An input that cannot be read ends its compaction.  The damaged file is found
 * and excluded from later merges, so that the other files are merged as before.
 * A damaged block loses only the cells in it.
 */
#include "engine/compact/compact_internal.h"

#include <stdlib.h>

#include "engine/cell/merge.h"

/*
 * After a start the rules under which a file was written are unknown, and so are
 * the rules of merges of such files.  If that is the only reason for a major
 * compaction, the files are read first, because mostly nothing in them would be
 * dropped.
 */
static bool compact_only_rules_unknown(const struct file_set *in, const struct store_schema *s)
{
	bool unsure = false;

	for (unsigned i = 0; i < in->n; i++) {
		struct vfile *f = in->v[i];

		if (f->meta.tombstones || f->clip || compact_misplaced(f, s))
			return false;
		for (unsigned k = 0; k < i; k++)
			if (in->v[k]->meta.group == f->meta.group)
				return false;
		unsure |= compact_rules_unknown(f, s);
	}
	return unsure;
}

/* Equivalent to a major compaction that would write the same files again; takes j. */
static int compact_note_unchanged(struct tablet *t, struct compact_job *j, const struct store_schema *s)
{
	struct tablet_change c = {.edit = {.event = "major compaction: nothing to drop", .major_us = j->major_us}};
	int err = tablet_change(t, &c);

	for (unsigned i = 0; i < j->in.n && !err; i++)
		atomic_store(&j->in.v[i]->checked_generation, s->generation + 1);
	compact_cancel_job(t, j);
	return err;
}

/*
 * A merge frees no space: it must not use the space that writers need, nor
 * fail on a full disk again and again.  So the oldest files of the run, mostly
 * the largest, are removed from it until it fits.
 */
static int compact_merge_fit(struct tablet *t, struct file_set *in)
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
		vfile_put(in->v[in->n]); /* the view has a reference, too */
	}
	compact_set_busy(t, in, true);
	mutex_unlock(&t->lock);
	return 0;
}

/* A merging compaction of the files of j, which it takes; they are busy. */
static int compact_merge_files(struct tablet *t, struct compact_job *j, bool paced)
{
	struct run_params p = {.t = t,
		.one_group = true,
		.group = j->in.v[0]->meta.group,
		.freeze_us = INT64_MAX,
		.paced = paced,
		.can_wait = true};
	struct snap snap;
	int err = compact_merge_fit(t, &j->in);

	if (err) {
		compact_cancel_job(t, j);
		return err;
	}
	snap_take(t, &snap);
	p.rules.schema = snap.schema;
	p.rules.age_asof = clock_collect(t->env->clock) - TABLET_SKEW_US;
	p.rules.counts = true;
	for (unsigned i = 0; i < j->in.n; i++) { /* the rules have not changed since the first file was frozen (compact_filter.c) */
		p.rules.counts &= j->in.v[i]->schema == snap.schema;
		if (j->in.v[i]->freeze_us < p.freeze_us)
			p.freeze_us = j->in.v[i]->freeze_us;
	}
	p.freeze_schema = p.rules.counts ? snap.schema : NULL;
	p.rules.count_asof = p.freeze_us - TABLET_SKEW_US;
	err = compact_run_job(t, &p, j, NULL);
	snap_put(&snap);
	return err;
}

int compact_merge(struct tablet *t, bool paced, bool *did)
{
	struct compact_job *j = NULL;
	int err = tablet_job_begin(t, &t->merging);

	*did = false;
	if (err)
		return err;
	if (t->state == TABLET_LOADING)
		goto out;
	if (t->pending_merge) {
		err = compact_repeat_edit(t, t->pending_merge);
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
		err = compact_merge_files(t, j, paced);
		j = NULL;
		*did = !err;
	} else if (!err) {
		err = compact_changes(t, did);
	}
out:
	compact_job_free(j);
	tablet_job_end(t, &t->merging);
	return err;
}

static int compact_pick_all(struct tablet *t, struct file_set *in)
{
	int err = 0;

	mutex_lock(&t->lock);
	for (unsigned i = 0; i < t->view->file_count && !err; i++)
		err = file_set_add(in, t->view->files[i]);
	if (!err)
		compact_set_busy(t, in, true);
	mutex_unlock(&t->lock);
	if (err)
		file_set_put(in);
	return err;
}

/* A minor compaction, and the list of files after it.  No merge is under way at that time. */
static int compact_major_inputs(struct tablet *t, struct tablet_freeze *f, struct file_set *in)
{
	int err = tablet_job_begin(t, &t->merging), picked;

	if (err)
		return err;
	err = compact_repeat_edit(t, t->pending_merge);
	if (!err)
		err = tablet_job_begin(t, &t->flushing);
	if (!err) {
		err = compact_flush_all(t, f);
		picked = err ? 0 : compact_pick_all(t, in);
		compact_flush_end(t, err);
		if (err)
			tablet_want_flush(t);
		else
			err = picked;
	}
	tablet_job_end(t, &t->merging);
	return err;
}

static int compact_major_once(struct tablet *t, bool background)
{
	struct compact_job *j = calloc(1, sizeof *j);
	struct run_params p = {.t = t, .gives_way = background, .paced = background, .for_user = !background};
	struct tablet_freeze f = {0};
	struct iter *it;
	bool nothing = false;
	uint64_t kept;
	int err;

	if (!j)
		return -ENOMEM;
	err = compact_major_inputs(t, &f, &j->in);
	if (err || !j->in.n)
		goto out;
	j->major = true;
	j->major_us = f.at_us;
	atomic_store(&t->passed, 0);
	p.rules.schema = f.schema;
	p.freeze_schema = f.counts ? f.schema : NULL;
	p.freeze_us = f.us;
	p.rules.major = f.counts; /* if counts is not set, an older cell may still be replayed */
	p.rules.counts = f.counts;
	p.rules.count_asof = p.rules.age_asof = f.us - TABLET_SKEW_US;
	p.in = &j->in;
	if (background && f.counts && compact_only_rules_unknown(&j->in, f.schema)) {
		err = compact_inputs(&j->in, NULL, &it);
		if (!err)
			err = compact_count(&p, it, true, &kept, &nothing);
		nothing &= !err;
		err = err == -ECANCELED ? err : 0; /* compact_run reports read errors */
	}
	if (!err && !nothing)
		err = compact_major_space(t, &p, &j->in);
	if (err)
		compact_cancel_job(t, j);
	else if (nothing)
		err = compact_note_unchanged(t, j, f.schema);
	else
		err = compact_run_job(t, &p, j, NULL);
	j = NULL;
out:
	compact_job_free(j);
	store_schema_put(f.schema);
	return err;
}

int compact_major(struct tablet *t, bool background)
{
	int err = tablet_job_begin(t, &t->majoring);
	bool purged;

	if (err)
		return err;
	do {
		purged = false;
		err = compact_repeat_edit(t, t->pending_major);
		if (!err && (!background || compact_wants_major(t)))
			err = compact_major_once(t, background);
		/* It does not fit.  Rewriting single files may free enough space. */
		if (is_no_space(err) && compact_purge(t, background, &purged))
			break;
	} while (is_no_space(err) && purged);
	tablet_job_end(t, &t->majoring);
	if (!err)
		tablet_want_merge(t);
	return err;
}

int tablet_compact(struct tablet *t)
{
	int err;

	if (t->frozen)
		return -EROFS;
	tablet_enter(t);
	tablet_replay_done(t);
	err = compact_major(t, false);
	if (err == -ECANCELED && !(t->env->will_close && *t->env->will_close))
		err = -TABLET_MOVED; /* the tablet leaves its server */
	tablet_leave(t);
	return err;
}

/*
 * Durable steps:
 *	1 a flush: the changes so far are in files
 *	2 one edit that removes all files of changes, and raises the low mark to the latest change in them
 *	3 a major compaction
 * A crash before 2 leaves all changes, and a later one none.  The next purge repeats all.
 */
int tablet_purge(struct tablet *t)
{
	int err = t->frozen ? -EROFS : tablet_flush(t);

	if (!err) {
		tablet_enter(t);
		err = compact_changes_purge(t);
		tablet_leave(t);
	}
	return err ? err : tablet_compact(t);
}
