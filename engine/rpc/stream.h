/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream socket that does not block, in clear text or with TLS.
 *
 * TLS is version 1.3 with pre-shared keys (keys.h) and a Diffie-Hellman exchange for each
 * connection.  The identity is the name of a key.  There are no certificates, tickets,
 * resumed sessions or early data.  Each side has proof that its peer has the secret
 * before it delivers a byte of the peer.
 *
 * Threads: calls on a stream are serialised by its owner.  A server's first receive calls
 * and tls_set_keys are made by one thread.
 */
#ifndef TFS_RPC_STREAM_H
#define TFS_RPC_STREAM_H

#include "engine/rpc/keys.h"

/* The state that the connections of one side share. */
struct tls;
/* Take a reference to the keys.  A client uses the first one. */
int tls_server_new(struct keys *keys, struct tls **out) TFS_MUST;
int tls_client_new(struct keys *keys, struct tls **out) TFS_MUST;
void tls_free(struct tls *t); /* its streams must be closed; NULL is allowed */
/* Later handshakes use these. */
void tls_set_keys(struct tls *t, struct keys *keys);

struct stream {
	int fd;    /* -1: closed */
	void *ssl; /* NULL: clear text */
	bool established;
	bool send_waits;         /* the last send needs bytes to be received first */
	bool receive_waits;      /* the last receive needs bytes to be sent first */
	bool more;               /* the next receive has bytes, or an error, that the socket does not report */
	uint64_t received, sent; /* bytes that the socket has received and sent */
	int err;                 /* the error of the socket's last call */
	int failed;              /* 0, or the first -errno of TLS, which stays */
	const char *reason;      /* why TLS failed, or NULL */
};
/* Takes fd on success.  tls NULL: clear text. */
int stream_init(struct stream *s, int fd, struct tls *tls, bool server) TFS_MUST;
/* Closes it abortively.  May be called twice. */
void stream_fini(struct stream *s);
/* Sends as socket_send does.  Bytes that were not sent must be passed again, unchanged, by the next call. */
int64_t stream_send(struct stream *s, const struct tfs_bytes *v, unsigned count) TFS_MUST;
/* Receives as socket_receive does.  Returns -EKEYREJECTED if the other side has no valid key. */
int64_t stream_receive(struct stream *s, void *p, size_t n) TFS_MUST;
/* The name of the key of an established connection of a server; empty: it has none. */
struct tfs_bytes stream_key(const struct stream *s);

#endif
