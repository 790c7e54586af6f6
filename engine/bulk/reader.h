/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Readers of imports: bytes in, cells out.  A reader takes bytes in pieces of any
 * size and keeps one cell at most, or a line of CSV, so its memory is bounded.
 *
 * Records have numbers from 1: a line, or an entry of an archive.  A line of CSV has the number of its
 * first line in the file.  A record that
 * is not valid is refused with a reason, and reading continues after it, unless the sink or
 * the format prevents that.
 *
 * A byte order mark of UTF-8 before the first line is skipped.  An input that begins with
 * the mark of UTF-16 or of a compressed file is refused.
 *
 * Threads: a reader is used by one thread at a time.  The sink is called during
 * record_reader_feed, _pause and _end, and never at any other time; the reader of tar calls
 * it from a thread of its own.
 */
#ifndef TFS_BULK_READER_H
#define TFS_BULK_READER_H

#include "engine/base/bytes.h"

/* BULK_WIDE_TSV is read as BULK_CSV. */
enum bulk_format { BULK_TSV, BULK_JSONL, BULK_TAR, BULK_CSV, BULK_WIDE_TSV, BULK_FORMATS };
extern const char *const bulk_format_names[BULK_FORMATS]; /* "tsv" */

/* A cell.  The bytes are lent until the sink returns. */
struct record {
	uint64_t number;
	struct tfs_bytes row, family, qualifier, value;
	bool has_ts; /* else the cell gets the time at which it is stored */
	int64_t ts;
	bool is_file; /* the value is the file of a plain name, in which a counter has a newline behind it */
};

/* Each returns 0, or -errno: reading ends, and the reader's caller gets it. */
struct record_sink {
	void *arg;
	int (*cell)(void *arg, const struct record *r);
	/* TABLE/.schema in an archive of a table.  mtime_us: the entry's time. */
	int (*schema)(void *arg, uint64_t number, struct tfs_bytes text, int64_t mtime_us);
	/* The record is not a valid cell. */
	int (*refused)(void *arg, uint64_t number, const char *reason);
};

struct record_reader;
/* sink is copied. */
int record_reader_new(enum bulk_format format, const struct record_sink *sink, struct record_reader **out) TFS_MUST;
/*
 * Reads more bytes.  Returns 0, the sink's error, -ENOMEM, or -EBADMSG if nothing after a
 * refused record can be read.  Later calls return the same error.
 */
int record_reader_feed(struct record_reader *r, const void *p, size_t n) TFS_MUST;
/*
 * The input may have ended, or may have been cut off.  More may be fed afterwards.
 * Returns -EBADMSG if a line has no newline, or an archive no end mark.  It is
 * refused, but later calls may succeed.
 */
int record_reader_pause(struct record_reader *r) TFS_MUST;
/* The input has ended: a last line needs no newline.  -EBADMSG: as record_reader_pause. */
int record_reader_end(struct record_reader *r) TFS_MUST;
void record_reader_free(struct record_reader *r); /* NULL allowed */

/* Returns NULL, or the reason for which no table can have the cell: the limits of tabletfs.h and the names of families. */
const char *record_fault(const struct record *r);
/*
 * Returns true if a rule with this age hides the cell at once, and if it would not if the timestamp were in milliseconds or in
 * seconds.  max_age_us 0: there is no such rule.
 */
bool record_is_in_wrong_unit(const struct record *r, int64_t max_age_us, int64_t now_us);
#define RECORDS_IN_WRONG_UNIT                                                                                                      \
	"%llu cells have expired already: their timestamps look like milliseconds or seconds, and a timestamp is in microseconds"

#endif
