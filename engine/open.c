/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The composition root: builds an embedded store as a cluster of one from the
 * local lock service, one tablet server, the master, and a client over their
 * services (doc/architecture).
 *
 * A data directory contains FORMAT, lock/, log/, sst/, and the server's
 * reserve.  Creating one:
 *	1 mkdir lock, log, sst; fsync the directory and its parent
 *	2 write FORMAT (durably, by rename)
 *	3 make the lock service's file "store", with the random secret (lock/identity.h)
 *	4 the file "incarnation" (below)
 *	5 the server creates the root tablet and METADATA (server/recover.c)
 * A directory with FORMAT is a store.  If it has an incarnation, it must have a
 * secret, too: another secret would change all inode numbers.  A directory with nothing but some of
 * the three directories, all empty, is the result of a crash; the store is
 * created again.
 *
 * Opening:
 *	1 take the lock directory's flock: one process at a time; refuse the
 *	  directory of a cluster with another lock service (lock/marker.h), and
 *	  storage of a network that is not safe (probe/probe.h)
 *	2 rewrite FORMAT if one of its copies is damaged
 *	3 read the secret
 *	4 increment the file "incarnation"; this process has the new number,
 *	  which was never used
 *	5 create the server and the master, which has all tablets loaded, then
 *	  the client
 * Client, master and the server itself reach tablets through one router, which
 * looks them up in METADATA as in a cluster of machines.
 */
#include "engine/cluster.h"
#include "engine/host.h"
#include "engine/base/file.h"
#include "engine/base/msg.h"
#include "engine/probe/probe.h"
#include "engine/base/source.h"
#include "engine/client/client.h"
#include "engine/client/route.h"
#include "engine/join.h"
#include "engine/lock/identity.h"
#include "engine/lock/lock.h"
#include "engine/lock/marker.h"
#include "engine/meta/meta.h"
#include "engine/serve.h"
#include "engine/server/server.h"
#include "master/master.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

struct embedded {
	struct host host; /* first */
	struct lock_service *locks;
	struct master *master;
	struct tablet_service *tablets;    /* the server's service */
	struct tablet_service *round_trip; /* stands in front of `tablets` in debug builds, else NULL */
	struct router *router;
	struct master_service *masters;
	struct tfs_store *store;
};

static int embedded_free(struct embedded *e, bool flush)
{
	int err = 0;

	if (!e)
		return 0;
	if (e->host.server)
		server_set_collector(e->host.server, NULL);
	if (flush) {
		server_stop(e->host.server);
		master_finish(e->master);
	}
	master_free(e->master);
	if (e->host.server)
		err = server_free(e->host.server, flush);
	route_free(e->router);
	serve_end(e->host.serving);
	lock_service_free(e->locks);
	free(e->round_trip);
	free(e->masters);
	free(e->host.dir);
	free(e);
	return err;
}

/* ---- the servers that METADATA names ---- */

/*
 * Each opening is an incarnation.  A tablet's row names an earlier incarnation
 * until the present one changes it for the first time.  This process holds the
 * store's lock, so it serves the tablet in either case.
 */
static struct tablet_service *embedded_connect(void *arg, uint64_t incarnation)
{
	return ((struct embedded *)arg)->tablets;
}

static int embedded_each(void *arg, tablet_server_fn *fn, void *fn_arg)
{
	const struct embedded *e = arg;

	return fn(fn_arg, e->host.incarnation, e->tablets);
}

static struct tablet_servers embedded_servers_of(struct embedded *e)
{
	return (struct tablet_servers){.connect = embedded_connect, .each = embedded_each, .arg = e};
}

static int embedded_make_router(struct embedded *e)
{
	struct route_options o = {.locks = e->locks, .servers = embedded_servers_of(e)};

	e->tablets = e->host.serving ? serve_tablets(e->host.serving) : server_service(e->host.server);
#ifdef TFS_DEBUG
	e->round_trip = ts_round_trip_new(e->tablets);
	if (!e->round_trip)
		return -ENOMEM;
	e->tablets = e->round_trip;
#endif
	return route_new(&o, &e->router);
}

static int embedded_servers(void *arg, int (*fn)(void *fn_arg, const struct tfs_server *server), void *fn_arg)
{
	struct server_load l;
	struct tfs_server one;
	int err = server_get_load(((struct host *)arg)->server, &l);

	if (err)
		return err;
	one = (struct tfs_server){l.name, l.state, l.incarnation, l.tablets, l.bytes};
	return fn(fn_arg, &one);
}

static int embedded_close(void *arg)
{
	const struct embedded *e = arg;

	/* Writing the memtables takes a while.  A process that opens the directory at that time waits. */
	lock_local_closing(e->locks);
	tfs_unwatch(e->store);
	serve_stop(e->host.serving);
	return embedded_free(arg, true);
}

