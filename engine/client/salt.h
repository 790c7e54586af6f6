/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Salted tables: each stored row key begins with the byte crc32c(row) mod salt.
 * The client library adds this byte to requests and removes it from results.
 * Its callers do not see the byte.
 *
 * A new salt takes effect only while the table is empty.  The table then gets
 * new tablets, under another tablets id.
 */
#ifndef TFS_CLIENT_SALT_H
#define TFS_CLIENT_SALT_H

#include "engine/client/client.h"

static inline uint8_t salt_byte(struct tfs_bytes row, uint32_t salt)
{
	return (uint8_t)(crc32c(0, row.p, row.n) % salt);
}

/*
 * Sends a request for one row to the table's tablets.  q->row is the row
 * without salt or, if `stored` is set, as it is stored; the function fills in q->table.  It uses the tablets id and the
 * salt of the schema, or of a newer one if they have changed.  -ENOENT: the
 * table was dropped.
 */
int table_call(struct tfs_table *t, const struct schema *s, bool stored, struct ts_request *q, struct ts_answer *a) TFS_MUST;
/*
 * Applies mutations, in order.  Their rows are without salt.  generation: of the schema
 * that their family ids come from.  Sets a->row_errs, which may be NULL if it is one row.
 * Returns the error of one row; of more rows 0.
 */
int table_mutate(struct tfs_table *t, const struct schema *s, uint64_t generation, const struct row_mutation *rows, uint32_t count,
	bool sync, struct ts_answer *a);
/* Calls as table_call for the newest schema; q->row is the key as stored. */
int table_call_stored_row(struct tfs_table *t, struct ts_request *q, struct ts_answer *a) TFS_MUST;
/*
 * Called after -TABLE_DROPPED for the tablets id `tablets`.  Reads the schema from
 * the lock service.  Returns a reference to it if it has another tablets id, else NULL.
 */
const struct schema *table_new_tablets(struct tfs_table *t, uint32_t tablets);
/*
 * Reads the schema of the table if the handle's schema is older than
 * `generation`, a server's.
 */
int table_catch_up(struct tfs_table *t, uint64_t generation) TFS_MUST;

/* ---- scans ---- */

/*
 * A scan whose bounds and results are rows without salt.  An unsalted table
 * needs one cursor.  A salted table needs one cursor for each range that may
 * contain matching rows; the scan merges them by row.
 */
struct salt_scan {
	struct tablet_service *svc;
	const struct tfs_user *user; /* the user of the table's handle */
	uint32_t table, salt;
	uint64_t generation;
	struct scan_spec spec; /* without salt; its bytes must outlive the scan */
	uint64_t returned;     /* cells returned so far, for spec.limit */
	uint64_t rows;         /* rows returned so far, for spec.row_limit */
	struct buf row;        /* the row returned last, for spec.row_limit */
	struct range *ranges;
	struct range **heap; /* the ranges that have a cell; the first one has the next row to return */
	unsigned range_count, heap_count;
	unsigned ranges_begun; /* ranges whose first cell was read */
	bool begun;            /* set when all ranges have begun */
	int failed;            /* the error that ended the scan; every later call returns it */
};
void salt_scan_init(struct salt_scan *s, struct tfs_table *t, const struct schema *schema, const struct scan_spec *spec);
/*
 * Returns 1 and sets *cell and *row, the row without salt; both are valid until
 * the next call.  *unsure is as in tfs_cell.  Returns 0 at the end, -errno.
 */
int salt_scan_next(struct salt_scan *s, const struct tfs_cell **cell, struct tfs_bytes *row, bool *unsure) TFS_MUST;
/*
 * For callers that read the ranges themselves. salt_ranges sets [*first, *end) to the salt bytes of
 * the ranges that the bounds admit; an unsalted table has the range 0.  salt_range makes the spec
 * of one range, whose bounds are keys as stored.  The spec borrows from and to, which must be empty
 * before.
 */
int salt_ranges(const struct salt_scan *s, unsigned *first, unsigned *end) TFS_MUST;
int salt_range(const struct salt_scan *s, unsigned byte, struct buf *from, struct buf *to, struct scan_spec *out) TFS_MUST;
/* Returns the latest generation of the schema of a server that has answered. */
uint64_t salt_scan_generation(const struct salt_scan *s);
/* Returns true if blocks were skipped, which only spec.past_damage allows. */
bool salt_scan_damaged(const struct salt_scan *s);
/*
 * Called after -TABLE_DROPPED.  If the scan has returned nothing, it starts again with
 * the tablets of the schema.  Otherwise the next call returns 0.
 */
void salt_scan_again(struct salt_scan *s, const struct schema *schema);
/* The next call begins with the bounds that the caller has set in spec.  The numbers of cells and rows go on. */
void salt_scan_restart(struct salt_scan *s);
void salt_scan_fini(struct salt_scan *s);

#endif
