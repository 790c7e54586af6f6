/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection: frames over a stream socket, in clear text or with TLS (stream.h).  The loop's
 * thread (events.h) reads.  Any thread sends, itself if the socket accepts the bytes, else the
 * loop's thread sends the rest later.  Long answers are sent in pieces (frame.h), by turns with other frames.
 *
 * Bounds: a body has at most FRAME_HELLO_MAX bytes before the first HELLO, then FRAME_SMALL_MAX.
 * After conn_enlarge it has at most FRAME_LARGE_MAX, when `admit` grants memory.  A client trusts
 * its server, so all its connections are enlarged.  A server stops reading while more than
 * CONN_UNSENT_MAX bytes of frames wait because the peer does not read them, or more than
 * CONN_REQUESTS_MAX requests are unanswered.  If the connections of conn_bound together have more
 * than CONN_UNSENT_ALL unsent bytes, it closes connections with unsent bytes.  An answer counts as
 * a whole until its last piece was sent, because it is freed then. It closes a connection if the
 * handshake of TLS and the first HELLO, the rest of a begun frame, or the acceptance of a byte that
 * waits takes longer than CONN_STALL_US.
 */
#ifndef TFS_RPC_CONN_H
#define TFS_RPC_CONN_H

#include "engine/rpc/frame.h"
#include "engine/rpc/stream.h"

#define CONN_UNSENT_MAX ((size_t)16 << 20)
#define CONN_UNSENT_ALL ((size_t)512 << 20)
#define CONN_REQUESTS_MAX 256u
#define CONN_STALL_US 10000000u

struct conn;
/* The loop's thread calls these. */
struct conn_ops {
	/* A frame other than PING and PONG.  May take its body.  -errno closes the connection. */
	int (*frame)(struct conn *c, struct frame *f);
	/* A frame with a large body begins.  Returns false to stop reading until conn_admit.  NULL: always true. */
	bool (*admit)(struct conn *c, uint32_t bytes);
	/* Bytes that had to wait were sent.  NULL: nothing is called. */
	void (*sent)(struct conn *c);
	/* The connection is closed, and none of these functions is called again.  why: -errno, 0 at a regular end. */
	void (*closed)(struct conn *c, int why);
	void (*free)(void *owner); /* the last reference was dropped */
	bool patient;              /* set by a client, which always reads, and closes the connection when the server is silent */
};

/* Takes fd on success.  tls NULL: clear text.  It begins with conn_begin.  The caller has a reference. */
int conn_new(int fd, struct tls *tls, const struct conn_ops *ops, void *owner, struct conn **out) TFS_MUST;
void *conn_owner(const struct conn *c);
void conn_get(struct conn *c);
void conn_put(struct conn *c);
/* Also counts the memory of unsent frames in *all_held, which must outlive the connection.  Call it before conn_begin. */
void conn_bound(struct conn *c, _Atomic size_t *all_held);
/* Starts reading.  On the loop's thread. */
void conn_begin(struct conn *c);
/* The first HELLO has come, so the connection may be idle from now on.  On the loop's thread. */
void conn_greeted(struct conn *c);
/* Large bodies may be read from now on.  On the loop's thread. */
void conn_enlarge(struct conn *c);
/* Continues to read after `admit` returned false.  On the loop's thread. */
void conn_admit(struct conn *c);
/* Sends a frame, and may take the memory of *body (NULL: none).  Any thread.  -UNREACHABLE: it is closed; -ENOMEM, -ENOBUFS: it will be. */
int conn_send(struct conn *c, enum frame_kind kind, enum frame_service service, uint64_t number, struct buf *body) TFS_MUST;
/* A request was answered: counts one less. */
void conn_answered(struct conn *c);
/* Closes the connection soon, abortively unless why is 0.  Any thread.  The reason of the first call is kept. */
void conn_close(struct conn *c, int why);
/*
 * Returns the name of the peer's key.  It is empty if there is no key, or
 * before the end of the handshake.  On the loop's thread.
 */
struct tfs_bytes conn_key(const struct conn *c);
/* Returns the reason why TLS has failed; NULL if it has not.  Call it in `closed`. */
const char *conn_reason(const struct conn *c);
/* The number of bytes that wait to be sent.  Any thread. */
size_t conn_unsent(struct conn *c);
/*
 * Returns how long the peer has been silent, in us.  Each byte that arrives ends the silence.
 * So does the acceptance of a byte that had to wait, because the peer has then read some.
 */
uint64_t conn_silent_us(struct conn *c);

#endif
