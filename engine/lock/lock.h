/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lock service (paper, section 4: Chubby's role): small files with
 * compare-and-set, locks, multi-operations and watches.  One implementation
 * over a local directory here; ZooKeeper gets another behind the same
 * interface.
 *
 * Names are paths such as "root" or "tables/webtable": components
 * [A-Za-z0-9_.-]+, at most two deep.  A file has at most 1 MiB and a version
 * that rises with each change.
 *
 * Errors: -ENOENT, -EEXIST, -ESTALE (version is not the expected one),
 * -EBUSY (lock held), -EBADMSG (damaged), -ENOSPC (nothing was changed), other
 * I/O errors (then the change is in doubt: read again).
 * Threads: any.  Watch callbacks come on the thread that made the change
 * (local) holding no lock of the service; they must not block.
 */
#ifndef TFS_LOCK_LOCK_H
#define TFS_LOCK_LOCK_H

#include "engine/base/bytes.h"

struct lock_service;
#define LOCK_ANY UINT64_MAX /* whatever the version is, absent included */
#define LOCK_ABSENT 0u      /* must not exist */

struct lock_op {
	const char *name;
	bool remove; /* else put */
	struct slice contents;
	uint64_t expect; /* version, LOCK_ANY or LOCK_ABSENT */
};
typedef void lock_watch_fn(void *arg, const char *name);
struct lock_service_ops {
	/* contents, version: may be NULL. */
	int (*get)(struct lock_service *s, const char *name, struct buf *contents, uint64_t *version);
	/* All or nothing, durable on return. versions (may be NULL): the new ones. */
	int (*multi)(struct lock_service *s, const struct lock_op *ops, unsigned count, uint64_t *versions);
	/* Names directly under dir ("" the top), in byte order; fn non-zero stops and is passed on. */
	int (*list)(struct lock_service *s, const char *dir, int (*fn)(void *arg, const char *name), void *arg);
	/* An exclusive lock that ends with this process or session. */
	int (*acquire)(struct lock_service *s, const char *name);
	int (*release)(struct lock_service *s, const char *name);
	int (*watch)(struct lock_service *s, const char *name, lock_watch_fn *fn, void *arg); /* prefix "tables/": any below */
	void (*unwatch)(struct lock_service *s, lock_watch_fn *fn, void *arg);
	void (*free)(struct lock_service *s);
};
struct lock_service {
	const struct lock_service_ops *ops;
};
static inline int TFS_MUST lock_get(struct lock_service *s, const char *name, struct buf *contents, uint64_t *version)
{
	return s->ops->get(s, name, contents, version);
}
static inline int TFS_MUST lock_put(
	struct lock_service *s, const char *name, struct slice contents, uint64_t expect, uint64_t *version)
{
	struct lock_op op = {.name = name, .contents = contents, .expect = expect};

	return s->ops->multi(s, &op, 1, version);
}
static inline int TFS_MUST lock_multi(struct lock_service *s, const struct lock_op *ops, unsigned count, uint64_t *versions)
{
	return s->ops->multi(s, ops, count, versions);
}

struct file;

/*
 * The local lock service: files under dir (which exists), changed through a
 * journal of one intent so that a multi-operation is atomic; the durable
 * steps stand at the top of local_files.c.  Holds flock on dir/held while open:
 * -EBUSY when another process has it.  One that has said that it is closing is
 * waited for, up to a minute; one that has not gets half a second to say so.
 */
int lock_local_open(const char *dir, struct lock_service **out) TFS_MUST;
/* That flock alone, on dir/held as it was opened, with the same waiting: for who only looks.  dir is for messages. */
int lock_local_flock(struct file *held, const char *dir) TFS_MUST;
/*
 * A change that finds the disk full is tried again as long as fn, called
 * holding no lock of the service, says that it has made room.  NULL: none.
 */
void lock_local_make_room(struct lock_service *s, bool (*fn)(void *arg), void *arg);
/* Whoever opens dir from now on waits for lock_service_free. */
void lock_local_closing(struct lock_service *s);
static inline void lock_service_free(struct lock_service *s)
{
	if (s)
		s->ops->free(s);
}

#endif
