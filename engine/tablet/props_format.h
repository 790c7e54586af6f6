/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The properties blob of an SSTable: a summary of its cells.  METADATA has most
 * of it, too (struct tablet_file).  With the blob, tools can use a file without
 * METADATA.  Only the blob has the counts of each family.
 *
 *	version    u8, 1
 *	table u32, group u16
 *	seq_min u64, seq_max u64, oldest u64, newest u64 (two's complement)
 *	cells, tombstones, row deletes, family deletes, raw bytes: varints
 *	first row, last row: varint length, bytes
 *	families   varint count, each: id u16, cells, tombstones, raw bytes (varints)
 */
#ifndef TFS_TABLET_PROPS_FORMAT_H
#define TFS_TABLET_PROPS_FORMAT_H

#include "engine/base/bytes.h"

struct props_family {
	uint16_t id; /* 0: row deletes */
	uint64_t cells, tombstones, raw_bytes;
};
struct props {
	uint32_t table;
	uint16_t group;
	uint64_t seq_min, seq_max;
	int64_t oldest_us, newest_us;
	uint64_t cells, tombstones, row_deletes, family_deletes, raw_bytes;
	struct buf first, last;
	struct props_family *families; /* owned, in id order */
	uint32_t family_count;
};
void props_fini(struct props *p);
/* Returns the family's entry, added if new; NULL: out of memory. */
struct props_family *props_family(struct props *p, uint16_t id);
int props_encode(struct buf *out, const struct props *p) TFS_MUST;
/* Decodes s.  Sets *p only on 0; the caller then calls props_fini.  -EBADMSG, -ENOMEM. */
int props_decode(struct tfs_bytes s, struct props *p) TFS_MUST;

#endif
