/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where tablets are served, as far as this client knows: ranges of rows and
 * the service of the server that was last said to serve them.  A memory, not
 * the truth: what is in it may be stale, and whoever is answered so forgets
 * the entry and reads METADATA (route.c).
 *
 * Ownership: services are borrowed and outlive the cache; rows are copied.
 * Threads: any.  No function calls a service or does I/O; the lock inside
 * (RANK_LOCATIONS) is a leaf, so these may be called under any lock that a
 * request to METADATA is made under.
 */
#ifndef TFS_CLIENT_LOCATIONS_H
#define TFS_CLIENT_LOCATIONS_H

#include "engine/rpc/tablet_service.h"

struct locations;
/* bytes_max bounds what entries take; the least used go first. */
int locations_new(size_t bytes_max, struct locations **out) TFS_MUST;
void locations_free(struct locations *l);

/* NULL: not known.  Counts a hit. */
struct tablet_service *locations_find(struct locations *l, uint32_t table, struct slice row);
/*
 * A tablet of rows [begin, end), end.p NULL: to the table's end.  begin may
 * lie below the true one: of entries that overlap the one that ends first
 * counts.  Without memory nothing is kept, and that is no error.
 */
void locations_put(struct locations *l, uint32_t table, struct slice begin, struct slice end, struct tablet_service *service);
/* `service` said that it does not serve row; what another said meanwhile stays. */
void locations_forget(struct locations *l, uint32_t table, struct slice row, const struct tablet_service *service);
/*
 * How far row's entry reaches, for whoever groups rows by tablet: the end is
 * appended to *end; *last: to the table's end.  -ENOENT: not known.
 */
int locations_end(struct locations *l, uint32_t table, struct slice row, struct buf *end, bool *last) TFS_MUST;

struct locations_stats {
	uint64_t hits;
	size_t entries, bytes;
};
void locations_get_stats(struct locations *l, struct locations_stats *out);

#endif
