/* SPDX-License-Identifier: Apache-2.0 */
/* Encoding and decoding of convert/TABLE; the table is in the header. */
#include "master/convert_format.h"

#include <errno.h>

int convert_head_encode(const uint16_t *families, unsigned count, struct buf *out)
{
	int err = buf_be16(out, (uint16_t)count);

	for (unsigned i = 0; i < count && !err; i++)
		err = buf_be16(out, families[i]);
	return err;
}

int convert_twin_encode(const struct convert_key *k, struct buf *out)
{
	return buf_be16(out, k->family) || buf_lstr(out, k->row) || buf_lstr(out, k->qualifier) || buf_be64(out, (uint64_t)k->ts)
		       ? -ENOMEM
		       : 0;
}

int convert_head_decode(struct reader *r, struct slice *families, unsigned *count)
{
	struct slice ids;
	uint16_t n;

	if (!get_be16(r, &n) || n == 0 || !get_bytes(r, 2u * n, &ids))
		return -EBADMSG;
	*families = ids;
	*count = n;
	return 0;
}

int convert_twin_decode(struct reader *r, struct convert_key *k)
{
	uint64_t ts;

	if (reader_left(r) == 0)
		return 0;
	if (!get_be16(r, &k->family) || !get_lstr(r, &k->row) || !get_lstr(r, &k->qualifier) || !get_be64(r, &ts))
		return -EBADMSG;
	k->ts = (int64_t)ts;
	return 1;
}
