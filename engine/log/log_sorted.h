/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sorted segments of a sealed log (paper, section 6 "Speeding up tablet recovery").
 * A server of a cluster reads and sorts a segment once, and keeps it while the owners
 * of tablets ask for their parts (engine/server/tablets/seal.c).
 *
 * A sorted segment consists of runs of successive LSNs.  In a run the records are
 * sorted by (table, first row, LSN).  The owner of a tablet must apply a run as a whole
 * (tablet_replay), so the end of each run is reported to it.
 *
 * Threads: any thread may read a sorted segment.
 */
#ifndef TFS_LOG_SORTED_H
#define TFS_LOG_SORTED_H

#include "engine/log/log_seal.h"

struct log_sorted;
/*
 * Reads segment i of the seal and sorts it.  run_bytes: memory for the records of a
 * run, as in log_stretch_new.  The sorted records are kept in a file without a name
 * in tmp_dir, or in memory if tmp_dir is NULL or the file cannot be written.  why as
 * in log_replay.
 */
int log_sort_segment(const char *dir, const struct log_seal *seal, size_t i, size_t run_bytes, const char *tmp_dir,
	struct log_sorted **out, char **why) TFS_MUST;
void log_sorted_free(struct log_sorted *s); /* NULL is allowed */
size_t log_sorted_memory(const struct log_sorted *s);

/* Returns true if the caller wants a record from (table, row) to (to_table, to_row), both inclusive; to_row.p NULL: to the end. */
typedef bool log_sorted_wants_fn(void *arg, uint32_t table, struct tfs_bytes row, uint32_t to_table, struct tfs_bytes to_row);
/*
 * Appends about `bytes` of the next records of one run to out; some may be unwanted.
 * *place is 0 at first; it is set to the place from which to continue, 0 at the end.
 * *run_ended is set to true if no wanted record of that run follows.  -EINVAL: there is
 * no such place.
 */
int log_sorted_read(const struct log_sorted *s, size_t bytes, log_sorted_wants_fn *wants, void *arg, uint64_t *place,
	bool *run_ended, struct buf *out) TFS_MUST;
/* Calls fn for each record of the output of log_sorted_read, of segment i.  -EBADMSG: it is damaged.  A non-zero value of fn ends the calls and is returned. */
int log_sorted_decode(const struct log_seal *seal, size_t i, struct tfs_bytes in, log_replay_fn *fn, void *arg) TFS_MUST;

#endif
