/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encodes and decodes the properties blob (props_format.h).  A sorted array is
 * enough for the families, because a table has tens of them.
 */
#include "engine/tablet/props_format.h"

#include <errno.h>
#include <stdlib.h>

enum { PROPS_VERSION = 1, FAMILY_MIN_BYTES = 5 };

void props_fini(struct props *p)
{
	buf_fini(&p->first);
	buf_fini(&p->last);
	free(p->families);
	*p = (struct props){0};
}

struct props_family *props_family(struct props *p, uint16_t id)
{
	uint32_t at = 0;
	struct props_family *grown;

	while (at < p->family_count && p->families[at].id < id)
		at++;
	if (at < p->family_count && p->families[at].id == id)
		return &p->families[at];
	grown = realloc(p->families, (p->family_count + 1u) * sizeof *grown);
	if (!grown)
		return NULL;
	p->families = grown;
	memmove(grown + at + 1, grown + at, (p->family_count - at) * sizeof *grown);
	grown[at] = (struct props_family){.id = id};
	p->family_count++;
	return &grown[at];
}

int props_encode(struct buf *out, const struct props *p)
{
	int err;

	if ((err = buf_u8(out, PROPS_VERSION)) || (err = buf_be32(out, p->table)) || (err = buf_be16(out, p->group)) ||
		(err = buf_be64(out, p->seq_min)) || (err = buf_be64(out, p->seq_max)) ||
		(err = buf_be64(out, (uint64_t)p->oldest_us)) || (err = buf_be64(out, (uint64_t)p->newest_us)) ||
		(err = buf_varint(out, p->cells)) || (err = buf_varint(out, p->tombstones)) ||
		(err = buf_varint(out, p->row_deletes)) || (err = buf_varint(out, p->family_deletes)) ||
		(err = buf_varint(out, p->raw_bytes)) || (err = buf_lstr(out, buf_bytes(&p->first))) ||
		(err = buf_lstr(out, buf_bytes(&p->last))) || (err = buf_varint(out, p->family_count)))
		return err;
	for (uint32_t i = 0; i < p->family_count; i++) {
		const struct props_family *f = &p->families[i];

		if ((err = buf_be16(out, f->id)) || (err = buf_varint(out, f->cells)) || (err = buf_varint(out, f->tombstones)) ||
			(err = buf_varint(out, f->raw_bytes)))
			return err;
	}
	return 0;
}

int props_decode(struct tfs_bytes s, struct props *out)
{
	struct reader r = reader_of(s);
	struct props p = {0};
	struct tfs_bytes first, last;
	uint8_t version;
	uint64_t oldest, newest, count;
	int err = -EBADMSG;

	get_u8(&r, &version);
	get_be32(&r, &p.table);
	get_be16(&r, &p.group);
	get_be64(&r, &p.seq_min);
	get_be64(&r, &p.seq_max);
	get_be64(&r, &oldest);
	get_be64(&r, &newest);
	get_varint(&r, &p.cells);
	get_varint(&r, &p.tombstones);
	get_varint(&r, &p.row_deletes);
	get_varint(&r, &p.family_deletes);
	get_varint(&r, &p.raw_bytes);
	get_lstr(&r, &first);
	get_lstr(&r, &last);
	get_varint(&r, &count);
	if (r.bad || version != PROPS_VERSION || count > reader_left(&r) / FAMILY_MIN_BYTES)
		goto out;
	p.oldest_us = (int64_t)oldest;
	p.newest_us = (int64_t)newest;
	p.families = calloc(count + 1, sizeof *p.families);
	if (!p.families) {
		err = -ENOMEM;
		goto out;
	}
	for (uint64_t i = 0; i < count; i++) {
		struct props_family *f = &p.families[i];

		get_be16(&r, &f->id);
		get_varint(&r, &f->cells);
		get_varint(&r, &f->tombstones);
		get_varint(&r, &f->raw_bytes);
		if (r.bad || (i && f->id <= f[-1].id))
			goto out;
	}
	p.family_count = (uint32_t)count;
	if (reader_left(&r))
		goto out;
	if ((err = buf_set(&p.first, first.p, first.n)) || (err = buf_set(&p.last, last.p, last.n)))
		goto out;
	*out = p;
	return 0;
out:
	props_fini(&p);
	return err;
}
