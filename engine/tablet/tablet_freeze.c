/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tablet's part of a minor compaction: freezing memtables, and the redo
 * set after their flush.  engine/compact/compact_flush.c has the steps.
 *
 * A freeze replaces the active memtable by a fresh one and records the
 * sequence, LSN, time and schema of that instant.  A view has at most
 * VIEW_MEMS memtables.  If it is full, the active memtable is not frozen, and
 * the flush writes the memtables that were frozen before.  The active memtable
 * may contain deletes of their cells that were resolved under other rules or
 * at an earlier time.  So that flush applies no rule that counts versions.
 *
 * If an edit leaves nothing unflushed, it removes this incarnation from the
 * redo set, so that an idle tablet keeps no log.  The next writer waits for
 * EDIT and adds the incarnation again, even if the outcome of that edit is
 * unknown.
 *
 * A memtable without entries may still hold memory: nodes of writes that the
 * log refused.  Such a memtable is replaced without a flush.
 */
#include "engine/tablet/tablet_impl.h"

#include <errno.h>
#include <stdlib.h>

/*
 * Adds a fresh active memtable; drop: removes the old one from the view instead
 * of freezing it.  The caller holds t->lock.
 */
static int freeze_add_memtable(struct tablet *t, bool drop, struct view **old)
{
	static const struct file_set none;
	struct view *v = t->view, *n = view_change(v, &none, &none);
	int err;

	if (!n)
		return -ENOMEM;
	err = vmem_new(t->env->memory_used, &n->mems[0]);
	if (err) {
		view_put(n);
		return err;
	}
	n->mem_count = 1;
	view_take_mems(n, v, v->mems, drop);
	if (!drop)
		vmem_freeze(v->mems[0], &t->env->flushing_bytes);
	*old = view_swap(t, n);
	return 0;
}

/*
 * Collects the redo points of earlier incarnations that the set must keep: all
 * during replay, and all if the active memtable is not frozen.  The caller holds
 * t->lock.
 */
static int freeze_note_redo(struct tablet *t, struct tablet_freeze *f)
{
	f->dead = calloc(t->redo_count + 1u, sizeof *f->dead);
	if (!f->dead)
		return -ENOMEM;
	for (unsigned i = 0; i < t->redo_count; i++) {
		struct redo_state *r = &t->redo[i];

		if (r->p.incarnation == t->env->incarnation) {
			if (!f->froze) /* the active memtable may contain records from the old redo point on */
				f->lsn = r->p.lsn;
		} else if (t->state == TABLET_LOADING || !f->froze) {
			f->dead[f->dead_count] = *r;
			if (f->froze)
				f->dead[f->dead_count].p.lsn = r->next_lsn;
			f->dead_count++;
		}
	}
	return 0;
}

static int freeze_locked(struct tablet *t, struct tablet_freeze *f, struct view **old)
{
	bool dirty = memtable_count(t->view->mems[0]->m) > 0 || t->writers,
	     wasted = !dirty && memtable_bytes(t->view->mems[0]->m) > t->view->mems[0]->fresh;
	int err;

	f->froze = !dirty || t->view->mem_count < VIEW_MEMS;
	if (((dirty && f->froze) || wasted) && (err = freeze_add_memtable(t, wasted, old)))
		return err;
	for (unsigned i = 1; i < t->view->mem_count; i++)
		f->mems[f->mem_count++] = vmem_get(t->view->mems[i]);
	f->seq = t->next_seq - 1;
	f->lsn = log_next_lsn(t->env->log);
	f->us = clock_collect(t->env->clock);
	f->at_us = clock_now(t->env->clock);
	f->schema = store_schema_get(t->schema);
	f->counts = t->state != TABLET_LOADING && f->froze;
	if (f->us > t->freeze_us)
		t->freeze_us = f->us;
	err = freeze_note_redo(t, f);
	if (!err)
		writers_wait(t, f->seq);
	return err;
}

