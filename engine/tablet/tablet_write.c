/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The write path.
 *
 * Steps of a commit, for one row mutation:
 *	0 wait, if memory or the number of files requires it (throttle.c)
 *	1 lock the row's stripe, until the end.  Blind writes share it; a
 *	  read-modify-write holds it alone.
 *	2 resolve the operations to cells (mutate.c), encode batch and keys
 *	3 under the tablet's lock: take sequence numbers and the time of commit,
 *	  copy the cells into memtable nodes, submit the record.  So the order
 *	  of sequence numbers is the order of LSNs, and no later step can run
 *	  out of memory.
 *	4 wait for the log, and for its sync if wanted
 *	5 under the tablet's lock: insert the nodes, publish in the order of
 *	  sequence numbers
 *	6 answer after publishing, so that the writer can read its own write
 *
 * After a crash before the write of step 4, the mutation does not exist.  After
 * a later crash, replay inserts the same cells with the same sequence numbers.
 * If step 4 fails, the cells are not inserted.  The mutation counts as
 * published, so that later writers do not wait for it.
 *
 * In step 4 a thread may be stuck in a system call.  The log then replaces it
 * by another thread and answers its record, but the stuck thread does not
 * return.  So the next thread that waits in step 5 or in a freeze inserts and
 * publishes for it.  Otherwise one stuck disk would block the whole tablet,
 * although the log has continued in another file.
 *
 * Before the first write of this incarnation, an edit adds {incarnation, next
 * LSN} to the redo set.  A crash between the two leaves a redo point without
 * records, which does no harm.
 *
 * tablet_mutate does steps 1 to 3 for each of its rows, and then steps 4 to 6
 * once for all of them.  While records of its own wait, a thread must not wait for
 * anything but the log: a flush or split waits for them to be published, and
 * another thread that holds a stripe may wait for a stripe of this thread.  So it
 * tries to hold a stripe without waiting.  If a row would have to wait, it ends
 * the rows before it first (steps 4 to 6), and then does this row alone.  A row
 * that waited may hold its stripe exclusively, so a longer group would delay other
 * writers.
 *
 * The outcome of a mutation may depend on the GC rules and on the time.  A
 * compaction may apply newer rules or a later time to the memtables that were
 * frozen before.  So step 3 compares the schema and the time of the last freeze
 * with the values in step 2.  If they are newer, the mutation is resolved again.
 *
 * A blind write that shares its stripe may draw a time, and another blind write
 * may draw a later time and be published first.  Then a put of several columns
 * would be the newest in some of them only, and no order of the two would explain
 * what readers see.  So step 3 also compares the times with the stripe's times.
 */
#include "engine/tablet/mutate.h"
#include "engine/tablet/tablet_impl.h"
#include "engine/tablet/tablet_plan.h"
#include "engine/tablet/tokens_format.h"

#include <errno.h>
#include <stdlib.h>

/*
 * A commit must do this before it tries step 3 again: add the redo point,
 * begin or end to keep changes, resolve again, wait for the log's memory, for the end of a split or merge, or
 * for a stripe.
 */
enum commit_need { NEED_REDO = 1, NEED_CHANGES, NEED_RESOLVE, NEED_LOG_MEMORY, NEED_RETIRE_END, NEED_STRIPE };
enum { CHECK_STUCK_US = 20000 };

/* ---- stripes ---- */

static void stripe_lock(struct stripe *s, bool exclusive)
{
	mutex_lock(&s->m);
	if (exclusive) {
		s->waiting++;
		while (s->holders)
			cond_wait(&s->free, &s->m);
		s->waiting--;
		s->holders = -1;
	} else {
		while (s->holders < 0 || s->waiting)
			cond_wait(&s->free, &s->m);
		s->holders++;
	}
	mutex_unlock(&s->m);
}

/* Takes the stripe without waiting.  shares: the caller is already a sharer.  Returns false if another thread is in the way. */
static bool stripe_try(struct stripe *s, bool shares, bool exclusive)
{
	bool ok;

	mutex_lock(&s->m);
	ok = exclusive ? s->holders == shares : s->holders >= 0 && !s->waiting;
	if (ok)
		s->holders = exclusive ? -1 : s->holders + 1;
	mutex_unlock(&s->m);
	return ok;
}

static void stripe_unlock(struct stripe *s)
{
	mutex_lock(&s->m);
	s->holders = s->holders < 0 ? 0 : s->holders - 1;
	if (!s->holders)
		cond_broadcast(&s->free);
	mutex_unlock(&s->m);
}

