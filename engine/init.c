/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making a cluster.  Steps, each of which may have been done before a crash:
 *	1 the files of keys
 *	2 FORMAT, lock/, log/, sst/ in DIR, which must be absent, empty, or of this cluster
 *	3 the marker, in the lock service and in DIR
 *	4 the lock service's file "store", with the random secret
 * The programs of the cluster refuse it before step 4.
 */
#include "engine/cluster.h"

#include "engine/base/file.h"
#include "engine/base/msg.h"
#include "engine/host.h"
#include "engine/lock/identity.h"
#include "engine/lock/marker.h"
#include "engine/rpc/keys.h"
#include "engine/site.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Writes a new file of keys as a whole, so that a crash leaves none or all of it.  One that exists stays. */
static int write_keys(const char *path, struct tfs_bytes text, char **why)
{
	struct file *f = NULL;
	char *new = NULL;
	int err;

	if (access(path, F_OK) == 0)
		return 0;
	if (asprintf(&new, "%s.new", path) < 0)
		return -ENOMEM;
	err = file_unlink(new);
	err = err == -ENOENT ? 0 : err;
	if (!err)
		err = file_open(new, FILE_CREATE, &f);
	if (!err)
		err = file_pwrite(f, text.p, text.n, 0);
	if (!err)
		err = file_sync(f);
	file_close(f);
	if (!err) {
		err = file_link(new, path);
		err = err == -EEXIST ? 0 : err;
	}
	if (!err)
		err = file_unlink(new);
	if (!err)
		err = file_sync_parent(path);
	if (err)
		why_set(why, "%s: %s", path, error_text(err));
	free(new);
	return err;
}

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
		err = write_keys(*path, buf_bytes(&own), why);
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
			err = write_keys(mounts, tfs_bytes_of(end + 1, both.n - (size_t)(end + 1 - both.p)), why);
	}
	buf_fini(&own);
	buf_fini(&mount);
	free(mounts);
	return err;
}

int cluster_init(const struct store_source *at, const char *keys_dir, char **why)
{
	struct tfs_options o;
	struct lock_identity identity;
	struct site s = {0};
	char *keys = NULL;
	bool whole;
	uint64_t id;
	int err = make_keys(keys_dir, at->host, &keys, why);

	tfs_options_init(&o);
	if (!err && strlen(keys) >= sizeof(o.keys))
		err = -ENAMETOOLONG;
	if (!err) {
		snprintf(o.keys, sizeof(o.keys), "%s", keys);
		snprintf(o.listen, sizeof(o.listen), "init");
		o.timeout_us = 10000000;
		err = file_mkdir(at->dir);
		err = err == -EEXIST ? 0 : err;
		if (err)
			why_set(why, "%s: %s", at->dir, error_text(err));
	}
	if (!err)
		err = site_open(at, &o, &s, why);
	if (!err) {
		/* Refuses an embedded store, and another cluster's directory. */
		err = marker_check(s.locks, s.dir, &id, why);
		if (err == -ENODEV) { /* a crash before the marker was in DIR */
			free(*why);
			*why = NULL;
			err = 0;
		}
		if (!err && !id) {
			char *store = path_join(s.dir, "lock/journal");

			if (store && access(store, F_OK) == 0) {
				err = -EEXIST;
				why_set(why, "%s: has a store already; 'tabletctl adopt' makes it a cluster's", s.dir);
			}
			free(store);
		}
	}
	if (!err)
		err = host_prepare(s.dir, &whole, why);
	if (!err)
		err = marker_make(s.locks, s.dir, &id, why);
	if (!err)
		err = identity_make(s.locks, &identity);
	site_close(&s);
	free(keys);
	return err;
}
