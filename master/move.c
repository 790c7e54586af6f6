/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moves of tablets between servers (paper, section 6, "Speeding up tablet
 * recovery"):
 *
 *	0 read the tablet's row: if METADATA's server has just ended, UNLOAD would wait for the pass
 *	  that waits for UNLOAD
 *	1 UNLOAD: the old server flushes the tablet, stops its writers, flushes the
 *	  rest, and makes 0 the server of the METADATA row.  The master waits UNLOAD_US for the answer:
 *	  if METADATA's server ends meanwhile, only a pass of the master has METADATA served again
 *	2 write the new server to the row, with the next assignment number
 *	3 LOAD at the new server, which finds no log to replay
 * A crash after step 1 leaves a tablet that no server serves; the next pass
 * (assign.c) assigns it.
 *
 * balance.c chooses the moves.
 */
#include "engine/base/clock.h"
#include "engine/base/msg.h"
#include "engine/client/metadata.h"
#include "master/balance.h"
#include "master/pass.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define EMPTY_US 1000000u
#define UNLOAD_US 3000000u

/* Step 0. */
static int row_is_served(struct master *m, const struct ts_assigned *t)
{
	struct meta_tablet row = {0};
	struct buf key = {0};
	int err = meta_row_key(&key, t->table, !t->end.p, t->end);

	if (!err)
		err = metadata_read(m->tablets, buf_bytes(&key), &row);
	meta_tablet_fini(&row);
	buf_fini(&key);
	return err;
}

static int unload(struct master *m, struct live_server *s, const struct ts_assigned *t)
{
	enum {
		TRIES = 3
	}; /* UNLOAD is tried again while a split, merge or UNLOAD is under way on the server, which waits a second for its end */
	struct ts_request q = {
		.method = TS_UNLOAD, .tablets = t, .tablet_count = 1, .term = master_term(m), .time_left_us = UNLOAD_US};
	int one = -EAGAIN, err = 0;

	collect_moving(m, t->table);
	for (unsigned i = 0; i < TRIES && !err && one == -EAGAIN; i++) {
		struct ts_answer a = {.row_errs = &one};

		err = ts_call(s->service, &q, &a);
		a.row_errs = NULL;
		ts_answer_fini(&a);
	}
	return err == -ETIMEDOUT ? -EAGAIN : err ? err : one; /* UNLOAD may still take place later */
}

static bool is_root_tablet(const struct ts_assigned *t)
{
	return t->table == META_TABLE && bytes_eq(t->end, META_ROOT_END);
}

/* Moves one tablet.  The pass has the servers, and no places. */
static int move(struct pass *p, struct live_server *from, const struct ts_assigned *t, struct live_server *to)
{
	struct place *l;
	int err = array_grow(&p->v, 0, sizeof(*p->v)) ? -ENOMEM : is_root_tablet(t) ? 0 : row_is_served(p->m, t);

	if (err)
		return err;
	err = unload(p->m, from, t); /* step 1 */
	if (err)
		goto out;
	l = p->v;
	*l = (struct place){.at = *t, .to = to->incarnation, .assign = true};
	l->at.server = 0;
	p->level = is_root_tablet(t) ? LEVEL_ROOT : t->table == META_TABLE ? LEVEL_META : LEVEL_USER;
	p->count = 1;
	p->failed = 0;
	err = buf_set(&l->begin, t->begin.p, t->begin.n);
	if (!err && t->end.p)
		err = buf_set(&l->end, t->end.p, t->end.n);
	pass_point(p);
	if (!err)
		err = pass_assign(p); /* step 2 */
	if (!err)
		err = pass_load(p, to); /* step 3 */
	if (!err && (p->failed || !l->to))
		err = -EAGAIN;
	pass_clear(p);
out:
	if (err) /* an error of step 1, too, because its outcome may be unknown */
		assign_soon(p->m);
	return err;
}

/* Finds the tablet that contains the row, on the server that serves it. */
static const struct ts_assigned *move_find(struct pass *p, uint32_t table, struct tfs_bytes row, struct live_server **from)
{
	for (unsigned i = 0; i < p->server_count; i++) {
		for (uint32_t k = 0; k < p->servers[i].list.tablet_count; k++) {
			const struct ts_assigned *t = &p->servers[i].list.tablets[k];

			*from = &p->servers[i];
			if (t->table == table && bytes_cmp(row, t->begin) >= 0 && (!t->end.p || bytes_cmp(row, t->end) < 0))
				return t;
		}
	}
	return NULL;
}

int master_move(struct master *m, uint32_t table, struct tfs_bytes row, uint64_t to)
{
	struct pass p = {.m = m};
	struct live_server *from = NULL, *target;
	const struct ts_assigned *t = NULL;
	int err;

	mutex_lock(&m->lock);
	err = pass_servers(&p);
	if (!err) {
		pass_list(&p);
		target = pass_server(&p, to);
		t = target ? move_find(&p, table, row, &from) : NULL;
		/* partial: UNLOAD might be unable to change the row */
		err = !t ? -ENOENT : from == target ? 0 : m->passes.partial ? -EAGAIN : move(&p, from, t, target);
	}
	pass_fini(&p);
	mutex_unlock(&m->lock);
	return err;
}

/* ---- balance ---- */

/* Returns the time since which this master knows the server. */
static uint64_t server_since(struct master *m, uint64_t incarnation)
{
	const uint64_t now = monotonic_us();

	for (unsigned i = 0; i < m->passes.seen_count; i++)
		if (m->passes.seen[i].incarnation == incarnation)
			return m->passes.seen[i].since_us;
	if (array_grow(&m->passes.seen, m->passes.seen_count, sizeof(*m->passes.seen)))
		return now;
	m->passes.seen[m->passes.seen_count++] = (struct seen_server){incarnation, now};
	return now;
}

static int set_draining(struct master *m, uint64_t incarnation, bool drain)
{
	char name[DRAIN_FILE_MAX];

	drain_file_name(incarnation, name);
	return drain ? master_put(m, name, tfs_bytes_of("", 0), LOCK_ANY) : master_remove(m, name);
}

int master_drain(struct master *m, uint64_t incarnation, bool drain)
{
	int err;

	mutex_lock(&m->lock);
	err = set_draining(m, incarnation, drain);
	mutex_unlock(&m->lock);
	return err;
}

/* A tablet of a LIST, with its server. */
struct listed {
	const struct ts_assigned *t;
	struct live_server *server;
};
/* The state for balance.c; tablets[i] is listed[i]. */
struct placement {
	unsigned count;
	struct listed *listed;
	struct balance_tablet *tablets;
	struct balance_server *servers;
};

static int by_place(const void *a, const void *b)
{
	return pass_compare(((const struct listed *)a)->t, ((const struct listed *)b)->t);
}

/* Reads the state, after the pass has the servers.  The caller frees it with the pass, also after an error. */
static int placement_read(struct pass *p, struct placement *x)
{
	unsigned n = 0;

	pass_list(p);
	for (unsigned i = 0; i < p->server_count; i++)
		n += p->servers[i].list.tablet_count;
	x->listed = calloc(n + 1u, sizeof(*x->listed));
	x->servers = calloc(p->server_count, sizeof(*x->servers));
	x->tablets = calloc(n + 1u, sizeof(*x->tablets));
	if (!x->listed || !x->servers || !x->tablets)
		return -ENOMEM;
	n = 0;
	for (unsigned i = 0; i < p->server_count; i++) {
		struct live_server *s = &p->servers[i];

		x->servers[i] = (struct balance_server){
			.id = s->incarnation, .since_us = server_since(p->m, s->incarnation), .draining = s->draining};
		for (uint32_t k = 0; k < s->list.tablet_count; k++)
			x->listed[n++] = (struct listed){&s->list.tablets[k], s};
	}
	qsort(x->listed, n, sizeof(*x->listed), by_place);
	for (unsigned i = 0; i < n; i++) {
		const struct ts_assigned *t = x->listed[i].t, *below = i ? x->listed[i - 1].t : NULL;
		const uint64_t now = monotonic_us();

		x->tablets[i] = (struct balance_tablet){.kind = is_root_tablet(t) ? BALANCE_ROOT
				: t->table == META_TABLE                          ? BALANCE_METADATA
										  : BALANCE_USER,
			.server = t->server,
			.since_us = now > t->age_us ? now - t->age_us : 0,
			.bytes = t->bytes,
			.reads = t->reads,
			.writes = t->writes,
			.small = below && below->table == t->table && below->end.p && bytes_eq(below->end, t->begin) &&
				!t->border && below->merge_bytes && t->merge_bytes && below->bytes + t->bytes < t->merge_bytes};
	}
	x->count = n;
	return 0;
}

/* Ends a pass of moves, and releases the master's lock. */
static void placement_end(struct pass *p, struct placement *x)
{
	free(x->listed);
	free(x->servers);
	free(x->tablets);
	pass_fini(p);
	mutex_unlock(&p->m->lock);
}

int master_balance(struct master *m, unsigned *moved)
{
	static const char *const reasons[] = {
		"its server is draining", "METADATA is spread", "it is small, as its neighbour", "load"};
	struct pass p = {.m = m};
	struct placement x = {0};
	struct balance_move *moves = NULL;
	unsigned count = 0;
	int err;

	*moved = 0;
	mutex_lock(&m->lock);
	if (m->passes.partial) {
		mutex_unlock(&m->lock);
		return 0;
	}
	err = pass_servers(&p);
	if (!err)
		err = placement_read(&p, &x);
	if (!err) {
		const struct balance_state state = {.servers = x.servers,
			.server_count = p.server_count,
			.tablets = x.tablets,
			.tablet_count = x.count,
			.now_us = monotonic_us(),
			.failure_us = m->passes.failure_us};

		err = balance_moves(&state, &moves, &count);
	}
	for (unsigned i = 0; i < count && !err; i++) {
		const struct listed *l = &x.listed[moves[i].tablet];

		err = move(&p, l->server, l->t, pass_server(&p, moves[i].to));
		if (!err)
			msg_info("table %u, tablet ending at %s: moved to server %llu: %s", l->t->table,
				l->t->end.p ? Q(l->t->end) : "the end", (unsigned long long)moves[i].to, reasons[moves[i].reason]);
		*moved += !err;
	}
	free(moves);
	placement_end(&p, &x);
	return err;
}

/* ---- drain ---- */

static int begin_drain(struct pass *p, struct live_server *from)
{
	bool other = false;
	int err = 0;

	for (unsigned i = 0; i < p->server_count; i++)
		other = other || (&p->servers[i] != from && !p->servers[i].draining);
	if (!other)
		return -EBUSY;
	if (!from->draining)
		err = set_draining(p->m, from->incarnation, true);
	if (!err)
		from->draining = true;
	return err;
}

/* Root first, then METADATA, because all other tablets are found through them.  Returns the first error of a tablet, or -EAGAIN after EMPTY_US. */
static int move_all(struct pass *p, const struct placement *x, const struct live_server *from, const uint64_t *to)
{
	const uint64_t until = monotonic_us() + EMPTY_US;
	int first = 0;

	for (enum balance_kind kind = BALANCE_ROOT; kind <= BALANCE_USER; kind++)
		for (unsigned i = 0; i < x->count; i++) {
			int err;

			if (x->tablets[i].kind != kind || x->listed[i].server != from)
				continue;
			if (monotonic_us() >= until)
				return -EAGAIN;
			err = move(p, x->listed[i].server, x->listed[i].t, pass_server(p, to[i]));
			if (err == -SESSION_ENDED)
				return err;
			first = first ? first : err;
		}
	return first;
}

int master_empty(struct master *m, uint64_t incarnation)
{
	struct pass p = {.m = m};
	struct live_server *from = NULL;
	struct placement x = {0};
	uint64_t *to = NULL;
	int err;

	mutex_lock(&m->lock);
	err = m->passes.partial ? -EAGAIN : pass_servers(&p);
	if (!err) {
		from = pass_server(&p, incarnation);
		err = from ? begin_drain(&p, from) : -ENOENT;
	}
	if (!err)
		err = placement_read(&p, &x);
	if (!err) {
		const struct balance_state state = {
			.servers = x.servers, .server_count = p.server_count, .tablets = x.tablets, .tablet_count = x.count};

		for (unsigned i = 0; i < x.count; i++)
			if (x.listed[i].server == from)
				x.tablets[i].server = 0;
		to = calloc(x.count + 1u, sizeof(*to));
		err = to ? balance_place(&state, to) : -ENOMEM;
	}
	if (!err)
		err = move_all(&p, &x, from, to);
	free(to);
	placement_end(&p, &x);
	return err;
}
