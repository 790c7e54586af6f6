/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of the lock service's file convert/TABLE: what a conversion of
 * texts to counters, or of plain rows to salted ones, that is under way must
 * know to be done again (convert.c).
 * Big-endian; lstr is a LEB128 length and that many bytes.
 *
 *	u16 count + CONVERT_SALT if rows get a salt, families: u16 id
 *	to the end, twins: u16 family id  lstr row  lstr qualifier  i64 timestamp
 *
 * A twin is a value whose 8 bytes, once it is converted, would be taken for a
 * text again.  Families and twins stand in the order in which the families
 * are read (ids, rows, qualifiers rising, timestamps falling), each once: in
 * another order a value would be converted twice.
 */
#ifndef TFS_MASTER_CONVERT_FORMAT_H
#define TFS_MASTER_CONVERT_FORMAT_H

#include "engine/base/bytes.h"

struct convert_key {
	uint16_t family;
	struct slice row, qualifier;
	int64_t ts;
};

#define CONVERT_SALT 0x8000u

int convert_head_encode(bool salt, const uint16_t *families, unsigned count, struct buf *out) TFS_MUST; /* appends */
int convert_twin_encode(const struct convert_key *k, struct buf *out) TFS_MUST;              /* appends */
/* The families, borrowed, as `count` u16 (none only with *salt); r then stands before the twins.  -EBADMSG. */
int convert_head_decode(struct reader *r, bool *salt, struct slice *families, unsigned *count) TFS_MUST;
/* The order of twins, and of a walk over the families. */
int convert_key_cmp(const struct convert_key *a, const struct convert_key *b);
/* *k: the twin before, {0} at first.  1 and the next one (borrowed), 0 at the end, -EBADMSG. */
int convert_twin_decode(struct reader *r, struct convert_key *k) TFS_MUST;

#endif
