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
 *	  storage of a network that is not safe (base/probe.h)
 *	2 rewrite FORMAT if one of its copies is damaged
 *	3 read the secret
 *	4 increment the file "incarnation"; this process has the new number,
 *	  which was never used
 *	5 create the server and the master, which has all tablets loaded, then
 *	  the client
 * Client, master and the server itself reach tablets through one router, which
 * looks them up in METADATA as in a cluster of machines.
 */
#include "engine/open.h"
#include "engine/base/copies.h"
#include "engine/base/file.h"
#include "engine/base/msg.h"
#include "engine/base/probe.h"
#include "engine/base/source.h"
#include "engine/client/client.h"
#include "engine/client/route.h"
#include "engine/join.h"
#include "engine/lock/identity.h"
#include "engine/lock/lock.h"
#include "engine/lock/marker.h"
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
	char *dir;
	struct lock_service *locks;
	struct server *server;
	struct master *master;
	struct lock_identity identity;
	uint64_t incarnation;
	struct tablet_service *tablets;    /* the server's service */
	struct tablet_service *round_trip; /* in front of the server's in debug builds, else NULL */
	struct router *router;
	struct master_service *masters;
	struct tfs_store *store;
	struct serving *serving; /* NULL: no other process can use the store */
};

static int embedded_free(struct embedded *e, bool flush)
{
	int err = 0;

	if (!e)
		return 0;
	if (e->server)
		server_set_collector(e->server, NULL);
	if (flush) {
		server_stop(e->server);
		master_finish(e->master);
	}
	master_free(e->master);
	if (e->server)
		err = server_free(e->server, flush);
	route_free(e->router);
	serve_end(e->serving);
	lock_service_free(e->locks);
	free(e->round_trip);
	free(e->masters);
	free(e->dir);
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

	return fn(fn_arg, e->incarnation, e->tablets);
}

static struct tablet_servers embedded_servers_of(struct embedded *e)
{
	return (struct tablet_servers){.connect = embedded_connect, .each = embedded_each, .arg = e};
}

static int embedded_make_router(struct embedded *e)
{
	struct route_options o = {.locks = e->locks, .servers = embedded_servers_of(e)};

	e->tablets = e->serving ? serve_tablets(e->serving) : server_service(e->server);
#ifdef TFS_DEBUG
	e->round_trip = ts_round_trip_new(e->tablets);
	if (!e->round_trip)
		return -ENOMEM;
	e->tablets = e->round_trip;
#endif
	return route_new(&o, &e->router);
}

/* ---- calls of the client (struct client_options) ---- */
static int embedded_space(void *arg, uint64_t *total_bytes, uint64_t *available_bytes)
{
	const struct embedded *e = arg;
	struct statvfs v;
	uint64_t used;
	int err = server_disk_bytes(e->server, &used);

	if (err)
		return err;
	if (statvfs(e->dir, &v))
		return -errno;
	*total_bytes = used + (uint64_t)v.f_bavail * v.f_frsize;
	*available_bytes = (uint64_t)v.f_bavail * v.f_frsize;
	return 0;
}

static int embedded_status(void *arg, uint64_t watcher, struct buf *out)
{
	return server_status(((struct embedded *)arg)->server, watcher, out);
}

static int embedded_metrics(void *arg, struct buf *out)
{
	return server_metrics(((struct embedded *)arg)->server, out);
}

static int embedded_servers(void *arg, int (*fn)(void *fn_arg, const struct tfs_server *server), void *fn_arg)
{
	struct server_load l;
	struct tfs_server one;
	int err = server_get_load(((struct embedded *)arg)->server, &l);

	if (err)
		return err;
	one = (struct tfs_server){l.name, l.state, l.incarnation, l.tablets, l.bytes};
	return fn(fn_arg, &one);
}

static int embedded_clients(void *arg, struct buf *out)
{
	return serve_list(((struct embedded *)arg)->serving, out);
}

