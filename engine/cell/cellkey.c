/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encoding and strict decoding of cell keys (cellkey.h has the layout).
 *
 * Escaping 0x00 and ending with 00 01 makes the encodings of rows (and of
 * qualifiers) prefix-free and ordered as the raw bytes are, so the parts can
 * simply be concatenated.  Most rows and qualifiers contain no 0x00: memchr
 * detects that, and then the bytes are copied or borrowed unchanged.
 *
 * Only canonical keys decode.  One cell has one key, so equality of keys is
 * equality of bytes, and damage that a checksum missed is detected here.
 */
#include "engine/cell/cellkey.h"

#include <errno.h>

static inline bool kind_is_marker(enum cell_kind kind)
{
	return kind == CELL_DELETE_ROW || kind == CELL_DELETE_FAMILY;
}

/* Writes s escaped, with its terminator; p has space for 2 * s.n + 2 bytes.  Returns the end. */
static uint8_t *put_escaped(uint8_t *p, struct tfs_bytes s)
{
	const uint8_t *q = s.p, *end = s.n ? s.p + s.n : s.p;

	while (q < end) {
		const uint8_t *zero = memchr(q, 0, (size_t)(end - q));
		size_t n = (size_t)((zero ? zero : end) - q);

		memcpy(p, q, n);
		p += n;
		if (!zero)
			break;
		*p++ = 0x00;
		*p++ = 0xFF;
		q = zero + 1;
	}
	*p++ = 0x00;
	*p++ = 0x01;
	return p;
}

/* Returns the length of the escaped string at p with its terminator, 0 if malformed.  *zeros: the number of 0x00 in it. */
static size_t escaped_len(const uint8_t *p, size_t n, size_t *zeros)
{
	const uint8_t *q = p, *end = p + n;

	*zeros = 0;
	for (;;) {
		q = q < end ? memchr(q, 0, (size_t)(end - q)) : NULL;
		if (!q || end - q < 2)
			return 0;
		if (q[1] == 0x01)
			return (size_t)(q - p) + 2;
		if (q[1] != 0xFF)
			return 0;
		++*zeros;
		q += 2;
	}
}

/* Returns the length of the escaped qualifier or of the marker 00 00; 0 if malformed. */
static size_t qualifier_len(const uint8_t *p, size_t n, size_t *zeros)
{
	*zeros = 0;
	if (n >= 2 && p[0] == 0 && p[1] == 0)
		return 2;
	return escaped_len(p, n, zeros);
}

/* Raw bytes of an escaped string of len bytes (with its terminator), borrowed if possible, else in scratch, which is large enough. */
static struct tfs_bytes key_unescape(const uint8_t *p, size_t len, size_t zeros, struct buf *scratch)
{
	uint8_t *to;
	size_t raw = len - 2 - zeros;

	if (zeros == 0)
		return tfs_bytes_of(p, len - 2);
	to = scratch->p + scratch->n;
	scratch->n += raw;
	for (size_t i = 0; i < raw; i++) {
		to[i] = *p++;
		if (to[i] == 0)
			p++;
	}
	return tfs_bytes_of(to, raw);
}

int cellkey_append(struct buf *out, const struct cellkey *k)
{
	bool marker = kind_is_marker(k->kind);
	uint8_t *p;
	int err;

	if ((int)k->kind < CELL_DELETE_ROW || k->kind > CELL_VALUE || (k->family == 0 && k->kind != CELL_DELETE_ROW))
		return -EINVAL;
	err = buf_reserve(out, 2 * k->row.n + 2 + 2 + 2 * k->qualifier.n + 2 + CELL_SUFFIX_BYTES + CELL_COMMIT_BYTES);
	if (err)
		return err;
	p = put_escaped(out->p + out->n, k->row);
	put_be16(p, k->kind == CELL_DELETE_ROW ? 0 : k->family);
	p += 2;
	if (marker) {
		*p++ = 0x00;
		*p++ = 0x00;
	} else {
		p = put_escaped(p, k->qualifier);
	}
	put_be64(p, cellkey_ts(marker ? INT64_MAX : k->ts));
	put_be64(p + 8, ~k->seq);
	p[16] = (uint8_t)k->kind;
	p += CELL_SUFFIX_BYTES;
	if (k->kind == CELL_VALUE)
		p += cellkey_put_commit(p, k->ts, k->commit);
	out->n = (size_t)(p - out->p);
	return 0;
}

