/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making a cluster.  Steps, each of which may have been done before a crash:
 *	1 the files of keys
 *	2 FORMAT, lock/, log/, sst/ in DIR, which must be absent, empty, or of this cluster
 *	3 the marker, in the lock service and in DIR
 *	4 the lock service's file "store", with the random secret
 * The programs of the cluster refuse it before step 4.
 *
 * Adopting the embedded store of a directory:
 *	1 the files of keys
 *	2 open the store and close it, so that its logs have nothing that is needed
 *	3 take the store's lock; copy the files of lock/, but the marker and "store", into the lock service
 *	4 the marker; from now on DIR is the cluster's, and an embedded mount refuses it
 *	5 seal each log, and put the seal into the lock service
 *	6 put "store" into the lock service
 * A process that opens the store between 2 and 3 and ends again has written its memtables, too; one that was killed has
 * left a log, which step 5 seals and the servers replay.
 */
#include "engine/cluster.h"

#include "engine/base/file.h"
#include "engine/base/msg.h"
#include "engine/host.h"
#include "engine/lock/identity.h"
#include "engine/lock/lock.h"
#include "engine/lock/marker.h"
#include "engine/log/log_seal.h"
#include "engine/rpc/keys.h"
#include "engine/site.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define PATIENCE_US 10000000u /* how long to wait for the lock service */

/* The servers' file has the cluster's key and, behind it, the mounts'. */
static int make_keys(const char *dir, const char *cluster, char **path, char **why)
{
	struct buf own = {0}, mount = {0};
	struct keys *keys = NULL;
	char *mounts = NULL;
	struct tfs_bytes both;
	const uint8_t *end;
	int err = asprintf(path, "%s/%s.cluster.keys", dir, cluster) < 0 ? -ENOMEM : 0;

	if (!err)
		err = asprintf(&mounts, "%s/%s.mount.keys", dir, cluster) < 0 ? -ENOMEM : 0;
	if (!err)
		err = keys_new_line("cluster", "cluster", "", &own);
	if (!err)
		err = keys_new_line("mount", "mount", "", &mount);
	if (!err)
		err = buf_append_bytes(&own, buf_bytes(&mount));
	if (!err)
		err = keys_write_new(*path, buf_bytes(&own), why);
	/* An earlier call may have written another key. */
	own.n = 0;
	if (!err)
		err = keys_load(*path, &keys, NULL, why);
	keys_put(keys);
	if (!err)
		err = file_read_all(*path, KEYS_FILE_MAX, &own);
	if (!err) {
		both = buf_bytes(&own);
		end = both.n ? memchr(both.p, '\n', both.n) : NULL;
		if (end && (size_t)(end + 1 - both.p) < both.n)
			err = keys_write_new(mounts, tfs_bytes_of(end + 1, both.n - (size_t)(end + 1 - both.p)), why);
	}
	buf_fini(&own);
	buf_fini(&mount);
	free(mounts);
	return err;
}

/* Step 1, and opens the lock service.  The caller frees *keys. */
static int begin(const struct store_source *at, const char *keys_dir, struct site *s, char **why)
{
	struct tfs_options o;
	char *keys = NULL;
	int err = make_keys(keys_dir, at->host, &keys, why);

	tfs_options_init(&o);
	if (!err && strlen(keys) >= sizeof(o.keys))
		err = -ENAMETOOLONG;
	if (!err) {
		snprintf(o.keys, sizeof(o.keys), "%s", keys);
		snprintf(o.listen, sizeof(o.listen), "init");
		o.timeout_us = PATIENCE_US;
		err = site_open(at, &o, s, why);
	}
	free(keys);
	return err;
}

/* Sets *id to 0 if the directory and the lock service are new.  A crash may have left a marker in the lock service alone. */
static int check_marker(struct site *s, uint64_t *id, char **why)
{
	int err = marker_check(s->locks, s->dir, id, why);

	if (err == -ENODEV) {
		free(*why);
		*why = NULL;
		*id = 0;
		err = 0;
	}
	return err;
}

static bool has_store(const char *dir)
{
	char *path = path_join(dir, "lock/" IDENTITY_FILE);
	const bool has = path && access(path, F_OK) == 0;

	free(path);
	return has;
}

int cluster_init(const struct store_source *at, const char *keys_dir, char **why)
{
	struct lock_identity identity;
	struct site s = {0};
	bool whole;
	uint64_t id;
	int err = file_mkdir(at->dir);

	err = err == -EEXIST ? 0 : err;
	if (err)
		why_set(why, "%s: %s", at->dir, error_text(err));
	if (!err)
		err = begin(at, keys_dir, &s, why);
	if (!err)
		err = check_marker(&s, &id, why);
	if (!err && has_store(s.dir)) {
		err = -EEXIST;
		why_set(why, "%s: has a store already; 'tabletctl adopt' makes it a cluster's", s.dir);
	}
	if (!err)
		err = host_prepare(s.dir, true, &whole, why);
	if (!err)
		err = marker_make(s.locks, s.dir, &id, why);
	if (!err)
		err = identity_make(s.locks, &identity);
	site_close(&s);
	return err;
}

