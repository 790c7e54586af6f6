/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Salted tables: the byte in front of each row key, and requests and scans
 * that add it and take it off, so that nobody above the client library sees
 * it.  The byte of a row is crc32c(row) mod salt.
 *
 * When a table is given another salt it is empty, and gets other tablets.
 */
#ifndef TFS_CLIENT_SALT_H
#define TFS_CLIENT_SALT_H

#include "engine/client/client.h"

#define SALT_TRIES 8 /* changes of a table's salt that one request may meet */

static inline uint8_t salt_byte(struct slice row, uint32_t salt)
{
	return (uint8_t)(crc32c(0, row.p, row.n) % salt);
}

/*
 * A call of the table's tablets for one row.  q->row is the plain row; table
 * and salt are those of the schema, or of a newer one.  -ENOENT: the table has
 * gone.
 */
int salt_call(struct tfs_table *t, const struct schema *s, struct ts_request *q, struct ts_answer *a) TFS_MUST;
/* The same; q->row is a key as it is stored, whatever the salt. */
int stored_call(struct tfs_table *t, struct ts_request *q, struct ts_answer *a) TFS_MUST;
/* After -EIDRM from a tablet of this id: asks the master.  A reference to the schema that names other tablets, or NULL. */
const struct schema *table_moved(struct tfs_table *t, uint32_t tablets);

/* ---- scans ---- */

/*
 * A scan by plain rows: one cursor over the whole table, or one for each of a
 * salted table's ranges that may hold what is asked for, merged by row.
 */
struct salt_scan {
	struct tablet_service *svc;
	uint32_t table, salt;
	uint64_t generation;
	struct scan_spec spec; /* plain; its slices live as long as the scan */
	uint64_t given;        /* of the limit */
	struct range *ranges;
	struct range **heap; /* those with a cell, by row; the first is next */
	unsigned range_count, heap_count;
	bool begun; /* each range has been opened */
	int failed; /* what ended it; told again and again */
};
void salt_scan_init(struct salt_scan *s, struct tfs_table *t, const struct schema *schema, const struct scan_spec *spec);
/* 1, a cell and its plain row, valid until the next call, *unsure as tfs_cell has it; 0 the end; -errno. */
int salt_scan_next(struct salt_scan *s, const struct scan_cell **cell, struct slice *row, bool *unsure) TFS_MUST;
/* past_damage: something was passed over. */
bool salt_scan_damaged(const struct salt_scan *s);
/* After -EIDRM: the next call begins anew in the tablets of the schema, if no call has returned anything yet; else the scan is over. */
void salt_scan_again(struct salt_scan *s, const struct schema *schema);
void salt_scan_fini(struct salt_scan *s);

#endif
