/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Serves an open store to other processes, at the Unix socket DATADIR/socket and over TCP.
 * One thread calls the functions.
 */
#ifndef TFS_SERVE_H
#define TFS_SERVE_H

#include "engine/lock/identity.h"
#include "engine/rpc/master_service.h"
#include "engine/rpc/tablet_service.h"
#include "engine/tabletfs.h"

struct serving;
/*
 * Makes the socket; its clients wait until serve_start.  The caller holds the store's lock.  dir NULL: a cluster's server, which
 * has no socket in the directory that it shares.
 * o: the socket's mode and group, the address and the keys of TCP.  tablets: the server's service.  Borrows dir and tablets until serve_end.
 */
int serve_begin(
	const char *dir, const struct tfs_options *o, struct tablet_service *tablets, struct serving **out, char **why) TFS_MUST;
/* The server's service and the master's for the callers in this process: the changes of these callers are reported to the clients. */
struct tablet_service *serve_tablets(struct serving *s);
struct master_service *serve_master(struct serving *s, struct master_service *master);
struct serve_options {
	struct tfs_store *store; /* answers all requests that are not for tablets */
	struct lock_service *locks;
	struct tablet_service *tablets; /* the router's service, which finds METADATA */
	const struct lock_identity *identity;
	uint64_t incarnation;
	int (*load)(void *load_arg, struct tfs_server *out); /* this server's load; NULL without a cluster */
	void *load_arg;
	struct probe_sides *probes; /* the probes of the directory that the servers share; NULL without a cluster */
};
/* Borrows all until serve_stop. */
int serve_start(struct serving *s, const struct serve_options *o) TFS_MUST;
/* From now on the changes of clients are reported to the store's handle (client_changed), which confirms when it has dropped what a notice names.  Does nothing if s is NULL. */
int serve_watch(struct serving *s) TFS_MUST;
void serve_heard(struct serving *s, uint64_t notice);
/* List the clients, and disconnect one (engine/rpc/listen.h).  If s is NULL, there are none. */
int serve_list(struct serving *s, struct buf *out) TFS_MUST;
int serve_refuse(struct serving *s, uint64_t client, bool refuse) TFS_MUST;
/* Asks the own listener (channel_answers).  One thread at a time.  -ENOTSUP: s is NULL. */
int serve_answers(struct serving *s, uint64_t limit_us) TFS_MUST;
/* Reads the file of keys again.  Does nothing if s is NULL. */
void serve_read_keys(struct serving *s);
/* Reports to the clients that tables, snapshots or schemas have changed. */
void serve_note_schemas(struct serving *s);
/* While paused, it closes all connections, so that clients ask another server. */
void serve_pause(struct serving *s, bool pause);
/* Closes the connections, and removes the socket. */
void serve_stop(struct serving *s);
void serve_end(struct serving *s);

#endif
