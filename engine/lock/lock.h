/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lock service, in the role of Chubby (paper, section 4): small files with
 * compare-and-set, ephemeral files, multi-operations and watches.  There are two
 * implementations: over a local directory, below, and on ZooKeeper (zookeeper.h).  Each
 * fills in a struct lock_service_ops, and must pass the tests of
 * t/lib/lock_conformance.h.
 *
 * Names are paths such as "root" or "tables/webtable": one or two components
 * [A-Za-z0-9_.-]+.  A file has at most LOCK_FILE_MAX bytes.
 *
 * A struct lock_service is one session.  The session ends when it is freed, when
 * its process dies, or when the service has not heard from it for the session's
 * timeout.  An operation that the service carries out begins the timeout again (session.h).  Its ephemeral files are removed
 * when the session ends, and not before.  A lock is an ephemeral file: the session that creates it holds the lock.
 *
 * The version of a file is 1 when it is created and increases with each change.
 * It starts again when the file is removed and created, so a compare-and-set of
 * such a file does not prove that it is still the same file.  An operation that
 * must not come from a former master also checks "term", which is never removed
 * (term.h).
 *
 * A session sees its own changes, and never a state older than one that it has
 * seen.  It may see the changes of other sessions late; lock_sync ends that.
 *
 * Errors: -ENOENT, -EEXIST, -VERSION_CHANGED (the version is not the expected one),
 * -EINVAL (a name or an operation that is not allowed), -EFBIG, -EBADMSG
 * (damaged), -ENOSPC (nothing was changed), -SESSION_ENDED (the session has ended;
 * nothing was changed).  After another error of a change, for example -UNREACHABLE
 * (the service cannot be reached), the outcome is unknown: read the file again.
 * Threads: any.
 */
#ifndef TFS_LOCK_LOCK_H
#define TFS_LOCK_LOCK_H

#include "engine/base/bytes.h"
#include "engine/base/outcome.h"

struct lock_service;
#define LOCK_ANY UINT64_MAX          /* any version, or no file */
#define LOCK_EXISTS (UINT64_MAX - 1) /* any version; -ENOENT if there is no file */
#define LOCK_ABSENT 0u               /* must not exist */
#define LOCK_FILE_MAX (512 * 1024)   /* bytes of a file */
#define LOCK_MULTI_MAX (768 * 1024)  /* bytes of all puts of a multi-operation */
#define LOCK_OPS_MAX 64u             /* operations of a multi-operation */

enum lock_what {
	LOCK_PUT,    /* creates the file or replaces its contents */
	LOCK_REMOVE, /* with LOCK_ANY or LOCK_ABSENT, an absent file is no error */
	LOCK_CHECK,  /* changes nothing; expect is a version or LOCK_EXISTS */
};
struct lock_op {
	const char *name; /* no two operations have the same name, and no name is the directory of another name */
	enum lock_what what;
	bool ephemeral; /* a put with LOCK_ABSENT: the file ends with this session.  Later puts of the file do not change this */
	struct tfs_bytes contents; /* the contents that a put writes */
	uint64_t expect;           /* version, LOCK_ANY, LOCK_EXISTS or LOCK_ABSENT */
};
struct lock_stat {
	uint64_t version;
	int64_t mtime_us; /* when an ephemeral file was last changed, by the service's clock (session.h needs it); may be 0 for other files */
};
/*
 * Called after changes of a file, at least once after the last change.  One call may
 * stand for several changes, and a call may come without a change.  No call need come
 * for a file that is removed right after its creation, nor, to a watch of "DIR/", for
 * new contents of an ephemeral file, such as a heartbeat.  fn only queues work: it
 * does not wait and does not call the service.  The local service calls it from the
 * thread that made the change, before that call returns.
 */
