/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cells as lines of text (tabletfs-formats(5)).
 *   TSV   row, family:qualifier, timestamp, value, separated by tabs, each
 *         escaped (escape.h)
 *   JSON  {"row":"..","family":"..","qualifier":"..","timestamp":N,"value":".."};
 *         a row, qualifier or value that is not valid UTF-8 is row_base64,
 *         qualifier_base64, value_base64
 * A line ends with a newline.
 *
 * Threads: values, no sharing.  Errors: -ENOMEM; out then ends in an unfinished
 * line.
 */
#ifndef TFS_BULK_LINE_H
#define TFS_BULK_LINE_H

#include "engine/base/bytes.h"
#include "engine/bulk/reader.h"
#include "engine/tabletfs.h"

enum line_format { LINE_TSV, LINE_JSON };

/* Appends the line of a cell whose value is in c->value.  JSON has no member row if c->row.p is NULL. */
int line_append(enum line_format format, const struct tfs_cell *c, struct buf *out) TFS_MUST;

/* Appends the cell's name: the line of TSV up to the tab before the value. */
int line_name(const struct tfs_cell *c, struct buf *out) TFS_MUST;

/* Appends the line of TSV that an import reads as r. */
int line_append_record(const struct record *r, struct buf *out) TFS_MUST;

/* A line whose value comes in pieces: begin, pieces, end. */
struct line {
	enum line_format format;
	bool base64; /* set if the value in JSON is not valid UTF-8 */
};
/* c->value is not used. */
int line_begin(struct line *l, enum line_format format, const struct tfs_cell *c, bool value_is_utf8, struct buf *out) TFS_MUST;
/*
 * Appends a piece of the value; last: the value ends with it.  Returns the number
 * of bytes that were used, which is all of a last piece.  Up to three bytes at
 * the end of any other piece may remain; the next piece begins with them, so a
 * piece must have at least four bytes.
 */
ssize_t line_piece(const struct line *l, struct tfs_bytes piece, bool last, struct buf *out) TFS_MUST;
int line_end(const struct line *l, struct buf *out) TFS_MUST;

/*
 * A scan as a stream of lines, at constant memory: values above TFS_INLINE_MAX
 * are read in pieces.  A cell that is deleted before its value is read is left
 * out.
 */
struct line_stream;
/* Takes the scan, which must be of TFS_SCAN_CELLS over t, also after an error.  t must live as long as the stream. */
int line_stream_new(struct tfs_table *t, struct tfs_scan *scan, enum line_format format, struct line_stream **out) TFS_MUST;
/*
 * Appends the next bytes of the stream, until out has at least `enough` bytes or
 * the stream ends.  Returns 1, 0 if the stream has ended, -errno; the stream then
 * stays at its end or at its error.  -ESTALE: a large value was replaced while it
 * was read.  -EINTR: tfs_scan_spec.stop; the next call continues.
 */
int line_stream_read(struct line_stream *s, size_t enough, struct buf *out) TFS_MUST;
void line_stream_free(struct line_stream *s); /* NULL allowed */

#endif
