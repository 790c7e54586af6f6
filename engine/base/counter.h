/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters: stored as 8-byte big-endian integers, read and written as
 * decimal text (DESIGN 3.2).  Pure functions.
 */
#ifndef TFS_BASE_COUNTER_H
#define TFS_BASE_COUNTER_H

#include "engine/base/bytes.h"

#define COUNTER_TEXT_MAX 24
/* The 8 bytes as text "N\n"; dst has COUNTER_TEXT_MAX bytes.  Returns the length. */
size_t counter_text(const uint8_t *be8, char *dst);
/* One decimal number with blanks around it.  -EINVAL. */
int counter_parse(struct slice text, int64_t *value) TFS_MUST;
/* Could text still become a counter when more is appended? */
bool counter_prefix(struct slice text);

#endif
