/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compressed files of import and export: gzip and zstd, by libarchive.
 *
 * Threads: values, no sharing.  The functions that the caller passes are called during the
 * calls below.
 */
#ifndef TFS_TOOL_PACKED_H
#define TFS_TOOL_PACKED_H

#include "engine/base/bytes.h"

enum packing { PACKED_NOT, PACKED_GZ, PACKED_ZST };

struct unpacker;
/* read returns a number of bytes, 0 at the end, -errno. */
int unpacker_new(enum packing packing, ssize_t (*read)(void *arg, void *p, size_t n), void *arg, struct unpacker **out) TFS_MUST;
/* Returns the number of bytes, 0 at the end, the error of read, or -EBADMSG with *why, a text that is valid as long as u. */
ssize_t unpacker_read(struct unpacker *u, void *p, size_t n, const char **why) TFS_MUST;
void unpacker_free(struct unpacker *u); /* NULL allowed */

struct packer;
/* write returns 0 or -errno. */
int packer_new(enum packing packing, int (*write)(void *arg, struct tfs_bytes s), void *arg, struct packer **out) TFS_MUST;
int packer_write(struct packer *p, struct tfs_bytes s) TFS_MUST; /* 0 or -errno */
int packer_end(struct packer *p) TFS_MUST;                       /* writes the end; 0 or -errno */
void packer_free(struct packer *p);                              /* NULL allowed */

#endif
