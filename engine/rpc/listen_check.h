/* SPDX-License-Identifier: Apache-2.0 */
/* The rights of a peer (listen.h).  Pure functions. */
#ifndef TFS_RPC_LISTEN_CHECK_H
#define TFS_RPC_LISTEN_CHECK_H

#include "engine/rpc/keys.h"
#include "engine/rpc/master_service.h"
#include "engine/rpc/tablet_service.h"

struct peer_rights {
	struct tfs_user user;  /* as the kernel names it; a key of role mount has the anonymous user */
	bool owner;            /* root, the user of the serving process, or a key of role cluster: may act for others */
	uid_t store_owner;     /* the user of the serving process */
	const struct key *key; /* NULL: a Unix user */
	uint64_t client;       /* the id in its HELLO */
	uint64_t peer;         /* the member `peer` of its requests: a number for its user or key */
};
/*
 * Checks a request, and makes it the peer's own: its user, its peer.  Returns 0, -EPERM if the peer
 * may not ask this, -EBADMSG if no client of this program sends it.
 */
int peer_may_ask_tablets(const struct peer_rights *p, struct ts_request *q) TFS_MUST;
int peer_may_ask_master(const struct peer_rights *p, struct ms_request *q) TFS_MUST;
/* Returns true if the peer may act for other users. */
static inline bool peer_acts_for_others(const struct peer_rights *p)
{
	return p->owner || (p->key && p->key->squash != SQUASH_ALL);
}
/* Returns true if the answer has names, times and sizes only, and no values. */
bool request_asks_names(const struct ts_request *q);
/* Returns true if the request may change cells of a user table. */
bool request_changes(const struct ts_request *q);
/* Returns false if a request with this result has certainly changed nothing. */
bool may_be_applied(int err) TFS_MUST;

#endif
