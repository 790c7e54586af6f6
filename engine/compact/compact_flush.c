/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Minor compaction: the memtables into SSTables.
 *
 * Durable steps (DESIGN 3.3):
 *	1 under the tablet's lock freeze the active memtable: a fresh one takes
 *	  its place, and the sequence, LSN, time and schema of that instant are
 *	  kept; then wait for the writers below that sequence
 *	2 write one SSTable per locality group that has data, sync them and
 *	  their directory
 *	3 one edit, under EDIT, through the commit callback: adds the files,
 *	  moves the redo set past what they hold, raises the sequence mark
 *	4 publish the view with the files in place of the memtables
 *	5 tell the server that log segments may go
 * A crash up to 3 leaves unreferenced files and the whole log; from 3 on the
 * files count and replay starts at the new redo point.  Replay of what the
 * files hold as well does no harm: entries have the same keys.
 *
 * When step 3 fails it may still have taken place.  So its files are kept,
 * and the very same edit is repeated before any other flush; edits are
 * idempotent.  When step 2 fails the files are removed and the memtables
 * stay; the next flush takes all that are frozen together.  Once there are
 * VIEW_MEMS of them none is frozen any more: such a flush takes what was
 * frozen before, and since the active memtable may hold deletes of that,
 * judged by other rules or earlier than now, it applies none that count.
 *
 * An edit that leaves nothing unflushed takes this incarnation out of the
 * redo set, so that an idle tablet holds no log; the next writer waits for
 * EDIT and enters it again, also where it is in doubt whether that edit took
 * place.
 *
 * Nor is step 2 begun where there is no room for it: what it would write to
 * find that out is the room of those who remove.
 *
 * A memtable without an entry may hold memory all the same, prepared for
 * writes that the log then refused: it is replaced without any of this.
 */
#include "engine/compact/compact.h"

#include <errno.h>
#include <stdlib.h>

#include "engine/cell/merge.h"

static const struct file_set none;

struct flush_job {
	struct vmem *mems[VIEW_MEMS];
	unsigned mem_count;
	struct freeze freeze;
	uint64_t seq, lsn;
	struct redo_state *dead; /* redo points of earlier incarnations that stay */
	unsigned dead_count;
	bool froze; /* the active memtable is among them, or was empty */
	struct file_set outs;
};

void flush_job_free(struct flush_job *j)
{
	if (!j)
		return;
	for (unsigned i = 0; i < j->mem_count; i++)
		vmem_put(j->mems[i]);
	file_set_put(&j->outs, false);
	store_schema_put(j->freeze.schema);
	free(j->dead);
	free(j);
}

/* Step 1. The caller holds t->lock. */
static int freeze_locked(struct tablet *t, struct flush_job *j, struct view **old)
{
	struct view *v = t->view;
	bool dirty = memtable_count(v->mems[0]->m) > 0 || t->writers, wasted = !dirty && vmem_wasted(v->mems[0]);
	struct vmem *fresh;
	int err;

	j->froze = !dirty || v->mem_count < VIEW_MEMS;
	if ((dirty && j->froze) || wasted) {
		struct view *n = view_change(v, &none, &none);

		if (!n)
			return -ENOMEM;
		if ((err = vmem_new(t->env->memory_used, &fresh))) {
			view_put(n);
			return err;
		}
		n->mems[n->mem_count++] = fresh;
		view_take_mems(n, v, v->mems, wasted);
		if (!wasted)
			vmem_freeze(v->mems[0], &t->env->flushing_bytes);
		*old = view_swap(t, n);
		v = n;
	}
	for (unsigned i = 1; i < v->mem_count; i++)
		j->mems[j->mem_count++] = vmem_get(v->mems[i]);
	j->seq = t->next_seq - 1;
	j->lsn = log_next_lsn(t->env->log);
	j->freeze.us = clock_collect(t->env->clock);
	j->freeze.at_us = clock_now(t->env->clock);
	j->freeze.schema = store_schema_get(t->schema);
	j->freeze.counts = t->state != TABLET_LOADING && j->froze;
	if (j->freeze.us > t->freeze_us)
		t->freeze_us = j->freeze.us;
	j->dead = calloc(t->redo_count + 1u, sizeof *j->dead);
	if (!j->dead)
		return -ENOMEM;
	for (unsigned i = 0; i < t->redo_count; i++) {
		struct redo_state *r = &t->redo[i];

		if (r->p.incarnation == t->env->incarnation || (t->state != TABLET_LOADING && j->froze))
			continue;
		j->dead[j->dead_count] = *r;
		if (j->froze)
			j->dead[j->dead_count].p.lsn = r->next_lsn;
		j->dead_count++;
	}
	if (!j->froze) /* what stays in the active memtable is as old as the oldest redo point */
		for (unsigned i = 0; i < t->redo_count; i++)
			if (t->redo[i].p.incarnation == t->env->incarnation)
				j->lsn = t->redo[i].p.lsn;
	writers_wait(t, j->seq);
	return 0;
}

