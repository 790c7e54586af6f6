/* SPDX-License-Identifier: Apache-2.0 */
/* Encoding and decoding of convert/TABLE; the table is in the header. */
#include "master/convert_format.h"

#include <errno.h>

int convert_head_encode(bool salt, const uint16_t *families, unsigned count, struct buf *out)
{
	int err = buf_be16(out, (uint16_t)(count | (salt ? CONVERT_SALT : 0)));

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

int convert_head_decode(struct reader *r, bool *salt, struct slice *families, unsigned *count)
{
	struct slice ids;
	uint16_t n;
	bool salted;

	if (!get_be16(r, &n))
		return -EBADMSG;
	salted = n & CONVERT_SALT;
	n &= (uint16_t)~CONVERT_SALT;
	if ((n == 0 && !salted) || !get_bytes(r, 2u * n, &ids))
		return -EBADMSG;
	for (unsigned i = 0, last = 0; i < n; i++) {
		if (load_be16(ids.p + 2 * i) <= last)
			return -EBADMSG;
		last = load_be16(ids.p + 2 * i);
	}
	*salt = salted;
	*families = ids;
	*count = n;
	return 0;
}

int convert_key_cmp(const struct convert_key *a, const struct convert_key *b)
{
	int d = a->family == b->family ? slice_cmp(a->row, b->row) : a->family < b->family ? -1 : 1;

	if (d == 0)
		d = slice_cmp(a->qualifier, b->qualifier);
	return d ? d : (a->ts < b->ts) - (a->ts > b->ts);
}

int convert_twin_decode(struct reader *r, struct convert_key *k)
{
	struct convert_key next;
	uint64_t ts;

	if (reader_left(r) == 0)
		return 0;
	if (!get_be16(r, &next.family) || !get_lstr(r, &next.row) || !get_lstr(r, &next.qualifier) || !get_be64(r, &ts))
		return -EBADMSG;
	next.ts = (int64_t)ts;
	if (convert_key_cmp(k, &next) >= 0)
		return -EBADMSG;
	*k = next;
	return 1;
}
