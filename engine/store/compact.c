/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Merging and major compactions, and the background tasks.
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
 * before any other compaction.
 *
 * One compaction of a tablet runs at a time; flushes may run beside it, as
 * they only add files.  But a major compaction begins with a minor one and
 * takes as its input what is there when that ends, with no flush between:
 * then the rules as of that freeze may be applied whole, and no tombstone
 * can have anything left to mask.
 *
 * Background errors are told once, by the pool's task, and tried again with
 * growing pauses; a full disk is such an error, reads and writes go on.
 */
#include "engine/store/compact.h"

#include <errno.h>
#include <stdlib.h>

#include "engine/base/msg.h"
#include "engine/store/merge.h"

#define BACKOFF_LEAST_US (UINT64_C(100) * 1000)
#define BACKOFF_MOST_US (UINT64_C(10) * 1000000)
#define LOOK_AGAIN_US (UINT64_C(3600) * 1000000)

struct compact_job {
	struct file_set in, out;
	bool major;
	int64_t clock_mark;
};

void
compact_job_free(struct compact_job *j)
{
	if (!j)
		return;
	file_set_put(&j->in, false);
	file_set_put(&j->out, false);
	free(j);
}

static int
compact_begin(struct tablet *t)
{
	int err = 0;

	mutex_lock(&t->lock);
	while (t->compacting && t->state != TABLET_CLOSING)
		cond_wait(&t->changed, &t->lock);
	if (t->state == TABLET_CLOSING)
		err = -ESHUTDOWN;
	else if (t->state == TABLET_BROKEN)
		err = -ESTALE;
	else
		t->compacting = true;
	mutex_unlock(&t->lock);
	return err;
}

static void
compact_end(struct tablet *t)
{
	mutex_lock(&t->lock);
	t->compacting = false;
	cond_broadcast(&t->changed);
	mutex_unlock(&t->lock);
}

static bool
is_in(const struct file_set *s, const struct vfile *f)
{
	for (unsigned i = 0; i < s->n; i++)
		if (s->v[i] == f)
			return true;
	return false;
}

/* The view after the job, but for its memtables; files change under EDIT only. */
static struct view *
next_files(const struct view *v, const struct compact_job *j)
{
	struct view *n = view_new(v->file_count + j->out.n);

	for (unsigned i = 0; n && i < v->file_count; i++)
		if (!is_in(&j->in, v->files[i]))
			view_add_file(n, v->files[i]);
	for (unsigned i = 0; n && i < j->out.n; i++)
		view_add_file(n, j->out.v[i]);
	return n;
}

/* Steps 3 and 4. */
static int
install(struct tablet *t, struct compact_job *j)
{
	struct tablet_edit e = {.event = j->major ? "major compaction" : "merging compaction", .clock_mark = j->clock_mark};
	struct tablet_file *added = calloc(j->out.n + 1u, sizeof *added);
	struct tablet_file *removed = calloc(j->in.n + 1u, sizeof *removed);
	struct view *v = NULL, *old = NULL;
	int err = -ENOMEM;

	mutex_lock(&t->edit);
	mutex_lock(&t->lock);
	if (t->state == TABLET_BROKEN)
		err = -ESTALE;
	else
		v = next_files(t->view, j);
	mutex_unlock(&t->lock);
	if (!added || !removed || !v)
		goto unlock;
	for (unsigned i = 0; i < j->out.n; i++)
		added[i] = j->out.v[i]->meta; /* borrowed */
	for (unsigned i = 0; i < j->in.n; i++)
		removed[i] = j->in.v[i]->meta;
	e.added = added;
	e.added_count = j->out.n;
	e.removed = removed;
	e.removed_count = j->in.n;
	if (e.clock_mark < t->clock_mark)
		e.clock_mark = t->clock_mark;
	if (j->major)
		e.major_us = j->clock_mark;
	err = t->commit(t->commit_arg, t, &e);
	mutex_lock(&t->lock);
	if (err) {
		tablet_fail(t, err);
	} else {
		for (unsigned i = 0; i < t->view->mem_count; i++)
			v->mems[v->mem_count++] = vmem_get(t->view->mems[i]);
		old = view_swap(t, v);
		v = NULL;
		t->clock_mark = e.clock_mark;
		if (j->major)
			t->major_us = e.major_us;
	}
	mutex_unlock(&t->lock);
unlock:
	mutex_unlock(&t->edit);
	view_put(old);
	view_put(v);
	free(added);
	free(removed);
	return err;
}

