/* SPDX-License-Identifier: Apache-2.0 */
/* The framing of one copy of a small file (envelope.h). */
#include "engine/base/envelope.h"

#include <errno.h>

#define FORMAT 1u
#define LENGTH_AT 6u
#define HEAD_BYTES 10u
#define CRC_BYTES 4u

int envelope_begin(struct buf *out, uint32_t magic)
{
	return buf_be32(out, magic) || buf_be16(out, FORMAT) || buf_be32(out, 0) ? -ENOMEM : 0;
}

int envelope_end(struct buf *out, size_t from)
{
	if (out->n - from - HEAD_BYTES > UINT32_MAX)
		return -EFBIG;
	put_be32(out->p + from + LENGTH_AT, (uint32_t)(out->n - from - HEAD_BYTES));
	return buf_be32(out, crc32c(0, out->p + from, out->n - from));
}

size_t envelope_length(struct tfs_bytes s)
{
	size_t n = s.n < HEAD_BYTES + CRC_BYTES ? 0 : load_be32(s.p + LENGTH_AT);

	if (s.n < HEAD_BYTES + CRC_BYTES || n > s.n - HEAD_BYTES - CRC_BYTES ||
		load_be32(s.p + HEAD_BYTES + n) != crc32c(0, s.p, HEAD_BYTES + n))
		return 0;
	return HEAD_BYTES + n + CRC_BYTES;
}

int envelope_open(struct tfs_bytes in, uint32_t magic, struct reader *r)
{
	if (!in.n || envelope_length(in) != in.n || load_be32(in.p) != magic)
		return -EBADMSG;
	if (load_be16(in.p + 4) != FORMAT)
		return -EPROTO;
	*r = reader_of(tfs_bytes_of(in.p + HEAD_BYTES, in.n - HEAD_BYTES - CRC_BYTES));
	return 0;
}
