/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lock service, in the role of Chubby (paper, section 4): small files with
 * compare-and-set, locks, multi-operations and watches.  The implementation
 * here uses a local directory.  Another one fills in the same struct
 * lock_service_ops.
 *
 * Names are paths such as "root" or "tables/webtable": one or two components
 * [A-Za-z0-9_.-]+.  A file has at most 1 MiB.  Its version increases with each
 * change.
 *
 * Errors: -ENOENT, -EEXIST, -ESTALE (the version is not the expected one),
 * -EBUSY (the lock is held), -EINVAL (a name that is not allowed), -EFBIG,
 * -EBADMSG (damaged), -ENOSPC (nothing was changed).  After another error of a
 * change the outcome is unknown: read the file again.
 * Threads: any.  The thread that makes a change also calls the watches of its
 * files, before the call returns.  It holds no lock of the service then, so a
 * watch may call the service.
 */
#ifndef TFS_LOCK_LOCK_H
#define TFS_LOCK_LOCK_H

#include "engine/base/bytes.h"

struct lock_service;
#define LOCK_ANY UINT64_MAX /* any version, or no file */
#define LOCK_ABSENT 0u      /* must not exist */

struct lock_op {
	const char *name;
	bool remove; /* else put */
	struct slice contents;
	uint64_t expect; /* version, LOCK_ANY or LOCK_ABSENT */
};
typedef void lock_watch_fn(void *arg, const char *name);
struct lock_service_ops {
	/* Replaces contents.  contents, version: may be NULL. */
	int (*get)(struct lock_service *s, const char *name, struct buf *contents, uint64_t *version);
	/* Carries out all operations or none; durable on return.  versions (may be NULL): count new versions; of a removed file 0. */
	int (*multi)(struct lock_service *s, const struct lock_op *ops, unsigned count, uint64_t *versions);
	/* Calls fn for the names in dir ("": the top), in byte order.  A non-zero value ends the calls and is returned. */
	int (*list)(struct lock_service *s, const char *dir, int (*fn)(void *arg, const char *name), void *arg);
	/* Acquires the exclusive lock of that name, which needs no file.  -EBUSY.  The lock ends with this process or session. */
	int (*acquire)(struct lock_service *s, const char *name);
	int (*release)(struct lock_service *s, const char *name);
	/* Calls fn after each change of the file; name "DIR/": of every file in DIR.  Copies name. */
	int (*watch)(struct lock_service *s, const char *name, lock_watch_fn *fn, void *arg);
	/* Removes all watches of (fn, arg).  On return none of them runs, except one that called unwatch. */
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
 * The local lock service: files in dir, which exists.  A journal makes
 * multi-operations atomic; local_files.c lists the durable steps.  The service
 * holds flock on dir/held while it is open.  If another process holds it, this
 * call waits: up to a minute for a process that is closing the service, half a
 * second for another one.  Then it returns -EBUSY.
 */
int lock_local_open(const char *dir, struct lock_service **out) TFS_MUST;
/* Acquires only this flock, with the same waits, for readers of a store.  held: the opened file dir/held.  dir is for messages. */
int lock_local_flock(struct file *held, const char *dir) TFS_MUST;
/*
 * Sets fn, which is called if a change finds the disk full.  fn returns true if
 * it has freed space; the change is then tried again.  The caller of fn holds no
 * lock of the service.
 */
void lock_local_make_room(struct lock_service *s, bool (*fn)(void *arg), void *arg);
/* Marks the service as closing: a process that opens dir now waits up to a minute for lock_service_free. */
void lock_local_closing(struct lock_service *s);
static inline void lock_service_free(struct lock_service *s)
{
	if (s)
		s->ops->free(s);
}

#endif
