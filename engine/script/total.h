/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers of scripts, as Lua has them, and their sums.  A sum keeps integers apart from floats:
 * integers are added exactly, in 128 bits, so their order does not matter.
 */
#ifndef TFS_SCRIPT_TOTAL_H
#define TFS_SCRIPT_TOTAL_H

#include "engine/base/bytes.h"

struct script_number {
	bool is_float;
	int64_t i;
	double d; /* if is_float */
};
static inline double number_float(struct script_number n)
{
	return n.is_float ? n.d : (double)n.i;
}
/* Compares exactly; neither is NaN. */
int script_number_order(struct script_number a, struct script_number b);
/* The shortest text that reads as the same number; "1.0" is a float.  text has NUMBER_TEXT bytes; returns the length. */
enum { NUMBER_TEXT = 48 };
size_t script_number_text(struct script_number n, char *text);
int script_number_encode(struct script_number n, struct buf *out) TFS_MUST;
bool script_number_decode(struct reader *r, struct script_number *n) TFS_MUST;

struct total {
	__int128 whole;
	double part;
	bool has_part;
};
/* Returns false if the sum is too large for 128 bits. */
bool total_add(struct total *t, struct script_number n) TFS_MUST;
bool total_merge(struct total *t, const struct total *more) TFS_MUST;
/* Returns false if an integer sum does not fit into 64 bits. */
bool total_value(const struct total *t, struct script_number *n) TFS_MUST;
int total_encode(const struct total *t, struct buf *out) TFS_MUST;
bool total_decode(struct reader *r, struct total *t) TFS_MUST;

#endif