typedef void lock_watch_fn(void *arg, const char *name);
struct lock_service_ops {
	/* Replaces contents.  contents, stat: may be NULL. */
	int (*get)(struct lock_service *s, const char *name, struct buf *contents, struct lock_stat *stat);
	/*
	 * Carries out all operations or none; durable on return.  stats may be NULL, or
	 * has `count` elements; a removed file has version 0.
	 */
	int (*multi)(struct lock_service *s, const struct lock_op *ops, unsigned count, struct lock_stat *stats);
	/* Calls fn for the names in dir ("": the top), in byte order, as of one instant.  A non-zero value ends the calls and is returned. */
	int (*list)(struct lock_service *s, const char *dir, int (*fn)(void *arg, const char *name), void *arg);
	/* Later reads see all changes that were made before this call. */
	int (*sync)(struct lock_service *s);
	/* Calls fn after changes of the file or, if name is "DIR/", of any file in DIR. Copies name. */
	int (*watch)(struct lock_service *s, const char *name, lock_watch_fn *fn, void *arg);
	/* Removes all watches of (fn, arg).  On return none of them runs. */
	void (*unwatch)(struct lock_service *s, lock_watch_fn *fn, void *arg);
	/* Ends the session. */
	void (*free)(struct lock_service *s);
};
struct lock_service {
	const struct lock_service_ops *ops;
};
static inline int TFS_MUST lock_get(struct lock_service *s, const char *name, struct buf *contents, uint64_t *version)
{
	struct lock_stat stat = {0};
	int err = s->ops->get(s, name, contents, &stat);

	if (!err && version)
		*version = stat.version;
	return err;
}
/* Reads a file that is one number of 8 bytes.  No file: *number is 0 and *version LOCK_ABSENT.  -EBADMSG: other bytes. */
int lock_get_number(struct lock_service *s, const char *name, uint64_t *number, uint64_t *version) TFS_MUST;
static inline int TFS_MUST lock_multi(struct lock_service *s, const struct lock_op *ops, unsigned count, struct lock_stat *stats)
{
	return s->ops->multi(s, ops, count, stats);
}
static inline int TFS_MUST lock_put(
	struct lock_service *s, const char *name, struct tfs_bytes contents, uint64_t expect, uint64_t *version)
{
	struct lock_op op = {.name = name, .contents = contents, .expect = expect};
	struct lock_stat stat = {0};
	int err = s->ops->multi(s, &op, 1, &stat);

	if (!err && version)
		*version = stat.version;
	return err;
}
static inline int TFS_MUST lock_remove(struct lock_service *s, const char *name, uint64_t expect)
{
	struct lock_op op = {.name = name, .what = LOCK_REMOVE, .expect = expect};

	return s->ops->multi(s, &op, 1, NULL);
}
static inline int TFS_MUST lock_sync(struct lock_service *s)
{
	return s->ops->sync(s);
}

struct file;

/*
 * The local lock service: files in dir, which exists.  A journal makes
 * multi-operations atomic; local_files.c lists the durable steps.  The session is
 * the process, so ephemeral files are in its memory only.  The service
 * holds flock on dir/held while it is open.  If another process holds it, this
 * call waits up to a minute if that process is closing the service, else half a
 * second.  Then it returns -EBUSY.
 */
int lock_local_open(const char *dir, struct lock_service **out) TFS_MUST;
/* Acquires only this flock, with the same waits, for readers of a store.  held: the opened file dir/held.  dir is for messages. */
int lock_local_flock(struct file *held, const char *dir) TFS_MUST;
/*
 * Writes who has the lock of data directory dir, as the end of "in use": "by process PID (PROGRAM)".  A process on
 * another host or in another container is "on HOST by process PID (PROGRAM)", as it names itself, or "by a process of
 * another host or container".
 */
#define LOCK_HOLDER_MAX 400u
void lock_local_holder(const char *dir, char out[LOCK_HOLDER_MAX]);
/* Returns true if a process holds the lock, as far as this process can find out. */
bool lock_local_is_held(const char *dir);
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
