/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The numbers of one client's mutations, and its epoch (engine/rpc/tablet_service.h).
 * A mutation keeps its number when it is sent again, so it is applied once.
 *
 * Threads: any.  No other lock is acquired under the internal lock (RANK_LOCATIONS).
 */
#ifndef TFS_CLIENT_NUMBERS_H
#define TFS_CLIENT_NUMBERS_H

#include "engine/base/mutex.h"

#include <bsd/sys/queue.h>
#include <stdatomic.h>

/* Mutations without an answer, with consecutive numbers from `first`; 0: they have none yet. */
struct numbered {
	uint64_t first;
	TAILQ_ENTRY(numbered) link;
};
struct numbers {
	uint64_t client; /* the client's id: of a server its incarnation, else random and at least TS_CLIENT_RANDOM; constant */
	_Atomic uint64_t epoch; /* from 1 */
	struct mutex lock;      /* guards the rest */
	uint64_t next;
	TAILQ_HEAD(, numbered) unanswered; /* in the order of numbers */
};
/* client 0: a random id.  -errno: there are no random bytes. */
int numbers_init(struct numbers *n, uint64_t client);
void numbers_fini(struct numbers *n);
void numbers_begin(struct numbers *n, struct numbered *m, uint32_t count);
void numbers_end(struct numbers *n, struct numbered *m);
uint64_t numbers_lowest(struct numbers *n); /* the lowest number of the mutations between begin and end */
/*
 * Begins the next epoch, unless it has begun since `epoch`.  Servers then refuse
 * late copies of this client's earlier requests.  Requests under way are sent again.
 */
void numbers_next_epoch(struct numbers *n, uint64_t epoch);

#endif
