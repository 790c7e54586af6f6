/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random operations on a few rows, through tabletfs.h, in the form that the checker
 * takes.  The values that a client writes are unique, so that the checker can tell
 * which write a read saw.  The columns: a and b are texts, n and m are counters.
 */
#ifndef T_LIN_CLIENT_H
#define T_LIN_CLIENT_H

#include "engine/tabletfs.h"
#include "t/lin/lin.h"

#define LIN_ROWS 32
extern const char *const lin_columns[LIN_COLUMNS];

struct lin_client {
	unsigned number;         /* no other client of the history has it */
	unsigned rows;           /* at most LIN_ROWS */
	uint64_t x;              /* a seed that is not 0; then the state of the generator */
	unsigned flags;          /* of tfs_apply */
	const char *families[2]; /* the family of a and n, and the family of b and m */
	/* A copy of `size` bytes and a NUL that lives as long as the history. */
	const char *(*text)(void *arg, const void *data, size_t size);
	void *arg;
	unsigned count;              /* of values written */
	char known[LIN_ROWS][2][48]; /* what the client last saw or wrote in a and b; "": absent, or too long */
};
void lin_row(char name[16], unsigned row);
/* Draws an operation and its row.  Texts of *op live as long as the history. */
unsigned lin_draw(struct lin_client *c, struct lin_op *op);
/*
 * Carries op out, and sets its outcome and answer.  The caller sets `called`
 * before and `answered` after it (not if the outcome is LIN_DOUBT).  Returns 0 or
 * the -errno of the engine.
 */
int lin_run(struct lin_client *c, struct tfs_table *t, unsigned row, struct lin_op *op);
/* Reads all rows in one scan: ops[i] is a read of row i that began before the call and ends with it.  Returns 0 or -errno. */
int lin_scan(struct lin_client *c, struct tfs_table *t, struct lin_op *ops[]);

#endif
