/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lock service on ZooKeeper, for a cluster.  Programs that open one are linked
 * with engine/libzookeeper_lock.a and $(ZOOKEEPER_LIBS).
 *
 * The file NAME is the znode /tabletfs/CLUSTER/NAME, its version ZooKeeper's plus
 * one.  A directory is a znode without data, made with its first file and never
 * removed.
 *
 * Calls wait while there is no connection, for patience_us at most.  Then they return
 * -UNREACHABLE.  A read whose answer is lost is repeated until then.  A change whose
 * answer is lost returns -UNREACHABLE at once, and its outcome is unknown.  The next read
 * of the session shows the outcome.
 *
 * When the session has ended all calls return -SESSION_ENDED.
 */
#ifndef TFS_LOCK_ZOOKEEPER_H
#define TFS_LOCK_ZOOKEEPER_H

#include "engine/lock/lock.h"

struct lock_zookeeper_options {
	const char *hosts;  /* "HOST:PORT,..."; names of hosts are resolved once */
	const char *chroot; /* CLUSTER */
	const char
		*digest; /* "user:password"; from then on only sessions with it can read or change files.  NULL: any session can */
	uint64_t timeout_us;        /* the session's timeout, as requested */
	uint64_t patience_us;       /* the longest wait for a connection, and for the answer to a read */
	void (*expired)(void *arg); /* called once when the session has ended, under a lock: only queues work.  May be NULL */
	void *arg;
};
#define LOCK_ZOOKEEPER_TIMEOUT_MIN_US UINT64_C(2000000)

/*
 * Begins a session; lock_service_free ends it.  hosts and so on are copied.
 * After an error *why is a line for the user, which the caller frees, or NULL.
 * -UNREACHABLE; -EACCES: another key; -EINVAL: a wrong option, or ZooKeeper
 * grants a timeout below LOCK_ZOOKEEPER_TIMEOUT_MIN_US.
 */
int lock_zookeeper_open(const struct lock_zookeeper_options *o, struct lock_service **out, char **why) TFS_MUST;
/* Returns the timeout that ZooKeeper has granted. */
uint64_t lock_zookeeper_timeout_us(const struct lock_service *s);

#endif
