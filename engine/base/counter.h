/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters are stored as decimal text.  Pure functions.
 */
#ifndef TFS_BASE_COUNTER_H
#define TFS_BASE_COUNTER_H

#include "engine/base/bytes.h"

#define COUNTER_TEXT_MAX 24
/* Longer texts are not numbers. */
#define COUNTER_INPUT_MAX 4096
/* Writes "N\n" into dst, which has COUNTER_TEXT_MAX bytes.  Returns the length. */
size_t counter_text(int64_t value, char *dst);
/* text is one signed decimal number of 64 bits with blanks around it; there is no "+".  -EINVAL. */
int counter_parse(struct tfs_bytes text, int64_t *value) TFS_MUST;
/* Returns true if text is a counter or the beginning of one. */
bool counter_prefix(struct tfs_bytes text);

/*
 * A change of a counter.  Its text is a number, which sets the counter, or lines +=N and -=N,
 * whose sum is added, or a number and then lines.
 */
struct counter_change {
	bool sets;
	int64_t value; /* the number plus the lines if it sets, else the sum of the lines */
};
/* Returns 0, 1 if text is the beginning of a change, -EINVAL, -EOVERFLOW. */
int counter_change_parse(struct tfs_bytes text, struct counter_change *out) TFS_MUST;

#endif
