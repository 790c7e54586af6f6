/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client's cache of tablet locations (paper, section 5.1).  An entry is a
 * range of rows, and the service of the server that was last found to serve it.
 * An entry may be stale.  When a server refuses a row, the router drops the
 * entry and reads METADATA (route.c).
 *
 * Ownership: the cache borrows the services, which must outlive it.  It copies
 * rows.
 * Threads: any.  No function calls a service or does I/O.  No other lock is
 * acquired under the internal lock (RANK_LOCATIONS).
 */
#ifndef TFS_CLIENT_LOCATIONS_H
#define TFS_CLIENT_LOCATIONS_H

#include "engine/rpc/tablet_service.h"

struct locations;
/* bytes_max limits the memory of the entries.  Above it the least recently used are dropped. */
int locations_new(size_t bytes_max, struct locations **out) TFS_MUST;
void locations_free(struct locations *l);

/* Returns the service of row's entry and counts a hit; NULL: no entry.  assignment (may be NULL): the tablet's number. */
struct tablet_service *locations_find(struct locations *l, uint32_t table, struct tfs_bytes row, uint64_t *assignment);
/*
 * Adds the tablet of rows [begin, end); end.p NULL: to the table's end.  begin
 * may be too low.  So if two entries contain a row, the entry with the lower
 * end is used.  Adds nothing if out of memory.
 */
void locations_put(struct locations *l, uint32_t table, struct tfs_bytes begin, struct tfs_bytes end,
	struct tablet_service *service, uint64_t assignment);
/* Called when `service` refused row.  Drops row's entry, unless it names another service by now. */
void locations_forget(struct locations *l, uint32_t table, struct tfs_bytes row, const struct tablet_service *service);
/*
 * Appends the end of row's tablet to *end.  Sets *last to true if it is the
 * table's last tablet, which has no end.  -ENOENT: no entry.
 */
int locations_end(struct locations *l, uint32_t table, struct tfs_bytes row, struct buf *end, bool *last) TFS_MUST;
/*
 * Returns the number of rows, from rows[0] on, that are in one tablet.  If there is no entry
 * for rows[0]: all; the server refuses rows that are not in the tablet.
 */
uint32_t locations_rows(struct locations *l, uint32_t table, const struct row_mutation *rows, uint32_t count);

struct locations_stats {
	uint64_t hits;
	size_t entries, bytes;
};
void locations_get_stats(struct locations *l, struct locations_stats *out);

#endif