/* ---- publishing ---- */

/*
 * Publishes the first writers as far as they are done.  Returns true if a
 * writer other than w is among them.  The caller holds t->lock.
 */
static bool writers_publish(struct tablet *t, const struct writer *w)
{
	bool others = false;

	while (t->writers && t->writers->done) {
		struct writer *first = t->writers;

		t->published = first->last;
		t->writers = first->next;
		if (!t->writers)
			t->writers_tail = &t->writers;
		others |= first != w;
		atomic_store_explicit(&first->published, true, memory_order_release);
	}
	return others;
}

/* The result of a client's mutation is 0, with the results that x has, or err.  The caller holds t->lock. */
static void token_decide(struct tablet *t, struct token *x, int err, unsigned failed_op)
{
	if (err) {
		token_result_fail(&x->result, err, failed_op);
		x->seq = 0;
	}
	tokens_decide(&t->tokens, x);
}

/* Inserts the cells of w, unless its record failed with err.  The caller holds t->lock. */
static void writer_insert(struct tablet *t, struct writer *w, int err)
{
	if (w->done)
		return;
	if (!err)
		plan_insert(w->plan, w->mem);
	if (w->token && !err) /* after an error the caller may try the mutation again */
		tokens_decide(&t->tokens, w->token);
	w->done = true;
}

/*
 * Waits for a short time.  Then inserts and publishes for stuck writers whose
 * records are answered.  The caller holds t->lock.
 */
static void writers_wait_once(struct tablet *t)
{
	int err;

	if (cond_wait_us(&t->changed, &t->lock, CHECK_STUCK_US))
		return;
	for (struct writer *w = t->writers; w && log_poll(t->env->log, w->ticket, &err); w = w->next)
		writer_insert(t, w, err);
	if (writers_publish(t, NULL))
		cond_broadcast(&t->changed);
}

/*
 * Step 5.  Returns when w is published.  The caller holds t->lock.
 *
 * The log answers the records of a group at the same time.  Their writers would
 * wake one by one, wait for this lock, and then wait for the writers before
 * them.  So the first one inserts for all of them before it wakes them.
 */
static void writer_end(struct tablet *t, struct writer *w, int err, struct log_wakeups *wakeups)
{
	int other;

	writer_insert(t, w, err);
	for (struct writer *o = t->writers; o && log_ticket_done(o->ticket, &other); o = o->next)
		writer_insert(t, o, other);
	if (writers_publish(t, w) || t->flushing)
		cond_broadcast(&t->changed);
	if (!w->published) {
		mutex_unlock(&t->lock);
		log_wake(wakeups);
		mutex_lock(&t->lock);
	}
	while (!w->published)
		writers_wait_once(t);
}

void writers_wait(struct tablet *t, uint64_t seq)
{
	while (t->writers && t->published < seq)
		writers_wait_once(t);
}

/* ---- the commit ---- */

/* Prepares the edit that adds this incarnation to the redo set. */
static int tablet_name_own_log(struct tablet *t, struct tablet_change *c, bool *needless)
{
	bool named = false; /* after a failed edit, the set may have the incarnation although redo_own is false */
	int err = tablet_state_error(t);

	*needless = t->redo_own;
	if (err || *needless)
		return err;
	c->redo = calloc(t->redo_count + 1u, sizeof *c->redo);
	if (!c->redo)
		return -ENOMEM;
	for (; c->redo_count < t->redo_count; c->redo_count++) {
		c->redo[c->redo_count] = t->redo[c->redo_count];
		named |= t->redo[c->redo_count].p.incarnation == t->env->incarnation;
	}
	if (!named) {
		if (!t->redo_maybe)
			t->redo_maybe = log_next_lsn(t->env->log);
		c->redo[c->redo_count++].p = (struct redo_point){t->env->incarnation, t->redo_maybe};
	}
	c->redo_own = true;
	return 0;
}

/* Adds this incarnation to the redo set, durably, unless the set has it. */
static int tablet_ensure_redo(struct tablet *t)
{
	struct tablet_change c = {.edit = {.set_redo = true, .event = "first write"}, .prepare = tablet_name_own_log};

	return tablet_change(t, &c);
}

