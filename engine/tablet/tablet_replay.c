/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replay: inserts a tablet's records from the logs of earlier incarnations into
 * its memtable.  The caller passes a log in parts.  Within a part the records
 * are in the order of rows (log_sort.h), so that each insert starts near the
 * previous one.  The order does not affect the result, because sequence numbers
 * decide.
 *
 * No background work runs until replay is over, for two reasons.  File
 * collection would treat files being written as the remains of a crash.  A
 * compaction would drop tombstones while older cells are still to be replayed.
 * Memory is large enough without flushes, because the replayed records were in
 * memtables before.
 */
#include "engine/tablet/tablet_impl.h"
#include "engine/tablet/tablet_plan.h"

void tablet_replay_done(struct tablet *t)
{
	int loading = TABLET_LOADING;
	size_t bytes;

	if (t->state != TABLET_LOADING)
		return;
	mutex_lock(&t->lock);
	atomic_compare_exchange_strong(&t->state, &loading, TABLET_SERVING);
	bytes = t->view->mems[0]->accounted;
	mutex_unlock(&t->lock);
	if (loading != TABLET_LOADING)
		return;
	tablet_want_merge(t);
	tablet_after_write(t, bytes, 0);
}

/* Adds the entries of all cells.  Sets *newest to the largest timestamp put, or to INT64_MIN. */
static int plan_batch(struct plan *p, struct batch_reader *b, int64_t *newest)
{
	struct batch_cell c;
	int err;

	*newest = INT64_MIN;
	while ((err = batch_next(b, &c)) > 0) {
		if (c.kind == CELL_VALUE && c.ts > *newest)
			*newest = c.ts;
		if ((err = plan_cell(p, b->row, &c)))
			return err;
	}
	return err;
}

/* Inserts the cells of one record, unless its row is in another tablet.  *p is reused.  The caller holds t->lock. */
static int replay_one(struct tablet *t, struct plan *p, const struct log_record *r, int64_t *latest_us)
{
	struct vmem *m = t->view->mems[0];
	struct batch_reader b;
	struct stripe *s;
	int64_t newest;
	int err;

	if ((err = batch_open(&b, r->batch)) || !tablet_contains_row(t, b.row))
		return err;
	plan_reset(p);
	if ((err = plan_batch(p, &b, &newest)) || (err = plan_prepare(p, m, r->seq, b.commit)))
		return err;
	plan_insert(p, m);
	*latest_us = b.commit > *latest_us ? b.commit : *latest_us;
	if (p->cells && r->seq + p->cells > t->next_seq)
		t->next_seq = r->seq + p->cells;
	if (p->cells && r->seq + p->cells - 1 > m->seq_max)
		m->seq_max = r->seq + p->cells - 1;
	s = stripe_of(t, b.row);
	if (newest > s->newest_us)
		s->newest_us = newest;
	return r->token.client ? tokens_replay(&t->tokens, &r->token, r->seq, r->result, b.commit) : 0;
}

int tablet_replay(struct tablet *t, uint64_t incarnation, const struct log_record *const *v, size_t n, uint64_t *bad_lsn)
{
	struct redo_state *redo = NULL;
	int64_t latest_us = 0;
	uint64_t next;
	struct plan p;
	int err = 0;

	tablet_enter(t);
	plan_init(&p);
	p.near = true;
	mutex_lock(&t->lock);
	p.keeps_changes = t->changes_low_us != 0;
	for (unsigned i = 0; i < t->redo_count; i++)
		if (t->redo[i].p.incarnation == incarnation)
			redo = &t->redo[i];
	if (!redo)
		goto unlock;
	next = redo->next_lsn;
	for (size_t i = 0; i < n && !err; i++) {
		if (i + 2 < n)
			__builtin_prefetch(v[i + 2]);
		if (v[i]->lsn < redo->next_lsn)
			continue;
		if (v[i]->lsn >= next)
			next = v[i]->lsn + 1;
		err = replay_one(t, &p, v[i], &latest_us);
		if (err)
			*bad_lsn = v[i]->lsn;
	}
	redo->next_lsn = next;
	t->published = t->next_seq - 1;
	if (p.keeps_changes)
		tablet_raise_commit(t, latest_us);
	vmem_account(t->view->mems[0]);
unlock:
	mutex_unlock(&t->lock);
	plan_fini(&p);
	tablet_leave(t);
	return err;
}
