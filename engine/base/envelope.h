/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An envelope: the framing of one copy of a small file, and of the files in it.
 * Each kind has a magic of its own:
 *	u32 magic   u16 format (1)   u32 length of the contents   contents
 *	u32 CRC-32C of all before
 * Later formats keep this framing, so a damaged file is never mistaken for a
 * file of a later version.
 */
#ifndef TFS_BASE_ENVELOPE_H
#define TFS_BASE_ENVELOPE_H

#include "engine/base/bytes.h"

int envelope_begin(struct buf *out, uint32_t magic) TFS_MUST;
/* from: out->n before envelope_begin.  On failure the caller truncates out to it. */
int envelope_end(struct buf *out, size_t from) TFS_MUST;
/* *r reads the contents.  -EBADMSG: damaged; -EPROTO: undamaged, of a later format. */
int envelope_open(struct tfs_bytes in, uint32_t magic, struct reader *r) TFS_MUST;
/* Returns the length of the undamaged envelope that s begins with, 0 if there is none: a copy_length_fn. */
size_t envelope_length(struct tfs_bytes s);

#endif