/* Waits for the end of a split or merge. */
static void tablet_wait_for_retire(struct tablet *t)
{
	struct tablet_env *env = t->env;
	uint64_t us = monotonic_us(), longest;

	env->retire_waits++;
	mutex_lock(&t->lock);
	while (t->state == TABLET_SPLITTING)
		cond_wait(&t->changed, &t->lock);
	mutex_unlock(&t->lock);
	us = monotonic_us() - us;
	env->retire_wait_us += us;
	longest = env->retire_wait_longest_us;
	while (us > longest && !atomic_compare_exchange_weak(&env->retire_wait_longest_us, &longest, us))
		;
}

/* Step 3.  Returns 0, an enum commit_need, or -errno.  Does not wait. */
static int mutation_submit(struct tablet *t, struct mutation *m, struct plan *p, struct token *token, bool sync, struct stripe *s,
	struct log_ticket *ticket, struct writer *w, struct vmem **mem, size_t *bytes)
{
	struct log_record r = {.table = t->table, .row_from = m->row, .row_to = m->row, .batch = buf_bytes(&p->batch)};
	int err;

	mutex_lock(&t->lock);
	if (t->state == TABLET_SPLITTING) {
		err = NEED_RETIRE_END;
		goto out;
	}
	if ((err = tablet_state_error(t)))
		goto out;
	if (!t->redo_own) {
		err = NEED_REDO;
		goto out;
	}
	if (!t->changes_low_us != !t->schema->changes_us) {
		err = NEED_CHANGES;
		goto out;
	}
	if (p->keeps_changes != (t->changes_low_us != 0) || (m->blind_us <= s->newest_us && m->blind_us < INT64_MAX) ||
		(m->used_rules && (t->schema != m->snap.schema || m->collect < t->freeze_us - TABLET_SKEW_US))) {
		err = NEED_RESOLVE;
		goto out;
	}
	r.seq = t->next_seq;
	m->commit_us = clock_commit(t->env->clock);
	batch_set_commit(&p->batch, m->commit_us);
	if (token) {
		token_result_set_commit(&token->result, m->commit_us);
		token->seq = r.seq;
		r.token = token->id;
		r.result = buf_bytes(&token->result);
	}
	if ((err = plan_prepare(p, t->view->mems[0], r.seq, m->commit_us)) || (err = log_submit(t->env->log, &r, sync, ticket))) {
		*bytes = vmem_account(t->view->mems[0]); /* the prepared nodes stay in the memtable's memory */
		goto out;
	}
	/*
	 * This needs a reference, because another thread may publish for this
	 * thread, and a flush may then drop the memtable.
	 */
	*mem = vmem_get(t->view->mems[0]);
	t->next_seq += p->cells;
	t->newest_commit_us = m->commit_us;
	(*mem)->seq_max = t->next_seq - 1;
	if (m->any_put && m->newest_us > s->newest_us)
		s->newest_us = m->newest_us;
	if (p->tombstones != p->cells || p->row_deletes || p->family_deletes || p->column_deletes)
		s->changed_seq = t->next_seq - 1;
	*w = (struct writer){.last = t->next_seq - 1, .ticket = ticket, .plan = p, .mem = *mem, .token = token};
	*t->writers_tail = w;
	t->writers_tail = &w->next;
out:
	mutex_unlock(&t->lock);
	return err == -EAGAIN ? NEED_LOG_MEMORY : err;
}

int tablet_token_begin(struct tablet *t, const struct op_token *token, uint64_t peer, struct tablet_row *r)
{
	struct op_token id = *token;
	struct token *x;
	int n, err;

	id.number = r->m->number;
	mutex_lock(&t->lock);
	n = tokens_begin(&t->tokens, &id, peer, clock_limited(t->env->clock), &x);
	if (n == TOKENS_KNOWN && token_result_decode(buf_bytes(&x->result), &err, &r->failed_op, r->results, r->m->op_count))
		n = -EINVAL; /* another mutation had this number */
	mutex_unlock(&t->lock);
	r->done = n;
	if (n)
		r->err = n < 0 ? n : err;
	else
		r->token = x;
	return n;
}

/* After these errors the client sends the mutation again. */
static bool error_is_final(int err)
{
	return err != -TABLET_MOVED && err != -TABLE_DROPPED && err != -TABLET_TAKEN && err != -TABLET_STOPPED &&
		err != -UNREACHABLE && err != -EAGAIN;
}

