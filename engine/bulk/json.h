/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes as JSON strings (RFC 8259), and as base64 (RFC 4648, with padding).
 * Threads: any.  Errors: -ENOMEM; out is unchanged then.
 */
#ifndef TFS_BULK_JSON_H
#define TFS_BULK_JSON_H

#include "engine/base/bytes.h"

/* Appends the inside of a JSON string, without quotes.  utf8 must be valid UTF-8. */
int json_escape(struct buf *out, struct tfs_bytes utf8) TFS_MUST;
/* Appends bytes as base64.  If a text comes in pieces, each piece but the last has a multiple of three bytes. */
int base64_encode(struct buf *out, struct tfs_bytes bytes) TFS_MUST;
/* Base64 in pieces of any size; {0} is the start.  The text is whole if digits is 0. */
struct base64 {
	uint32_t bits;   /* bits of a byte that is not complete yet */
	unsigned digits; /* how many of the current four have come */
	unsigned padding;
};
/* Appends the bytes of a piece.  -EINVAL: the piece is not base64; out may have a part of it. */
int base64_feed(struct base64 *b, struct tfs_bytes piece, struct buf *out) TFS_MUST;
/* Appends the bytes that base64 stands for.  -EINVAL: the text is not base64; out is unchanged. */
int base64_decode(struct tfs_bytes base64, struct buf *out) TFS_MUST;
/*
 * Appends "NAME":"..." or, if bytes is not valid UTF-8, "NAME_base64":"...",
 * with the quotes.
 */
int json_member(struct buf *out, const char *name, struct tfs_bytes bytes) TFS_MUST;

#endif