static int embedded_client_refuse(void *arg, uint64_t client, bool refuse)
{
	return serve_refuse(((struct embedded *)arg)->serving, client, refuse);
}

static void embedded_change(void *arg, const struct tfs_options *o)
{
	const struct server_settings to = {
		.block_cache_bytes = o->block_cache_bytes,
		.table_cache_bytes = o->table_cache_bytes,
		.memtable_bytes = o->memtable_bytes,
		.sync_interval_us = o->sync_interval_us,
		.compaction_rate = o->compaction_rate,
		.sync = o->sync,
	};

	server_change(((struct embedded *)arg)->server, &to);
	serve_read_keys(((struct embedded *)arg)->serving);
}

static int embedded_key(void *arg, const char *purpose, uint8_t *key)
{
	identity_key(&((struct embedded *)arg)->identity, purpose, key);
	return 0;
}

static void embedded_will_close(void *arg)
{
	server_will_close(((struct embedded *)arg)->server);
}

static int embedded_confirm_clock(void *arg)
{
	server_confirm_clock(((struct embedded *)arg)->server);
	return 0;
}

static int embedded_watch(void *arg)
{
	return serve_watch(((struct embedded *)arg)->serving);
}

static void embedded_heard(void *arg, uint64_t notice)
{
	serve_heard(((struct embedded *)arg)->serving, notice);
}

static int embedded_close(void *arg)
{
	const struct embedded *e = arg;

	/* Writing the memtables takes a while.  A process that opens the directory at that time waits. */
	lock_local_closing(e->locks);
	tfs_unwatch(e->store);
	serve_stop(e->serving);
	return embedded_free(arg, true);
}

/* ---- the directory ---- */
struct contents {
	bool format, other, any;
	char first_other[256];
};

static int contents_entry(void *arg, const char *name, bool is_dir)
{
	struct contents *c = arg;

	if (strcmp(name, "lost+found") == 0 || strcmp(name, "FORMAT.tmp") == 0)
		return 0;
	c->any = true;
	if (strcmp(name, "FORMAT") == 0) {
		c->format = true;
	} else if (!is_dir || (strcmp(name, "lock") && strcmp(name, "log") && strcmp(name, "sst"))) {
		if (!c->other)
			snprintf(c->first_other, sizeof(c->first_other), "%s", name);
		c->other = true;
	}
	return 0;
}

static int contents_first(void *arg, const char *name, bool is_dir)
{
	struct contents *c = arg;

	snprintf(c->first_other, sizeof(c->first_other), "%s", name);
	return 1;
}

static const char *const store_dirs[] = {"lock", "log", "sst"};
#define STORE_DIRS (sizeof(store_dirs) / sizeof(store_dirs[0]))

/* A store must have the three directories.  In a directory that may become a store they must be absent or empty. */
static int check_store_dirs(const char *dir, bool is_store, char **why)
{
	int err = 0;

	for (unsigned i = 0; i < STORE_DIRS && !err; i++) {
		struct contents c = {0};
		char *path = path_join(dir, store_dirs[i]);
		int found = path ? file_list(path, contents_first, &c) : -ENOMEM;

		if (found == -ENOENT || found == -ENOTDIR) {
			err = is_store ? -EBADMSG : found == -ENOENT ? 0 : -ENOTEMPTY;
			if (is_store)
				why_set(why, "%s: this directory of the store is missing", path);
		} else if (found < 0) {
			err = found;
			if (path)
				why_set(why, "%s: %s", path, error_text(found));
		} else if (found > 0 && !is_store) {
			err = -ENOTEMPTY;
			why_set(why, "%s: not a tabletfs data directory (no FORMAT), and %s is not empty (it holds %s)", dir, path,
				c.first_other);
		}
		free(path);
	}
	return err;
}

#define FORMAT_LINE_MAX 64
#define FORMAT_TEXT "tabletfs data directory, format %u"

