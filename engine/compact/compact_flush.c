/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Minor compaction: writes the memtables to SSTables.
 *
 * Durable steps:
 *	1 freeze the active memtable (tablet_freeze.c): a fresh one replaces it,
 *	  the sequence, LSN, time and schema of that instant are noted; then
 *	  wait for the writers below that sequence
 *	2 write one SSTable per locality group that has data, sync them and
 *	  their directory
 *	3 one edit, under EDIT, through the commit callback: adds the files,
 *	  advances the redo set past their records, raises the sequence mark
 *	4 publish the view with the files in place of the memtables
 *	5 call env->redo_moved: log segments may be removed
 * A crash up to 3 leaves unreferenced files and the whole log; from 3 on the
 * files are valid and replay starts at the new redo point.  Replay of records
 * that are in the files, too, does no harm: entries have the same keys.
 *
 * If step 3 fails, the edit may have been written.  So its files stay, and the
 * same edit is repeated before any other flush; edits are idempotent.  If step
 * 2 fails, the files are removed and the memtables stay; the next flush writes
 * all frozen memtables together.
 *
 * Step 2 does not begin without space for it, because until it failed it would
 * use the space that removals need.
 */
#include "engine/compact/compact_internal.h"

#include <errno.h>
#include <stdlib.h>

#include "engine/cell/merge.h"

struct flush_job {
	struct tablet_freeze freeze;
	struct file_set outs;
};

void compact_flush_free(struct flush_job *j)
{
	if (!j)
		return;
	tablet_freeze_fini(&j->freeze);
	file_set_put(&j->outs);
	free(j);
}

static int compact_flush_write(struct tablet *t, struct flush_job *j)
{
	struct run_params p = {
		.t = t,
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

	for (unsigned i = 0; i < j->freeze.mem_count; i++)
		bytes += memtable_bytes(j->freeze.mems[i]->m) +
			(j->freeze.mems[i]->changes ? memtable_bytes(j->freeze.mems[i]->changes) : 0);
	if (!compact_space(t, DISK_FREES, bytes))
		return -ENOSPC;
	for (; n < j->freeze.mem_count && !err; n += !err)
		err = tablet_mem_iter(t, j->freeze.mems[n], &kids[n]);
	if ((err = merge_iter_new(kids, n, err, &merged)))
		return err;
	snap_take(t, &snap);
	p.present = snap.view;
	err = compact_run(&p, merged, &j->outs);
	snap_put(&snap);
	if (!err && (err = compact_changes_flush(t, &j->freeze, &j->outs))) {
		tablet_drop_files(&j->outs, true);
		j->outs = (struct file_set){0};
	}
	return err;
}

static int compact_flush_install(struct tablet *t, struct flush_job *j)
{
	struct tablet_env *env = t->env;
	int err = tablet_install_flush(t, &j->freeze, &j->outs);

	t->pending = err ? j : NULL;
	if (err) /* t->commit has logged the error */
		return err;
	env->minor++;
	for (unsigned i = 0; i < j->outs.n; i++)
		env->bytes_flushed += j->outs.v[i]->meta.bytes;
	compact_flush_free(j);
	if (env->redo_moved)
		env->redo_moved(env->arg);
	if (env->changed)
		env->changed(env->arg, t);
	return 0;
}

static int compact_flush_once(struct tablet *t, bool *froze, struct tablet_freeze *out)
{
	struct flush_job *j = calloc(1, sizeof *j);
	int err;

	if (!j)
		return -ENOMEM;
	err = tablet_freeze(t, &j->freeze);
	if (!err && j->freeze.mem_count)
		err = compact_flush_write(t, j);
	if (err) {
		compact_flush_free(j);
		return err;
	}
	*froze = j->freeze.froze;
	store_schema_put(out->schema);
	*out = (struct tablet_freeze){.schema = store_schema_get(j->freeze.schema),
		.us = j->freeze.us,
		.at_us = j->freeze.at_us,
		.counts = j->freeze.counts};
	if (!j->freeze.mem_count && !tablet_redo_is_stale(t, &j->freeze)) {
		compact_flush_free(j);
		return 0;
	}
	return compact_flush_install(t, j);
}

int compact_flush_all(struct tablet *t, struct tablet_freeze *out)
{
	struct tablet_freeze f = {0};
	bool froze = false;
	int err = 0;

	t->flush_wanted = false;
	if (t->pending)
		err = compact_flush_install(t, t->pending);
	while (!err && !froze)
		err = compact_flush_once(t, &froze, &f);
	if (err || !out)
		store_schema_put(f.schema);
	else
		*out = f;
	return err;
}

void compact_flush_end(struct tablet *t, int err)
{
	if (err != -ECANCELED)
		t->env->flush_error = err;
	tablet_job_end(t, &t->flushing);
}

int compact_flush_now(struct tablet *t)
{
	int err = tablet_job_begin(t, &t->flushing);

	if (err)
		return err;
	err = compact_flush_all(t, NULL);
	compact_flush_end(t, err);
	if (!err)
		tablet_want_merge(t);
	return err;
}

int tablet_flush(struct tablet *t)
{
	int err;

	if (t->frozen) /* it has no memtable to write */
		return 0;
	tablet_enter(t);
	tablet_replay_done(t);
	err = compact_flush_now(t);
	if (err)
		tablet_want_flush(t); /* frozen memtables must be flushed soon, also if no other flush is requested */
	tablet_leave(t);
	return err;
}

/* ---- snapshots ---- */

int tablet_hold_begin(struct tablet *t, struct tablet_hold *h)
{
	int err;

	*h = (struct tablet_hold){.t = t};
	tablet_enter(t);
	tablet_replay_done(t);
	err = tablet_job_begin(t, &t->flushing);
	if (!err) {
		err = compact_flush_all(t, NULL);
		if (err) {
			compact_flush_end(t, err);
			tablet_want_flush(t);
		}
	}
	if (err) {
		h->t = NULL;
		tablet_leave(t);
	}
	return err;
}

/* All memtables were flushed in tablet_hold_begin, so there is a place for a fresh one. */
int tablet_hold_freeze(struct tablet_hold *h)
{
	int err;

	h->job = calloc(1, sizeof *h->job);
	if (!h->job)
		return -ENOMEM;
	err = tablet_freeze(h->t, &h->job->freeze);
	return err ? err : h->job->freeze.froze ? 0 : -EBUSY;
}

int tablet_hold_flush(struct tablet_hold *h)
{
	struct flush_job *j = h->job;
	int err = j->freeze.mem_count ? compact_flush_write(h->t, j) : 0;

	if (err || (!j->freeze.mem_count && !tablet_redo_is_stale(h->t, &j->freeze)))
		return err;
	h->job = NULL; /* taken */
	return compact_flush_install(h->t, j);
}

void tablet_hold_end(struct tablet_hold *h)
{
	struct tablet *t = h->t;
	bool left;

	if (!t)
		return;
	compact_flush_free(h->job);
	*h = (struct tablet_hold){0};
	mutex_lock(&t->lock);
	left = t->view->mem_count > 1 || t->pending;
	mutex_unlock(&t->lock);
	tablet_job_end(t, &t->flushing);
	if (left) /* a step failed */
		tablet_want_flush(t);
	tablet_want_merge(t);
	tablet_leave(t);
}