static int write_files(struct tablet *t, struct flush_job *j)
{
	struct run_params p = {
		.t = t,
		.schema = j->freeze.schema,
		.freeze_us = j->freeze.us,
		.freeze_schema = j->freeze.counts ? j->freeze.schema : NULL,
		.rules = {.schema = j->freeze.schema,
			.counts = j->freeze.counts,
			.count_asof = j->freeze.us - TABLET_SKEW_US,
			.age_asof = j->freeze.us - TABLET_SKEW_US},
	};
	struct iter *kids[VIEW_MEMS], *merged;
	struct snap snap;
	uint64_t bytes = 0;
	unsigned n = 0;
	int err = 0;

	for (unsigned i = 0; i < j->mem_count; i++)
		bytes += memtable_bytes(j->mems[i]->m);
	if (!compact_room_begin(t, ROOM_FLUSH, bytes, false))
		return -ENOSPC;
	for (; n < j->mem_count && !err; n += !err)
		err = tablet_mem_iter(t, j->mems[n], &kids[n]);
	if (err) {
		while (n)
			iter_free(kids[--n]);
		return err;
	}
	if ((err = merge_iter_new(kids, n, &merged)))
		return err;
	snap_take(t, &snap);
	p.present = snap.view;
	err = compact_run(&p, merged, &j->outs);
	snap_put(&snap);
	return err;
}

/* The redo set that the edit will set. The caller holds t->lock. */
static int next_redo(
	struct tablet *t, const struct flush_job *j, struct redo_state **set, struct redo_point **points, unsigned *count)
{
	struct redo_state *s = calloc(j->dead_count + 1u, sizeof *s);
	struct redo_point *p = calloc(j->dead_count + 1u, sizeof *p);
	bool named = false, clean;
	unsigned n = 0;

	if (!s || !p) {
		free(s);
		free(p);
		return -ENOMEM;
	}
	for (unsigned i = 0; i < j->dead_count; i++) {
		s[n] = j->dead[i];
		for (unsigned k = 0; k < t->redo_count; k++) /* replay may have gone on */
			if (t->redo[k].p.incarnation == s[n].p.incarnation)
				s[n].next_lsn = t->redo[k].next_lsn;
		p[n] = s[n].p;
		n++;
	}
	for (unsigned k = 0; k < t->redo_count; k++)
		named |= t->redo[k].p.incarnation == t->env->incarnation;
	clean = t->view->mem_count == j->mem_count + 1 && !memtable_count(t->view->mems[0]->m) && !t->writers;
	if (clean)
		t->redo_own = false; /* writers come to EDIT first, and whatever becomes of this edit make theirs */
	if (named && !clean) {
		s[n].p = p[n] = (struct redo_point){t->env->incarnation, j->lsn};
		n++;
	}
	*set = s;
	*points = p;
	*count = n;
	return 0;
}

