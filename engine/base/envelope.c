/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/envelope.h"

#include <errno.h>

#define FORMAT 1u
#define HEAD_BYTES 6u
#define CRC_BYTES 4u

int envelope_begin(struct buf *out, uint32_t magic)
{
	return buf_be32(out, magic) || buf_be16(out, FORMAT) ? -ENOMEM : 0;
}

int envelope_end(struct buf *out, size_t from)
{
	return buf_be32(out, crc32c(0, out->p + from, out->n - from));
}

int envelope_open(struct slice in, uint32_t magic, struct reader *r)
{
	if (in.n < HEAD_BYTES + CRC_BYTES || load_be32(in.p) != magic ||
		load_be32(in.p + in.n - CRC_BYTES) != crc32c(0, in.p, in.n - CRC_BYTES))
		return -EBADMSG;
	if (load_be16(in.p + 4) != FORMAT)
		return -EPROTO;
	*r = reader_of(slice_of(in.p + HEAD_BYTES, in.n - HEAD_BYTES - CRC_BYTES));
	return 0;
}
