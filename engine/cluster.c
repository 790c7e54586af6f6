/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server of a cluster: the composition root beside open.c.
 *
 * Steps: 1 open the lock service; check the marker, FORMAT, the storage with another server  2 take an incarnation by
 * compare-and-set  3 make the session's file servers/N with the address, and begin its heartbeats
 * 4 make the server, its listener, the client  5 serve.  From step 3 on the master gives it tablets;
 * its requests wait until step 5.
 *
 * Its clean end: 1 the master moves its tablets to other servers  2 close the connections  3 flush the tablets that
 * are left, unless no server serves METADATA any more  4 remove servers/N, so that others need not wait for the end of the session.
 *
 * The client is for requests of the store service (engine/serve.c), which this process answers by
 * the functions of tabletfs.h.
 */
#include "engine/cluster.h"

#include "engine/base/clock.h"
#include "engine/base/msg.h"
#include "engine/base/task.h"
#include "engine/client/client.h"
#include "engine/host.h"
#include "engine/lock/session.h"
#include "engine/probe/probe.h"
#include "engine/serve.h"
#include "engine/site.h"
#include "engine/site_probe.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define PATIENCE_US 30000000u
#define DRAIN_US 60000000u
#define LOOK_US 500000u
#define LAPSED_US 2000000u
#define FLUSH_WAIT_US 2000000u /* how long the end waits for METADATA; tablets that cannot be flushed are replayed from the log */

struct member {
	struct host host; /* first */
	struct site site;
	struct clock *clock;
	struct lock_session *session;
	struct router *router;
	struct probe_sides *probes;
	struct tfs_store *store;
	struct task_pool *pool;
	struct task note, look;
	uint64_t lapsed_us; /* since when the lease is over; 0: it is not */
};

/* The lock service has reported a change of schemas, for example a change that a master made by itself. */
static void note_schemas(struct task *t)
{
	struct member *m = (struct member *)((char *)t - offsetof(struct member, note));

	serve_note_schemas(m->host.serving);
}

/*
 * A server whose lease has been over for some time is cut off from the lock service, or the lock
 * service has ended.  Clients would wait for it, also with questions that other servers can answer,
 * so it closes their connections until it has a lease again.
 */
static void look(struct task *t)
{
	struct member *m = (struct member *)((char *)t - offsetof(struct member, look));
	const uint64_t now = monotonic_us();

	if (lock_session_held(m->session))
		m->lapsed_us = 0;
	else if (!m->lapsed_us)
		m->lapsed_us = now;
	serve_pause(m->host.serving, m->lapsed_us && now - m->lapsed_us >= LAPSED_US);
	task_queue_after(t, LOOK_US);
}

static void on_schemas(void *arg, const char *name)
{
	task_queue(&((struct member *)arg)->note);
}

static int watch_schemas(struct member *m)
{
	int err = task_pool_new("notes", 2, &m->pool);

	if (err)
		return err;
	task_init(&m->note, m->pool, note_schemas);
	task_init(&m->look, m->pool, look);
	task_queue(&m->look);
	err = m->site.locks->ops->watch(m->site.locks, "tables/", on_schemas, m);
	return err ? err : m->site.locks->ops->watch(m->site.locks, "snapshots/", on_schemas, m);
}

static int member_free(struct member *m, bool flush)
{
	int err = 0;

	if (!m)
		return 0;
	if (m->pool) {
		m->site.locks->ops->unwatch(m->site.locks, on_schemas, m);
		task_cancel(&m->note);
		task_cancel(&m->look);
		task_pool_free(m->pool);
	}
	if (m->host.server && flush)
		server_stop(m->host.server);
	if (m->host.server)
		err = server_free(m->host.server, flush);
	lock_session_free(m->session);
	route_free(m->router);
	serve_end(m->host.serving);
	probe_sides_free(m->probes);
	site_close(&m->site);
	clock_free(m->clock);
	free(m->host.dir);
	free(m);
	return err;
}

