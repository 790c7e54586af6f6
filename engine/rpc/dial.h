/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a client reaches the server of a source (engine/base/source.h): it gets a stream socket
 * whose other end was checked as far as the kind of source permits.
 *
 *	DIR, UNIX   the socket in the data directory.  The listener must be root or the owner of
 *	            the store's file FORMAT
 *	SSH         the standard input and output of ssh (ssh.h).  It answers for the host; every
 *	            request there is the login's user's
 *	TLS         an address of the list, in turn.  The server must have the same key
 *	TCP         the same in clear text; no side is checked
 *
 * Threads: any; two calls of dial_connect may run at once unless dial_is_single.
 */
#ifndef TFS_RPC_DIAL_H
#define TFS_RPC_DIAL_H

#include "engine/base/source.h"
#include "engine/rpc/stream.h"

struct dial;
struct dial_options {
	const char *ssh;  /* the command of SSH (ssh_new); if it is "", TABLETFS_SSH of the environment, or ssh */
	const char *keys; /* the file of the key of TLS; if it is "", the environment variable TABLETFS_KEYS names it */
};
/* Copies s and o.  Connects nothing.  -EINVAL, -EACCES: an option is wrong; *why says so. */
int dial_new(const struct store_source *s, const struct dial_options *o, struct dial **out, char **why) TFS_MUST;
void dial_free(struct dial *d);
/* The name of the source in messages. */
const char *dial_name(const struct dial *d);
/* Returns true if requests must name their user, because the server does not know the user of this process. */
bool dial_needs_user(const struct dial *d);
/* Returns true if there is one connection at a time, for small frames and large ones. */
bool dial_is_single(const struct dial *d);

struct dialled {
	int fd;          /* a stream socket, for conn_new; the caller closes it */
	struct tls *tls; /* for conn_new; the dial owns it; NULL: clear text */
};
/*
 * Connects.  Returns -ENOENT or -ECONNREFUSED if no process serves the source, -EACCES or
 * -EPERM if that process refuses this user, or is neither root's nor the store owner's.  After
 * an error *why is one line, which the caller frees, or unchanged.
 */
int dial_connect(struct dial *d, struct dialled *out, char **why) TFS_MUST;
/* How long the server's HELLO may take. timeout_us is the time limit of calls. */
uint64_t dial_patience_us(const struct dial *d, uint64_t timeout_us);
/* The caller reports the end of a connection's beginning: dial_greeted when the server's HELLO has come, dial_failed if the caller has closed the connection before. */
void dial_greeted(struct dial *d);
/* If *why is NULL, sets it to the reason that the server has sent, if there is one. */
void dial_failed(struct dial *d, int err, char **why);

#endif
