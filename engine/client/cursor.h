/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of the tablet service, and scans over all tablets of a table.
 *
 * Threads: any; one at a time for a cursor.
 */
#ifndef TFS_CLIENT_CURSOR_H
#define TFS_CLIENT_CURSOR_H

#include "engine/rpc/tablet_service.h"

/*
 * A call of the service as its users see it: what a router (route.h) could
 * not mend of the service's own errors (-EREMCHG, -ESTALE, -ESHUTDOWN) is -EIO.
 */
int service_call(struct tablet_service *svc, const struct ts_request *q, struct ts_answer *a) TFS_MUST;

/*
 * A scan over all tablets of a table, by the service: opens, follows
 * tablet_end from tablet to tablet, closes.  The batch belongs to the cursor.
 */
struct row_cursor {
	struct tablet_service *svc;
	uint32_t table;
	uint64_t schema_generation;
	struct scan_spec spec; /* its slices must live as long as the cursor; row_from moves on */
	struct buf next_row;   /* where the next tablet begins */
	bool open, at_end;
	bool damaged;   /* past_damage: something was passed over */
	int failed;     /* what ended it; told again and again */
	uint64_t given; /* entries so far, for the limit */
	struct ts_answer answer;
	uint32_t at;
};
void row_cursor_init(
	struct row_cursor *c, struct tablet_service *svc, uint32_t table, uint64_t generation, const struct scan_spec *spec);
/* 1 and a cell valid until the next call; 0 the end; -errno. */
int row_cursor_next(struct row_cursor *c, const struct scan_cell **cell) TFS_MUST;
void row_cursor_fini(struct row_cursor *c);
/* Does the table hold a live cell of this family (0: any), or one that is kept while the clock is not believed? */
int table_has_cells(struct tablet_service *svc, uint32_t table, uint64_t generation, uint16_t family, bool *has) TFS_MUST;

#endif
