/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A checker of linearizability for the operations of one row: is there an order
 * of the operations in which each takes effect at one instant between its call
 * and its answer, and in which every answer is right?  (Wing and Gong 1993, with
 * the memoisation of Lowe 2017.)
 *
 * A row is at most LIN_COLUMNS columns.  A column is absent (NULL) or a text.  At
 * the start of a history all columns are absent.
 *
 * Times are any ascending int64 above 0: a virtual clock, or CLOCK_MONOTONIC.
 * Operation a comes before operation b if a was answered at an earlier time than
 * b was called.  At equal times the two are concurrent.
 */
#ifndef T_LIN_H
#define T_LIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define LIN_COLUMNS 4
#define LIN_PENDING 256 /* operations at one time that are called and not answered, which include operations in doubt */

enum lin_kind {
	LIN_READ,      /* reads one column, or several as of one instant (a scan of the row) */
	LIN_PUT,       /* `value` into each of `columns` */
	LIN_DELETE,    /* each of `columns` becomes absent */
	LIN_APPEND,    /* `value` to each of `columns`; an absent one is empty */
	LIN_INCREMENT, /* `by` to each of `columns`, a decimal number; an absent one is 0 */
};
enum lin_outcome {
	LIN_DOUBT,  /* an error that leaves it open: applied as a whole before `answered`, or never */
	LIN_OK,     /* applied, or read */
	LIN_FAILED, /* the check failed, and nothing was applied */
	LIN_NONE,   /* another error that proves that nothing was applied, so the operation is ignored */
};
struct lin_op {
	enum lin_kind kind;
	enum lin_outcome outcome;
	unsigned client;
	unsigned columns; /* a bit per column */
	const char *value;
	int64_t by;
	unsigned check; /* 0, or 1 + a column that must be `expect` before the operation, or absent if that is NULL */
	const char *expect;
	int64_t called; /* a time */
	int64_t answered; /* a time; 0: never, so it is in doubt.  In doubt: it is not applied after this time, because its server is dead, say */
	/* The answer, with LIN_OK. */
	unsigned seen; /* columns whose values after the operation the answer states; all of `columns` after a read */
	const char *found[LIN_COLUMNS]; /* these values */
	/*
	 * Where the operation probably is in the order.  It is the time of its commit, or
	 * its version's timestamp, or 0 if neither is known.  The search tries small
	 * hints first.  A wrong hint costs time and does not change the verdict.
	 */
	int64_t hint;
};

enum lin_result {
	LIN_GOOD,      /* there is an order */
	LIN_BAD,       /* there is none */
	LIN_UNDECIDED, /* more than the allowed number of steps, or more than LIN_PENDING operations at a time */
};
struct lin_verdict {
	enum lin_result result;
	uint64_t steps;
	int64_t until; /* with BAD, the operations up to this time have no order; perhaps fewer have none */
	size_t op;     /* with BAD, the index of the operation answered then */
};
/*
 * Checks the operations of one row, in any order in the array.  max_steps: 0
 * means 20 million, about 10 s.  Aborts if there is no memory.  Threads: any; no
 * state is shared.
 */
struct lin_verdict lin_check(const struct lin_op *ops, size_t n, uint64_t max_steps);

/*
 * Prints why a history is BAD: the fewest operations whose answers have no order,
 * the changes that write the texts in question, and the values that the row may
 * have had before the last answer.  names: of the columns.
 *
 * A history stays bad for the same reason if reads are left out, or columns, or
 * if the effect of a change becomes possible instead of certain.  The explanation
 * does these three as often as it can.
 */
void lin_explain(FILE *out, const struct lin_op *ops, size_t n, const char *const names[LIN_COLUMNS]);

/* ---- a record of operations on many rows ---- */

struct lin_record;
/* Aborts if there is no memory, as all of these. */
struct lin_record *lin_record_new(void);
void lin_record_free(struct lin_record *r);
/* The steps of lin_check for each row in lin_record_check. */
void lin_record_limit(struct lin_record *r, uint64_t max_steps);
/*
 * Adds an operation on a row: copies op with its texts and sets `called`.  The
 * outcome is LIN_DOUBT at first.  The result is valid as long as the record; the
 * caller sets the fields of the answer in it, texts by lin_text().  One thread at
 * a time.
 */
struct lin_op *lin_called(struct lin_record *r, const char *row, const struct lin_op *op, int64_t now);
/* A copy of the text that lives as long as the record. */
const char *lin_text(struct lin_record *r, const void *data, size_t size);
struct lin_totals {
	size_t rows, ops, doubts, bad, undecided;
	uint64_t steps;
};
/* Checks all rows and explains the bad ones to `out` (NULL: not).  Returns the number of bad rows.  totals may be NULL. */
size_t lin_record_check(const struct lin_record *r, const char *const names[LIN_COLUMNS], FILE *out, struct lin_totals *totals);

#endif
