/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Garbage-collection rules of a family (paper, section 2): maxversions=N,
 * maxage=AGE (us ms s m h d w), joined by `or` (any rule hides) and `and`
 * (all must), with parentheses; `and` binds tighter.
 *
 * Rules are applied when reading.  Both kinds are monotone: all versions below
 * a hidden one are hidden, so the visible versions of a column are a prefix of
 * its live ones.
 */
#ifndef TFS_CELL_GC_H
#define TFS_CELL_GC_H

#include "engine/base/bytes.h"

struct gc_rule; /* immutable; NULL: keep everything */
/* -EINVAL and *why (a static string; why may be NULL).  "" parses to NULL. */
int gc_parse(const char *text, struct gc_rule **out, const char **why) TFS_MUST;
void gc_free(struct gc_rule *r);
/* index: number of live (not deleted) newer versions of the column; now and ts in us. */
bool gc_hides(const struct gc_rule *r, uint64_t index, int64_t ts, int64_t now);
/* Returns the time from which age hides the version at this index if nothing is written; INT64_MAX: never. */
int64_t gc_expires(const struct gc_rule *r, uint64_t index, int64_t ts);
/* Returns the largest number of visible versions of a column; UINT64_MAX: no limit. */
uint64_t gc_max_versions(const struct gc_rule *r);
/* Returns the shortest age that hides a version by itself (not under an `and`); 0: none. */
int64_t gc_max_age(const struct gc_rule *r);
bool gc_has_age(const struct gc_rule *r);
/* Returns true if newer versions of a column can make the rule hide a version. */
bool gc_has_versions(const struct gc_rule *r);

#endif