static int
install_or_keep(struct tablet *t, struct compact_job *j)
{
	struct tablet_env *env = t->env;
	int err = install(t, j);

	if (err) {
		t->pending_compact = j;
		msg_error("table %u: a %s compaction could not be entered in METADATA: %s", t->table,
			  j->major ? "major" : "merging", strerror(-err));
		return err;
	}
	t->pending_compact = NULL;
	for (unsigned i = 0; i < j->in.n; i++)
		env->bytes_compacted_in += j->in.v[i]->meta.bytes;
	for (unsigned i = 0; i < j->out.n; i++)
		env->bytes_compacted_out += j->out.v[i]->meta.bytes;
	if (j->major)
		env->major++;
	else
		env->merging++;
	file_set_put(&j->in, true);
	compact_job_free(j);
	return 0;
}

static int
merged_inputs(const struct file_set *in, struct iter **out)
{
	struct iter **kids = calloc(in->n + 1u, sizeof(struct iter *));
	unsigned n = 0;
	int err = 0;

	if (!kids)
		return -ENOMEM;
	for (unsigned i = 0; i < in->n && !err; i++) {
		if (vfile_empty(in->v[i]))
			continue;
		err = vfile_iter(in->v[i], sst_scan_new, &kids[n]);
		n += !err;
	}
	if (err)
		while (n)
			iter_free(kids[--n]);
	else
		err = merge_iter_new(kids, n, out);
	free(kids);
	return err;
}

/* Steps 2 to 5 over j->in; takes j. */
static int
run(struct tablet *t, struct run_params *p, struct compact_job *j)
{
	struct iter *merged;
	int err = merged_inputs(&j->in, &merged);

	if (!err)
		err = compact_run(p, merged, &j->out);
	if (err) {
		compact_job_free(j);
		return err;
	}
	return install_or_keep(t, j);
}

/* A merging compaction of the run, taken. */
static int
merge_run(struct tablet *t, struct file_set *in)
{
	struct compact_job *j = calloc(1, sizeof *j);
	struct run_params p = {.t = t, .one_group = true, .group = in->v[0]->meta.group};
	struct snap snap;
	int err;

	if (!j) {
		file_set_put(in, false);
		return -ENOMEM;
	}
	j->in = *in;
	j->clock_mark = clock_now(t->env->clock);
	snap_take(t, &snap);
	p.schema = snap.schema;
	p.rules.schema = snap.schema;
	p.rules.age_asof = j->clock_mark - TABLET_SKEW_US;
	p.rules.counts = true;
	p.freeze_us = INT64_MAX;
	for (unsigned i = 0; i < in->n; i++) { /* one set of rules ever since the first was frozen: compact_filter.c */
		p.rules.counts &= in->v[i]->schema == snap.schema;
		if (in->v[i]->freeze_us < p.freeze_us)
			p.freeze_us = in->v[i]->freeze_us;
	}
	p.freeze_schema = p.rules.counts ? snap.schema : NULL;
	p.rules.count_asof = p.freeze_us - TABLET_SKEW_US;
	err = run(t, &p, j);
	snap_put(&snap);
	return err;
}

static int
pick_all(struct tablet *t, struct file_set *in)
{
	struct snap snap;
	int err = 0;

	snap_take(t, &snap);
	for (unsigned i = 0; i < snap.view->file_count && !err; i++)
		err = file_set_add(in, snap.view->files[i]);
	snap_put(&snap);
	if (err)
		file_set_put(in, false);
	return err;
}

