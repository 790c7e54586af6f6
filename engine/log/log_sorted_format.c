/* SPDX-License-Identifier: Apache-2.0 */
/* The index and the trailer of a sorted segment (doc/formats).  Pure functions; every input may be hostile. */
#include "engine/log/log_sorted.h"

#include "engine/base/envelope.h"

#include <errno.h>
#include <stdlib.h>

#define INDEX_MAGIC 0x54465358u   /* "TFSX" */
#define TRAILER_MAGIC 0x5446535au /* "TFSZ" */
#define BLOCK_LEAST 14u           /* bytes of an encoded block */

int log_sorted_index_encode(const struct log_sorted_index *x, struct buf *out)
{
	const size_t from = out->n;
	int err = envelope_begin(out, INDEX_MAGIC);

	if (!err &&
		(buf_be64(out, x->incarnation) || buf_be64(out, x->number) || buf_be64(out, x->first_lsn) ||
			buf_be64(out, x->last_lsn) || buf_be64(out, x->bytes) || buf_be32(out, (uint32_t)x->count)))
		err = -ENOMEM;
	for (size_t i = 0; i < x->count && !err; i++) {
		const struct log_sorted_block *b = &x->blocks[i];

		if (buf_u8(out, b->begins_run) || buf_be32(out, b->table) || buf_be64(out, b->offset) || buf_lstr(out, b->row))
			err = -ENOMEM;
	}
	if (!err)
		err = envelope_end(out, from);
	if (err)
		out->n = from;
	return err;
}

int log_sorted_index_decode(struct slice in, struct log_sorted_index *out)
{
	struct log_sorted_index x = {0};
	struct reader r;
	uint32_t count = 0;
	int err = envelope_open(in, INDEX_MAGIC, &r);

	if (err)
		return err;
	get_be64(&r, &x.incarnation);
	get_be64(&r, &x.number);
	get_be64(&r, &x.first_lsn);
	get_be64(&r, &x.last_lsn);
	get_be64(&r, &x.bytes);
	get_be32(&r, &count);
	if (r.bad || count > reader_left(&r) / BLOCK_LEAST || !count != !x.bytes)
		return -EBADMSG;
	x.blocks = calloc(count ? count : 1, sizeof(*x.blocks));
	if (!x.blocks)
		return -ENOMEM;
	for (x.count = 0; x.count < count; x.count++) {
		struct log_sorted_block *b = &x.blocks[x.count];
		uint8_t flag = 2;

		get_u8(&r, &flag);
		get_be32(&r, &b->table);
		get_be64(&r, &b->offset);
		get_lstr(&r, &b->row);
		b->begins_run = flag;
		if (r.bad || flag > 1 || b->offset >= x.bytes || b->offset % 8 ||
			(x.count ? b->offset <= b[-1].offset : b->offset || !flag)) {
			free(x.blocks);
			return -EBADMSG;
		}
	}
	if (reader_left(&r)) {
		free(x.blocks);
		return -EBADMSG;
	}
	*out = x;
	return 0;
}

void log_sorted_trailer_encode(uint8_t out[LOG_SORTED_TRAILER], uint64_t offset, uint32_t bytes)
{
	put_be64(out, offset);
	put_be32(out + 8, bytes);
	put_be32(out + 12, TRAILER_MAGIC);
}

bool log_sorted_trailer_decode(const uint8_t in[LOG_SORTED_TRAILER], uint64_t *offset, uint32_t *bytes)
{
	*offset = load_be64(in);
	*bytes = load_be32(in + 8);
	return load_be32(in + 12) == TRAILER_MAGIC;
}