/* ---- adoption of an embedded store ---- */

struct copying {
	struct lock_service *from, *to;
	const char *dir; /* "" */
};

static int copy_file(void *arg, const char *name)
{
	const struct copying *c = arg;
	const struct copying below = {c->from, c->to, name};
	char file[600];
	struct buf b = {0};
	int err;

	snprintf(file, sizeof(file), "%s%s%s", c->dir, *c->dir ? "/" : "", name);
	if (strcmp(file, MARKER_FILE) == 0 || strcmp(file, IDENTITY_FILE) == 0)
		return 0;
	err = lock_get(c->from, file, &b, NULL);
	if (!err)
		err = lock_put(c->to, file, buf_bytes(&b), LOCK_ANY, NULL);
	else if (err == -ENOENT && !*c->dir) /* a directory */
		err = c->from->ops->list(c->from, name, copy_file, (void *)(uintptr_t)&below);
	buf_fini(&b);
	return err;
}

/* The servers of the cluster replay logs that are sealed only.  The logs of the embedded store contain nothing that is needed. */
static int seal_logs(const struct copying *c, const char *dir, char **why)
{
	uint64_t last = 0, version;
	char *logs = path_join(dir, "log"), name[40];
	int err = logs ? host_last_incarnation(dir, c->from, &last, &version, why) : -ENOMEM;

	for (uint64_t n = 1; n <= last && !err; n++) {
		struct log_seal seal = {0};
		struct buf b = {0};

		snprintf(name, sizeof(name), "seals/%llu", (unsigned long long)n);
		if (lock_get(c->to, name, NULL, NULL) == 0)
			continue;
		err = log_seal_make(logs, n, &seal, why);
		if (!err)
			err = log_seal_encode(&seal, &b);
		if (!err)
			err = lock_put(c->to, name, buf_bytes(&b), LOCK_ABSENT, NULL);
		err = err == -ENOENT ? 0 : err; /* this incarnation has no log any more */
		log_seal_fini(&seal);
		buf_fini(&b);
	}
	free(logs);
	return err;
}

/* Writes the memtables and the log of the store to SSTables, as at each clean end. */
static int flush_store(const char *dir, char **why)
{
	struct tfs_options o;
	struct tfs_store *store;
	int err;

	tfs_options_init(&o);
	o.serve = true; /* opens the store itself, and not through another process */
	o.log_level = -1;
	err = tfs_open(dir, &o, &store, why);
	if (!err) {
		err = tfs_close(store);
		if (err)
			why_set(why, "%s: cannot be closed: %s", dir, error_text(err));
	}
	return err;
}

static int open_locks(const char *dir, struct lock_service **out, char **why)
{
	char *path = path_join(dir, "lock");
	int err = path ? lock_local_open(path, out) : -ENOMEM;

	if (err)
		why_set(why, "%s: %s", dir, err == -EBUSY ? "in use" : error_text(err));
	free(path);
	return err;
}

/* Refuses a cluster that has another store.  Sets *done if the cluster has this store, and all steps were done. */
static int compare_stores(const struct copying *c, struct buf *identity, bool *done, char **why)
{
	struct buf theirs = {0};
	int err = lock_get(c->from, IDENTITY_FILE, identity, NULL),
	    other = err ? err : lock_get(c->to, IDENTITY_FILE, &theirs, NULL);

	*done = !other;
	if (!err && !other && !bytes_eq(buf_bytes(identity), buf_bytes(&theirs))) {
		err = -EEXIST;
		why_set(why, "the cluster has another store already");
	} else if (err || other != -ENOENT) {
		err = err ? err : other;
	}
	buf_fini(&theirs);
	return err;
}

int cluster_adopt(const struct store_source *at, const char *keys_dir, char **why)
{
	struct copying c = {.dir = ""};
	struct buf identity = {0};
	struct site s = {0};
	bool done = false;
	uint64_t id = 0;
	int err = has_store(at->dir) ? begin(at, keys_dir, &s, why) : -ENOENT;

	if (err == -ENOENT)
		why_set(why, "%s: has no store", at->dir);
	if (!err)
		err = check_marker(&s, &id, why);
	if (!err && !id)
		err = flush_store(s.dir, why);
	if (!err)
		err = open_locks(s.dir, &c.from, why);
	c.to = s.locks;
	if (!err)
		err = compare_stores(&c, &identity, &done, why);
	if (!err && !done)
		err = c.from->ops->list(c.from, "", copy_file, &c);
	if (!err && !done)
		err = marker_make(s.locks, s.dir, &id, why);
	if (!err && !done)
		err = seal_logs(&c, s.dir, why);
	if (!err && !done)
		err = lock_put(c.to, IDENTITY_FILE, buf_bytes(&identity), LOCK_ABSENT, NULL);
	lock_service_free(c.from);
	site_close(&s);
	buf_fini(&identity);
	return err;
}
