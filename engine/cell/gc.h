/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Garbage-collection rules of a family (paper, section 2): maxversions=N,
 * maxage=AGE (us ms s m h d w), joined by `or` (any rule hides) and `and`
 * (all must), with parentheses; `and` binds tighter.
 *
 * Rules hold when reading.  Both kinds are monotone: a version that is
 * hidden has only hidden versions below it, so what a column shows is a
 * prefix of its live versions.
 */
#ifndef TFS_STORE_GC_H
#define TFS_STORE_GC_H

#include "engine/base/bytes.h"

struct gc_rule; /* immutable; NULL: keep everything */
/* -EINVAL with *why (may be NULL; a static string).  "" gives NULL. */
int gc_parse(const char *text, struct gc_rule **out, const char **why) TFS_MUST;
void gc_free(struct gc_rule *r);
/* index: number of live (not deleted) newer versions of the column; now and ts in us. */
bool gc_hides(const struct gc_rule *r, uint64_t index, int64_t ts, int64_t now);
/* When the version at this index will first be hidden by age if nothing is written; INT64_MAX: never. */
int64_t gc_expires(const struct gc_rule *r, uint64_t index, int64_t ts);
/* Upper bound on how many versions of a column can be visible; UINT64_MAX: none. */
uint64_t gc_max_versions(const struct gc_rule *r);
/* The shortest age in the rule that by itself (through `or`s) hides; 0: none. */
int64_t gc_max_age(const struct gc_rule *r);
bool gc_has_age(const struct gc_rule *r);

#endif
