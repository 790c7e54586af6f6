/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The value of a scanned cell, in pieces.  A scan returns values up to
 * TFS_INLINE_MAX with the cell; larger ones are read from the table.
 *
 * Threads: values, no sharing.
 */
#ifndef TFS_BULK_VALUE_H
#define TFS_BULK_VALUE_H

#include "engine/base/bytes.h"
#include "engine/tabletfs.h"

struct value {
	struct tfs_table *table;
	const struct tfs_cell *cell;
	char family[8]; /* "#ID" */
	uint64_t size;
	int64_t commit_us;
	struct buf piece; /* the last piece that was read; empty if the cell itself has the value */
	uint64_t piece_at;
};

/* cell and table must live as long as v; v is {0}, or was used for an earlier cell.  -ENOENT if the cell was deleted since then. */
int value_begin(struct value *v, struct tfs_table *table, const struct tfs_cell *cell) TFS_MUST;
/*
 * *piece: bytes of the value from `at` on, at least 64 KiB unless the value ends
 * with it; valid until the next call.  -ESTALE if the value was replaced or
 * deleted since then.
 */
int value_read(struct value *v, uint64_t at, struct tfs_bytes *piece) TFS_MUST;
/* Reads all of the value; *utf8 is set if it is valid UTF-8. */
int value_is_utf8(struct value *v, bool *utf8) TFS_MUST;
void value_fini(struct value *v);

#endif
