/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client library's way to the tablet servers: a tablet service that
 * sends each request to the server of the tablet that holds its row (paper,
 * section 5.1).  Everything that speaks to tablets sits on it: the public
 * API, the master, and a server that changes METADATA.
 *
 * What it adds to the service's contract: -EREMCHG comes back only when for
 * patience_us no server was found that would serve the row; -ENOENT also when
 * METADATA has no tablet of the table.  Scan ids are its own: SCAN_NEXT and
 * SCAN_CLOSE go to the server that opened the scan.  What names no row (SYNC,
 * HOLD, LET_GO) goes to every server; a HOLD that one of them refuses is let
 * go by the others.
 *
 * Threads: any.  No lock is held over a call of a service.
 */
#ifndef TFS_CLIENT_ROUTE_H
#define TFS_CLIENT_ROUTE_H

#include "engine/lock/lock.h"
#include "engine/rpc/tablet_service.h"

struct route_options {
	struct lock_service *locks; /* its file "root" says who serves the root tablet */
	/*
	 * The service of the server that METADATA names by its incarnation (0:
	 * nobody has served the tablet yet); NULL: there is none at present.
	 * Services live as long as the router.
	 */
	struct tablet_service *(*connect)(void *arg, uint64_t incarnation);
	/* fn for each server there is; non-zero stops and is passed on. */
	int (*servers)(void *arg, int (*fn)(void *fn_arg, struct tablet_service *service), void *fn_arg);
	void *arg;
	size_t cache_bytes;   /* of locations; 0: ROUTE_CACHE_BYTES */
	uint64_t patience_us; /* 0: ROUTE_PATIENCE_US */
};
#define ROUTE_CACHE_BYTES (16u << 20)
#define ROUTE_PATIENCE_US 500000u
#define ROUTE_PREFETCH 16u /* tablets that one reading of METADATA tells of */

struct router;
int route_new(const struct route_options *o, struct router **out) TFS_MUST;
void route_free(struct router *r); /* no call is under way */
struct tablet_service *route_service(struct router *r);
/* locations_end of this router's cache. */
int route_tablet_end(struct router *r, uint32_t table, struct slice row, struct buf *end, bool *last) TFS_MUST;

struct route_stats {
	uint64_t hits;       /* requests whose server was known */
	uint64_t reads;      /* those for which METADATA or the root file was read */
	uint64_t stale;      /* locations that were known and found wrong */
	uint64_t prefetched; /* locations read beside those that were looked for */
	uint64_t entries, bytes;
};
void route_get_stats(struct router *r, struct route_stats *out);

#endif