int cellkey_decode(struct tfs_bytes key, struct cellkey *k, struct buf *scratch)
{
	size_t row_zeros, qualifier_zeros, row_len, q_len, left;
	struct cellkey d = {0};
	const uint8_t *q;
	bool marker;
	int err;

	row_len = key.n ? escaped_len(key.p, key.n, &row_zeros) : 0;
	if (row_len == 0 || key.n - row_len < 2)
		return -EBADMSG;
	d.family = load_be16(key.p + row_len);
	q = key.p + row_len + 2;
	q_len = qualifier_len(q, key.n - row_len - 2, &qualifier_zeros);
	if (q_len == 0)
		return -EBADMSG;
	left = key.n - row_len - 2 - q_len;
	if (left < CELL_SUFFIX_BYTES || q[q_len + 16] < CELL_DELETE_ROW || q[q_len + 16] > CELL_VALUE)
		return -EBADMSG;
	cellkey_suffix(key, row_len + 2 + q_len, &d.ts, &d.seq, &d.kind);
	marker = q[1] == 0x00 && q[0] == 0x00;
	if (marker != kind_is_marker(d.kind) || (marker && d.ts != INT64_MAX) || (d.family == 0) != (d.kind == CELL_DELETE_ROW))
		return -EBADMSG;
	left -= CELL_SUFFIX_BYTES;
	if (d.kind == CELL_VALUE) {
		if ((left && q[q_len + CELL_SUFFIX_BYTES] == 0) || !cellkey_commit(key, row_len + 2 + q_len, d.ts, &d.commit))
			return -EBADMSG;
	} else if (left) {
		return -EBADMSG;
	}
	buf_reset(scratch);
	if (row_zeros || qualifier_zeros) {
		err = buf_reserve(scratch, key.n);
		if (err)
			return err;
	}
	d.row = key_unescape(key.p, row_len, row_zeros, scratch);
	d.qualifier = key_unescape(q, q_len, qualifier_zeros, scratch);
	*k = d;
	return 0;
}

int cellkey_row_prefix(struct buf *out, struct tfs_bytes row)
{
	int err = buf_reserve(out, 2 * row.n + 2);

	if (err)
		return err;
	out->n = (size_t)(put_escaped(out->p + out->n, row) - out->p);
	return 0;
}

int cellkey_row_after(struct buf *out, struct tfs_bytes row)
{
	int err = cellkey_row_prefix(out, row);

	if (err)
		return err;
	out->p[out->n - 1] = 0x02; /* above the end 00 01, below an escaped 00 FF */
	return 0;
}

int cellkey_column_prefix(struct buf *out, struct tfs_bytes row, uint16_t family, struct tfs_bytes qualifier)
{
	int err = buf_reserve(out, 2 * row.n + 2 * qualifier.n + 6);
	uint8_t *p;

	if (err)
		return err;
	p = put_escaped(out->p + out->n, row);
	put_be16(p, family);
	out->n = (size_t)(put_escaped(p + 2, qualifier) - out->p);
	return 0;
}

size_t cellkey_row_len(struct tfs_bytes key)
{
	size_t zeros;

	return key.n ? escaped_len(key.p, key.n, &zeros) : 0;
}

size_t cellkey_column_len(struct tfs_bytes key)
{
	size_t row_len = cellkey_row_len(key), q_len, zeros;

	if (row_len == 0 || key.n - row_len < 4)
		return 0;
	q_len = qualifier_len(key.p + row_len + 2, key.n - row_len - 2, &zeros);
	return q_len ? row_len + 2 + q_len : 0;
}

void cellkey_suffix(struct tfs_bytes key, size_t column_len, int64_t *ts, uint64_t *seq, enum cell_kind *kind)
{
	const uint8_t *p = key.p + column_len;

	*ts = (int64_t)cellkey_ts((int64_t)load_be64(p)); /* cellkey_ts is its own inverse */
	*seq = ~load_be64(p + 8);
	*kind = (enum cell_kind)p[16];
}

size_t cellkey_put_commit(uint8_t *p, int64_t ts, int64_t commit)
{
	uint64_t d = (uint64_t)commit - (uint64_t)ts;
	size_t n = 0;

	d = (d << 1) ^ (0 - (d >> 63));
	for (uint64_t rest = d; rest; rest >>= 8)
		n++;
	for (size_t i = n; i--; d >>= 8)
		p[i] = (uint8_t)d;
	return n;
}

bool cellkey_commit(struct tfs_bytes key, size_t column_len, int64_t ts, int64_t *commit)
{
	const uint8_t *p = key.p + column_len + CELL_SUFFIX_BYTES, *end = key.p + key.n;
	uint64_t d = 0;

	if (end - p > CELL_COMMIT_BYTES)
		return false;
	while (p < end)
		d = d << 8 | *p++;
	*commit = (int64_t)((uint64_t)ts + ((d >> 1) ^ (0 - (d & 1))));
	return true;
}

int cellkey_unescape(struct tfs_bytes escaped, struct buf *scratch, struct tfs_bytes *raw)
{
	size_t zeros, len = escaped.n ? escaped_len(escaped.p, escaped.n, &zeros) : 0;
	int err;

	if (len == 0 || len != escaped.n)
		return -EBADMSG;
	buf_reset(scratch);
	if (zeros) {
		err = buf_reserve(scratch, escaped.n);
		if (err)
			return err;
	}
	*raw = key_unescape(escaped.p, len, zeros, scratch);
	return 0;
}

int cellkey_probe(struct buf *out, char tag, struct tfs_bytes row, uint16_t family, struct tfs_bytes qualifier)
{
	size_t before = out->n;
	int err = buf_u8(out, (uint8_t)tag);

	if (err)
		return err;
	if (tag == 'r' || tag == 'R')
		err = cellkey_row_prefix(out, row);
	else if (tag == 'F')
		err = cellkey_row_prefix(out, row) || buf_be16(out, family) ? -ENOMEM : 0;
	else if (tag == 'c' || tag == 'C')
		err = cellkey_column_prefix(out, row, family, qualifier);
	else
		err = -EINVAL;
	if (err)
		out->n = before;
	return err;
}
