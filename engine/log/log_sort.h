/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Log records sorted by (table, first row, LSN), a stretch of the log at a
 * time (paper, section 5.3 and section 6 "Speeding up tablet recovery"): so
 * what one tablet needs of the stretch lies side by side, and whoever applies
 * it walks its memtable from left to right.  A stretch knows nothing of
 * tablets, files or who asks; a server that sorts for others fills it from
 * one segment and hands them their parts.
 *
 * Threads: one at a time; the records of a sorted one may be read by many.
 */
#ifndef TFS_STORE_LOG_SORT_H
#define TFS_STORE_LOG_SORT_H

#include "engine/log/log.h"

struct log_stretch;
/* Holds about so many bytes of records, its own book-keeping included. */
int log_stretch_new(size_t bytes, struct log_stretch **out) TFS_MUST;
void log_stretch_free(struct log_stretch *s);
/* Empty again; its memory is kept. */
void log_stretch_clear(struct log_stretch *s);
/*
 * Copies r, which comes with a higher LSN than the one before it.  -ENOSPC:
 * it is full and was not changed; an empty one takes any record.  -ENOMEM.
 */
int log_stretch_add(struct log_stretch *s, const struct log_record *r) TFS_MUST;
void log_stretch_sort(struct log_stretch *s);
/* The records as they were added or, once sorted, in order; the stretch's until it is cleared. */
const struct log_record *const *log_stretch_records(const struct log_stretch *s, size_t *count);

#endif
