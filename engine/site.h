/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cluster as one of its own processes, a server or a master, finds it: the lock service, the
 * shared directory, and the other servers and the master by their files in the lock service.
 *
 *	servers/N   ephemeral: HOST:PORT of the server with incarnation N, a blank, and its time (engine/lock/clocks.h)
 *	master      ephemeral: HOST:PORT of the leading master, a blank, and a random word
 *
 * The file of keys of such a process begins with a key of role cluster.  From its secret the
 * process also derives its password for ZooKeeper.
 *
 * Threads: any, after site_open.
 */
#ifndef TFS_SITE_H
#define TFS_SITE_H

#include "engine/lock/identity.h"
#include "engine/lock/lock.h"
#include "engine/peers.h"
#include "engine/rpc/master_service.h"
#include "engine/tabletfs.h"

struct site_master;
struct site {
	char *dir; /* without links */
	struct lock_service *locks;
	uint64_t session_us;            /* the timeout of its session */
	uint64_t cluster;               /* the id in the marker */
	struct lock_identity identity;  /* site_check */
	char address[PEER_ADDRESS_MAX]; /* the address of this process: options.listen */
	struct tfs_options options;
	struct peers *peers; /* site_connect */
	struct site_master *master;
};
/*
 * Opens the lock service of at, a SOURCE_CLUSTER, and checks its directory.  Does not need a marker yet.  After an error
 * *why is one line, or NULL; the caller frees it.  -EINVAL: an option is missing or wrong.
 */
int site_open(const struct store_source *at, const struct tfs_options *o, struct site *s, char **why) TFS_MUST;
/* Checks the marker and FORMAT, and reads the identity.  Then site_try_storage tries the storage. */
int site_check(struct site *s, char **why) TFS_MUST;
/*
 * Begins to find the other processes.  self is this server's incarnation and `own` its service.  A
 * master passes 0, and its id as `client`.
 */
int site_connect(struct site *s, uint64_t self, uint64_t client, struct tablet_service *own) TFS_MUST;
void site_close(struct site *s);
struct tablet_servers site_servers(struct site *s);
/* The leading master's service. */
struct master_service *site_master(struct site *s);
/*
 * Asks the leading master to move all tablets away from this server, for at most timeout_us.
 * Returns when the server has none, when no master leads, or when no other server can take
 * them.  Calls of the master may fail from the end of the time on.
 */
void site_drain(struct site *s, uint64_t incarnation, uint64_t timeout_us);
/* Calls fn for each servers/N, with its address. */
int site_each_address(struct site *s, int (*fn)(void *arg, uint64_t incarnation, const char *address), void *arg) TFS_MUST;
/* The leading master's address.  -ENOENT: none leads. */
int site_master_address(struct site *s, char address[PEER_ADDRESS_MAX]) TFS_MUST;
/* Logs why, and ends this process with status 3, because it must not continue. */
void site_give_up(const char *why) __attribute__((noreturn));

#endif
