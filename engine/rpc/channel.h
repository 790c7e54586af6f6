/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client's side of the wire: the services of a server in another process, reached
 * over a source's connection (dial.h).  A channel has one connection for requests of
 * at most FRAME_PIECE, and, from the first longer request on, another one for the
 * longer ones.  If the source permits one connection only (dial.h), a long request
 * delays the requests behind it.  It connects again by itself when a call needs it.
 *
 * tablet_service.h has the errors of a tablet service's channel.  The master's and the store's
 * requests wait up to timeout_us for a server; -UNREACHABLE says that no server answered,
 * -ANSWER_LOST that the request may have been carried out.  A call in a child process after a fork
 * is refused with -EPERM.
 *
 * Threads: any; channel_new and channel_free are called by one.
 */
#ifndef TFS_RPC_CHANNEL_H
#define TFS_RPC_CHANNEL_H

#include "engine/rpc/dial.h"
#include "engine/rpc/hello.h"
#include "engine/rpc/master_service.h"
#include "engine/rpc/store_service.h"
#include "engine/rpc/tablet_service.h"

struct channel_options {
	struct dial *dial;           /* how the server is reached */
	uint64_t server;             /* the incarnation that is wanted; 0: any */
	bool later;                  /* the first call connects */
	uint64_t client;             /* the id that requests name; TS_CLIENT_RANDOM is set */
	const char *program;         /* the name in the server's list of clients */
	bool sync;                   /* every mutation is on disk before it is answered */
	uint64_t timeout_us;         /* how long a request waits for a server */
	const struct tfs_user *user; /* the user of requests that name no user; may be NULL; lives longer */
	/*
	 * After channel_watch: others have changed something; a packed NOTICE (hello.h) and its
	 * number.  NULL: the connection was lost, and changes may be missed until a notice with
	 * `all` comes.  Called by the thread of the connections, so it only queues work.
	 */
	void (*changed)(void *arg, const struct tfs_bytes *notice, uint64_t number);
	void *arg;
};

struct channel;
/*
 * Connects, unless o->later.  Copies o, and takes its dial, also after an error.  Errors:
 * dial_connect's, and the error in the server's HELLO.  *why: one line, or NULL; the caller
 * frees it.
 */
int channel_new(const struct channel_options *o, struct channel **out, char **why) TFS_MUST;
/* No call may be running. */
void channel_free(struct channel *c);
/* The server has ended: calls return -UNREACHABLE, or -ANSWER_LOST if they were sent, from now on. */
void channel_end(struct channel *c);
struct tablet_service *channel_tablets(struct channel *c);
struct master_service *channel_master(struct channel *c);
/* From now on the server reports the changes of others.  Connects, if there is no connection; so it is called again after a loss. */
int channel_watch(struct channel *c) TFS_MUST;
/* Confirms to the server that all has been dropped that the notices up to this number name. */
void channel_heard(struct channel *c, uint64_t notice);
/* The user that the server takes this process for. */
void channel_login(struct channel *c, struct tfs_login *out);
/* Returns 0 if one of the server's workers for users' requests takes a request within limit_us.  Its answer does not matter. */
int channel_answers(struct channel *c, uint64_t limit_us) TFS_MUST;
/* Sends a request of the store service, again if its outcome is unknown.  us: a shorter wait than timeout_us. */
int channel_store(struct channel *c, const struct ss_request *q, struct ss_answer *a) TFS_MUST;
int channel_store_within(struct channel *c, uint64_t us, const struct ss_request *q, struct ss_answer *a) TFS_MUST;

#endif
