/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A simulated cluster: tablet servers, masters and clients, each a process of the
 * scheduler, over a lock service and one data directory that all share.
 *
 * A node is one run of a program.  A program that is started again is another node
 * with another process.
 */
#ifndef T_SIM_CLUSTER_H
#define T_SIM_CLUSTER_H

#include "engine/client/client.h"
#include "engine/lock/identity.h"
#include "engine/lock/session.h"
#include "engine/lock/term.h"
#include "engine/server/server.h"
#include "master/master.h"
#include "t/sim/lock_sim.h"
#include "t/sim/net.h"

enum { NODES_MOST = 256 };

enum role { SERVER, MASTER, CLIENT };
struct node {
	enum role role;
	unsigned number; /* the number of the machine */
	struct proc *proc;
	struct endpoint ep;
	struct lock_service *locks;
	struct router *router;
	struct lock_session *session; /* SERVER */
	struct clock *clock;          /* SERVER */
	struct lock_term term;        /* MASTER */
	uint64_t incarnation;         /* SERVER */
	struct server *server;        /* SERVER */
	bool unreachable;             /* SERVER: a master removes it */
	struct master *master;        /* MASTER */
	struct tfs_store *store;      /* CLIENT */
	bool done;                    /* CLIENT: run has returned */
	bool serving;                 /* it is ready, and not dead */
	uint64_t idle_until_us;       /* CLIENT: it asks nothing before, and then knows what it knew */
	void (*run)(struct node *n);  /* CLIENT: its work */
	void *arg;
};

struct cluster {
	char dir[64];
	struct lock_sim *locks;
	struct node *nodes[NODES_MOST];
	unsigned count;
	struct lock_identity identity; /* as the first master has read it */
	bool has_identity;
	unsigned moves;                       /* how many tablets masters move in a second; 0 for none */
	uint64_t patience_us;                 /* the patience of the routers of clients and servers */
	bool last_block;                      /* a master dies at its next BLOCK_WRITES, which arrives ... */
	uint64_t last_block_us;               /* ... at this time, when the next master leads; 0: not yet */
	bool holds;                           /* outcomes stay in doubt (net.c) */
	uint64_t lost_release_us;             /* the answer of the next release of a tablet is lost (net.c); 0: it is not */
	bool busy;                            /* masters move tablets whenever they can */
	bool blind;                           /* no mutation notices that the lease has ended, as if the clock had stopped */
	size_t memtable_bytes;                /* the bytes of each server's memtable */
	unsigned late_edits;                  /* a server leaves an edit unfinished (net.c), one of this many; 0 for none */
	const struct dispatch_limits *limits; /* the limits of each server; NULL for the defaults */
	bool sole; /* one server, which is also the master and has no lease and no fence, as in an embedded store */
};
extern struct cluster cluster;

/* Makes an empty data directory. */
void cluster_new(const char *dir);
struct node *server_node(unsigned number);
struct node *master_node(unsigned number);
/* run is called with the node when its store is open. */
struct node *client_node(unsigned number, void (*run)(struct node *n), void *arg);
/*
 * Ends the client regularly and starts a new client in its place.  The client's own thread calls
 * this, with all handles of the store closed.
 */
void client_again(struct node *n);
/* The live node of this role and number; NULL: none. */
struct node *node_find(enum role role, unsigned number);
bool node_alive(const struct node *n);
/* The caller is in a check of the fence for a mutation or a commit. */
bool fence_of_mutation(void);

#endif