/* Reads the secret.  A store that was never opened gets one. */
static int read_identity(const char *dir, struct lock_service *locks, bool is_new, struct lock_identity *out, char **why)
{
	int err = is_new ? identity_make(locks, out) : identity_read(locks, out);

	if (err == -ENOENT)
		why_set(why, "%s/lock/" IDENTITY_FILE ": missing; 'tabletctl repair' makes another one", dir);
	else if (err)
		why_set(why, "%s/lock/" IDENTITY_FILE ": %s", dir, error_text(err));
	return err == -ENOENT ? -EBADMSG : err;
}

static int next_incarnation(
	const char *dir, struct lock_service *locks, struct lock_identity *identity, uint64_t *incarnation, char **why)
{
	uint64_t version = LOCK_ABSENT, last = 0;
	int err = host_last_incarnation(dir, locks, &last, &version, why);

	if (!err)
		err = read_identity(dir, locks, version == LOCK_ABSENT, identity, why);
	return err ? err : host_take_incarnation(dir, locks, last, version, incarnation, why);
}

static int embedded_open_locks(struct embedded *e, char **why)
{
	char *path = path_join(e->host.dir, "lock"), holder[LOCK_HOLDER_MAX];
	int err = path ? lock_local_open(path, &e->locks) : -ENOMEM;

	if (err == -EBUSY) {
		lock_local_holder(e->host.dir, holder);
		why_set(why, "%s: in use %s", e->host.dir, holder);
	}
	/* Opening reads no other file than the journal. */
	if (err && err != -EBUSY && path)
		why_set(why, "%s%s: %s", path, err == -EBADMSG || err == -EPROTO ? "/journal" : "", error_text(err));
	free(path);
	return err;
}

static int embedded_new_master(struct embedded *e, const struct tfs_options *o, const struct client_options *co)
{
	const struct master_options mo = {
		.data_dir = e->host.dir,
		.locks = e->locks,
		.tablets = co->tablets,
		.servers = embedded_servers_of(e),
		.clock = server_clock(e->host.server),
		.sole = true,
		.no_background = o->no_background,
	};

	return master_new(&mo, &e->master);
}

static int embedded_start_master(struct embedded *e, char **why)
{
	char *what = NULL;
	int err = master_start(e->master, &what);

	/* The server names a damaged file with its path. */
	if (err)
		server_name_damage(e->host.server, err, &what);
	if (err && what && strncmp(what, e->host.dir, strlen(e->host.dir)) == 0)
		why_set(why, "%s", what);
	else if (err)
		why_set(why, "%s: %s", e->host.dir, what ? what : error_text(err));
	free(what);
	return err == -ENOENT ? -EBADMSG : err;
}

static bool release_space(void *arg)
{
	return server_release_space(arg);
}

static int embedded_open_parts(struct embedded *e, const struct tfs_options *o, struct client_options *co, char **why)
{
	struct server_options so = host_server_options(e->host.dir, o);
	bool whole = true;
	uint64_t cluster;
	int err = host_prepare(e->host.dir, !o->existing, &whole, why);

	if (!err)
		err = embedded_open_locks(e, why);
	if (!err) /* a cluster's directory has the marker of another lock service */
		err = marker_check(e->locks, e->host.dir, &cluster, why);
	if (!err)
		err = probe_at_start(e->host.dir, why);
	if (!err && !whole)
		err = host_rewrite_format(e->host.dir);
	if (err)
		return err;
	err = next_incarnation(e->host.dir, e->locks, &e->host.identity, &so.incarnation, why);
	if (err)
		return err;
	e->host.incarnation = so.incarnation;
	err = server_new(&so, e->locks, &e->host.server);
	if (err) {
		why_set(why, "%s/log/%llu: cannot be begun: %s", e->host.dir, (unsigned long long)so.incarnation, error_text(err));
		return err;
	}
	lock_local_make_room(e->locks, release_space, e->host.server);
	if (o->serve)
		err = serve_begin(e->host.dir, o, server_service(e->host.server), &e->host.serving, why);
	if (!err)
		err = embedded_make_router(e);
	if (err)
		return err;
	co->locks = e->locks;
	co->router = e->router;
	co->tablets = route_service(e->router);
	server_set_metadata(e->host.server, co->tablets);
	err = server_start(e->host.server, why);
	if (!err)
		err = embedded_new_master(e, o, co);
	if (!err)
		err = embedded_start_master(e, why);
	if (err)
		return err;
	server_ready(e->host.server);
	err = master_collect_begin(e->master);
	if (err)
		return err;
	server_set_collector(e->host.server, &(struct server_collector){master_collect_soon, master_collect_now, e->master});
	co->master = master_service(e->master);
#ifdef TFS_DEBUG
	e->masters = ms_round_trip_new(co->master);
	if (!e->masters)
		return -ENOMEM;
	co->master = e->masters;
#endif
	if (e->host.serving)
		co->master = serve_master(e->host.serving, co->master);
	return 0;
}

