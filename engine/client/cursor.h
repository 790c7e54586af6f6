/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of the tablet service, and scans over all tablets of a table.
 *
 * Threads: any; a cursor by one thread at a time.
 */
#ifndef TFS_CLIENT_CURSOR_H
#define TFS_CLIENT_CURSOR_H

#include "engine/rpc/tablet_service.h"

/*
 * Calls the service.  Logs the service's own errors that remain after a
 * router's retries (-EREMCHG, -ESTALE, -ESHUTDOWN), and returns -EIO for them.
 */
int call_tablet_service(struct tablet_service *svc, const struct ts_request *q, struct ts_answer *a) TFS_MUST;

/* Closes a scan of the service.  An error does not matter, because the server drops the scan. */
void close_scan(struct tablet_service *svc, uint32_t table, uint64_t scan);

/* A scan over all tablets of a table.  The cursor owns the batch. */
struct row_cursor {
	struct tablet_service *svc;
	uint32_t table;
	uint64_t schema_generation;
	const struct tfs_user *user; /* as in struct ts_request; row_cursor_init sets NULL */
	struct scan_spec
		spec; /* its slices must live as long as the cursor; row_from (reverse: row_to) changes from tablet to tablet */
	struct buf next_row; /* where the next tablet begins; reverse: where it ends */
	struct buf last_row; /* reverse: the greatest possible row key of the next tablet */
	bool open, at_end;
	bool damaged;      /* past_damage: blocks were skipped */
	int failed;        /* the error that ended the scan; every later call returns it */
	uint64_t returned; /* entries so far, for the limit */
	struct ts_answer answer;
	uint32_t at;
};
void row_cursor_init(
	struct row_cursor *c, struct tablet_service *svc, uint32_t table, uint64_t generation, const struct scan_spec *spec);
/* Returns 1 and a cell that is valid until the next call, 0 at the end, -errno. */
int row_cursor_next(struct row_cursor *c, const struct scan_cell **cell) TFS_MUST;
void row_cursor_fini(struct row_cursor *c);
/* *has is set if the table has a live cell of this family (0: any), or one that expired while the clock is not trusted. */
int table_has_cells(struct tablet_service *svc, uint32_t table, uint64_t generation, uint16_t family, bool *has) TFS_MUST;

#endif
