/* SPDX-License-Identifier: Apache-2.0 */
/* The state of a listener, for the files listen*.c. */
#ifndef TFS_RPC_LISTEN_IMPL_H
#define TFS_RPC_LISTEN_IMPL_H

#include "engine/base/mutex.h"
#include "engine/base/socket.h"
#include "engine/base/task.h"
#include "engine/rpc/conn.h"
#include "engine/rpc/dispatch.h"
#include "engine/rpc/hello.h"
#include "engine/rpc/listen.h"
#include "engine/rpc/listen_check.h"
#include "engine/rpc/notices.h"

#include <ev.h>

#define SLOW_WORKERS 8u /* the workers for the master's and the store's requests */
#define LOGGED_USERS 64u
#define REFUSED_MAX 32u /* refused peers; one more replaces the oldest */
#define LATE_KEYS 32u   /* late keys; one more replaces the oldest */
#define WHO_MAX 128u
#define DOORS 2u
#define ALLOWED 16u

struct watcher;
/* Its connection owns it. */
struct peer {
	struct listener *listener;
	struct conn *conn;
	struct socket_peer cred;              /* the process at the other end of a Unix socket */
	struct keys *keys;                    /* the set that has the key of a TCP connection; NULL before the key is known */
	bool network;                         /* set for TCP: the peer is a stranger until its HELLO */
	uint64_t place;                       /* its process, or the hash of its address */
	char name[WHO_MAX], address[WHO_MAX]; /* "user 1000", "key laptop"; "unix", "192.0.2.1:700" */
	bool leaves;                          /* listener.lock: it will be closed */
	struct peer_rights rights;
	struct ss_peer asks;
	bool greeted, large;
	char program[HELLO_PROGRAM_MAX]; /* listener.lock */
	uint64_t number, since_us;       /* its number in the list of clients */
	_Atomic uint64_t requests;
	TAILQ_ENTRY(peer) link;    /* listener.lock */
	uint32_t allowed[ALLOWED]; /* listener.lock: ids that its key has, since the change of schemas `allowed_at` */
	unsigned allowed_count;
	uint64_t allowed_at;
	/* The loop's thread only. */
	size_t reserved, reading, wants; /* bytes of large requests: under way, in reading, waiting */
	TAILQ_ENTRY(peer) in_line;
	struct watcher *watcher; /* listener.lock; NULL: changes are not reported to it */
};
TAILQ_HEAD(peers, peer);

/* Runs requests for the master and the store until the queue is empty. */
struct slow_worker {
	struct task task; /* first */
	struct listener *listener;
	bool idle; /* listener.lock */
};

/* A listening socket. */
struct door {
	struct listener *listener;
	int fd; /* -1 if there is no socket */
	bool network;
	ev_io acceptable; /* the loop's thread only */
};

struct listener {
	struct listen_options o;
	uint8_t store_id[64];
	struct door doors[DOORS]; /* for Unix sockets; for TCP */
	struct tls *tls;          /* for TCP; NULL: clear text, or there is no TCP */
	struct keys *keys;        /* the keys of TLS */
	bool started;
	bool paused; /* used on the loop's thread only */
	uid_t owner;
	struct tablet_service *tablets, watched; /* watched calls tablets */
	struct dispatcher *dispatcher;           /* NULL: there was no connection yet */
	struct task_pool *slow;
	struct task restricted; /* notice_task */
	struct slow_worker workers[SLOW_WORKERS];
	_Atomic size_t unsent; /* bytes of answers */
	_Atomic uint64_t schema_changes;
	_Atomic unsigned remote_watchers;
	_Atomic bool local_watcher;
	struct mutex lock; /* RANK_WIRE; guards the next members and those of struct peer */
	struct cond gone;
	struct cond told; /* a notice was sent or confirmed */
	TAILQ_HEAD(, watcher) watchers;
	struct watcher *local;           /* this process; NULL: it keeps nothing */
	uint64_t changes, schemas;       /* the numbers of the last change, and of the last one of schemas */
	STAILQ_HEAD(, asked) queue;      /* requests for the slow workers */
	unsigned queued, master_workers; /* master_workers: workers that serve the master's requests */
	unsigned client_workers;         /* workers that serve clients, and not processes of the cluster */
	struct peers peers;
	unsigned peer_count;
	uint64_t numbers;
	struct {
		uint64_t number, until_us, peer, place;
	} refused[REFUSED_MAX];
	unsigned refused_next;
	struct {
		uint64_t peer, until_us;
	} late[LATE_KEYS]; /* keys of clients that confirmed a change of schemas too late: nothing waits for them */
	unsigned late_next;
	/* The loop's thread only. */
	ev_timer again, beat;
	struct peers line; /* peers that wait for memory */
	size_t reserved;
	struct {
		uint64_t peer, at_us;
	} logged[LOGGED_USERS];
	unsigned logged_next;
};

/* Returns true if the peer is refused (listen_disconnect). */
bool listen_refuses(struct listener *l, const struct peer *p) TFS_MUST;

/* ---- the tables of a key (listen_limit.c) ---- */

/* Returns 0, or -EACCES if the peer's key lacks a table of the request.  May read files.  Any thread. */
int limit_tablets(struct peer *p, const struct ts_request *q) TFS_MUST;
int limit_master(struct peer *p, const struct ms_request *q) TFS_MUST;

/* ---- the identity of a peer (listen_who.c) ---- */

/* Names the peer that has connected.  A peer of TCP has no rights yet. */
int who_connects(struct peer *p, int fd) TFS_MUST;
/* Gives a peer of TCP the rights of its key at its HELLO.  -EKEYREJECTED: it has none. */
int who_greets(struct peer *p) TFS_MUST;
void who_fini(struct peer *p);
/* Returns true if a peer of this kind may be added.  Closes the oldest stranger if there are too many. */
bool who_fits(struct listener *l, const struct peer *p) TFS_MUST;
/* Logs the reason for a disconnection: one line a peer and minute. */
void who_log(struct listener *l, const struct peer *p, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* ---- listen_notice.c ---- */
void watcher_free(struct watcher *w);
/*
 * These are called on the loop's thread: at its start and end, after a NOTICE has come or bytes
 * were sent, and when a peer is closed.
 */
void notice_begin(struct listener *l);
void notice_end(struct listener *l);
void notice_task(struct task *t); /* sends what the loop's thread leaves to it */
int notice_received(struct peer *p, const struct frame *f) TFS_MUST;
void notice_sent(struct peer *p);
void notice_closed(struct peer *p);
/* A request of the client has changed cells.  Returns when the change was reported to all others. */
void listen_note_cells(struct listener *l, const struct ts_request *q);
/* Another server is about to serve these tablets.  Peers must keep nothing of their tables that they have read here. */
void listen_note_tablets(struct listener *l, const struct ts_request *q);

#endif