static size_t format_line(unsigned version, char line[FORMAT_LINE_MAX])
{
	int n = snprintf(line, FORMAT_LINE_MAX, FORMAT_TEXT, version);

	if (version == 1)
		return (size_t)(n + snprintf(line + n, FORMAT_LINE_MAX - (size_t)n, "\n"));
	return (size_t)(n + snprintf(line + n, FORMAT_LINE_MAX - (size_t)n, ", CRC-32C %08x\n", crc32c(0, line, (size_t)n)));
}

int store_format_encode(unsigned version, struct buf *out)
{
	char line[FORMAT_LINE_MAX];
	size_t from = out->n, n = format_line(version, line);
	int err = buf_append(out, line, n);

	if (!err)
		err = copies_add(out, from);
	if (err)
		out->n = from;
	return err;
}

/* Encodes the parsed version again, and accepts the line only if the bytes are the same. */
static bool format_line_decode(struct tfs_bytes text, unsigned *version)
{
	char copy[FORMAT_LINE_MAX] = "", again[FORMAT_LINE_MAX];
	unsigned v = 0;

	if (text.n && text.n < sizeof(copy))
		memcpy(copy, text.p, text.n);
	if (sscanf(copy, FORMAT_TEXT, &v) != 1 || v == 0 || !bytes_eq(text, tfs_bytes_of(again, format_line(v, again))))
		return false;
	*version = v;
	return true;
}

static struct tfs_bytes first_line(struct tfs_bytes s)
{
	const uint8_t *end = s.n ? memchr(s.p, '\n', s.n) : NULL;

	return tfs_bytes_of(s.p, end ? (size_t)(end + 1 - s.p) : 0);
}

/* A copy_length_fn: of a line with a checksum. */
static size_t format_line_length(struct tfs_bytes s)
{
	struct tfs_bytes line = first_line(s);
	unsigned v;

	return format_line_decode(line, &v) && v != 1 ? line.n : 0;
}

int store_format_decode(struct tfs_bytes file, unsigned *version, bool *whole)
{
	struct tfs_bytes line = copies_get(file, 0, format_line_length);

	if (!line.n)
		line = copies_get(file, 1, format_line_length);
	if (!line.n && first_line(file).n == file.n) /* of format 1: one copy without a checksum */
		line = file;
	if (!format_line_decode(line, version))
		return -EBADMSG;
	*whole = *version == 1 || copies_whole(file, line.n);
	return 0;
}

int store_format_check(const char *path, bool *whole, char **why)
{
	struct buf b = {0};
	unsigned version = 0;
	bool holes;
	int err = copies_read(path, 64 * 1024, &b, &holes);

	*why = NULL;
	if (!err)
		err = store_format_decode(buf_bytes(&b), &version, whole);
	if (err == -EBADMSG && holes)
		err = -EIO;
	if (!err && version != STORE_FORMAT_VERSION)
		err = -EPROTO;
	if (err == -EPROTO)
		why_set(why, "%s: format %u is %s than this program reads (%u)", path, version,
			version < STORE_FORMAT_VERSION ? "older" : "newer", STORE_FORMAT_VERSION);
	if (err == -EBADMSG)
		why_set(why, "%s: damaged: not a tabletfs format line", path);
	if (err && err != -EPROTO && err != -EBADMSG)
		why_set(why, "%s: %s", path, error_text(err));
	buf_fini(&b);
	return err;
}

/* Step 2 of opening. */
static int rewrite_format(const char *dir)
{
	struct buf b = {0};
	char *path = path_join(dir, "FORMAT");
	int err = path ? store_format_encode(STORE_FORMAT_VERSION, &b) : -ENOMEM;

	if (!err)
		copies_rewrite(path, buf_bytes(&b));
	buf_fini(&b);
	free(path);
	return err;
}

/* Makes the data directory's own entry durable, unless this process may not open the parent. */
static int sync_parent(const char *dir)
{
	int err = file_sync_parent(dir);

	return err == -EACCES ? 0 : err;
}

