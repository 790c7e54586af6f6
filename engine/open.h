/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of the composition root for the tools and tests of this source tree.  libtabletfs does not export them. */
#ifndef TFS_OPEN_H
#define TFS_OPEN_H

#include "engine/base/bytes.h"
#include "engine/tabletfs.h"

/* FORMAT: two copies (base/copies.h) of one line (doc/formats), for programs that read a data directory without opening it. */
#define STORE_FORMAT_VERSION 3u
int store_format_encode(unsigned version, struct buf *out) TFS_MUST; /* appends */
/* *whole is set if both copies are good, and for format 1, which had one line without checksum.  -EBADMSG. */
int store_format_decode(struct tfs_bytes file, unsigned *version, bool *whole) TFS_MUST;
/*
 * Reads FORMAT at path.  -EBADMSG damaged; -EPROTO another format; other errors
 * of reading.  An error sets *why to one line with the path; the caller frees it.
 */
int store_format_check(const char *path, bool *whole, char **why) TFS_MUST;

#endif
