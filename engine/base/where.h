/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conditions on the columns of a row, as in the clause where= of a scan (tabletfs-scan(7)):
 *
 *	CONDITION   FAMILY:Q | FAMILY:Q OPERATOR VALUE | ( CONDITION ) | not CONDITION
 *	            | CONDITION and CONDITION | CONDITION or CONDITION
 *	OPERATOR    = != < <= > >=
 *
 * not binds before and, and before or.  Q and VALUE are bare, up to a space, a parenthesis, a double quote or, in Q, an operator;
 * or between double quotes, where a double quote is written twice.
 *
 * A comparison is between numbers if the value and VALUE are both numbers, else between bytes.  A number is
 * decimal digits, with a sign before them or none, and with a point and digits behind them or none.  Numbers of
 * any length are compared exactly.  One newline at the end of either is ignored, because echo writes it.
 *
 * Threads: a condition that is not changed may be read by any.
 */
#ifndef TFS_BASE_WHERE_H
#define TFS_BASE_WHERE_H

#include "engine/base/bytes.h"

enum { WHERE_TERMS_MOST = 256 };
enum where_test { WHERE_HAS, WHERE_EQ, WHERE_NE, WHERE_LT, WHERE_LE, WHERE_GT, WHERE_GE };

/* One comparison, or the question if the row has the column. */
struct where_term {
	char family[TFS_NAME_MAX + 1];
	struct tfs_bytes qualifier, value;
	enum where_test test;
};
struct where {
	struct arena arena;
	struct where_term *terms;
	unsigned term_count;
	uint16_t *steps; /* the condition in postfix form: indexes of terms, or operators */
	unsigned step_count;
};
/* -EINVAL with *why, a static text; -ENOMEM.  The caller calls where_fini in any case. */
int where_parse(struct tfs_bytes text, struct where *out, const char **why) TFS_MUST;
void where_fini(struct where *w);
/* Returns true if a column with this value meets the term. */
bool where_term_holds(const struct where_term *t, struct tfs_bytes value);
/* Returns true if the condition holds.  holds: for each term.  It is false for a term whose column the row does not have. */
bool where_holds(const struct where *w, const bool *holds);

#endif
