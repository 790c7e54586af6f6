/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters are stored as decimal text.  Pure functions.
 */
#ifndef TFS_BASE_COUNTER_H
#define TFS_BASE_COUNTER_H

#include "engine/base/bytes.h"

#define COUNTER_TEXT_MAX 24
#define COUNTER_DIGITS_MAX 20 /* the length of the longest number, with its sign */
/* Longer texts are not numbers. */
#define COUNTER_INPUT_MAX 4096
/* Writes the decimal number and a NUL into dst, which has COUNTER_TEXT_MAX bytes.  Returns the length of the number. */
size_t counter_text(int64_t value, char *dst);
/* text is one signed decimal number of 64 bits with blanks around it; there is no "+".  -EINVAL. */
int counter_parse(struct tfs_bytes text, int64_t *value) TFS_MUST;
/*
 * The size of the file of a counter's plain name.  A value of 1 to COUNTER_DIGITS_MAX bytes may be a number, and the file
 * has a newline behind it.  So the size of the value determines the size of the file.
 */
uint64_t counter_file_size(uint64_t stored);
/* The value of such a file: the file without its last newline, if a value has this file. */
struct tfs_bytes counter_file_value(struct tfs_bytes file);
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