/* Steps 3 and 4. */
static int install(struct tablet *t, struct flush_job *j)
{
	struct tablet_edit e = {.set_redo = true, .event = "minor compaction", .seq_mark = j->seq};
	struct tablet_file *added = calloc(j->outs.n + 1u, sizeof *added);
	struct redo_point *points = NULL;
	struct redo_state *set = NULL;
	struct view *v = NULL, *old = NULL;
	unsigned redo_count = 0;
	int err = -ENOMEM;

	if (!added)
		return err;
	mutex_lock(&t->edit);
	mutex_lock(&t->lock);
	if (t->state == TABLET_BROKEN) {
		err = -ESTALE;
		goto unlock;
	}
	v = view_change(t->view, &none, &j->outs); /* files change under EDIT only */
	if (v)
		err = next_redo(t, j, &set, &points, &redo_count);
	if (err)
		goto unlock;
	mutex_unlock(&t->lock);
	for (unsigned i = 0; i < j->outs.n; i++)
		added[i] = j->outs.v[i]->meta; /* borrowed */
	e.added = added;
	e.added_count = j->outs.n;
	e.redo = points;
	e.redo_count = redo_count;
	if (t->major_unset) /* from here on the time to the first one counts, over any number of openings */
		e.major_us = t->major_us;
	if (e.seq_mark < t->seq_mark)
		e.seq_mark = t->seq_mark;
	err = t->commit(t->commit_arg, t, &e);
	mutex_lock(&t->lock);
	if (err) {
		tablet_fail(t, err);
		goto unlock;
	}
	view_take_mems(v, t->view, j->mems, j->mem_count);
	old = view_swap(t, v);
	v = NULL;
	for (unsigned i = 0; i < j->mem_count; i++)
		vmem_discount(j->mems[i]);
	free(t->redo);
	t->redo = set;
	set = NULL;
	t->redo_count = redo_count;
	t->redo_maybe = 0; /* METADATA has what we have */
	t->seq_mark = e.seq_mark;
	t->major_unset = false;
unlock:
	mutex_unlock(&t->lock);
	mutex_unlock(&t->edit);
	view_put(old);
	view_put(v);
	free(added);
	free(points);
	free(set);
	if (!err) {
		t->env->minor++;
		for (unsigned i = 0; i < j->outs.n; i++)
			t->env->bytes_flushed += j->outs.v[i]->meta.bytes;
		if (t->env->redo_moved)
			t->env->redo_moved(t->env->arg);
		if (t->env->changed)
			t->env->changed(t->env->arg, t);
	}
	return err;
}

static int install_or_keep(struct tablet *t, struct flush_job *j)
{
	int err = install(t, j);

	if (err) { /* t->commit has said why */
		t->pending = j;
	} else {
		t->pending = NULL;
		flush_job_free(j);
	}
	return err;
}

/* The redo set says more than need be, though there is nothing to flush. */
static bool redo_is_stale(struct tablet *t, const struct flush_job *j)
{
	bool stale;

	mutex_lock(&t->lock);
	stale = t->redo_count > j->dead_count + (memtable_count(t->view->mems[0]->m) || t->writers ? 1u : 0u);
	stale |= t->redo_maybe != 0; /* a first write's edit failed: it would hold the log until somebody writes again */
	for (unsigned i = 0; i < j->dead_count && i < t->redo_count; i++)
		stale |= t->redo[i].p.lsn != j->dead[i].p.lsn;
	mutex_unlock(&t->lock);
	return stale;
}

static int flush_once(struct tablet *t, bool *froze, struct freeze *out)
{
	struct flush_job *j = calloc(1, sizeof *j);
	struct view *old = NULL;
	int err;

	if (!j)
		return -ENOMEM;
	mutex_lock(&t->lock);
	err = freeze_locked(t, j, &old);
	mutex_unlock(&t->lock);
	view_put(old);
	if (!err && j->mem_count)
		err = write_files(t, j);
	if (err) {
		flush_job_free(j);
		return err;
	}
	*froze = j->froze;
	store_schema_put(out->schema);
	*out = j->freeze;
	store_schema_get(out->schema);
	if (!j->mem_count && !redo_is_stale(t, j)) {
		flush_job_free(j);
		return 0;
	}
	return install_or_keep(t, j);
}

int flush_all(struct tablet *t, struct freeze *out)
{
	struct freeze f = {0};
	bool froze = false;
	int err = 0;

	t->flush_wanted = false;
	if (t->pending)
		err = install_or_keep(t, t->pending);
	while (!err && !froze)
		err = flush_once(t, &froze, &f);
	if (err || !out)
		store_schema_put(f.schema);
	else
		*out = f;
	return err;
}

void flush_end(struct tablet *t, int err)
{
	if (err != -ECANCELED)
		t->env->flush_error = err;
	job_end(t, &t->flushing);
}

int flush_now(struct tablet *t)
{
	int err;

	tablet_enter(t);
	err = job_begin(t, &t->flushing);
	if (!err) {
		err = flush_all(t, NULL);
		flush_end(t, err);
		if (!err)
			compact_schedule(t);
	}
	tablet_leave(t);
	return err;
}

int tablet_flush(struct tablet *t)
{
	int err;

	tablet_enter(t);
	tablet_replay_done(t);
	err = flush_now(t);
	if (err)
		tablet_want_flush(t); /* what is frozen now is not to wait until somebody asks again */
	tablet_leave(t);
	return err;
}
