/* SPDX-License-Identifier: Apache-2.0 */
/* The servers of a pass (assign.c): finds the live servers and the tablets that they serve, and buries dead servers. */
#include "engine/base/clock.h"
#include "engine/base/msg.h"
#include "engine/base/units.h"
#include "master/pass.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static int live_add(struct pass *p, uint64_t incarnation)
{
	if (array_grow(&p->live, p->live_count, sizeof(*p->live)))
		return -ENOMEM;
	p->live[p->live_count++] = incarnation;
	return 0;
}

static int server_add(void *arg, uint64_t incarnation, struct tablet_service *service)
{
	struct pass *p = arg;

	if (array_grow(&p->servers, p->server_count, sizeof(*p->servers)))
		return -ENOMEM;
	p->servers[p->server_count++] = (struct live_server){
		.incarnation = incarnation, .service = service, .draining = !p->m->o.sole && server_is_draining(p->m, incarnation)};
	return live_add(p, incarnation);
}

struct live_server *pass_server(struct pass *p, uint64_t incarnation)
{
	for (unsigned i = 0; i < p->server_count; i++)
		if (p->servers[i].incarnation == incarnation)
			return &p->servers[i];
	return NULL;
}

int pass_compare(const void *a, const void *b)
{
	const struct ts_assigned *x = a, *y = b;

	if (x->table != y->table)
		return x->table < y->table ? -1 : 1;
	if (!x->end.p || !y->end.p)
		return (!x->end.p) - (!y->end.p);
	return bytes_cmp(x->end, y->end);
}

void pass_list(struct pass *p)
{
	const struct ts_request q = {.method = TS_LIST, .term = master_term(p->m)};

	for (unsigned i = 0; i < p->server_count; i++) {
		struct live_server *s = &p->servers[i];

		ts_answer_fini(&s->list);
		if (ts_call(s->service, &q, &s->list))
			ts_answer_fini(&s->list); /* without its list, LOAD is sent for all tablets of this server */
		p->failed += s->list.exists;
	}
}

bool pass_serves(const struct live_server *s, const struct ts_assigned *t)
{
	const struct ts_assigned *found =
		s->list.tablet_count ? bsearch(t, s->list.tablets, s->list.tablet_count, sizeof(*t), pass_compare) : NULL;

	return found && found->assignment == t->assignment;
}

static int registered_add(void *arg, const char *name)
{
	struct pass *p = arg;
	uint64_t incarnation;

	return number_parse(name, 0, &incarnation, NULL) ? live_add(p, incarnation) : 0;
}

/*
 * Sends the list of live servers to all servers.  A server that does not answer is left out of
 * the pass, because it may carry out late requests of dead servers.
 */
static int servers_bury(struct pass *p)
{
	struct ts_request q = {.method = TS_BURY, .term = master_term(p->m)};
	unsigned left = 0;
	uint64_t version;
	int err = lock_sync(p->m->locks);

	if (!err)
		err = master_ids_read(p->m, &p->next_id, &version);
	if (!err)
		err = p->m->locks->ops->list(p->m->locks, "servers", registered_add, p);
	if (err || !p->live_count)
		return err;
	qsort(p->live, p->live_count, sizeof(*p->live), number_order);
	for (uint32_t i = 0; i < p->live_count; i++)
		if (!q.live_count || p->live[q.live_count - 1] != p->live[i])
			p->live[q.live_count++] = p->live[i];
	p->live_count = q.live_count;
	q.live = p->live;
	if (p->m->passes.latest < p->live[q.live_count - 1])
		p->m->passes.latest = p->live[q.live_count - 1];
	q.incarnation = p->buried = p->m->passes.latest;
	q.to_table = p->next_id;
	p->quiet = p->server_count == p->live_count;
	for (unsigned i = 0; i < p->server_count; i++) {
		struct ts_answer a = {0};

		if (ts_call(p->servers[i].service, &q, &a) == 0)
			p->servers[left++] = p->servers[i];
		else
			p->quiet = false;
		p->quiet &= !a.exists;
		ts_answer_fini(&a);
	}
	p->left_out = p->server_count - left;
	p->server_count = left;
	return 0;
}

/* A hash of the live servers. */
uint64_t servers_sum(const struct pass *p)
{
	uint64_t sum = p->server_count;

	for (unsigned i = 0; i < p->server_count; i++)
		sum = sum * UINT64_C(0x9e3779b97f4a7c15) + p->servers[i].incarnation;
	return sum;
}

