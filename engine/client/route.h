/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The router: a tablet service that sends each request to the server of the
 * tablet that contains its row (paper, section 5.1).  The public API, the
 * master, and a server that changes METADATA use it.
 *
 * Differences from tablet_service.h: -EREMCHG means that no server served the
 * row for patience_us; -EIDRM also means that METADATA has no tablet of the
 * table.  Scan ids are the router's: it sends SCAN_NEXT and SCAN_CLOSE to the
 * server that opened the scan.  It sends requests without a row (SYNC,
 * BLOCK_WRITES, UNBLOCK_WRITES) to every server.  If one server refuses
 * BLOCK_WRITES, the others are unblocked.
 *
 * Threads: any.  No lock is held over a call of a service.
 */
#ifndef TFS_CLIENT_ROUTE_H
#define TFS_CLIENT_ROUTE_H

#include "engine/lock/lock.h"
#include "engine/rpc/tablet_service.h"

struct route_options {
	struct lock_service *locks; /* the file "root" names the server of the root tablet */
	/*
	 * Returns the service of the server with this incarnation, as METADATA
	 * has it (0: the tablet was never served), or NULL if there is none at
	 * present.  A service must live as long as the router.
	 */
	struct tablet_service *(*connect)(void *arg, uint64_t incarnation);
	/* Calls fn for each server.  A non-zero value of fn ends the calls and is returned. */
	int (*servers)(void *arg, int (*fn)(void *fn_arg, struct tablet_service *service), void *fn_arg);
	void *arg;
	size_t cache_bytes;   /* of the cache of locations; 0: ROUTE_CACHE_BYTES */
	uint64_t patience_us; /* 0: ROUTE_PATIENCE_US */
};
#define ROUTE_CACHE_BYTES (16u << 20)
#define ROUTE_PATIENCE_US 500000u
#define ROUTE_PREFETCH 16u /* tablets of which one scan of METADATA reads the locations */

struct router;
int route_new(const struct route_options *o, struct router **out) TFS_MUST;
void route_free(struct router *r); /* no call may be running */
struct tablet_service *route_service(struct router *r);
/* locations_end of this router's cache. */
int route_tablet_end(struct router *r, uint32_t table, struct slice row, struct buf *end, bool *last) TFS_MUST;

struct route_stats {
	uint64_t hits;       /* requests whose server was in the cache */
	uint64_t reads;      /* lookups in METADATA or the root file */
	uint64_t stale;      /* cached locations that were wrong */
	uint64_t prefetched; /* locations read in addition to the one looked up */
	uint64_t entries, bytes;
};
void route_get_stats(struct router *r, struct route_stats *out);

#endif
