/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several tablet servers and a master in one process, over one data directory
 * and the local lock service, without faults: for tests and benchmarks.  (t/sim
 * has channels, sessions, clocks and faults.)
 *
 * Each function returns 0 or -errno.  One thread makes and ends servers.
 */
#ifndef TFS_T_LIB_CLUSTER_H
#define TFS_T_LIB_CLUSTER_H

#include "engine/base/file.h"
#include "engine/client/client.h"
#include "engine/client/route.h"
#include "engine/server/server.h"
#include "master/master.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define CLUSTER_SERVERS 8u

/* A server as others reach it.  It outlives the server; routers keep pointers to it. */
struct cluster_server {
	struct tablet_service service; /* first */
	uint64_t incarnation;
	struct server *server; /* NULL: it has ended */
	bool away;             /* a zombie: the master takes it for dead, and only clients that know its location reach it */
};

struct cluster {
	struct lock_service *locks;
	struct router *router;
	struct master *master;
	struct tfs_store *store;
	struct clock *clock;
	struct lock_term term;         /* if the servers have a fence */
	struct server_options options; /* the options of the servers */
	char dir[4096];                /* options.data_dir */
	struct cluster_server servers[CLUSTER_SERVERS];
	unsigned count;
};

static inline int cluster_call(struct tablet_service *service, const struct ts_request *q, struct ts_answer *a)
{
	struct cluster_server *s = (struct cluster_server *)service;

	return a->err = s->server ? ts_call(server_service(s->server), q, a) : -TABLET_MOVED;
}

static inline struct tablet_service *cluster_connect(void *arg, uint64_t incarnation)
{
	struct cluster *c = arg;

	for (unsigned i = 0; i < c->count; i++)
		if (c->servers[i].incarnation == incarnation && c->servers[i].server && !c->servers[i].away)
			return &c->servers[i].service;
	return NULL;
}

static inline int cluster_each(void *arg, tablet_server_fn *fn, void *fn_arg)
{
	struct cluster *c = arg;
	int err = 0;

	for (unsigned i = 0; i < c->count && !err; i++)
		if (c->servers[i].server && !c->servers[i].away)
			err = fn(fn_arg, c->servers[i].incarnation, &c->servers[i].service);
	return err;
}

static inline int cluster_add(struct cluster *c)
{
	static const struct tablet_service_ops ops = {.call = cluster_call};
	struct server_options o = c->options;
	uint64_t version = LOCK_ABSENT, n = 0;
	struct server *s = NULL;
	struct buf b = {0};
	uint8_t bytes[8];
	char *why = NULL;
	int err = lock_get(c->locks, "incarnation", &b, &version);

	if (!err)
		n = load_be64(b.p);
	buf_fini(&b);
	put_be64(bytes, ++n);
	err = err == -ENOENT || !err ? lock_put(c->locks, "incarnation", tfs_bytes_of(bytes, 8), version, NULL) : err;
	o.incarnation = n;
	o.servers = (struct tablet_servers){.connect = cluster_connect, .each = cluster_each, .arg = c};
	o.clock = c->clock;
	o.fence_arg = &c->servers[c->count];
	if (!err)
		err = server_new(&o, c->locks, &s);
	if (err)
		return err;
	server_set_metadata(s, route_service(c->router));
	err = server_start(s, &why);
	free(why);
	if (!err)
		server_ready(s);
	c->servers[c->count++] = (struct cluster_server){.service = {.ops = &ops}, .incarnation = n, .server = s};
	return err;
}

/* Ends a server as a death of its process does: nothing is flushed. */
static inline void cluster_kill(struct cluster *c, unsigned i)
{
	struct server *s = c->servers[i].server;

	c->servers[i].server = NULL;
	(void)!server_free(s, false);
}

static inline int cluster_closed(void *arg)
{
	(void)arg;
	return 0;
}

/* Options of servers with small caches whose background work a test starts by hand. */
static inline struct server_options cluster_options(const char *data_dir)
{
	return (struct server_options){.data_dir = data_dir,
		.block_cache_bytes = 8u << 20,
		.memtable_bytes = 8u << 20,
		.table_cache_bytes = 8u << 20,
		.log_segment_bytes = 1u << 20,
		.sync_interval_us = 1000000,
		.compaction_threads = 1,
		.major_within_us = UINT64_C(86400000000),
		.no_background = true};
}

/*
 * o->data_dir is the new data directory (copied); all other members are the servers'.
 * The servers are added next, then cluster_start.
 */
static inline int cluster_new(struct cluster *c, const struct server_options *o)
{
	struct route_options ro = {.servers = {.connect = cluster_connect, .each = cluster_each, .arg = c}};
	static const char *const dirs[] = {"", "/lock", "/log", "/sst"};
	int err = 0;

	*c = (struct cluster){.options = *o};
	snprintf(c->dir, sizeof(c->dir), "%s", o->data_dir);
	c->options.data_dir = c->dir;
	for (unsigned i = 0; i < 4 && !err; i++) {
		char path[4096];

		snprintf(path, sizeof(path), "%s%s", o->data_dir, dirs[i]);
		err = file_mkdir(path);
		err = err == -EEXIST ? 0 : err;
		if (!err && i == 1)
			err = lock_local_open(path, &c->locks);
	}
	if (!err) {
		char marker[4096];

		snprintf(marker, sizeof(marker), "%s/FORMAT", o->data_dir);
		err = file_replace(marker, tfs_str("the marker of a store"));
	}
	c->clock = clock_new(NULL, NULL);
	ro.locks = c->locks;
	return err ? err : route_new(&ro, &c->router);
}

static inline int cluster_start(struct cluster *c)
{
	const struct master_options mo = {.data_dir = c->options.data_dir,
		.locks = c->locks,
		.tablets = route_service(c->router),
		.servers = {.connect = cluster_connect, .each = cluster_each, .arg = c},
		.clock = c->clock,
		.term = c->options.held ? &c->term : NULL,
		.no_background = c->options.no_background};
	struct client_options co = {
		.locks = c->locks, .tablets = route_service(c->router), .router = c->router, .close = cluster_closed};
	char *why = NULL;
	int err = mo.term ? lock_term_begin(c->locks, TFS_S("master"), &c->term) : 0;

	if (!err)
		err = master_new(&mo, &c->master);
	if (!err)
		err = master_start(c->master, &why);
	if (why)
		printf("# %s\n", why);
	free(why);
	co.master = master_service(c->master);
	return err ? err : client_new(&co, &c->store);
}

/* A new cluster of that many servers. */
static inline int cluster_open(struct cluster *c, const struct server_options *o, unsigned servers)
{
	int err = cluster_new(c, o);

	while (!err && servers--)
		err = cluster_add(c);
	return err ? err : cluster_start(c);
}

/* Ends everything; the client's tables are closed. */
static inline void cluster_free(struct cluster *c)
{
	if (c->store)
		(void)!tfs_close(c->store);
	master_free(c->master);
	for (unsigned i = 0; i < c->count; i++)
		if (c->servers[i].server)
			cluster_kill(c, i);
	route_free(c->router);
	lock_service_free(c->locks);
	clock_free(c->clock);
}

#endif
