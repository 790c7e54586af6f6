/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making a cluster:
 *
 *	1 create the lock service's file `cluster`: a random id, not complete
 *	2 write DIR/cluster.ID; fdatasync; link it to DIR/cluster, unless that
 *	  exists; unlink DIR/cluster.ID; fsync DIR
 *	3 if DIR/cluster has this id, set the lock service's file to complete
 * After a crash the next call continues with step 2.  A complete cluster without
 * DIR/cluster is on the wrong file system, so no marker is made there again.
 *
 * The lock service is first because only one cluster can have its file.  If the
 * directory were first, two lock services could adopt the marker that a crash left.
 * The link makes the file appear whole, and fails if another cluster's is there.  A
 * rename would replace the file of another process.
 */
#include "engine/lock/marker.h"

#include "engine/base/envelope.h"
#include "engine/base/file.h"
#include "engine/base/hash.h"
#include "engine/base/msg.h"
#include "engine/lock/lock_format.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { FILE_BYTES_MAX = 64 * 1024 };

/* *id is 0 if there is no file. */
static int read_lock(struct lock_service *locks, uint64_t *id, bool *complete, uint64_t *version)
{
	struct buf b = {0};
	int err = lock_get(locks, MARKER_FILE, &b, version);

	*id = 0;
	*complete = false;
	if (err == -ENOENT) {
		*version = LOCK_ABSENT;
		err = 0;
	} else if (!err) {
		err = lock_cluster_decode(buf_bytes(&b), id, complete);
	}
	buf_fini(&b);
	return err;
}

static int write_lock(struct lock_service *locks, uint64_t id, bool complete, uint64_t expect)
{
	struct buf b = {0};
	int err = lock_cluster_encode(id, complete, &b);

	if (!err)
		err = lock_put(locks, MARKER_FILE, buf_bytes(&b), expect, NULL);
	buf_fini(&b);
	return err;
}

/* *id is 0 if there is no file.  One good copy suffices. */
static int read_file(const char *path, uint64_t *id)
{
	struct buf b = {0};
	bool complete, holes = false;
	int err = copies_read(path, FILE_BYTES_MAX, &b, &holes);

	*id = 0;
	if (err == -ENOENT) {
		err = 0;
	} else if (!err) {
		err = -EBADMSG;
		for (unsigned i = 0; i < 2 && err == -EBADMSG; i++)
			err = lock_cluster_decode(copies_get(buf_bytes(&b), i, envelope_length), id, &complete);
		if (err == -EBADMSG && holes)
			err = -EIO;
	}
	buf_fini(&b);
	return err;
}

/* Step 2.  Does not replace another cluster's marker. */
static int make_file(const char *dir, const char *path, uint64_t id)
{
	struct buf b = {0};
	char *new = NULL;
	int err = asprintf(&new, "%s.%016" PRIx64, path, id) < 0 ? -ENOMEM : lock_cluster_encode(id, true, &b);

	if (!err)
		err = copies_add(&b, 0);
	if (!err)
		err = file_write_new(new, buf_bytes(&b)); /* a crash may have left one */
	if (!err) {
		int linked = file_link(new, path);

		err = file_unlink(new);
		if (linked && linked != -EEXIST)
			err = linked;
	}
	if (!err)
		err = file_sync_dir(dir);
	buf_fini(&b);
	free(new);
	return err;
}

/* Compares the two ids. */
static int compare(const char *dir, uint64_t of_lock, uint64_t of_file, char **why)
{
	if (of_lock == of_file)
		return 0;
	if (!of_file) {
		why_set(why, "%s: has no file '%s': it is not the directory of this cluster, or its file system is not mounted",
			dir, MARKER_FILE);
		return -ENODEV;
	}
	if (!of_lock)
		why_set(why, "%s: belongs to the cluster %016" PRIx64 ", of another lock service", dir, of_file);
	else
		why_set(why, "%s: belongs to the cluster %016" PRIx64 ", and the lock service to the cluster %016" PRIx64, dir,
			of_file, of_lock);
	return -EXDEV;
}

static int check(const char *dir, const char *path, uint64_t of_lock, char **why)
{
	uint64_t of_file;
	int err = read_file(path, &of_file);

	if (err)
		why_set(why, "%s: %s", path, err == -EBADMSG ? "damaged" : error_text(err));
	return err ? err : compare(dir, of_lock, of_file, why);
}

static int read_lock_or_say(
	struct lock_service *locks, const char *dir, uint64_t *id, bool *complete, uint64_t *version, char **why)
{
	int err = read_lock(locks, id, complete, version);

	if (err)
		why_set(why, "%s: the lock service's file '%s': %s", dir, MARKER_FILE,
			err == -EBADMSG ? "damaged" : error_text(err));
	return err;
}

int marker_check(struct lock_service *locks, const char *dir, uint64_t *id, char **why)
{
	uint64_t of_lock, version;
	bool complete;
	int err = read_lock_or_say(locks, dir, &of_lock, &complete, &version, why);
	char *path;

	if (err)
		return err;
	path = path_join(dir, MARKER_FILE);
	err = path ? check(dir, path, of_lock, why) : -ENOMEM;
	free(path);
	if (!err)
		*id = of_lock;
	return err;
}

/* Steps 1 to 3.  -VERSION_CHANGED: another process makes the cluster, too. */
static int make(struct lock_service *locks, const char *dir, const char *path, uint64_t *id, char **why)
{
	uint64_t version;
	bool complete;
	int err = read_lock_or_say(locks, dir, id, &complete, &version, why);

	if (!err && *id == 0) {
		err = check(dir, path, 0, why); /* the directory may be another cluster's */
		if (err)
			return err;
		err = random_bytes(id, sizeof(*id));
		if (err)
			return err;
		*id += *id == 0;
		err = write_lock(locks, *id, false, LOCK_ABSENT);
		return err ? err : -VERSION_CHANGED; /* the next call reads it */
	}
	if (!err && !complete)
		err = make_file(dir, path, *id);
	if (!err)
		err = check(dir, path, *id, why);
	return err || complete ? err : write_lock(locks, *id, true, version);
}

int marker_make(struct lock_service *locks, const char *dir, uint64_t *id, char **why)
{
	char *path = path_join(dir, MARKER_FILE);
	uint64_t made;
	int err = path ? -VERSION_CHANGED : -ENOMEM;

	for (unsigned i = 0; i < 8 && err == -VERSION_CHANGED; i++)
		err = make(locks, dir, path, &made, why);
	free(path);
	if (!err)
		*id = made;
	return err;
}

int marker_look(const char *path, uint64_t id)
{
	uint64_t of_file;
	int err = read_file(path, &of_file);

	if (err)
		return err;
	return of_file == id ? 0 : of_file ? -EXDEV : -ENODEV;
}
