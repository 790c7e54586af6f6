/* SPDX-License-Identifier: Apache-2.0 */
/* lin_check() with the states that it ended in, for t/lin/explain.c. */
#ifndef T_LIN_CHECK_H
#define T_LIN_CHECK_H

#include "t/lin/lin.h"

#define LIN_STATES 6
struct lin_states { /* some states that the row may have had before the answer that no order explains */
	unsigned count;
	bool more;
	char *text[LIN_STATES][LIN_COLUMNS]; /* malloc; NULL: absent */
};
/* states may be NULL; else it is set if the result is LIN_BAD, and the caller frees it. */
struct lin_verdict lin_check_states(const struct lin_op *ops, size_t n, uint64_t max_steps, struct lin_states *states);
void lin_states_free(struct lin_states *states);

#endif