int pass_find(struct pass *p)
{
	int err = p->m->o.servers.each(p->m->o.servers.arg, server_add, p);

	return err ? err : p->server_count ? 0 : -EAGAIN;
}

int pass_servers(struct pass *p)
{
	int err = pass_find(p);

	p->sum = servers_sum(p);
	p->quiet = p->m->o.sole;
	if (!err && !p->m->o.sole)
		err = servers_bury(p);
	return err ? err : p->server_count ? 0 : -EAGAIN;
}

static void places_free(struct place *v, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		buf_fini(&v[i].begin);
		buf_fini(&v[i].end);
	}
	free(v);
}

void pass_clear(struct pass *p)
{
	places_free(p->v, p->count);
	p->v = NULL;
	p->count = 0;
}

void pass_fini(struct pass *p)
{
	pass_clear(p);
	places_free(p->metadata, p->metadata_count);
	for (unsigned i = 0; i < p->server_count; i++)
		ts_answer_fini(&p->servers[i].list);
	for (unsigned i = 0; i < p->orphan_count; i++)
		buf_fini(&p->orphans[i]);
	free(p->orphans);
	free(p->notes);
	free(p->servers);
	free(p->dead);
	free(p->live);
	buf_fini(&p->begin);
}

/*
 * Step a.  If a server does not answer or cannot reach the storage, the next one is
 * asked.  The first may still work on it: the seal that is stored first counts.
 */
static int seal_by_any(struct pass *p, uint64_t incarnation, struct ts_answer *a)
{
	const struct ts_request q = {.method = TS_SEAL, .incarnation = incarnation, .term = master_term(p->m)};
	int err = -EAGAIN;

	for (unsigned i = 0; i < p->server_count && err && err != -ENOENT; i++) {
		ts_answer_fini(a);
		*a = (struct ts_answer){0};
		err = ts_call(p->servers[i].service, &q, a);
	}
	return err;
}

/* Steps a and b.  -EAGAIN: the server is not dead, or that is unknown. */
static int server_bury(struct pass *p, uint64_t incarnation)
{
	struct ts_answer a = {0};
	char name[40];
	bool no_log = false;
	int err = lock_sync(p->m->locks);

	snprintf(name, sizeof(name), "servers/%llu", (unsigned long long)incarnation);
	if (err || lock_get(p->m->locks, name, NULL, NULL) != -ENOENT || reach_may_have_lease(p->m, incarnation))
		return -EAGAIN;
	p->m->passes.failure_us = monotonic_us();
	snprintf(name, sizeof(name), "seals/%llu", (unsigned long long)incarnation);
	err = lock_get(p->m->locks, name, NULL, NULL);
	if (err == -ENOENT) {
		err = seal_by_any(p, incarnation, &a);
		if (!err)
			err = master_put(p->m, name, a.log, LOCK_ABSENT);
		else if (err == -ENOENT)
			no_log = true;
		if (err == -EEXIST || no_log)
			err = 0;
	}
	if (err)
		msg_warning("the log of server %llu cannot be sealed: %s", (unsigned long long)incarnation, error_text(err));
	else
		msg_notice("server %llu is dead; its tablets are given to others", (unsigned long long)incarnation);
	ts_answer_fini(&a);
	return err ? -EAGAIN : 0;
}

/*
 * Returns true if the servers have learnt by BURY that this server is dead.  Otherwise
 * it may die in this pass, but is not dead before the next one.
 */
static bool is_buried(struct pass *p, uint64_t incarnation)
{
	uint64_t latest;

	if (incarnation <= p->buried)
		return !bsearch(&incarnation, p->live, p->live_count, sizeof(*p->live), number_order);
	/* A damaged row may name any number, and later servers must not be buried. */
	if (incarnation > p->m->passes.latest && master_incarnation(p->m, &latest) == 0 && incarnation <= latest)
		p->m->passes.latest = incarnation; /* BURY of the next pass is about it, too */
	return false;
}

bool pass_is_dead(struct pass *p, uint64_t incarnation)
{
	unsigned i = 0;

	if (!incarnation || p->m->o.sole)
		return true;
	if (!is_buried(p, incarnation))
		return false;
	while (i < p->dead_count && p->dead[i].incarnation != incarnation)
		i++;
	if (i == p->dead_count) {
		if (array_grow(&p->dead, p->dead_count, sizeof(*p->dead)))
			return false;
		p->dead[p->dead_count++] =
			(struct dead_server){.incarnation = incarnation, .buried = server_bury(p, incarnation) == 0};
	}
	return p->dead[i].buried;
}
