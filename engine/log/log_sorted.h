/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sorted copies of the segments of a sealed log (paper, section 6 "Speeding up
 * tablet recovery").  The servers of a cluster sort the segments in parallel, each
 * segment once.  The owner of a tablet then reads only the parts with its rows.
 *
 * NUMBER.sorted beside NUMBER.log consists of runs of successive LSNs.  In a run the
 * records are sorted by (table, first row, LSN).  A copy holds nothing that the seal and
 * the segment do not have: without a whole copy the segment is read instead.  So it is
 * not synced.  Threads: any; a struct log_sorted is used by one at a time.
 */
#ifndef TFS_LOG_SORTED_H
#define TFS_LOG_SORTED_H

#include "engine/log/log_seal.h"

/*
 * Makes the copy of segment i of the seal, unless it exists.  run_bytes: memory for
 * the records of a run.  writer: the caller's incarnation, for the name of the file
 * until it is whole.  *read is set to true if the segment was read.  why as in log_replay.
 */
int log_sort_segment(
	const char *dir, const struct log_seal *seal, size_t i, size_t run_bytes, uint64_t writer, bool *read, char **why) TFS_MUST;

struct log_sorted;
/* Opens the copy of segment i.  -ENOENT: there is none; -EBADMSG: it is damaged. */
int log_sorted_open(const char *dir, const struct log_seal *seal, size_t i, struct log_sorted **out) TFS_MUST;
void log_sorted_close(struct log_sorted *s);
/* Returns true if the caller wants a record from (table, row) to (to_table, to_row), both inclusive; to_row.p NULL: to the end. */
typedef bool log_sorted_wants_fn(void *arg, uint32_t table, struct slice row, uint32_t to_table, struct slice to_row);
/* The wanted records of a run, sorted, and perhaps others.  Valid during the call.  A non-zero value ends the reading and is returned. */
typedef int log_sorted_run_fn(void *arg, const struct log_record *const *v, size_t count);
/* -EBADMSG: a record is damaged; the copy has been removed. */
int log_sorted_read(struct log_sorted *s, log_sorted_wants_fn *wants, log_sorted_run_fn *fn, void *arg) TFS_MUST;

/* The index, at the end of the file: log_sorted_format.c. */
struct log_sorted_block {
	uint64_t offset; /* of the first record */
	uint32_t table;
	struct slice row;
	bool begins_run;
};
struct log_sorted_index {
	uint64_t incarnation, number, first_lsn, last_lsn;
	uint64_t bytes;                  /* of all records */
	struct log_sorted_block *blocks; /* of rising offsets, the first at 0 */
	size_t count;
};
#define LOG_SORTED_TRAILER 16u
int log_sorted_index_encode(const struct log_sorted_index *x, struct buf *out) TFS_MUST;
/* Rows borrow from in; the caller frees blocks.  -EBADMSG; -EPROTO: of a later format. */
int log_sorted_index_decode(struct slice in, struct log_sorted_index *x) TFS_MUST;
void log_sorted_trailer_encode(uint8_t out[LOG_SORTED_TRAILER], uint64_t offset, uint32_t bytes);
bool log_sorted_trailer_decode(const uint8_t in[LOG_SORTED_TRAILER], uint64_t *offset, uint32_t *bytes) TFS_MUST;

#endif
