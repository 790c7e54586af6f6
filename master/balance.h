/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which server should serve which tablet, by pure functions of a state
 * that the master has collected.  They do no I/O, read no clock, and return the
 * same answer for the same state.
 *
 * Errors: -ENOMEM only.
 */
#ifndef TFS_MASTER_BALANCE_H
#define TFS_MASTER_BALANCE_H

#include "engine/base/bytes.h"

#define BALANCE_CALM_US UINT64_C(60000000) /* after a failure no tablet moves for this time */
#define BALANCE_SETTLE_US                                                                                                          \
	UINT64_C(30000000) /* the age at which a server gets moved tablets, and at which a tablet is moved for its load */
/* A server merges small neighbours when it has had both for this time (engine/server/tablets/retire.c).  Younger neighbours are not brought together. */
#define BALANCE_JOIN_US UINT64_C(3600000000)
enum { BALANCE_MOVES = 2 }; /* the most moves from or to one server at a time */

struct balance_server {
	uint64_t id; /* its incarnation, not 0 */
	uint64_t since_us;
	bool draining;   /* all its tablets move to other servers */
	unsigned moving; /* moves under way, from it or to it */
};
enum balance_kind { BALANCE_ROOT, BALANCE_METADATA, BALANCE_USER };
struct balance_tablet {
	enum balance_kind kind;
	uint64_t server;               /* if it is 0, or is not in servers, the tablet is not assigned */
	uint64_t since_us;             /* when it was loaded on that server, or made by a split */
	uint64_t bytes, reads, writes; /* reads, writes: a second, averaged over some minutes */
	bool moving;                   /* it is being moved to `server` */
	bool small; /* it and the array's previous tablet are neighbours that would be merged if one server had both */
};
struct balance_state {
	const struct balance_server *servers;
	unsigned server_count;
	const struct balance_tablet *tablets; /* in the order of METADATA */
	unsigned tablet_count;
	uint64_t now_us, failure_us; /* failure_us is the time of the last loss of a server, or 0 */
};

/*
 * The moves to begin now.  In this order of importance, each move reduces the
 * number of tablets on draining servers; the differences between servers in
 * their number of root and METADATA tablets; the number of small neighbours on
 * different servers; the differences in load.  A move for one aim does not undo
 * a more important aim.  So with an unchanged state the moves end, and no
 * tablet moves back.
 */
enum balance_reason { BALANCE_DRAIN, BALANCE_SPREAD, BALANCE_JOIN, BALANCE_LOAD };
struct balance_move {
	unsigned tablet; /* the index of the tablet */
	uint64_t to;
	enum balance_reason reason;
};
/* *The caller frees *moves, which is NULL if there are none. */
int balance_moves(const struct balance_state *s, struct balance_move **moves, unsigned *count) TFS_MUST;

/*
 * Sets to[i] to a server for each tablet i, which for an assigned tablet is its
 * own server.  Unassigned tablets are spread by load, and get a draining server
 * only if there is no other.  0: there is no server.
 */
int balance_place(const struct balance_state *s, uint64_t *to) TFS_MUST;

#endif
