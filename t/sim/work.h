/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clients' work, and its record.  Each client reads and changes random rows of
 * one table until work.stop is set.  The record is checked by t/lin.
 */
#ifndef T_SIM_WORK_H
#define T_SIM_WORK_H

#include "t/lin/lin.h"
#include "t/sim/cluster.h"

struct work {
	struct lin_record *record;
	unsigned rows;
	uint64_t pause_us; /* between two operations of a client, at most */
	bool moves;        /* one operation in some is a flush, a compaction, a split or a merge */
	bool groups;       /* the table's columns are in two families and locality groups */
	bool salted;       /* the table is */
	bool slow;         /* clients pause for minutes between two operations, and in scans */
	bool doubts_last; /* an operation in doubt may be applied later: a disk may fail, or the network repeats a request that was refused */
	bool stop, last_row_read;
	unsigned running; /* clients */
	unsigned table_made;
	uint64_t ops, errors, longest_us;
};
extern struct work work;

/* Makes the table.  Called before the clients start. */
void work_table(struct node *client);
/* Runs in the client's process. */
void work_run(struct node *client);
/* Makes and drops tables, snapshots and clones, in the client's process. */
void work_tables(struct node *client);
/* Changes families until a master has died at it (cluster.last_block). */
void work_last_block(struct node *client);
/* Makes and drops a table until work.last_row_read is set, in the client's process: no request may delay the recovery. */
void work_table_again(struct node *client);
/* Reads every row, with retries until `until`; the reads are part of the record.  Returns the number of rows that could not be read. */
unsigned work_read_all(struct node *client, uint64_t until);
/* Changes each row by an append. */
unsigned work_change_all(struct node *client, uint64_t until);
/* Compacts METADATA and the table, if it can. */
void work_compact(struct node *client);
/* Checks the record.  Returns the number of rows without a right order. */
size_t work_check(struct lin_totals *totals);

#endif
