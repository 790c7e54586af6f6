/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Durable changes of a tablet: its list of files, its redo set, the time of
 * its last major compaction.
 *
 * Steps, all under EDIT:
 *	1 prepare the edit and the next view
 *	2 the commit callback writes METADATA
 *	3 publish the view and the redo set
 * After a crash before 2 no METADATA row lists the added files; after a crash
 * after 2 no row lists the removed files.  The collector removes such files.
 */
#include "engine/tablet/tablet_impl.h"

#include <errno.h>
#include <stdlib.h>

static struct tablet_file *change_list_files(const struct file_set *s)
{
	struct tablet_file *list = calloc(s->n + 1u, sizeof *list);

	for (unsigned i = 0; list && i < s->n; i++)
		list[i] = s->v[i]->meta; /* borrowed */
	return list;
}

/* Steps 1 and 2.  The caller holds EDIT. */
static int change_commit(struct tablet *t, struct tablet_change *c)
{
	struct tablet_file *out = change_list_files(c->removed), *in = change_list_files(c->added);
	struct redo_point *redo = calloc(c->redo_count + 1u, sizeof *redo);
	int err = -ENOMEM;

	if (out && in && redo) {
		for (unsigned i = 0; i < c->redo_count; i++)
			redo[i] = c->redo[i].p;
		c->edit.removed = out;
		c->edit.removed_count = c->removed->n;
		c->edit.added = in;
		c->edit.added_count = c->added->n;
		c->edit.redo = redo;
		c->edit.redo_count = c->redo_count;
		c->edit.tokens = c->tokens;
		c->edit.token_count = c->token_count;
		err = t->commit(t->commit_arg, t, &c->edit);
	}
	free(out);
	free(in);
	free(redo);
	return err;
}

/* Step 3.  Takes the reference to v; returns the old view.  The caller holds t->lock. */
static struct view *change_publish(struct tablet *t, struct tablet_change *c, struct view *v)
{
	struct view *old;

	view_take_mems(v, t->view, c->flushed, c->flushed_count);
	old = view_swap(t, v);
	for (unsigned i = 0; i < c->flushed_count; i++)
		vmem_flushed(c->flushed[i]);
	if (c->edit.set_redo) {
		free(t->redo);
		t->redo = c->redo;
		t->redo_count = c->redo_count;
		t->redo_own = c->redo_own;
		t->redo_maybe = 0; /* the outcome is known now */
		c->redo = NULL;
	}
	if (c->edit.set_tokens)
		t->tokens_stored = c->token_count > 0;
	if (c->edit.seq_mark)
		t->seq_mark = c->edit.seq_mark;
	if (c->edit.major_us) {
		t->major_us = c->edit.major_us;
		t->major_unset = false;
	}
	if (c->edit.set_changes)
		tablet_raise_commit(t, t->changes_low_us = c->edit.changes_low_us);
	return old;
}

/* Called after an error.  If the commit callback returned -TABLET_TAKEN, the tablet becomes BROKEN. */
static void tablet_fail(struct tablet *t, int err)
{
	int loading = TABLET_LOADING, serving = TABLET_SERVING;

	/* A tablet that is being closed stays CLOSING, because that state ends the background work. */
	if (err == -TABLET_TAKEN && !atomic_compare_exchange_strong(&t->state, &serving, TABLET_BROKEN))
		atomic_compare_exchange_strong(&t->state, &loading, TABLET_BROKEN);
}

int tablet_change(struct tablet *t, struct tablet_change *c)
{
	static const struct file_set none;
	struct view *v = NULL, *old = NULL;
	bool needless = false;
	int err = 0;

	mutex_lock(&t->edit);
	mutex_lock(&t->lock);
	if (t->state == TABLET_BROKEN)
		err = -TABLET_TAKEN;
	else if (c->prepare)
		err = c->prepare(t, c, &needless);
	c->removed = c->removed ? c->removed : &none;
	c->added = c->added ? c->added : &none;
	if (!err && !needless && !(v = view_change(t->view, c->removed, c->added)))
		err = -ENOMEM;
	mutex_unlock(&t->lock); /* v stays right, because the files of a view change only under EDIT */
	if (v)
		err = change_commit(t, c);
	/* A mutation that needs the change is not in the log.  With the first two errors its client would wait for another answer. */
	if (err == -ETIMEDOUT || err == -ANSWER_LOST)
		err = -UNREACHABLE;
	mutex_lock(&t->lock);
	if (err)
		tablet_fail(t, err);
	else if (v)
		old = change_publish(t, c, v);
	if (err && c->edit.set_tokens)
		t->tokens_stored = true;
	mutex_unlock(&t->lock);
	mutex_unlock(&t->edit);
	view_put(err ? v : old);
	free(c->redo);
	c->redo = NULL;
	tablet_tokens_free(c->tokens, c->token_count);
	c->tokens = NULL;
	return err;
}

void tablet_retire_files(struct tablet *t)
{
	struct snap snap;

	snap_take(t, &snap);
	for (unsigned i = 0; i < view_all_files(snap.view); i++)
		sst_retire(snap.view->files[i]->sst);
	snap_put(&snap);
}

void tablet_drop_files(struct file_set *s, bool removed)
{
	for (unsigned i = 0; removed && i < s->n; i++)
		sst_retire(s->v[i]->sst);
	file_set_put(s);
}

/* ---- the low mark of changes: the steps are in tablet_changes.c ---- */

static int prepare_low(struct tablet *t, struct tablet_change *c, bool *needless)
{
	const bool keeps = t->schema->changes_us != 0, had_commit = t->next_seq > 1 || view_all_files(t->view);

	*needless = keeps == (t->changes_low_us != 0);
	c->edit.set_changes = true;
	c->edit.changes_low_us = !keeps ? 0 : had_commit ? clock_commit(t->env->clock) : 1;
	c->edit.event = keeps ? "changes are kept" : "changes are not kept";
	return tablet_state_error(t);
}

int tablet_ensure_changes(struct tablet *t)
{
	struct tablet_change c = {.prepare = prepare_low};

	return tablet_change(t, &c);
}
