/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server's side of the wire: it accepts connections on the Unix socket of a data
 * directory, and on a TCP socket, and passes their requests to the services.
 *
 * The rights of peers.  The kernel names the user of a connection to the Unix socket.  Root and the
 * user of the serving process may ask on behalf of others; a request of any other user is that
 * user's own, also if it names another user.  A peer of TCP has a key.  A key of role mount is a
 * host that vouches for the users of its requests; a request without a user is the key's anonymous
 * user's.  If the key squashes root, such a request for names is the owner's: it is the mount's
 * own.  A key of role cluster may do everything.  For all others, a method passes only if the list
 * in listen_check.c has it.  A client's id, and with it its epoch, scans and actions, belong to the
 * user or key that used it first.
 *
 * A peer that sends garbage, is too slow or asks for what it may not is disconnected, with
 * one line a peer and minute in the log.
 *
 * Threads: any, unless a function says otherwise.
 */
#ifndef TFS_RPC_LISTEN_H
#define TFS_RPC_LISTEN_H

#include "engine/rpc/keys.h"
#include "engine/rpc/master_service.h"
#include "engine/rpc/store_service.h"
#include "engine/rpc/tablet_service.h"

#define LISTEN_PEERS_MAX 1024u            /* connections */
#define LISTEN_USER_MAX 256u              /* connections that one user may have; as many are reserved for root and the owner */
#define LISTEN_MEMORY ((size_t)256 << 20) /* memory of all large requests that are read or carried out */

struct peer_rights;
struct listen_options {
	struct master_service *master;
	struct store_service *store;
	struct tfs_bytes store_id;
	uint64_t server; /* the incarnation */
	/*
	 * After listen_watch: peers have changed something. notice is a packed NOTICE
	 * (hello.h).  Called before the peers get their answers, and only queues work.
	 */
	void (*changed)(void *arg, struct tfs_bytes notice, uint64_t number);
	/* Returns true if the peer may read a family of the table with this set of tablets.  NULL: no peer may. */
	/* Whether a key that names its tables has the table, snapshot or set of tablets with this id, which may be read from files. */
	bool (*key_has)(void *arg, const struct key *key, uint32_t id);
	bool (*may_read)(void *arg, const struct peer_rights *peer, uint32_t tablets);
	void *arg;
};

struct listener;
/* Takes fd, a listening socket (base/socket.h), whose clients wait until listen_start.  Borrows the service until listen_free. */
int listen_new(int fd, struct tablet_service *tablets, struct listener **out) TFS_MUST;
/*
 * Takes fd, a listening socket of TCP, before listen_start.  Its peers use TLS with these keys.  keys NULL: clear text, and all
 * peers are nobody.
 */
int listen_network(struct listener *l, int fd, struct keys *keys) TFS_MUST;
/* Uses these keys from now on.  Closes the connections of keys that are not among them.  Not for clear text. */
void listen_set_keys(struct listener *l, struct keys *keys);
/*
 * Returns the service for callers in this process, which notifies the peers that asked
 * for notices of each change.  Valid until listen_free.
 */
struct tablet_service *listen_tablets(struct listener *l);
/* Copies o.  Borrows its services until listen_free. */
int listen_start(struct listener *l, const struct listen_options *o) TFS_MUST;
/*
 * pause: closes all connections, and each new connection, so that clients ask another server.  Otherwise accepts
 * connections again.  Not while listen_stop runs, nor after it.
 */
void listen_pause(struct listener *l, bool pause);
/* Closes all connections, and waits for the requests that are carried out. */
void listen_stop(struct listener *l);
/* Stops it, and closes the socket. */
void listen_free(struct listener *l);
/*
 * The client (0: this process) has changed tables, snapshots or schemas.  Returns when all
 * peers that may act for other users have dropped what they keep, or after a second.  It does
 * not wait for peers with a key that was late in the last minute.
 */
void listen_note_schemas(struct listener *l, uint64_t client);
/* From now on the changes of peers are reported to this process.  -ENOMEM. */
int listen_watch(struct listener *l) TFS_MUST;
/* The store has dropped all that the notices up to this number name. */
void listen_heard(struct listener *l, uint64_t notice);
/* The number of connections. */
unsigned listen_peers(struct listener *l);
/*
 * Appends a line for each client: its number, user, process, program, requests, seconds,
 * address; separated by tabs. of: lists only the clients of this user or key (struct ss_peer).
 * NULL: all clients.
 */
int listen_list(struct listener *l, const char *of, struct buf *out) TFS_MUST;
/*
 * Closes the client's connections, and refuses its user for a minute.  If the user is root or
 * the owner, it refuses the process only; if it is a key, the key at this address.  -ENOENT:
 * there is no such client.
 */
int listen_disconnect(struct listener *l, uint64_t number) TFS_MUST;
/* Ends the refusal.  -ENOENT: the client is not refused. */
int listen_allow(struct listener *l, uint64_t number) TFS_MUST;

#endif