void tablet_token_end(struct tablet *t, struct tablet_row *r)
{
	mutex_lock(&t->lock);
	if (!r->token->decided && error_is_final(r->err)) {
		/* A mutation without cells: its decision would come too late for the tablets that replace this tablet. */
		const int stopped = r->token->seq ? 0 : tablet_state_error(t);

		if (stopped) {
			r->err = stopped;
			r->failed_op = 0;
		} else {
			token_decide(t, r->token, r->err, r->failed_op);
		}
	}
	tokens_end(&t->tokens, r->token);
	mutex_unlock(&t->lock);
}

void tablet_tokens_forget(struct tablet *t, uint64_t client)
{
	mutex_lock(&t->lock);
	tokens_forget(&t->tokens, client);
	mutex_unlock(&t->lock);
}

/* ---- groups of rows ---- */

/* A row whose record is submitted. */
struct submitted {
	struct tablet_row *row;
	struct plan plan;
	struct log_ticket ticket;
	struct writer w;
	struct vmem *mem;
};

/* Without a submitted row it holds no stripe. */
struct row_group {
	struct tablet *t;
	bool sync;
	bool waits;             /* the group may wait, for its only row */
	uint64_t shared, alone; /* the stripes that it holds, one bit each */
	struct submitted *v;
	unsigned n;
};
_Static_assert(STRIPES == 64, "row_group has a bit for each stripe");

static bool group_has_row(const struct row_group *g, struct tfs_bytes row)
{
	for (unsigned i = 0; i < g->n; i++)
		if (bytes_eq(g->v[i].row->m->row, row))
			return true;
	return false;
}

/* Raises the hold of a stripe.  Returns false if the group would have to wait but must not. */
static bool group_hold(struct row_group *g, struct stripe *s, bool exclusive)
{
	const uint64_t bit = UINT64_C(1) << (s - g->t->stripes);
	const bool shares = g->shared & bit;

	if ((g->alone & bit) || (shares && !exclusive))
		return true;
	if (!g->waits && !stripe_try(s, shares, exclusive))
		return false;
	if (g->waits && shares)
		stripe_unlock(s);
	if (g->waits)
		stripe_lock(s, exclusive);
	g->shared = exclusive ? g->shared & ~bit : g->shared | bit;
	g->alone |= exclusive ? bit : 0;
	return true;
}

static void group_release(struct row_group *g)
{
	for (uint64_t held = g->shared | g->alone; held; held &= held - 1)
		stripe_unlock(&g->t->stripes[__builtin_ctzll(held)]);
	g->shared = g->alone = 0;
}

/* Resolves the mutation once more, with newer rules or times.  The group may wait. */
static int group_resolve_again(struct row_group *g, struct mutation *m, struct stripe *s)
{
	struct tablet *t = g->t;

	(void)group_hold(g, s, true);
	m->now = clock_now(t->env->clock);
	m->collect = clock_collect(t->env->clock);
	mutex_lock(&t->lock); /* the clock may have been set back, but step 3 requires the time of the last freeze */
	if (m->collect < t->freeze_us - TABLET_SKEW_US)
		m->collect = t->freeze_us - TABLET_SKEW_US;
	mutex_unlock(&t->lock);
	return mutation_resolve_reading(m);
}

/* Steps 2, from the encoding on, and 3.  Returns 0, -errno, or a commit_need. */
static int group_submit(struct row_group *g, struct mutation *m, struct stripe *s, struct submitted *x)
{
	const struct tablet_row *r = x->row;
	struct tablet *t = g->t;
	size_t used = t->env->memory_used ? *t->env->memory_used : 0, bytes = 0;
	int err;

	if (r->token && (err = token_result_encode(m->results, r->results ? m->count : 0, &r->token->result)))
		return err;
	if (!m->pre.n && !m->cells.n)
		return 0;
	plan_init(&x->plan);
	x->plan.keeps_changes = m->snap.schema->changes_us != 0;
	err = plan_mutation(&x->plan, m);
	while (!err) {
		/*
		 * This is before step 3, because nodes prepared for a
		 * refused record would stay in the memtable's memory.
		 */
		if (g->waits)
			err = log_wait_memory(t->env->log);
		if (!err)
			err = mutation_submit(t, m, &x->plan, r->token, g->sync, s, &x->ticket, &x->w, &x->mem, &bytes);
		if (!err) {
			g->n++;
			return 0;
		}
		if (!g->waits || err < 0 || err == NEED_RESOLVE)
			break;
		if (err == NEED_RETIRE_END)
			tablet_wait_for_retire(t);
		err = err == NEED_REDO ? tablet_ensure_redo(t) : err == NEED_CHANGES ? tablet_ensure_changes(t) : 0;
	}
	plan_fini(&x->plan);
	if (bytes)
		tablet_after_write(t, bytes, used);
	return err;
}

