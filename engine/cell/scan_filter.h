/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Filters of a scan on row keys, qualifiers and values, as Bigtable's filters; live.c
 * compares timestamps and times of commit.  A match (pattern.h) that reaches its bounds ends the scan
 * with -ETIME.
 *
 * Threads: a filter by one thread at a time.
 */
#ifndef TFS_CELL_SCAN_FILTER_H
#define TFS_CELL_SCAN_FILTER_H

#include "engine/cell/op.h"

struct scan_filter;
/*
 * *out is NULL if the spec has no filter.  The bytes of the spec must outlive the
 * filter.  -EINVAL: a pattern is not valid or too long.
 */
int scan_filter_new(const struct scan_spec *spec, struct scan_filter **out) TFS_MUST;
void scan_filter_free(struct scan_filter *f); /* NULL allowed */
/* Each returns 1 if it matches (or has no such filter), 0 if not, -errno.  f may be NULL. */
int scan_filter_row(struct scan_filter *f, struct tfs_bytes row) TFS_MUST;
int scan_filter_qualifier(struct scan_filter *f, struct tfs_bytes qualifier) TFS_MUST;
int scan_filter_value(struct scan_filter *f, struct tfs_bytes value) TFS_MUST;
/* Returns true if the value of a cell of this size must be read to decide. */
bool scan_filter_needs_value(const struct scan_filter *f, uint64_t size);
/* Returns true if no value of this size matches. */
bool scan_filter_excludes_size(const struct scan_filter *f, uint64_t size);

#endif
