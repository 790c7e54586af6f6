/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A scan as an archive of tar, at constant memory: the tree of the table as
 * `tar c .` run in its directory writes it.  Directories have the modes and
 * owners of the schema and time 0; a file's time is its timestamp.  `.schema`
 * comes first if the schema is set.  The time of commit (ctime) is not stored.
 *
 * Threads: values, no sharing.
 */
#ifndef TFS_BULK_TAR_STREAM_H
#define TFS_BULK_TAR_STREAM_H

#include "engine/base/bytes.h"
#include "engine/tabletfs.h"

struct tar_stream;
/* Takes the scan, which must be of TFS_SCAN_CELLS over t, also after an error.  t must live as long as the stream. */
int tar_stream_new(struct tfs_table *t, struct tfs_scan *scan, struct tar_stream **out) TFS_MUST;
/* Reads as line_stream_read does. */
int tar_stream_read(struct tar_stream *s, size_t enough, struct buf *out) TFS_MUST;
void tar_stream_free(struct tar_stream *s); /* NULL allowed */

#endif
