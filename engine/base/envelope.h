/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the small files of a store stand in, each of its own magic:
 *	u32 magic   u16 format (1)   contents   u32 CRC-32C of all before
 * Later formats keep this form: so damage is told from a file that a later
 * version wrote, and is never taken for one.
 */
#ifndef TFS_BASE_ENVELOPE_H
#define TFS_BASE_ENVELOPE_H

#include "engine/base/bytes.h"

int envelope_begin(struct buf *out, uint32_t magic) TFS_MUST;
/* from: what out->n was before envelope_begin.  On failure the caller cuts out back to it. */
int envelope_end(struct buf *out, size_t from) TFS_MUST;
/* *r: the contents.  -EBADMSG; -EPROTO whole, but of a later format. */
int envelope_open(struct slice in, uint32_t magic, struct reader *r) TFS_MUST;

#endif
