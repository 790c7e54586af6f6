/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regular expressions over keys and values, as Bigtable's filters: a pattern is
 * PCRE2's, over bytes, and matches the whole text; a dot matches every byte.  A
 * match is bounded in steps and memory.  Verbs, such as (*ACCEPT), are not valid.
 *
 * Threads: a pattern by one thread at a time.
 */
#ifndef TFS_CELL_PATTERN_H
#define TFS_CELL_PATTERN_H

#include "engine/base/bytes.h"

struct pattern;
/* Copies the text.  -EINVAL: the pattern is not valid or too long. */
int pattern_new(struct tfs_bytes text, struct pattern **out) TFS_MUST;
/* Returns true, and why as a text of at most n bytes, if pattern_new refuses the pattern. */
bool pattern_refused(struct tfs_bytes text, char *why, size_t n);
void pattern_free(struct pattern *p); /* NULL allowed */
/* Returns 1 if it matches, 0 if not, -ETIME at the bounds (`what` names the texts in the log), -ENOMEM. */
int pattern_match(struct pattern *p, struct tfs_bytes text, const char *what) TFS_MUST;

#endif
