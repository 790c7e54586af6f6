/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The master: assigns tablets to tablet servers, makes and changes tables and
 * their schemas (paper, section 5).  Client data does not pass through it.
 *
 * Threads: the service from any; it handles one request at a time.  A pass that is due
 * comes before the next request.
 *
 * A request of a cluster's master that needs a tablet that is not served, or a server or
 * lock service that does not answer, changes nothing and returns -EAGAIN.  The client
 * sends it again.  If a change may have taken place, it returns -ETIMEDOUT.
 */
#ifndef TFS_MASTER_MASTER_H
#define TFS_MASTER_MASTER_H

#include "engine/base/clock.h"
#include "engine/lock/term.h"
#include "engine/rpc/master_service.h"
#include "engine/rpc/tablet_service.h"

/*
 * patience_us of the router of a cluster's master.  A request that waits for a tablet of
 * METADATA keeps the pass waiting that would have the tablet served.
 */
#define MASTER_PATIENCE_US UINT64_C(1000000)

struct master;
/* All pointers are borrowed. */
struct master_options {
	const char *data_dir;
	struct lock_service *locks;
	struct tablet_service *tablets; /* a router, the service of all tables and METADATA; brief in a cluster */
	struct tablet_servers servers;
	struct clock *clock;
	const struct lock_term *term; /* the term of this master, which has been elected; NULL: an embedded store */
	uint64_t session_us;          /* the timeout of the servers' sessions in a cluster */
	bool sole;                    /* an embedded store: its only server holds the lock of the data directory */
	bool no_background;           /* no periodic work, except by master_tick */
};
int master_new(const struct master_options *o, struct master **out) TFS_MUST;
/*
 * Finishes the changes that an earlier master began, and assigns all tablets.
 * Call it once, before the store serves requests.  An error sets *why to one
 * line; the caller frees it.
 */
int master_start(struct master *m, char **why) TFS_MUST;
/*
 * Assigns the tablets that no live server serves.  A cluster's master calls it once a
 * second.  It reads METADATA only if a server has appeared or ended, if the last call
 * left a tablet unserved, and once a minute.  -SESSION_ENDED: the term of this master
 * has ended.
 */
int master_tick(struct master *m) TFS_MUST;
/*
 * Moves the tablet that contains the row to the server with this incarnation.
 * Writers wait for less than the two minor compactions and a few messages take.
 * -ENOENT if there is no such tablet or server; -EAGAIN if a tablet of METADATA is
 * not served, and nothing was changed.
 */
int master_move(struct master *m, uint32_t table, struct tfs_bytes row, uint64_t to) TFS_MUST;
/*
 * Makes the moves that even out the servers' load now, and empties draining servers.  *moved: tablets moved.
 * Makes no moves if a tablet of METADATA is not served, because UNLOAD could not change the rows in
 * it.
 */
int master_balance(struct master *m, unsigned *moved) TFS_MUST;
/* If drain is set, the server gets no more tablets, and master_balance moves its tablets away. */
int master_drain(struct master *m, uint64_t incarnation, bool drain) TFS_MUST;
/* Serves MS_DRAIN: drains the server, and moves its tablets for about a second, also soon after a failure and to new servers. */
int master_empty(struct master *m, uint64_t incarnation) TFS_MUST;
/* Begins to collect files (collect.c), after the servers have started. */
int master_collect_begin(struct master *m) TFS_MUST;
/* The functions of struct server_collector; arg: the master. */
void master_collect_soon(void *arg, bool at_once);
void master_collect_now(void *arg);
/* Runs a round; full: it lists the directories.  After an error it may have removed some of the files. */
int master_collect(struct master *m, bool full) TFS_MUST;
/* At a clean end: runs the last rounds, for some seconds at most. */
void master_finish(struct master *m);
void master_free(struct master *m); /* no call may be running */
struct master_service *master_service(struct master *m);

#endif
