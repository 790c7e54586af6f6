/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client's cache of tablet locations (paper, section 5.1): ranges of rows,
 * and the service of the server that served them last.  An entry may be
 * stale.  When a server refuses a row, the router drops the entry and reads
 * METADATA (route.c).
 *
 * Ownership: services are borrowed and outlive the cache; rows are copied.
 * Threads: any.  No function calls a service or does I/O.  The internal lock
 * (RANK_LOCATIONS) is a leaf.
 */
#ifndef TFS_CLIENT_LOCATIONS_H
#define TFS_CLIENT_LOCATIONS_H

#include "engine/rpc/tablet_service.h"

struct locations;
/* bytes_max limits the memory of the entries; the least recently used are dropped. */
int locations_new(size_t bytes_max, struct locations **out) TFS_MUST;
void locations_free(struct locations *l);

/* Returns NULL if there is no entry.  Counts a hit otherwise. */
struct tablet_service *locations_find(struct locations *l, uint32_t table, struct slice row);
/*
 * Adds the tablet of rows [begin, end); end.p NULL: to the table's end.  begin
 * may be below the true one: of overlapping entries, the one that ends first
 * is used.  Adds nothing if memory is short.
 */
void locations_put(struct locations *l, uint32_t table, struct slice begin, struct slice end, struct tablet_service *service);
/* `service` does not serve row.  Drops row's entry if it still names this service. */
void locations_forget(struct locations *l, uint32_t table, struct slice row, const struct tablet_service *service);
/*
 * Appends the end of row's tablet to *end; *last is set if that is the table's
 * end.  For grouping rows by tablet.  -ENOENT: there is no entry.
 */
int locations_end(struct locations *l, uint32_t table, struct slice row, struct buf *end, bool *last) TFS_MUST;

struct locations_stats {
	uint64_t hits;
	size_t entries, bytes;
};
void locations_get_stats(struct locations *l, struct locations_stats *out);

#endif
