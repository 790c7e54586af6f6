/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans of memtable entries (tablet_plan.h), for the write path and for replay.
 */
#include "engine/tablet/tablet_plan.h"
#include "engine/cell/change_format.h"

#include <errno.h>
#include <stdlib.h>

/* The distance in bytes from a key's sequence number to its end, without the time of commit. */
enum { SEQ_FROM_END = 9 };

void plan_fini(struct plan *p)
{
	buf_fini(&p->keys);
	buf_fini(&p->batch);
	if (p->v != p->fixed_)
		free(p->v);
}

static int plan_entry(struct plan *p, const struct cellkey *k, struct tfs_bytes value)
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
	e = &p->v[p->n];
	*e = (struct planned){.key_at = at,
		.key_bytes = p->keys.n - at,
		.ts = k->ts,
		.cell = p->cells - 1,
		.seq_at = p->keys.n - SEQ_FROM_END,
		.live = k->kind == CELL_VALUE,
		.dead = k->kind < CELL_VALUE,
		.family = k->family,
		.value = value};
	if (e->live) { /* space for the time of commit */
		if ((err = buf_reserve(&p->keys, CELL_COMMIT_BYTES)))
			return err;
		p->keys.n += CELL_COMMIT_BYTES;
	}
	p->n++;
	return 0;
}

static int plan_change(struct plan *p, struct tfs_bytes row, const struct batch_cell *c)
{
	const struct change change = {
		.index = p->changes, .kind = c->kind, .family = c->family, .ts = c->ts, .row = row, .qualifier = c->qualifier};
	struct planned *e = &p->v[p->n - 1];
	int err;

	e->change_at = p->keys.n;
	err = change_key_append(&p->keys, &change);
	e->change_bytes = p->keys.n - e->change_at;
	p->changes++;
	return err;
}

int plan_cell(struct plan *p, struct tfs_bytes row, const struct batch_cell *c)
{
	const struct cellkey k = {row, c->qualifier, c->family, c->kind, c->ts, 0, c->ts};
	int err;

	p->cells++;
	p->row_deletes += c->kind == CELL_DELETE_ROW;
	p->family_deletes += c->kind == CELL_DELETE_FAMILY;
	p->column_deletes += c->kind == CELL_DELETE_COLUMN;
	p->tombstones += c->kind != CELL_VALUE;
	err = plan_entry(p, &k, c->value);
	return err || !p->keeps_changes || c->pre ? err : plan_change(p, row, c);
}

void plan_init(struct plan *p)
{
	*p = (struct plan){.cap = PLAN_INLINE};
	p->v = p->fixed_;
}

void plan_reset(struct plan *p)
{
	buf_reset(&p->keys);
	buf_reset(&p->batch);
	p->n = p->cells = p->changes = 0;
	p->row_deletes = p->family_deletes = p->column_deletes = p->tombstones = 0;
}

int plan_mutation(struct plan *p, const struct mutation *m)
{
	size_t bytes = m->row.n + 16, key_bytes = 0;
	int err;

	for (unsigned i = 0; i < m->cells.n; i++) {
		bytes += batch_cell_bytes(&m->cells.v[i]);
		key_bytes += 2 * (m->row.n + m->cells.v[i].qualifier.n) + CELL_SUFFIX_BYTES + CELL_COMMIT_BYTES + 16;
	}
	if ((err = buf_reserve(&p->batch, bytes)) || (err = buf_reserve(&p->keys, key_bytes)) ||
		(err = batch_begin(&p->batch, m->row)))
		return err;
	for (unsigned i = 0; i < m->pre.n + m->cells.n; i++) {
		const struct batch_cell *c = i < m->pre.n ? &m->pre.v[i] : &m->cells.v[i - m->pre.n];

		if ((err = batch_add(&p->batch, c)) || (err = plan_cell(p, m->row, c)))
			return err;
	}
	return 0;
}

/* Copies the change of e into a node. */
static int prepare_change(struct plan *p, struct planned *e, struct vmem *m, uint64_t seq, int64_t commit)
{
	struct memtable *changes = m->changes;
	uint8_t *key = p->keys.p + e->change_at;
	int err = changes ? 0 : memtable_new(&changes);

	if (err)
		return err;
	m->changes = changes;
	change_key_set(key, e->change_bytes, commit, seq + e->cell);
	return memtable_prepare(changes, tfs_bytes_of(key, e->change_bytes), e->value, &e->change);
}

int plan_prepare(struct plan *p, struct vmem *m, uint64_t seq, int64_t commit)
{
	struct mem_family *f = NULL;

	for (unsigned i = 0; i < p->n; i++) {
		struct planned *e = &p->v[i];
		uint8_t *key = p->keys.p + e->key_at;
		int err;

		put_be64(p->keys.p + e->seq_at, ~(seq + e->cell));
		if (e->live)
			e->key_bytes = e->seq_at - e->key_at + SEQ_FROM_END +
				cellkey_put_commit(p->keys.p + e->seq_at + SEQ_FROM_END, e->ts, commit);
		if (!f || f->id != e->family)
			f = mem_usage_family(&m->usage, e->family);
		e->count = f;
		err = f ? memtable_prepare(m->m, tfs_bytes_of(key, e->key_bytes), e->value, &e->node) : -ENOMEM;
		if (!err && e->change_bytes)
			err = prepare_change(p, e, m, seq, commit);
		if (err)
			return err;
	}
	return 0;
}

/* Adds without a locked instruction, because one thread counts at a time. */
static inline void count_add(_Atomic uint64_t *to, uint64_t n)
{
	atomic_store_explicit(to, atomic_load_explicit(to, memory_order_relaxed) + n, memory_order_relaxed);
}

void plan_insert(struct plan *p, struct vmem *m)
{
	if (p->tombstones) {
		m->row_deletes += p->row_deletes;
		m->family_deletes += p->family_deletes;
		m->column_deletes += p->column_deletes;
		m->tombstones += p->tombstones - p->row_deletes - p->family_deletes;
	}
	for (unsigned i = 0; i < p->n; i++) {
		const struct planned *e = &p->v[i];

		count_add(&e->count->cells, e->live);
		count_add(&e->count->tombstones, e->dead);
		count_add(&e->count->bytes, e->key_bytes + e->value.n);
		if (e->live && e->ts < m->oldest_us)
			m->oldest_us = e->ts;
		memtable_insert(m->m, e->node, p->near);
		if (e->change_bytes)
			memtable_insert(m->changes, e->change, !p->near); /* in the order of commits, which replay has not */
	}
}