static int
major(struct tablet *t)
{
	struct compact_job *j = calloc(1, sizeof *j);
	struct run_params p = {.t = t};
	struct freeze f = {0};
	int err;

	if (!j)
		return -ENOMEM;
	err = flush_begin(t);
	if (err)
		goto out;
	err = flush_all(t, &f);
	if (!err)
		err = pick_all(t, &j->in);
	flush_end(t, err);
	if (err || !j->in.n)
		goto out;
	j->major = true;
	j->clock_mark = f.us;
	p.schema = f.schema;
	p.rules.schema = f.schema;
	p.freeze_schema = f.counts ? f.schema : NULL;
	p.freeze_us = f.us;
	p.rules.major = f.counts; /* else a tombstone still to be replayed may be older than one seen here */
	p.rules.counts = f.counts;
	p.rules.count_asof = p.rules.age_asof = f.us - TABLET_SKEW_US;
	err = run(t, &p, j);
	j = NULL;
out:
	compact_job_free(j);
	store_schema_put(f.schema);
	return err;
}

int
tablet_compact(struct tablet *t)
{
	int err;

	tablet_enter(t);
	tablet_replay_done(t);
	err = compact_begin(t);
	if (!err) {
		if (t->pending_compact)
			err = install_or_keep(t, t->pending_compact);
		if (!err)
			err = major(t);
		compact_end(t);
	}
	tablet_leave(t);
	return err;
}

static int
step(struct tablet *t, bool *did)
{
	struct file_set in = {0};
	struct snap snap;
	bool wants_major;
	int err = 0;

	if (t->state == TABLET_LOADING)
		return 0;
	if (t->pending_compact) {
		err = install_or_keep(t, t->pending_compact);
		*did = !err;
		return err;
	}
	snap_take(t, &snap);
	err = compact_pick(snap.view, &in);
	wants_major = !err && !in.n && !t->env->no_background &&
		      compact_wants_major(snap.view, snap.schema, t->major_us, clock_now(t->env->clock));
	snap_put(&snap);
	if (err)
		return err;
	if (in.n)
		err = merge_run(t, &in);
	else if (wants_major)
		err = major(t);
	else
		return 0;
	*did = !err;
	return err;
}

int
tablet_compact_step(struct tablet *t, bool *did)
{
	bool done = false;
	int err;

	tablet_enter(t);
	err = compact_begin(t);
	if (!err) {
		err = step(t, &done);
		compact_end(t);
	}
	tablet_leave(t);
	if (!err)
		*did = done;
	return err;
}

/* ---- background ---- */

static bool
stopping(const struct tablet *t)
{
	return t->state == TABLET_CLOSING || t->state == TABLET_BROKEN;
}

static uint64_t
back_off(uint64_t *us)
{
	*us = *us ? *us * 2 : BACKOFF_LEAST_US;
	if (*us > BACKOFF_MOST_US)
		*us = BACKOFF_MOST_US;
	return *us;
}

void
compact_schedule(struct tablet *t)
{
	if (!t->env->no_background && t->state == TABLET_SERVING)
		task_queue(&t->compact_task);
}

void
tablet_flush_task(struct task *task)
{
	struct tablet *t = (struct tablet *)((char *)task - offsetof(struct tablet, flush_task));
	int err = flush_now(t);

	if (!err) {
		t->flush_backoff_us = 0;
		return;
	}
	if (stopping(t) || err == -ESHUTDOWN)
		return;
	if (!t->flush_backoff_us)
		msg_error("table %u: a minor compaction failed, to be tried again: %s", t->table, strerror(-err));
	t->flush_wanted = true;
	task_queue_after(&t->flush_task, back_off(&t->flush_backoff_us));
}

void
tablet_compact_task(struct task *task)
{
	struct tablet *t = (struct tablet *)((char *)task - offsetof(struct tablet, compact_task));
	bool did = false;
	int err = tablet_compact_step(t, &did);

	if (stopping(t) || err == -ESHUTDOWN)
		return;
	if (err) {
		if (!t->compact_backoff_us)
			msg_error("table %u: a compaction failed, to be tried again: %s", t->table, strerror(-err));
		task_queue_after(&t->compact_task, back_off(&t->compact_backoff_us));
		return;
	}
	t->compact_backoff_us = 0;
	if (did)
		task_queue(task);
	else
		task_queue_after(task, LOOK_AGAIN_US);
}