/* ---- the fence ---- */

static bool lease_held(void *arg)
{
	return lock_session_held(((struct member *)arg)->session);
}

static void server_lost(void *arg, const char *why)
{
	site_give_up(why);
}

static void session_lost(void *arg)
{
	site_give_up("the session in the lock service has ended");
}

static int64_t clock_offset(void *arg)
{
	return lock_session_clock_offset(((struct member *)arg)->session);
}

/* Step 2. */
static int take_incarnation(struct member *m, char **why)
{
	uint64_t last, version;
	int err;

	do {
		char *ignored = NULL;

		err = lock_sync(m->site.locks);
		if (!err)
			err = host_last_incarnation(m->site.dir, m->site.locks, &last, &version, why);
		if (!err)
			err = host_take_incarnation(m->site.dir, m->site.locks, last, version, &m->host.incarnation, &ignored);
		free(ignored);
	} while (err == -VERSION_CHANGED || err == -EEXIST);
	if (err)
		why_set(why, "the incarnation: %s", error_text(err));
	return err;
}

/* Step 3. */
static int hold_session(struct member *m, char **why)
{
	char name[40];
	struct lock_session_options o = {
		.locks = m->site.locks,
		.name = name,
		.contents = tfs_str(m->site.address),
		.timeout_us = m->site.session_us,
		.lost = session_lost,
		.arg = m,
		.clock = m->clock,
	};
	int err;

	snprintf(name, sizeof(name), "servers/%llu", (unsigned long long)m->host.incarnation);
	err = lock_session_new(&o, &m->session);
	if (!err)
		err = lock_session_run(m->session);
	if (err)
		why_set(why, "the session's file %s: %s", name, error_text(err));
	return err;
}

/* ---- calls of the client ---- */

struct each_load {
	struct member *m;
	int (*fn)(void *fn_arg, const struct tfs_server *server);
	void *fn_arg;
};

/* A server that does not answer has no numbers. */
static int load_of(void *arg, uint64_t incarnation, const char *address)
{
	const struct each_load *e = arg;
	struct tfs_server one = {.name = address, .state = "unreachable", .incarnation = incarnation};
	struct channel *c = peers_channel(e->m->site.peers, incarnation);
	struct ss_answer a = {0};
	struct server_load l;
	int err;

	if (incarnation == e->m->host.incarnation) {
		if (server_get_load(e->m->host.server, &l) == 0)
			one = (struct tfs_server){address, l.state, incarnation, l.tablets, l.bytes};
	} else if (c && channel_store(c, &(struct ss_request){.method = SS_LOAD}, &a) == 0 && a.server_count == 1) {
		one = (struct tfs_server){address, a.servers[0].state, incarnation, a.servers[0].tablets, a.servers[0].bytes};
	}
	err = e->fn(e->fn_arg, &one);
	ss_answer_fini(&a);
	return err;
}

static int member_servers(void *arg, int (*fn)(void *fn_arg, const struct tfs_server *server), void *fn_arg)
{
	struct member *m = arg;
	struct each_load e = {m, fn, fn_arg};
	char address[PEER_ADDRESS_MAX];
	int err = lock_sync(m->site.locks);

	if (!err)
		err = site_each_address(&m->site, load_of, &e);

	if (!err && site_master_address(&m->site, address) == 0)
		err = fn(fn_arg, &(struct tfs_server){.name = address, .state = "master"});
	return err;
}

static int member_load(void *arg, struct tfs_server *out)
{
	struct member *m = arg;
	struct server_load l;
	int err = server_get_load(m->host.server, &l);

	if (!err)
		*out = (struct tfs_server){m->site.address, l.state, l.incarnation, l.tablets, l.bytes};
	return err;
}

