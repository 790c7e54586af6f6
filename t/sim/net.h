/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Channels between simulated processes.  A channel is a service (tablet_service.h,
 * master_service.h).  A call encodes the request, and the receiving process serves it
 * when it arrives: a tablet server by its dispatcher, a master in a thread of its own.
 *
 * A request or an answer may be lost, late, or delivered twice; later requests may
 * overtake it.  The caller stops waiting after a time limit.  A request that is late
 * may arrive after that.  Errors (tablet_service.h) are -UNREACHABLE if the receiving
 * process is dead, so that the request was not sent, -ANSWER_LOST if it died before it
 * answered, and -ETIMEDOUT if the time limit has passed.
 */
#ifndef T_SIM_NET_H
#define T_SIM_NET_H

#include "engine/rpc/dispatch.h"
#include "engine/rpc/master_service.h"
#include "engine/rpc/tablet_service.h"
#include "t/sim/sched.h"

/* A process that serves requests. */
struct endpoint {
	struct proc *proc;
	struct dispatcher *tablets; /* NULL before there is one */
	struct master_service *master;
	uint64_t deaf_until_us;    /* no BURY reaches it before */
	uint64_t slow_until_us;    /* METADATA's answers to it are slow before */
	struct message *last_load; /* the last LOAD that was sent to it, or NULL */
};

struct net_faults {
	unsigned lose, repeat, late; /* one request or answer in this many is lost, delivered twice, late; 0 for none */
	uint64_t delay_us;           /* the time of a request or an answer is at most this, unless it is late */
	uint64_t late_us;
	uint64_t timeout_us;
};
struct net_counts {
	uint64_t requests, metadata, metadata_reads; /* counts all requests; requests for METADATA; reads of METADATA */
	uint64_t by_clients, metadata_reads_by_clients;
	uint64_t lost, repeated, late, refused, timeouts, cut;
	uint64_t ahead; /* requests that were sent before their answer was wanted */
};
void net_set_faults(const struct net_faults *f);
void net_get_counts(struct net_counts *c);

/* The channel from one process to another.  to is borrowed for ever. */
struct tablet_service *net_tablets(struct proc *from, struct endpoint *to);
struct master_service *net_master(struct proc *from, struct endpoint *to);
/* Nothing passes between a and b (NULL: all others) for so long, in both directions. */
void net_cut(struct proc *a, struct proc *b, uint64_t us);
/* Cuts the line between a and all processes but one. */
void net_cut_but(struct proc *a, struct proc *but, uint64_t us);
/* A process has been killed.  Callers that wait for its answers learn it, or not. */
void net_died(struct proc *p);
/* The counts take requests of this process for a client's. */
void net_is_client(struct proc *p);

#endif
