/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Salted tables: the byte in front of each row key, and requests and scans
 * that add it and take it off, so that nobody above the client library sees
 * it.  The byte of a row is crc32c(row) mod salt.
 *
 * A table's salt may change while it is empty, with writers running.  Who
 * salted otherwise than the table's schema now says is answered
 * -EKEYREJECTED, looks the schema up and salts anew.
 */
#ifndef TFS_CLIENT_SALT_H
#define TFS_CLIENT_SALT_H

#include "engine/client/client.h"

#define SALT_TRIES 8 /* changes of a table's salt that one request may meet */

static inline uint8_t salt_byte(struct slice row, uint32_t salt) { return (uint8_t)(crc32c(0, row.p, row.n) % salt); }

/*
 * A call of the table's tablets for one row.  q->row is the plain row, which
 * is salted for q->salt; a salt that turns out to be another one is put into
 * *q, with the generation of its schema.
 */
int salt_call(struct tfs_table *t, struct ts_request *q, struct ts_answer *a) TFS_MUST;
/* The salt of the schema as last seen. */
uint32_t salt_known(struct tfs_table *t);
/* -EKEYREJECTED was the answer: the master is asked. */
int salt_learn(struct tfs_table *t) TFS_MUST;

/* ---- scans ---- */

/*
 * A scan by plain rows: one cursor over the whole table, or one for each of a
 * salted table's ranges that may hold what is asked for, merged by row.
 */
struct salt_scan {
	struct tablet_service *svc;
	uint32_t table, salt;
	uint64_t generation;
	struct scan_spec spec;       /* plain; its slices live as long as the scan */
	struct buf from;             /* spec.row_from, once the salt has changed */
	uint64_t given;              /* of the limit */
	struct range *ranges;
	struct range **heap;         /* those with a cell, by row; the first is next */
	unsigned range_count, heap_count;
	bool begun;
	int failed;                  /* what ended it; told again and again */
	unsigned changes;            /* of the salt */
	const struct range *lent;    /* whose cell was given last */
	struct buf last;             /* its row, when the cell is no more */
};
void salt_scan_init(struct salt_scan *s, struct tfs_table *t, const struct schema *schema, const struct scan_spec *spec);
/* 1, a cell and its plain row, valid until the next call, *unsure as tfs_cell has it; 0 the end; -errno. */
int salt_scan_next(struct salt_scan *s, const struct scan_cell **cell, struct slice *row, bool *unsure) TFS_MUST;
/* past_damage: something was passed over. */
bool salt_scan_damaged(const struct salt_scan *s);
/* After -EKEYREJECTED: the next call goes on behind the last row given, with the schema's salt. */
int salt_scan_again(struct salt_scan *s, const struct schema *schema) TFS_MUST;
void salt_scan_fini(struct salt_scan *s);

#endif
