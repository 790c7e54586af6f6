/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A scan as wide CSV (RFC 4180): the header key,FAMILY:QUALIFIER,... and then one line for
 * each row, with the newest matching version of each column.  Wide TSV is the same with tabs
 * in the place of commas.  A line ends with a newline.
 *
 * A field is in quotes if it has a comma, a tab, a quote, a newline or a carriage return, if
 * it begins or ends with a space, or if its value is large.  A column that a row does not have is an empty field; an empty
 * value is "".
 *
 * The columns are found by a first scan of the same cells, without their values.  A
 * column that is written for the first time after that scan is left out.
 *
 * Threads: values, no sharing.
 */
#ifndef TFS_BULK_CSV_STREAM_H
#define TFS_BULK_CSV_STREAM_H

#include "engine/base/bytes.h"
#include "engine/tabletfs.h"

#define CSV_COLUMNS_MAX 16384
#define CSV_HEADER_BYTES_MAX (4u << 20)

struct csv_stream;
/* t and the bytes of the spec must live as long as the stream.  spec->what is not used. */
int csv_stream_new(struct tfs_table *t, const struct tfs_scan_spec *spec, char separator, struct csv_stream **out) TFS_MUST;
/* Reads as line_stream_read does.  -E2BIG: the cells have too many columns for a header. */
int csv_stream_read(struct csv_stream *s, size_t enough, struct buf *out) TFS_MUST;
void csv_stream_free(struct csv_stream *s); /* NULL allowed */

#endif