/*
 * If the disk is so full that the store cannot be opened, nothing in it can be
 * deleted either.  So the reserve is cut: at first by an eighth, which
 * the server leaves for this (server/space.c) and which usually suffices, then
 * by more, at last it is removed.  Returns true if space was freed.
 */
static bool reserve_cut(const char *dir, unsigned times)
{
	enum { TIMES = 3 };
	char *real = file_real(dir), *path = real ? path_join(real, RESERVE_FILE) : NULL;
	struct file *f = NULL;
	uint64_t bytes;
	int err = path ? file_stat_size(path, &bytes) : -ENOMEM;

	if (!err && times < TIMES) {
		err = file_open(path, FILE_READWRITE, &f);
		if (!err)
			err = file_truncate(f, bytes - (bytes >> (TIMES - times)));
		file_close(f);
	} else if (!err) {
		err = file_unlink(path);
	}
	if (!err)
		msg_warning("%s: the disk is full; this reserve is reduced so that the store can be opened", path);
	free(real);
	free(path);
	return !err;
}

static int embedded_open(
	const char *source, const struct tfs_options *o, struct client_options *co, struct embedded **out, char **reason)
{
	struct embedded *e = calloc(1, sizeof(*e));
	int err = -ENOMEM;

	if (!e)
		return err;
	e->host.dir = file_real(source);
	if (e->host.dir)
		err = embedded_open_parts(e, o, co, reason);
	if (err) {
		(void)!embedded_free(e, false);
		return err;
	}
	*out = e;
	return 0;
}

/* Opens the store in this process. */
static int open_here(const char *source, const struct tfs_options *filled, struct tfs_store **out, char **reason)
{
	struct client_options co = host_client_options(filled);
	struct embedded *e = NULL;
	struct tfs_store *s = NULL;
	int err = embedded_open(source, filled, &co, &e, reason);

	for (unsigned times = 0; (err == -ENOSPC || err == -EDQUOT) && reserve_cut(source, times); times++) {
		free(*reason);
		*reason = NULL;
		err = embedded_open(source, filled, &co, &e, reason);
	}
	if (err)
		return err;
	co.servers = embedded_servers;
	co.close = embedded_close;
	co.arg = e;
	err = client_new(&co, &s);
	e->store = s;
	if (!err && e->host.serving)
		err = serve_start(e->host.serving,
			&(struct serve_options){.store = s,
				.locks = e->locks,
				.tablets = co.tablets,
				.identity = &e->host.identity,
				.incarnation = e->host.incarnation});
	if (!err)
		*out = s;
	else if (s)
		(void)!tfs_close(s);
	else
		(void)!embedded_free(e, false);
	return err;
}

/*
 * A store that is served is used through its server, which may start or end meanwhile.  But a process that wants to serve the
 * store itself must open it.
 */
static int open_any(const struct store_source *at, const struct tfs_options *o, struct tfs_store **out, char **reason)
{
	const bool served = store_source_is_served(at);
	int err;

	if (at->kind == SOURCE_CLUSTER && o->serve && cluster_serve)
		return cluster_serve(at, o, out, reason);
	if (at->kind == SOURCE_CLUSTER) {
		why_set(reason, "a cluster is used through its servers: tls://HOST:PORT[,HOST:PORT]");
		return -EINVAL;
	}
	err = o->serve && !served ? -ENOENT : join_open(at, o, out, reason);

	if (at->kind == SOURCE_UNIX && join_finds_nobody(err))
		join_explain_nobody(at->dir, reason);
	if (at->kind == SOURCE_UNIX && err == -EACCES && !*reason)
		why_set(reason, "%s: user %u may not use this store: its directory and socket_mode (tabletfs.conf(5)) say who may",
			at->dir, (unsigned)geteuid());
	if (served || !join_finds_nobody(err))
		return err;
	err = open_here(at->dir, o, out, reason);
	if (err == -EBUSY && !o->serve) {
		const int joined = join_open(at, o, out, reason);

		err = join_finds_nobody(joined) ? err : joined;
	}
	return err;
}

int tfs_open(const char *source, const struct tfs_options *o, struct tfs_store **out, char **why)
{
	struct tfs_options filled;
	struct store_source at;
	char *reason = NULL;
	int err;

	if (why)
		*why = NULL;
	options_fill(&filled, o);
	if (filled.timeout_us > 60000000)
		filled.timeout_us = 60000000;
	if (filled.log_level >= 0)
		msg_set_level((enum msg_level)filled.log_level);
	source = source ? source : "";
	err = store_source_find(source, &at, &reason);
	if (!err) {
		err = open_any(&at, &filled, out, &reason);
		store_source_fini(&at);
	}
	if (!err) {
		free(reason);
		return 0;
	}
	if (!reason)
		why_set(&reason, "%s: %s", source, error_text(err));
	if (why)
		*why = reason;
	else
		free(reason);
	return user_errno(err);
}
