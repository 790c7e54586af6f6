/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Log records sorted by (table, first row, LSN), a stretch of the log at a
 * time (paper, section 5.3 and section 6 "Speeding up tablet recovery").  The
 * records of one tablet are then adjacent and in row order, so replay inserts
 * into its memtable from left to right.
 *
 * A stretch is a number of successive records that are in memory together: as
 * many as fit in its bytes (16 MiB in recovery), or one larger record.
 *
 * Threads: one at a time; several threads may read the records of a sorted
 * stretch.
 */
#ifndef TFS_LOG_SORT_H
#define TFS_LOG_SORT_H

#include "engine/log/log.h"

struct log_stretch;
/* Makes a stretch for about this many bytes of records, including its own overhead. */
int log_stretch_new(size_t bytes, struct log_stretch **out) TFS_MUST;
void log_stretch_free(struct log_stretch *s);
/* Empties it; its memory is reused. */
void log_stretch_clear(struct log_stretch *s);
/*
 * Copies r, whose LSN must be above the previous one's.  -ENOSPC if the stretch is full; it is
 * unchanged then.  An empty stretch accepts any record.  -ENOMEM.
 */
int log_stretch_add(struct log_stretch *s, const struct log_record *r) TFS_MUST;
void log_stretch_sort(struct log_stretch *s);
/* The records in the order of adding or, once sorted, in order.  Valid until the stretch is cleared. */
const struct log_record *const *log_stretch_records(const struct log_stretch *s, size_t *count);

#endif