int tablet_freeze(struct tablet *t, struct tablet_freeze *f)
{
	struct view *old = NULL;
	int err;

	*f = (struct tablet_freeze){0};
	mutex_lock(&t->lock);
	err = freeze_locked(t, f, &old);
	mutex_unlock(&t->lock);
	view_put(old);
	return err;
}

void tablet_freeze_fini(struct tablet_freeze *f)
{
	for (unsigned i = 0; i < f->mem_count; i++)
		vmem_put(f->mems[i]);
	store_schema_put(f->schema);
	free(f->dead);
}

bool tablet_redo_is_stale(struct tablet *t, const struct tablet_freeze *f)
{
	bool stale;

	mutex_lock(&t->lock);
	stale = t->redo_count > f->dead_count + (memtable_count(t->view->mems[0]->m) || t->writers ? 1u : 0u);
	stale |= t->redo_maybe != 0; /* until an edit resolves it, the log from that LSN on cannot be removed */
	for (unsigned i = 0; i < f->dead_count && i < t->redo_count; i++)
		stale |= t->redo[i].p.lsn != f->dead[i].p.lsn;
	mutex_unlock(&t->lock);
	return stale;
}

/* Stores the results of the mutations that are in the flushed memtables or in files. */
static int freeze_store_tokens(struct tablet *t, struct tablet_change *c, const struct tablet_freeze *f)
{
	const uint64_t seq = f->froze ? f->seq : f->mem_count ? f->mems[0]->seq_max : 0;

	if (!t->tokens.clients && !t->tokens_stored)
		return 0;
	c->edit.set_tokens = true;
	return tokens_store(&t->tokens, seq, clock_limited(t->env->clock), &c->tokens, &c->token_count);
}

/* Fills in the redo set and the marks of the edit. */
static int freeze_prepare_edit(struct tablet *t, struct tablet_change *c, bool *needless)
{
	const struct tablet_freeze *f = c->arg;
	uint64_t lsn = f->lsn;
	bool named = false, clean;

	c->redo = calloc(f->dead_count + 1u, sizeof *c->redo);
	if (!c->redo)
		return -ENOMEM;
	for (; c->redo_count < f->dead_count; c->redo_count++) {
		struct redo_state *r = &c->redo[c->redo_count];

		*r = f->dead[c->redo_count];
		for (unsigned k = 0; k < t->redo_count; k++) /* replay may have continued since the freeze */
			if (t->redo[k].p.incarnation == r->p.incarnation)
				r->next_lsn = t->redo[k].next_lsn;
	}
	for (unsigned k = 0; k < t->redo_count; k++) {
		if (t->redo[k].p.incarnation != t->env->incarnation)
			continue;
		named = true;
		if (t->redo[k].p.lsn > lsn) /* the first write after the freeze; the log may have dropped older records */
			lsn = t->redo[k].p.lsn;
	}
	clean = t->view->mem_count == f->mem_count + 1 && !memtable_count(t->view->mems[0]->m) && !t->writers;
	if (clean)
		t->redo_own = false; /* even if this edit fails: its outcome may be unknown, so the next writer makes its own */
	if (named && !clean)
		c->redo[c->redo_count++].p = (struct redo_point){t->env->incarnation, lsn};
	c->redo_own = t->redo_own;
	if (t->major_unset) /* stores the start of the time to the first major compaction, so that a new opening does not restart it */
		c->edit.major_us = t->major_us;
	c->edit.seq_mark = f->seq > t->seq_mark ? f->seq : t->seq_mark;
	return freeze_store_tokens(t, c, f);
}

int tablet_install_flush(struct tablet *t, const struct tablet_freeze *f, const struct file_set *files)
{
	struct tablet_change c = {.edit = {.set_redo = true, .event = "minor compaction"},
		.added = files,
		.flushed = f->mems,
		.flushed_count = f->mem_count,
		.prepare = freeze_prepare_edit,
		.arg = (void *)(uintptr_t)f};

	return tablet_change(t, &c);
}
