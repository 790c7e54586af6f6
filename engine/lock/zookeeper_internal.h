/* SPDX-License-Identifier: Apache-2.0 */
/* A session of ZooKeeper, for zookeeper.c and zookeeper_watch.c. */
#ifndef TFS_LOCK_ZOOKEEPER_INTERNAL_H
#define TFS_LOCK_ZOOKEEPER_INTERNAL_H

#include "engine/base/mutex.h"
#include "engine/base/task.h"
#include "engine/lock/lock_format.h"
#include "engine/lock/watch.h"
#include "engine/lock/zookeeper.h"

#include <stdio.h>

#include <zookeeper/zookeeper.h>

#define TOP "/tabletfs"
#define ROOT_BYTES (sizeof TOP + LOCK_COMPONENT_MAX + 1)
#define PATH_BYTES (ROOT_BYTES + LOCK_NAME_MAX + 1)

/*
 * Threads: callers, and the library's completion thread, which calls all callbacks, in the
 * order in which ZooKeeper sent the reports.
 */
struct zk {
	struct lock_service base; /* first */
	struct mutex mutex;       /* RANK_LOCKSVC; guards all members but watches */
	struct cond changed;      /* a call has an answer, a mark is set, or connected or ended has changed */
	struct watch_set watches; /* has a mutex of the same rank: watches are called without the mutex above */
	zhandle_t *zh;
	bool connected;
	bool ended;         /* the session has ended; never cleared */
	struct call *calls; /* calls without an answer, and answers that their callers have not read */
	struct mark *marks; /* zookeeper_watch.c */
	struct task_pool *pool;
	struct task again; /* marks_again */
	uint64_t doubts;   /* the number of changes whose outcome was unknown */
	uint64_t settled;  /* the number of such changes that no later read can miss */
	uint64_t timeout_us;
	uint64_t patience_us;
	void (*expired)(void *arg);
	void *arg;
	struct ACL acls[2];
	struct ACL_vector files, dirs; /* rights of the znodes; they point to acls */
	char root[ROOT_BYTES];         /* the path of the znode above the files */
};

/* The path of the znode of a file or a directory; name "": the root. */
static inline const char *zk_path(const struct zk *z, const char *name, char path[PATH_BYTES])
{
	snprintf(path, PATH_BYTES, "%s%s%s", z->root, *name ? "/" : "", name);
	return path;
}

/* ---- zookeeper_call.c ---- */

struct call {
	struct call *next;
	struct zk *z;
	bool done;
	bool abandoned; /* the caller does not wait any more */
	int rc;
	struct Stat stat;
	bool has_data;      /* a znode's; a directory has none */
	struct buf data;    /* contents, or names, each with a NUL at its end */
	struct Stat *stats; /* one for each part of a multi-operation, as in results */
	struct zoo_op_result results[];
};

/* Sends a request whose answer will be in c.  Returns an error of the library. */
typedef int send_fn(struct zk *z, void *arg, struct call *c);

/* Returns -errno for an error of the library.  -UNREACHABLE: the outcome of a change is unknown. */
int zk_error(int rc);
/* Waits for a connection.  The caller holds the mutex. */
int zk_wait_connected(struct zk *z, uint64_t deadline_us) TFS_MUST;
/*
 * Sends a request when there is a connection, and waits for the answer.  It waits for the answer to a change without a
 * time limit, because an abandoned change could still be carried out later.  The library fails a request at the end of
 * the session, and about 2/3 of the session's timeout after the server's last sign of life.  On 0 *out has the answer or
 * the error c->rc, and the caller frees it by zk_call_put.  `parts` is the number of a multi-operation's parts.
 */
int zk_call(struct zk *z, send_fn *send, void *arg, unsigned parts, bool change, uint64_t deadline_us, struct call **out) TFS_MUST;
void zk_call_put(struct call *c);
/* Takes it off the list and frees it.  The caller holds the mutex. */
void zk_call_free(struct call *c);
/* Repeats a request that changes nothing until ZooKeeper answers.  Returns the answer's error; on 0 *out is as in zk_call. */
int zk_ask(struct zk *z, send_fn *send, char *path, uint64_t deadline_us, struct call **out) TFS_MUST;
/* Asks for the znode of a name, as zk_ask does, after the outcome of every earlier change of the session.  "" is the root. */
int zk_read(struct zk *z, const char *name, send_fn *send, uint64_t deadline_us, struct call **out) TFS_MUST;
/* Later reads of this session see all changes that were made before this call. */
int zk_settle(struct zk *z, uint64_t deadline_us) TFS_MUST;
int zk_send_get(struct zk *z, void *path, struct call *c);  /* contents and stat of a znode */
int zk_send_list(struct zk *z, void *path, struct call *c); /* names of its children */
void zk_on_multi(int rc, const void *call);                 /* the answer to a multi-operation */

/* ---- zookeeper_watch.c ---- */

/* Makes the session watch the file, or with "DIR/" the files of DIR, from now on.  Waits until it does. */
int marks_watch(struct zk *z, const char *name, uint64_t deadline_us) TFS_MUST;
/* The session is connected again.  The caller holds the mutex. */
void marks_connected(struct zk *z);
void marks_again(struct task *t); /* asks again, some time after an error */
/* The library has called its last callback. */
void marks_free(struct zk *z);

#endif
