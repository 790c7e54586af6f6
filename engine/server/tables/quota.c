/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Quotas of tables.  A table whose schema has a quota accepts no puts when it has as many
 * bytes.  Its size is what tfs_usage shows: its SSTables, its memtables and its changes, on all servers.
 *
 * Every LOOK_US this server adds up the sizes of its own tablets and of those in the lists
 * of the other servers (TS_LIST).  Between two looks it adds the bytes that it accepts.
 * So a server alone stops at the quota, and the servers of a cluster pass it by what the
 * others accept within a look.  If a server does not answer, the table is taken to be at
 * least as large as at the look before: a dead server must not let puts through.
 *
 * Mutations that only remove are accepted.  The size falls when a compaction has removed
 * the cells.
 *
 * Rejected: a sum by the master, which all servers would have to ask.
 */
#include "engine/base/clock.h"
#include "engine/base/msg.h"
#include "engine/server/tables/set.h"

#include <errno.h>
#include <stdlib.h>

#define LOOK_US 4000000u
#define ANSWER_US UINT64_C(1000000) /* how long to wait for the list of another server */

struct quotas {
	struct task task; /* first */
	struct server *s;
};

/* The tables with a quota, and their sizes. */
struct sizes {
	struct server *s;
	struct sized {
		struct user_table *u; /* counted */
		uint64_t bytes;
	} * v;
	unsigned count;
	bool partial; /* a server has not answered */
};

static int sizes_init(struct sizes *z, struct server *s)
{
	struct user_table **v;
	unsigned count;
	int err = tables_with_quota(s, &v, &count);

	*z = (struct sizes){.s = s};
	if (err)
		return err;
	z->v = calloc(count + 1u, sizeof(*z->v));
	for (unsigned i = 0; i < count; i++) {
		if (z->v)
			z->v[z->count++].u = v[i];
		else
			user_table_put(s, v[i]);
	}
	free(v);
	return z->v ? 0 : -ENOMEM;
}

static void sizes_fini(struct sizes *z)
{
	while (z->count)
		user_table_put(z->s, z->v[--z->count].u);
	free(z->v);
}

static void sizes_add(struct sizes *z, uint32_t table, uint64_t bytes)
{
	for (unsigned i = 0; i < z->count; i++)
		if (z->v[i].u->table == table)
			z->v[i].bytes += bytes;
}

/* Adds what another server lists.  service NULL: it cannot be reached. */
static int sizes_add_server(void *arg, uint64_t incarnation, struct tablet_service *service)
{
	const struct ts_request q = {.method = TS_LIST, .time_left_us = ANSWER_US};
	struct ts_answer a = {0};
	struct sizes *z = arg;

	if (incarnation == z->s->o.incarnation)
		return 0;
	if (!service || ts_call(service, &q, &a))
		z->partial = true;
	else
		for (unsigned i = 0; i < a.tablet_count; i++)
			sizes_add(z, a.tablets[i].table, a.tablets[i].bytes + a.tablets[i].changes_bytes);
	ts_answer_fini(&a);
	return 0;
}

static int sizes_add_own(struct sizes *z)
{
	struct served_tablet **list = NULL;
	struct tablet_stats st;
	unsigned count = 0;
	int err = served_list(z->s, 0, &list, &count);

	for (unsigned i = 0; i < count && !err; i++) {
		tablet_get_stats(list[i]->tablet, &st);
		sizes_add(z, list[i]->table, st.disk_bytes + st.memory_bytes + st.changes_disk_bytes + st.changes_memory_bytes);
	}
	served_list_put(list, count);
	return err;
}

static void sizes_store(const struct sizes *z)
{
	for (unsigned i = 0; i < z->count; i++) {
		struct user_table *u = z->v[i].u;

		if (z->partial && z->v[i].bytes < u->used_bytes)
			continue;
		u->used_bytes = z->v[i].bytes;
		u->since_bytes = 0;
	}
}

static void look(struct task *t)
{
	struct server *s = ((struct quotas *)(void *)t)->s;
	struct sizes z;
	int err = sizes_init(&z, s);

	if (!err && z.count)
		err = sizes_add_own(&z);
	if (!err && z.count && s->o.servers.each)
		err = s->o.servers.each(s->o.servers.arg, sizes_add_server, &z);
	if (!err)
		sizes_store(&z);
	sizes_fini(&z);
	if (!s->closing)
		task_queue_after(t, LOOK_US);
}

void quotas_begin(struct server *s, struct task_pool *pool)
{
	struct quotas *q = calloc(1, sizeof(*q));

	if (!q) {
		msg_error("out of memory: quotas of tables are checked against what this server accepts only");
		return;
	}
	q->s = s;
	task_init(&q->task, pool, look);
	tables_set_quotas(s, q);
	server_queue(s, &q->task);
}

void quotas_end(struct server *s)
{
	struct quotas *q = tables_quotas(s);

	if (!q)
		return;
	task_cancel(&q->task);
	tables_set_quotas(s, NULL);
	free(q);
}

uint64_t quota_used(const struct user_table *u)
{
	return u->used_bytes + u->since_bytes;
}

int quota_admit(struct user_table *u, uint64_t quota, uint64_t bytes)
{
	const bool over = quota_used(u) >= quota;

	if (over != u->over_quota && atomic_exchange(&u->over_quota, over) != over) {
		if (over)
			msg_warning("table %s: it has reached its quota of %llu bytes: puts are refused", u->name,
				(unsigned long long)quota);
		else
			msg_notice("table %s: it is below its quota again", u->name);
	}
	if (over)
		return -EDQUOT;
	atomic_fetch_add(&u->since_bytes, bytes);
	return 0;
}
