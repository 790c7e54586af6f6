/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The escapes of texts: byte strings as fields of lines (.tsv, .mutate).
 *
 *	\t \n \r \\	tab, newline, carriage return, backslash
 *	\xHH		any byte, by two hexadecimal digits
 *
 * Escaping uses \xHH for other control bytes and for bytes that are not UTF-8, so
 * the text is one line of UTF-8 without a tab.
 *
 * Threads: any.
 */
#ifndef TFS_BULK_ESCAPE_H
#define TFS_BULK_ESCAPE_H

#include "engine/base/bytes.h"

/* Appends the escaped bytes of s. */
int text_escape(struct tfs_bytes s, struct buf *out) TFS_MUST;
/* Appends the bytes that s stands for.  -EINVAL: a backslash begins none of the escapes; out is as it was. */
int text_unescape(struct tfs_bytes s, struct buf *out) TFS_MUST;

/* Appends the number in decimal, as "%lld" does, in a fraction of its time. */
int text_number(int64_t v, struct buf *out) TFS_MUST;

#endif
