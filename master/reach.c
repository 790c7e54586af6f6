/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Removes servers that cannot be reached.  A server that is cut off from the other
 * processes, but not from the lock service, keeps its session, and with it tablets that no
 * client can use.
 *
 *	1 Every PERIOD_US the master asks each registered server (TS_REACH).
 *	2 If a server does not answer, the master asks the other servers whether they reach it.
 *	3 If in ROUNDS rounds in a row neither the master nor at least half of the other servers
 *	  have reached the server, the master removes its file servers/N and makes the note
 *	  removed/N, in one multi-operation.
 * The server ends when its next heartbeat finds no file.  But its lease may last until then.  So
 * each master takes the server for dead only one session timeout after it has first seen
 * the note.  The collector removes the note with the server's log.
 *
 * At least half means half of all other servers, but the master asks only the
 * servers that it reaches. A lone server is never removed, because no other process
 * could serve its tablets.
 *
 * Rejected: a time limit in the place of rounds.  After a pause of the lock service or the
 * master, one failure would exceed it.  A round counts once, however long it lasts.
 */
#include "engine/base/clock.h"
#include "engine/base/msg.h"
#include "engine/base/units.h"
#include "master/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define PERIOD_US 10000000u
#define ROUNDS 4u /* the first and the last begin 30 s apart, or more */
#define ASK_US UINT64_C(1000000)
#define OTHERS_US UINT64_C(8000000) /* how long another server tries to connect to it */

struct reach_server {
	uint64_t incarnation;
	struct tablet_service *service; /* NULL: there is none at present */
	bool reached;                   /* the master has reached the server */
	unsigned missed;                /* rounds in a row */
	struct ts_sent *sent;
	enum { NO_ANSWER, NO, YES } said;
};

static unsigned missed_before(const struct reach *r, uint64_t incarnation)
{
	for (unsigned i = 0; i < r->count; i++)
		if (r->servers[i].incarnation == incarnation)
			return r->servers[i].missed;
	return 0;
}

struct listing {
	const struct master *m;
	struct reach_server *v;
	unsigned count;
};

static int add(void *arg, const char *name)
{
	struct listing *l = arg;
	uint64_t n;

	if (!number_parse(name, 0, &n, NULL))
		return 0;
	if (array_grow(&l->v, l->count, sizeof(*l->v)))
		return -ENOMEM;
	l->v[l->count++] = (struct reach_server){.incarnation = n, .missed = missed_before(&l->m->reach, n)};
	return 0;
}

/* Asks the servers of which `reached` is set, at once if they are connected. */
static void ask(struct reach *r, const struct ts_request *q)
{
	for (unsigned i = 0; i < r->count; i++)
		if (r->servers[i].reached)
			r->servers[i].sent = ts_send(r->servers[i].service, q);
	for (unsigned i = 0; i < r->count; i++) {
		struct reach_server *s = &r->servers[i];
		struct ts_answer a = {0};
		int err = !s->reached ? -UNREACHABLE : s->sent ? ts_receive(s->sent, q, &a) : ts_call(s->service, q, &a);

		s->sent = NULL;
		s->said = err ? NO_ANSWER : a.exists ? YES : NO;
		ts_answer_fini(&a);
	}
}

/* Step 2: returns true if at least half of the other servers say that they do not reach it. */
static bool others_miss(struct reach *r, uint64_t incarnation)
{
	const struct ts_request q = {.method = TS_REACH, .incarnation = incarnation, .time_left_us = OTHERS_US};
	unsigned missed = 0;

	ask(r, &q);
	for (unsigned i = 0; i < r->count; i++)
		missed += r->servers[i].said == NO;
	return missed && 2 * missed >= r->count - 1;
}

static void note_name(char name[40], uint64_t incarnation)
{
	snprintf(name, 40, "removed/%llu", (unsigned long long)incarnation);
}

/* Step 3. */
static void remove_server(struct master *m, uint64_t incarnation)
{
	char file[40], note[40];
	const struct lock_op ops[] = {
		{.name = file, .what = LOCK_REMOVE, .expect = LOCK_EXISTS}, {.name = note, .expect = LOCK_ANY}};
	int err;

	snprintf(file, sizeof(file), "servers/%llu", (unsigned long long)incarnation);
	note_name(note, incarnation);
	err = master_multi(m, ops, 2);
	if (!err)
		msg_warning("server %llu is removed: this master and half of the other servers have not reached it for 30 s",
			(unsigned long long)incarnation);
	else if (err != -ENOENT) /* -ENOENT: the server has ended */
		msg_warning("%s: cannot be removed: %s", file, error_text(err));
}

/* One round. */
static void look(struct master *m)
{
	const struct ts_request q = {.method = TS_REACH, .time_left_us = ASK_US};
	struct reach *r = &m->reach;
	struct listing l = {.m = m};
	int err = m->locks->ops->list(m->locks, "servers", add, &l);

	free(r->servers);
	r->servers = l.v;
	r->count = err ? 0 : l.count;
	for (unsigned i = 0; i < r->count; i++) {
		r->servers[i].service = m->o.servers.connect(m->o.servers.arg, r->servers[i].incarnation);
		r->servers[i].reached = r->servers[i].service;
	}
	ask(r, &q);
	for (unsigned i = 0; i < r->count; i++)
		r->servers[i].reached = r->servers[i].said == YES;
	for (unsigned i = 0; i < r->count; i++) {
		struct reach_server *s = &r->servers[i];

		s->missed = s->reached || !others_miss(r, s->incarnation) ? 0 : s->missed + 1;
		if (s->missed >= ROUNDS)
			remove_server(m, s->incarnation);
	}
}

static void run(struct task *t)
{
	struct master *m = (struct master *)(void *)((char *)t - offsetof(struct master, reach.task));
	const uint64_t since_us = monotonic_us();
	uint64_t us;

	look(m);
	us = monotonic_us() - since_us;
	task_queue_after(t, us < PERIOD_US ? PERIOD_US - us : 0);
}

int reach_begin(struct master *m)
{
	int err = m->o.term && !m->o.no_background ? task_pool_new("reach", 1, &m->reach.pool) : 0;

	if (!err && m->reach.pool) {
		task_init(&m->reach.task, m->reach.pool, run);
		task_queue(&m->reach.task);
	}
	return err;
}

bool reach_may_have_lease(struct master *m, uint64_t incarnation)
{
	struct reach *r = &m->reach;
	const uint64_t now_us = monotonic_us();
	char note[40];
	unsigned i = 0;
	int err;

	note_name(note, incarnation);
	err = lock_get(m->locks, note, NULL, NULL);
	if (err)
		return err != -ENOENT;
	while (i < r->noted_count && r->noted[i].incarnation != incarnation)
		i++;
	if (i == r->noted_count) {
		if (array_grow(&r->noted, r->noted_count, sizeof(*r->noted)) == 0)
			r->noted[r->noted_count++] = (struct reach_note){incarnation, now_us};
		return true;
	}
	return now_us - r->noted[i].seen_us < m->o.session_us;
}

void reach_end(struct master *m)
{
	struct reach *r = &m->reach;

	if (r->pool) {
		task_cancel(&r->task);
		task_pool_free(r->pool);
	}
	free(r->servers);
	free(r->noted);
	*r = (struct reach){0};
}