static int member_close(void *arg)
{
	struct member *m = arg;

	site_drain(&m->site, m->host.incarnation, DRAIN_US);
	route_end_by(m->router, monotonic_us() + FLUSH_WAIT_US);
	if (m->pool)
		task_cancel(&m->look);
	serve_stop(m->host.serving);
	return member_free(m, true);
}

/* ---- opening ---- */

/* Steps 4 and 5. */
static int open_server(struct member *m, const struct tfs_options *o, char **why)
{
	struct server_options so = host_server_options(m->site.dir, o);
	struct client_options co = host_client_options(o);
	struct route_options ro = {.locks = m->site.locks,
		.servers = site_servers(&m->site),
		.patience_us = PATIENCE_US,
		.client = m->host.incarnation};
	int err;

	so.name = m->site.address;
	so.incarnation = m->host.incarnation;
	so.clock = m->clock;
	so.sync = true;
	so.held = lease_held;
	so.lost = server_lost;
	so.clock_offset = clock_offset;
	so.fence_arg = m;
	so.servers = site_servers(&m->site);
	err = server_new(&so, m->site.locks, &m->host.server);
	if (err) {
		why_set(why, "%s/log/%llu: cannot be begun: %s", m->site.dir, (unsigned long long)so.incarnation, error_text(err));
		return err;
	}
	err = serve_begin(NULL, o, server_service(m->host.server), &m->host.serving, why);
	if (!err)
		err = site_connect(&m->site, m->host.incarnation, m->host.incarnation, serve_tablets(m->host.serving));
	if (!err)
		err = route_new(&ro, &m->router);
	if (err)
		return err;
	server_set_metadata(m->host.server, route_service(m->router));
	err = server_start(m->host.server, why);
	if (err)
		return err;
	co.locks = m->site.locks;
	co.router = m->router;
	co.tablets = route_service(m->router);
	co.master = serve_master(m->host.serving, site_master(&m->site));
	co.servers = member_servers;
	co.close = member_close;
	co.watch = NULL;
	co.heard = NULL;
	co.arg = m;
	err = client_new(&co, &m->store);
	if (!err)
		err = probe_sides_new(m->site.dir, &m->probes);
	if (!err)
		err = serve_start(m->host.serving,
			&(struct serve_options){.store = m->store,
				.locks = m->site.locks,
				.tablets = co.tablets,
				.identity = &m->host.identity,
				.incarnation = m->host.incarnation,
				.load = member_load,
				.load_arg = m,
				.probes = m->probes});
	if (!err)
		err = watch_schemas(m);
	if (!err)
		server_ready(m->host.server);
	return err;
}

static void try_again(struct member *m)
{
	char *why = NULL;
	int err = site_try_again(&m->site, m->host.incarnation, SITE_TRY_US, &why);

	if (err && err != -ENOENT)
		msg_warning("%s", why ? why : error_text(err));
	free(why);
}

int cluster_serve(const struct store_source *at, const struct tfs_options *o, struct tfs_store **out, char **why)
{
	struct member *m = calloc(1, sizeof(*m));
	bool alone = false;
	int err = m ? site_open(at, o, &m->site, why) : -ENOMEM;

	if (!err)
		err = site_check(&m->site, why);
	if (!err)
		err = site_try_storage(&m->site, &alone, why);
	if (!err) {
		m->host.identity = m->site.identity;
		m->host.dir = strdup(m->site.dir);
		m->clock = m->host.dir ? clock_new(NULL, NULL) : NULL;
		err = m->clock ? take_incarnation(m, why) : -ENOMEM;
	}
	if (!err)
		err = hold_session(m, why);
	if (!err)
		err = open_server(m, o, why);
	if (!err) {
		msg_notice("server %llu of cluster %s at %s", (unsigned long long)m->host.incarnation, at->host, m->site.address);
		if (alone)
			try_again(m);
		*out = m->store;
	} else if (m && m->store) {
		(void)!tfs_close(m->store);
	} else {
		(void)!member_free(m, false);
	}
	return err;
}
