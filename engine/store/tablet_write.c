/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The write path.
 *
 * Steps of a commit (DESIGN 3.3), for one row mutation:
 *	0 slow down, where memory or files say so
 *	1 take the row's stripe: shared by writers that read nothing, alone by
 *	  read-modify-writes; held to the end
 *	2 resolve the operations to cells (mutate.c), encode batch and keys
 *	3 under the tablet's lock: take sequence numbers, copy the cells into
 *	  memtable nodes, submit the record; so that sequence order is LSN
 *	  order, and nothing after the log can run out of memory
 *	4 wait for the log (and for its sync)
 *	5 under the tablet's lock: insert the nodes, publish in sequence order
 *	6 answer, once published: the writer reads its own write
 * A crash before 4's write leaves nothing; after it, replay inserts the same
 * cells at the same sequence numbers.  A record whose wait failed is not
 * inserted and counts as published, or later writers would wait for ever.
 *
 * The first write of this incarnation is preceded by an edit that names
 * {incarnation, next LSN} in the redo set: a crash between the two leaves a
 * redo point with nothing behind it.
 *
 * The outcome of a mutation that asked the GC rules must be sequenced before
 * a memtable is frozen whose compaction will apply other rules or a later
 * time than it was judged by; else it is judged again (DESIGN 3.1, "as of
 * the freeze time").
 */
#include "engine/store/mutate.h"
#include "engine/store/tablet_impl.h"

#include <errno.h>
#include <stdlib.h>

#include "engine/base/msg.h"

enum { NODES_INLINE = 8, NEED_REDO = 1, NEED_JUDGE = 2 };

/* A memtable entry to be: its key lies in the plan's buffer with a sequence to be filled in. */
struct planned {
	size_t key_at, key_bytes;
	unsigned cell;          /* index in the batch: its sequence is the first plus this */
	bool chunk;
	struct slice value;     /* CELL_LARGE: the 8 bytes at size_at in keys */
	size_t size_at;
	struct memnode *node;
};
struct plan {
	struct buf keys, batch;
	struct planned *v, fixed_[NODES_INLINE];
	unsigned n, cap, cells;
	uint64_t row_deletes, family_deletes, tombstones;
};

static void
plan_fini(struct plan *p)
{
	buf_fini(&p->keys);
	buf_fini(&p->batch);
	if (p->v != p->fixed_)
		free(p->v);
}

static int
plan_entry(struct plan *p, const struct cellkey *k, unsigned cell, struct slice value, size_t size_at)
{
	struct planned *e;
	size_t at = p->keys.n;
	int err;

	if (p->n == p->cap) {
		unsigned cap = p->cap * 2;
		struct planned *v = reallocarray(p->v == p->fixed_ ? NULL : p->v, cap, sizeof *v);

		if (!v)
			return -ENOMEM;
		if (p->v == p->fixed_)
			memcpy(v, p->fixed_, sizeof p->fixed_);
		p->v = v;
		p->cap = cap;
	}
	err = cellkey_append(&p->keys, k);
	if (err)
		return err;
	e = &p->v[p->n++];
	*e = (struct planned){at, p->keys.n - at, cell, k->kind == CELL_CHUNK, value, size_at, NULL};
	return 0;
}

static int
plan_cell(struct plan *p, struct slice row, const struct batch_cell *c, unsigned cell)
{
	struct cellkey k = {row, c->qualifier, c->family, c->kind, c->ts, 0, 0};
	size_t size_at;
	int err;

	p->row_deletes += c->kind == CELL_DELETE_ROW;
	p->family_deletes += c->kind == CELL_DELETE_FAMILY;
	p->tombstones += c->kind != CELL_VALUE;
	if (c->kind != CELL_VALUE || c->value.n <= CELL_CHUNK_BYTES)
		return plan_entry(p, &k, cell, c->value, 0);
	size_at = p->keys.n;
	if ((err = buf_be64(&p->keys, c->value.n)))
		return err;
	k.kind = CELL_LARGE;
	if ((err = plan_entry(p, &k, cell, slice_of(NULL, 8), size_at)))
		return err;
	k.kind = CELL_CHUNK;
	for (size_t at = 0; at < c->value.n; at += CELL_CHUNK_BYTES, k.chunk++) {
		size_t n = c->value.n - at < CELL_CHUNK_BYTES ? c->value.n - at : CELL_CHUNK_BYTES;

		if ((err = plan_entry(p, &k, cell, slice_of(c->value.p + at, n), 0)))
			return err;
	}
	return 0;
}

static void
plan_init(struct plan *p)
{
	*p = (struct plan){.cap = NODES_INLINE};
	p->v = p->fixed_;
}

static int
plan_mutation(struct plan *p, const struct mutation *m)
{
	size_t bytes = m->row.n + 16, key_bytes = 0;
	int err;

	for (unsigned i = 0; i < m->cells.n; i++) {
		bytes += batch_cell_bytes(&m->cells.v[i]);
		key_bytes += 2 * (m->row.n + m->cells.v[i].qualifier.n) + CELL_SUFFIX_BYTES + 16;
	}
	if ((err = buf_reserve(&p->batch, bytes)) || (err = buf_reserve(&p->keys, key_bytes)) ||
	    (err = batch_begin(&p->batch, m->row)))
		return err;
	for (unsigned i = 0; i < m->pre.n + m->cells.n; i++) {
		const struct batch_cell *c = i < m->pre.n ? &m->pre.v[i] : &m->cells.v[i - m->pre.n];

		if ((err = batch_add(&p->batch, c)) || (err = plan_cell(p, m->row, c, i)))
			return err;
		p->cells++;
	}
	return 0;
}

static int
plan_prepare(struct plan *p, struct memtable *m, uint64_t seq)
{
	for (unsigned i = 0; i < p->n; i++) {
		struct planned *e = &p->v[i];
		uint8_t *key = p->keys.p + e->key_at;
		struct slice value = !e->value.p ? slice_of(p->keys.p + e->size_at, e->value.n) : e->value;
		int err;

		put_be64(key + e->key_bytes - (e->chunk ? 13 : 9), ~(seq + e->cell));
		err = memtable_prepare(m, slice_of(key, e->key_bytes), value, &e->node);
		if (err)
			return err;
	}
	return 0;
}

static void
plan_insert(struct plan *p, struct vmem *m)
{
	if (p->tombstones) {
		m->row_deletes += p->row_deletes;
		m->family_deletes += p->family_deletes;
		m->tombstones += p->tombstones - p->row_deletes - p->family_deletes;
	}
	for (unsigned i = 0; i < p->n; i++)
		memtable_insert(m->m, p->v[i].node);
}

/* ---- stripes ---- */

struct stripe *
stripe_of(struct tablet *t, struct slice row)
{
	return &t->stripes[hash64(row, 0) % STRIPES];
}

static void
stripe_lock(struct stripe *s, bool alone)
{
	mutex_lock(&s->m);
	if (alone) {
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

static void
stripe_unlock(struct stripe *s)
{
	mutex_lock(&s->m);
	s->holders = s->holders < 0 ? 0 : s->holders - 1;
	if (!s->holders)
		cond_broadcast(&s->free);
	mutex_unlock(&s->m);
}

/* ---- publishing ---- */

static void
writer_begin(struct tablet *t, struct writer *w, uint64_t last)
{
	*w = (struct writer){.last = last};
	*t->writers_tail = w;
	t->writers_tail = &w->next;
}

/* Publishes as far as writers are done; returns when w is published. The caller holds t->lock. */
static void
writer_end(struct tablet *t, struct writer *w)
{
	bool others = false;

	w->done = true;
	while (t->writers && t->writers->done) {
		struct writer *first = t->writers;

		t->published = first->last;
		t->writers = first->next;
		if (!t->writers)
			t->writers_tail = &t->writers;
		others |= first != w;
		first->out = true;
	}
	if (others || t->flushing)
		cond_broadcast(&t->changed);
	while (!w->out)
		cond_wait(&t->changed, &t->lock);
}

void
writers_wait(struct tablet *t, uint64_t seq)
{
	while (t->writers && t->published < seq)
		cond_wait(&t->changed, &t->lock);
}

size_t
vmem_account(struct vmem *m)
{
	size_t bytes = memtable_bytes(m->m);

	if (bytes > m->accounted) {
		if (m->memory_used)
			*m->memory_used += bytes - m->accounted;
		m->accounted = bytes;
	}
	return bytes;
}

/* ---- the commit ---- */

/* Names this incarnation in the redo set, durably, unless it is there. */
static int
ensure_redo(struct tablet *t)
{
	struct redo_point *points = NULL;
	struct redo_state *set = NULL;
	struct tablet_edit e = {.set_redo = true, .event = "first write"};
	unsigned n;
	int err = 0;

	mutex_lock(&t->edit);
	mutex_lock(&t->lock);
	if (t->redo_own)
		goto unlock;
	n = t->redo_count + 1;
	points = calloc(n, sizeof *points);
	set = calloc(n, sizeof *set);
	if (!points || !set) {
		err = -ENOMEM;
		goto unlock;
	}
	for (unsigned i = 0; i + 1 < n; i++) {
		set[i] = t->redo[i];
		points[i] = t->redo[i].p;
	}
	if (!t->redo_maybe)
		t->redo_maybe = log_next_lsn(t->env->log);
	points[n - 1] = set[n - 1].p = (struct redo_point){t->env->incarnation, t->redo_maybe};
	e.redo = points;
	e.redo_count = n;
	mutex_unlock(&t->lock);
	err = t->commit(t->commit_arg, t, &e);
	mutex_lock(&t->lock);
	if (!err) {
		free(t->redo);
		t->redo = set;
		set = NULL;
		t->redo_count = n;
		t->redo_own = true;
		t->redo_maybe = 0;
	} else {
		tablet_fail(t, err);
	}
unlock:
	mutex_unlock(&t->lock);
	mutex_unlock(&t->edit);
	free(points);
	free(set);
	return err;
}

static int
state_error(const struct tablet *t)
{
	switch ((enum tablet_state)t->state) {
	case TABLET_LOADING:
	case TABLET_SERVING:
		return 0;
	case TABLET_CLOSING:
		return -ESHUTDOWN;
	case TABLET_BROKEN:
		return -ESTALE;
	}
	return -ESHUTDOWN;
}

/* Step 3.  0; NEED_REDO, NEED_JUDGE; -errno. */
static int
submit(struct tablet *t, struct mutation *m, struct plan *p, struct op_token token, bool sync, struct stripe *s,
       struct log_ticket *ticket, struct writer *w, struct vmem **mem)
{
	struct log_record r = {.table = t->table, .row_from = m->row, .row_to = m->row, .token = token,
			       .batch = buf_slice(&p->batch)};
	int err;

	mutex_lock(&t->lock);
	if ((err = state_error(t)))
		goto out;
	if (!t->redo_own) {
		err = NEED_REDO;
		goto out;
	}
	if (m->judged && (t->schema != m->snap.schema || m->now < t->freeze_us - TABLET_SKEW_US)) {
		err = NEED_JUDGE;
		goto out;
	}
	t->state = TABLET_SERVING;
	*mem = t->view->mems[0];
	r.seq = t->next_seq;
	if ((err = plan_prepare(p, (*mem)->m, r.seq)) || (err = log_submit(t->env->log, &r, sync, ticket)))
		goto out;
	t->next_seq += p->cells;
	(*mem)->seq_max = t->next_seq - 1;
	if (m->any_put && m->newest_us > s->newest_us)
		s->newest_us = m->newest_us;
	writer_begin(t, w, t->next_seq - 1);
out:
	mutex_unlock(&t->lock);
	return err;
}

static int
commit_cells(struct tablet *t, struct mutation *m, struct op_token token, bool sync, struct stripe *s, bool *alone)
{
	size_t used = t->env->memory_used ? *t->env->memory_used : 0, bytes;
	struct log_ticket ticket = {0};
	struct vmem *mem = NULL;
	struct writer w;
	struct plan p;
	int err;

	for (;;) {
		if (!m->pre.n && !m->cells.n)
			return 0;
		plan_init(&p);
		if ((err = plan_mutation(&p, m)))
			goto out;
		while ((err = submit(t, m, &p, token, sync, s, &ticket, &w, &mem)) == NEED_REDO)
			if ((err = ensure_redo(t)))
				goto out;
		if (err != NEED_JUDGE)
			break;
		plan_fini(&p);
		if (!*alone) {
			stripe_unlock(s);
			stripe_lock(s, true);
			*alone = true;
		}
		m->now = clock_now(t->env->clock);
		if ((err = mutation_heavy(m)))
			return err;
	}
	if (err)
		goto out;
	err = log_wait(t->env->log, &ticket);
	mutex_lock(&t->lock);
	if (!err)
		plan_insert(&p, mem);
	bytes = vmem_account(mem);
	writer_end(t, &w);
	mutex_unlock(&t->lock);
	memory_after_write(t, bytes, used);
out:
	plan_fini(&p);
	return err;
}

int
tablet_mutate(struct tablet *t, struct slice row, const struct op *ops, unsigned count, struct op_token token, bool sync,
	      struct op_result *results)
{
	struct stripe *s = stripe_of(t, row);
	struct mutation m;
	bool alone = false;
	int64_t bound;
	int err;

	tablet_enter(t);
	err = memory_slow_down(t);
	if (err)
		goto leave;
	err = mutation_init(&m, t, row, ops, count);
	if (err)
		goto fini;
	stripe_lock(s, false);
	bound = s->newest_us;
	err = mutation_light(&m, bound > t->loaded_newest_us ? bound : t->loaded_newest_us);
	if (err == 1) {
		stripe_unlock(s);
		stripe_lock(s, true);
		alone = true;
		err = mutation_heavy(&m);
	}
	if (!err)
		err = commit_cells(t, &m, token, sync, s, &alone);
	stripe_unlock(s);
	if (!err && results && count)
		memcpy(results, m.results, count * sizeof *results);
fini:
	mutation_fini(&m);
leave:
	tablet_leave(t);
	return err;
}

/* ---- replay ---- */

void
tablet_replay_done(struct tablet *t)
{
	int loading = TABLET_LOADING;

	mutex_lock(&t->lock);
	atomic_compare_exchange_strong(&t->state, &loading, TABLET_SERVING);
	mutex_unlock(&t->lock);
}

static int
replay_plan(struct plan *p, struct batch_reader *b, int64_t *newest)
{
	struct batch_cell c;
	int err;

	*newest = INT64_MIN;
	while ((err = batch_next(b, &c)) > 0) {
		if (c.kind == CELL_VALUE && c.ts > *newest)
			*newest = c.ts;
		if ((err = plan_cell(p, b->row, &c, p->cells)))
			return err;
		p->cells++;
	}
	return err;
}

int
tablet_replay(struct tablet *t, uint64_t incarnation, const struct log_record *r)
{
	size_t used = t->env->memory_used ? *t->env->memory_used : 0, bytes = 0;
	struct redo_state *redo = NULL;
	struct batch_reader b;
	struct stripe *s;
	struct plan p;
	int64_t newest;
	int err;

	tablet_enter(t);
	plan_init(&p);
	mutex_lock(&t->lock);
	for (unsigned i = 0; i < t->redo_count; i++)
		if (t->redo[i].p.incarnation == incarnation)
			redo = &t->redo[i];
	if (!redo || r->lsn < redo->next_lsn) {
		err = 0;
		goto unlock;
	}
	err = batch_open(&b, r->batch);
	if (err)
		goto unlock;
	if (tablet_holds_row(t, b.row)) {
		struct vmem *m = t->view->mems[0];

		if ((err = replay_plan(&p, &b, &newest)) || (err = plan_prepare(&p, m->m, r->seq)))
			goto unlock;
		plan_insert(&p, m);
		bytes = vmem_account(m);
		if (p.cells && r->seq + p.cells > t->next_seq)
			t->next_seq = r->seq + p.cells;
		if (p.cells && r->seq + p.cells - 1 > m->seq_max)
			m->seq_max = r->seq + p.cells - 1;
		t->published = t->next_seq - 1;
		s = stripe_of(t, b.row);
		if (newest > s->newest_us)
			s->newest_us = newest;
	}
	redo->next_lsn = r->lsn + 1;
unlock:
	mutex_unlock(&t->lock);
	plan_fini(&p);
	if (err == -EBADMSG)
		msg_error("log of incarnation %llu: record %llu: the batch is damaged", (unsigned long long)incarnation,
			  (unsigned long long)r->lsn);
	if (bytes)
		memory_after_write(t, bytes, used);
	tablet_leave(t);
	return err;
}
