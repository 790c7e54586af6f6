/* SPDX-License-Identifier: Apache-2.0 */
/* The members of a channel, and its calls (channel_call.c), for channel.c. */
#ifndef TFS_RPC_CHANNEL_IMPL_H
#define TFS_RPC_CHANNEL_IMPL_H

#include "engine/base/hashtable.h"
#include "engine/base/mutex.h"
#include "engine/rpc/channel.h"
#include "engine/rpc/conn.h"
#include "engine/rpc/events.h"

struct waiting {
	uint64_t number;
	const struct conn *conn;
	struct event done;
	int err;
	struct buf answer;
	UT_hash_handle hh;
};

struct tablet_channel {
	struct tablet_service base;
	struct channel *channel;
};
struct master_channel {
	struct master_service base;
	struct channel *channel;
};

struct channel {
	struct channel_options o;
	char *program;
	pid_t pid;
	struct tablet_channel tablets;
	struct master_channel master;

	struct mutex lock; /* RANK_WIRE; guards the next members */
	struct cond connected;
	struct conn *conn[2]; /* small, large; NULL: not connected */
	bool connecting[2];
	struct waiting *waiting;
	uint64_t number, streams;
	uint8_t store[16]; /* the store's id, once it is known */
	size_t store_n;
	bool watches, unreachable; /* unreachable: it was logged */
	bool ended;                /* the server has ended (channel_end), so no call begins any more */
	unsigned users;            /* calls that have begun and not returned */
	struct event_call empty;   /* planned after the last call */
	_Atomic bool squash_root;  /* as the server's HELLO has it */
	struct tfs_login login;    /* as the server's HELLO has it */
};

/* A call begins.  -UNREACHABLE: the server has ended. */
int channel_enter(struct channel *c) TFS_MUST;
void channel_leave(struct channel *c);
void channel_empty(struct event_call *call); /* the function of `empty` */

/* The next functions are called between channel_enter and channel_leave, except channel_call. */
/* Returns a reference to the connection, which is made if there is none. */
int channel_connection(struct channel *c, bool large, struct conn **out, char **why) TFS_MUST;
/* Sends a request; *w then waits for its answer.  May take *request, except if it returns -UNREACHABLE: then nothing was sent. */
int channel_send(struct channel *c, struct conn *conn, enum frame_service service, struct buf *request, struct waiting *w) TFS_MUST;
/* Waits for the answer, and takes it.  limit_us 0: without end. */
int channel_receive(struct channel *c, struct conn *conn, struct waiting *w, uint64_t limit_us, struct buf *answer) TFS_MUST;
/* Ends the wait for the answer. */
void channel_forget(struct channel *c, struct waiting *w);
/* Sends a request and receives its answer, as channel_send and channel_receive do. */
int channel_call(
	struct channel *c, enum frame_service service, struct buf *request, uint64_t limit_us, struct buf *answer) TFS_MUST;

#endif
