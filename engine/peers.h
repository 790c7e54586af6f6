/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The servers of a cluster, as their clients and each other reach them: a channel to each
 * incarnation, which is made when it is first needed.  A server that is known to have ended has no
 * service any more, and the calls that wait for it return.
 *
 * Threads: any.  No lock is held over a call of `address`.
 */
#ifndef TFS_PEERS_H
#define TFS_PEERS_H

#include "engine/base/source.h"
#include "engine/rpc/channel.h"

#define PEER_ADDRESS_MAX 300u /* bytes of HOST:PORT with its NUL */

struct peers_options {
	/* Sets *address to the server's HOST:PORT.  -ENOENT: there is no such server. */
	int (*address)(void *arg, uint64_t incarnation, char address[PEER_ADDRESS_MAX]);
	void *arg;
	enum source_kind kind;          /* SOURCE_TLS or SOURCE_TCP */
	const char *keys;               /* the file of the key; borrowed */
	struct channel_options channel; /* the options of each channel, except `dial`, `server` and `later` */
	/*
	 * Sets co->changed and co->arg of a new channel, before it is made.  `made` is called
	 * before its first request.  NULL: changes are not reported.
	 */
	int (*making)(void *arg, uint64_t incarnation, struct channel_options *co);
	void (*made)(void *arg, const struct channel_options *co, struct channel *c);
	uint64_t self;              /* this process's incarnation, 0: it is no server */
	struct tablet_service *own; /* its service */
};
struct peers;
int peers_new(const struct peers_options *o, struct peers **out) TFS_MUST;
/* No call may be running. */
void peers_free(struct peers *p);
/* A function of struct tablet_servers. */
struct tablet_service *peers_connect(struct peers *p, uint64_t incarnation);
/* Returns the channel to a server, or NULL if there is no such server or it is this process. */
struct channel *peers_channel(struct peers *p, uint64_t incarnation);
/* The server has ended. */
void peers_ended(struct peers *p, uint64_t incarnation);
/* Ends all servers for which alive returns false, with the calls that wait for them.  Keeps the servers that were found after since_us, when the caller began to list them. */
void peers_keep(struct peers *p, uint64_t since_us, bool (*alive)(void *arg, uint64_t incarnation), void *arg);
/* Makes a channel to an address, which connects with its first call. */
int peers_dial(const struct peers_options *o, const char *address, uint64_t incarnation, struct channel **out) TFS_MUST;

#endif
