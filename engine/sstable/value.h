/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The entry of a key in a key block: its value, or the place of its value.
 *
 *   0  the bytes of the value; all values shorter than VALUE_APART_BYTES
 *   1  varint offset of a unit in the file, varint its stored bytes, varint offset in
 *      it, varint length of the value
 *   2  varint offset of the first unit, varint length of the value (above
 *      VALUE_UNIT_BYTES), for each unit varint its stored bytes.  The units follow each
 *      other, and each has VALUE_UNIT_BYTES of the value; the last one has the rest
 *
 * Nothing here does I/O or logs; value_decode accepts hostile input.
 */
#ifndef TFS_SSTABLE_VALUE_H
#define TFS_SSTABLE_VALUE_H

#include "engine/base/bytes.h"
#include "engine/base/iter.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { VALUE_APART_BYTES = 64, VALUE_UNIT_BYTES = ITER_PIECE_BYTES };
enum value_place { VALUE_INLINE, VALUE_IN_UNIT, VALUE_LARGE };

struct value_ref {
	enum value_place place;
	uint64_t size;
	const uint8_t *bytes;         /* VALUE_INLINE: borrowed from the entry */
	uint64_t unit;                /* offset of the (first) unit in the file */
	uint32_t stored, at;          /* VALUE_IN_UNIT: its stored bytes, and the value's offset in it */
	struct tfs_bytes stored_each; /* VALUE_LARGE: varints, borrowed from the entry */
};
/* Appends the entry. */
int value_encode(struct buf *out, const struct value_ref *v) TFS_MUST;
/* Returns false if the entry is malformed. */
bool value_decode(struct tfs_bytes entry, struct value_ref *out);
/* For VALUE_LARGE: sets the place of unit i.  Returns false if the entry has no such unit. */
bool value_unit(const struct value_ref *v, uint64_t i, uint64_t *offset, uint32_t *stored);

#ifdef __cplusplus
}
#endif
#endif