static int prepare_dir(const char *dir, bool *whole, char **why)
{
	struct buf line = {0};
	struct contents c = {0};
	char *format;
	int err = file_mkdir(dir);

	if (err && err != -EEXIST)
		return err;
	err = file_list(dir, contents_entry, &c);
	if (err)
		return err;
	if (access(dir, W_OK))
		return -errno;
	format = path_join(dir, "FORMAT");
	if (!format)
		return -ENOMEM;
	if (c.format) {
		err = store_format_check(format, whole, why);
		if (!err)
			err = check_store_dirs(dir, true, why);
		/* The process that created it may have been killed before these. */
		if (!err)
			err = file_sync_dir(dir);
		if (!err)
			err = sync_parent(dir);
	} else if (c.other) {
		err = -ENOTEMPTY;
		why_set(why, "%s: not a tabletfs data directory, and not empty (it holds %s)", dir, c.first_other);
	} else {
		err = check_store_dirs(dir, false, why);
		for (unsigned i = 0; i < STORE_DIRS && !err; i++) {
			char *path = path_join(dir, store_dirs[i]);

			err = path ? file_mkdir(path) : -ENOMEM;
			err = err == -EEXIST ? 0 : err;
			free(path);
		}
		if (!err)
			err = file_sync_dir(dir);
		if (!err)
			err = sync_parent(dir);
		if (!err)
			err = store_format_encode(STORE_FORMAT_VERSION, &line);
		if (!err)
			err = file_replace(format, buf_bytes(&line));
	}
	buf_fini(&line);
	free(format);
	return err;
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

/* An incarnation must not be used twice.  If the file is missing or old, a log of a later incarnation shows it. */
static int next_incarnation(
	const char *dir, struct lock_service *locks, struct lock_identity *identity, uint64_t *incarnation, char **why)
{
	struct buf b = {0};
	uint64_t version = LOCK_ABSENT, n = 0, latest = 0;
	uint8_t bytes[8];
	int err = lock_get(locks, "incarnation", &b, &version);

	if (err == -ENOENT) {
		version = LOCK_ABSENT;
		err = 0;
	} else if (!err && b.n != sizeof(bytes)) {
		err = -EBADMSG;
	} else if (!err) {
		n = load_be64(b.p);
	}
	buf_fini(&b);
	if (!err)
		err = server_latest_log(dir, &latest);
	if (!err && latest > n) {
		err = -EBADMSG;
		why_set(why, "%s/lock/incarnation: %s, but there is a log of incarnation %llu", dir,
			version == LOCK_ABSENT ? "missing" : "an old one", (unsigned long long)latest);
	}
	if (!err)
		err = read_identity(dir, locks, version == LOCK_ABSENT, identity, why);
	if (!err) {
		put_be64(bytes, n + 1);
		err = lock_put(locks, "incarnation", tfs_bytes_of(bytes, sizeof(bytes)), version, NULL);
	}
	if (err && !*why)
		why_set(why, "%s/lock/incarnation: %s", dir, error_text(err));
	if (!err)
		*incarnation = n + 1;
	return err;
}

static int embedded_open_locks(struct embedded *e, char **why)
{
	char *path = path_join(e->dir, "lock"), holder[LOCK_HOLDER_MAX];
	int err = path ? lock_local_open(path, &e->locks) : -ENOMEM;

	if (err == -EBUSY) {
		lock_local_holder(e->dir, holder);
		why_set(why, "%s: in use %s", e->dir, holder);
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
		.data_dir = e->dir,
		.locks = e->locks,
		.tablets = co->tablets,
		.servers = embedded_servers_of(e),
		.clock = server_clock(e->server),
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
		server_name_damage(e->server, err, &what);
	if (err && what && strncmp(what, e->dir, strlen(e->dir)) == 0)
		why_set(why, "%s", what);
	else if (err)
		why_set(why, "%s: %s", e->dir, what ? what : error_text(err));
	free(what);
	return err == -ENOENT ? -EBADMSG : err;
}

static bool release_space(void *arg)
{
	return server_release_space(arg);
}

static int embedded_open_parts(struct embedded *e, const struct tfs_options *o, struct client_options *co, char **why)
{
	struct server_options so = {
		.data_dir = e->dir,
		.block_cache_bytes = o->block_cache_bytes,
		.table_cache_bytes = o->table_cache_bytes,
		.memtable_bytes = o->memtable_bytes,
		.log_segment_bytes = o->log_segment_bytes,
		.sync_interval_us = o->sync_interval_us,
		.compaction_threads = o->compaction_threads,
		.compaction_rate = o->compaction_rate,
		.major_within_us = o->major_within_us,
		.clock_gap_us = o->clock_gap_us,
		.sync = o->sync,
		.no_background = o->no_background,
	};
	bool whole = true;
	uint64_t cluster;
	int err = prepare_dir(e->dir, &whole, why);

	if (!err)
		err = embedded_open_locks(e, why);
	if (!err) /* a cluster's directory has the marker of another lock service */
		err = marker_check(e->locks, e->dir, &cluster, why);
	if (!err)
		err = probe_at_start(e->dir, why);
	if (!err && !whole)
		err = rewrite_format(e->dir);
	if (err)
		return err;
	err = next_incarnation(e->dir, e->locks, &e->identity, &so.incarnation, why);
	if (err)
		return err;
	e->incarnation = so.incarnation;
	err = server_new(&so, e->locks, &e->server);
	if (err) {
		why_set(why, "%s/log/%llu: cannot be begun: %s", e->dir, (unsigned long long)so.incarnation, error_text(err));
		return err;
	}
	lock_local_make_room(e->locks, release_space, e->server);
	if (o->serve)
		err = serve_begin(e->dir, o, server_service(e->server), &e->serving, why);
	if (!err)
		err = embedded_make_router(e);
	if (err)
		return err;
	co->locks = e->locks;
	co->router = e->router;
	co->tablets = route_service(e->router);
	server_set_metadata(e->server, co->tablets);
	err = server_start(e->server, why);
	if (!err)
		err = embedded_new_master(e, o, co);
	if (!err)
		err = embedded_start_master(e, why);
	if (err)
		return err;
	server_ready(e->server);
	err = master_collect_begin(e->master);
	if (err)
		return err;
	server_set_collector(e->server, &(struct server_collector){master_collect_soon, master_collect_now, e->master});
	co->master = master_service(e->master);
#ifdef TFS_DEBUG
	e->masters = ms_round_trip_new(co->master);
	if (!e->masters)
		return -ENOMEM;
	co->master = e->masters;
#endif
	if (e->serving)
		co->master = serve_master(e->serving, co->master);
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
	char *real = file_real(dir), *path = real ? path_join(real, SERVER_RESERVE_FILE) : NULL;
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
	e->dir = file_real(source);
	if (e->dir)
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
	struct client_options co = {
		.space = embedded_space,
		.status = embedded_status,
		.metrics = embedded_metrics,
		.servers = embedded_servers,
		.clients = embedded_clients,
		.client_refuse = embedded_client_refuse,
		.confirm_clock = embedded_confirm_clock,
		.key = embedded_key,
		.will_close = embedded_will_close,
		.change = embedded_change,
		.close = embedded_close,
		.watch = embedded_watch,
		.heard = embedded_heard,
		.options = *filled,
	};
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
	co.arg = e;
	err = client_new(&co, &s);
	e->store = s;
	if (!err && e->serving)
		err = serve_start(e->serving,
			&(struct serve_options){.store = s,
				.locks = e->locks,
				.tablets = co.tablets,
				.identity = &e->identity,
				.incarnation = e->incarnation});
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
	int err = o->serve && !served ? -ENOENT : join_open(at, o, out, reason);

	if (at->kind == SOURCE_UNIX && join_finds_nobody(err))
		join_explain_nobody(at->dir, reason);
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