/* Steps 1 to 3.  Returns 0, -errno, or a commit_need: nothing is done, because the row must not wait. */
static int group_add(struct row_group *g, struct tablet_row *r)
{
	struct tablet *t = g->t;
	struct submitted *x = &g->v[g->n];
	struct stripe *s = stripe_of(t, r->m->row);
	struct mutation m;
	int64_t bound;
	int err = mutation_init(&m, t, r->m->row, r->m->ops, r->m->op_count);

	if (!err && !group_hold(g, s, false))
		err = NEED_STRIPE;
	if (err)
		goto out;
	bound = s->newest_us;
	err = mutation_resolve_blind(&m, bound > t->loaded_newest_us ? bound : t->loaded_newest_us);
	if (err == MUTATION_MUST_READ) /* a row's earlier mutation must be published before the row is read */
		err = group_has_row(g, r->m->row) || !group_hold(g, s, true) ? NEED_STRIPE : mutation_resolve_reading(&m);
	x->row = r;
	while (!err && (err = group_submit(g, &m, s, x)) == NEED_RESOLVE && g->waits)
		err = group_resolve_again(g, &m, s);
	if (!err && r->results) {
		memcpy(r->results, m.results, m.count * sizeof *r->results);
		for (unsigned i = 0; i < m.count; i++)
			r->results[i].commit_us = m.commit_us;
	}
out:
	if (!g->n)
		group_release(g);
	r->failed_op = err ? m.failed : 0;
	mutation_fini(&m);
	return err;
}

/* Steps 4 to 6 for all submitted rows, and the end of step 1. */
static void group_end(struct row_group *g)
{
	struct tablet *t = g->t;
	size_t used = t->env->memory_used ? *t->env->memory_used : 0, bytes = 0;
	struct submitted *v = g->v, *last;
	struct log_wakeups wakeups;

	if (!g->n) /* v is NULL if there was no memory for it */
		return;
	last = v + g->n - 1;
	last->row->err = log_wait_deferred(t->env->log, &last->ticket, &wakeups);
	/* The log has answered most of the writers before the last writer. */
	for (; v < last; v++)
		if (!log_ticket_done(&v->ticket, &v->row->err)) {
			log_wake(&wakeups);
			v->row->err = log_wait(t->env->log, &v->ticket);
		}
	if (!atomic_load_explicit(&last->w.published, memory_order_acquire)) { /* otherwise other threads have done step 5 */
		mutex_lock(&t->lock);
		for (v = g->v; v <= last; v++)
			if (!v->w.published)
				writer_insert(t, &v->w, v->row->err);
		bytes = vmem_account(last->mem);
		writer_end(t, &last->w, last->row->err, &wakeups);
		mutex_unlock(&t->lock);
	}
	log_wake(&wakeups);
	group_release(g);
	for (v = g->v; v <= last; v++) {
		vmem_put(v->mem);
		plan_fini(&v->plan);
	}
	g->n = 0;
	if (bytes)
		tablet_after_write(t, bytes, used);
}

void tablet_mutate(struct tablet *t, struct tablet_row *rows, unsigned count, bool sync)
{
	struct submitted one;
	struct row_group g = {.t = t, .sync = sync, .waits = count == 1, .v = count > 1 ? malloc(count * sizeof one) : &one};

	tablet_enter(t);
	tablet_replay_done(t);
	for (unsigned i = 0; i < count; i++) { /* no record waits yet, so these may wait for a flush */
		struct tablet_row *r = &rows[i];

		if (r->done)
			continue;
		r->err = t->frozen ? -EROFS : !g.v ? -ENOMEM : tablet_throttle(t, r->m->row, r->m->ops, r->m->op_count);
		r->done = r->err;
	}
	for (unsigned i = 0; i < count; i++) {
		struct tablet_row *r = &rows[i];

		if (r->done)
			continue;
		r->done = true;
		r->err = group_add(&g, r);
		if (r->err > 0) {
			group_end(&g);
			g.waits = true;
			r->err = group_add(&g, r);
			group_end(&g);
			g.waits = false;
		}
	}
	group_end(&g);
	if (g.v != &one)
		free(g.v);
	tablet_leave(t);
}
