/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Salted tables: the byte in front of each row key, crc32c(row) mod salt.
 * Requests and scans of the client library add and remove it; its callers do
 * not see it.
 *
 * A new salt takes effect while the table is empty, and with new tablets.
 */
#ifndef TFS_CLIENT_SALT_H
#define TFS_CLIENT_SALT_H

#include "engine/client/client.h"

static inline uint8_t salt_byte(struct slice row, uint32_t salt)
{
	return (uint8_t)(crc32c(0, row.p, row.n) % salt);
}

/*
 * Sends a request for one row to the table's tablets.  q->row is the row
 * without salt; table and salt are those of the schema, or of a newer one.
 * -ENOENT: the table was dropped.
 */
int table_call_row(struct tfs_table *t, const struct schema *s, struct ts_request *q, struct ts_answer *a) TFS_MUST;
/* The same; q->row is the key as stored. */
int table_call_stored_row(struct tfs_table *t, struct ts_request *q, struct ts_answer *a) TFS_MUST;
/* After -EIDRM for this tablets id: asks the master.  Returns a reference to a schema with other tablets, or NULL. */
const struct schema *table_new_tablets(struct tfs_table *t, uint32_t tablets);

/* ---- scans ---- */

/*
 * A scan by rows without salt: one cursor over the whole table, or one for
 * each range of a salted table that may match, merged by row.
 */
struct salt_scan {
	struct tablet_service *svc;
	const struct tfs_user *user; /* of the table's handle */
	uint32_t table, salt;
	uint64_t generation;
	struct scan_spec spec; /* without salt; its slices live as long as the scan */
	uint64_t returned;     /* entries so far, for the limit */
	uint64_t rows;         /* the same, for row_limit */
	struct buf row;        /* row_limit: the row returned last */
	struct range *ranges;
	struct range **heap; /* ranges with a cell; the first has the smallest row */
	unsigned range_count, heap_count;
	bool begun; /* the first cell of each range was read */
	int failed; /* the error that ended the scan; every later call returns it */
};
void salt_scan_init(struct salt_scan *s, struct tfs_table *t, const struct schema *schema, const struct scan_spec *spec);
/* Returns 1, a cell and its row without salt, valid until the next call, and *unsure as in tfs_cell; 0 at the end; -errno. */
int salt_scan_next(struct salt_scan *s, const struct scan_cell **cell, struct slice *row, bool *unsure) TFS_MUST;
/* past_damage: returns true if blocks were skipped. */
bool salt_scan_damaged(const struct salt_scan *s);
/* After -EIDRM: the next call starts again with the tablets of the schema, if no call has returned a cell; else it returns 0. */
void salt_scan_again(struct salt_scan *s, const struct schema *schema);
void salt_scan_fini(struct salt_scan *s);

#endif
