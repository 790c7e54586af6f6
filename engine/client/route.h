/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The router: a tablet service that sends each request to the server of the
 * tablet that contains the request's row (paper, section 5.1).  The public API,
 * the master, and a server that changes METADATA use it.
 *
 * A request to a server in another process may be lost, or be carried out without
 * an answer.  The router repeats reads and mutations then, also at the server that
 * has the tablet by then, until patience_us is over.  A mutation keeps its number,
 * so it is applied once.  If the outcome is still unknown then, the router begins
 * its next epoch.  So a later request through this router, a read of METADATA for
 * example, decides the outcome: no server carries out the earlier request after it.
 *
 * The rows of MUTATE may be in several tablets.  The router sends the rows of one tablet
 * as one request, in the order of the rows.  On an error of the request it also sets
 * row_errs, if they are not NULL.
 *
 * Differences from tablet_service.h:
 *  - -ETIMEDOUT: it is unknown if a mutation was carried out.
 *  - -TABLET_MOVED: the router found no server that serves the row in patience_us.
 *  - -TABLE_DROPPED: also if METADATA has no tablet of the table.
 *  - A request with a time_left_us has at most this patience, also for busy servers.
 *  - Mutations have no token; a request of TS_HELLO begins the next epoch.
 *  - Scan ids are the router's own.  It sends SCAN_NEXT and SCAN_CLOSE to the
 *    server that opened the scan.
 *  - It sends requests without a row (SYNC, BLOCK_WRITES, UNBLOCK_WRITES,
 *    COPY_TABLE) to every server.  If one server refuses BLOCK_WRITES,
 *    the router unblocks all of them.
 *
 * Threads: any.  No lock is held over a call of a service.
 */
#ifndef TFS_CLIENT_ROUTE_H
#define TFS_CLIENT_ROUTE_H

#include "engine/lock/lock.h"
#include "engine/rpc/store_service.h"
#include "engine/rpc/tablet_service.h"

struct route_options {
	struct lock_service *locks; /* the file "root" names the server of the root tablet */
	struct tablet_servers servers;
	/*
	 * Asks a server for the tablet of a row and, if it likes, the next tablets (SS_LOCATE).  It
	 * waits up to *left_us for a server, and on an error subtracts its wait.  NULL: this router
	 * reads the file "root" and METADATA itself.
	 */
	int (*locate)(void *servers_arg, uint32_t table, struct tfs_bytes row, uint64_t *left_us, struct ss_answer *a);
	bool synced;        /* every commit is on disk before it is answered, so TS_SYNC has nothing to do */
	size_t cache_bytes; /* limit of the cache of locations; 0: ROUTE_CACHE_BYTES */
	/* The pauses of one request and its waits for lost answers and for `locate`, together; 0: ROUTE_PATIENCE_US. */
	uint64_t patience_us;
	/* Sleeps; NULL: usleep.  A simulation has its own. */
	void (*pause)(void *arg, uint64_t us);
	uint64_t (*now_us)(void *pause_arg); /* a monotonic clock; NULL for the system's */
	void *pause_arg;
	/*
	 * Set by a cluster's master, which must soon be free for a pass.  Waits for busy servers then
	 * are part of patience_us, too, and the service has tablet_service.brief.
	 */
	bool brief;
	uint64_t client; /* the client's id, which is a server's incarnation; 0 for a random id */
};
#define ROUTE_CACHE_BYTES (16u << 20)
#define ROUTE_PATIENCE_US 500000u
#define ROUTE_PREFETCH 16u /* one scan of METADATA reads the locations of this many tablets */

struct router;
int route_new(const struct route_options *o, struct router **out) TFS_MUST;
void route_free(struct router *r);                      /* no call may be running */
struct tablet_service *route_service(struct router *r); /* valid until route_free */
/*
 * Tells the servers that this client ends, if it has changed anything, so that they forget its mutations (TS_EPOCH_LAST).  No
 * call may be running, and none may follow.  A server that does not hear it forgets them later.
 */
void route_goodbye(struct router *r);

/* From now on no request waits beyond this instant of its clock.  The requests that wait already end then, too. */
void route_end_by(struct router *r, uint64_t end_us);

struct route_stats {
	uint64_t hits;       /* requests whose location was in the cache */
	uint64_t reads;      /* lookups in METADATA or the root file */
	uint64_t stale;      /* cached locations whose server refused the row */
	uint64_t prefetched; /* locations read in addition to the wanted one */
	uint64_t entries, bytes;
	uint64_t repeated; /* mutations sent again after an unknown outcome */
};
void route_get_stats(struct router *r, struct route_stats *out);

#endif
