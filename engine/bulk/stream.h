/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cells of a scan as a stream of bytes in any format of an export, at constant memory.
 *
 * Threads: values, no sharing.
 */
#ifndef TFS_BULK_STREAM_H
#define TFS_BULK_STREAM_H

#include "engine/base/bytes.h"
#include "engine/bulk/reader.h"
#include "engine/tabletfs.h"

struct bulk_stream;
/* t and the bytes of the spec must live as long as the stream.  spec->what is not used.  Errors as of tfs_scan_new. */
int bulk_stream_new(
	struct tfs_table *t, enum bulk_format format, const struct tfs_scan_spec *spec, struct bulk_stream **out) TFS_MUST;
/* Reads as line_stream_read does. */
int bulk_stream_read(struct bulk_stream *s, size_t enough, struct buf *out) TFS_MUST;
void bulk_stream_free(struct bulk_stream *s); /* NULL allowed */
/* A text that names the cause of an error of bulk_stream_new or bulk_stream_read, or NULL. */
const char *bulk_stream_why(int err);

#endif
