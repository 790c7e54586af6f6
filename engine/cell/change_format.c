/* SPDX-License-Identifier: Apache-2.0 */
/* Keys of changes, and answers of changes (change_format.h has the layout). */
#include "engine/cell/change_format.h"

#include <errno.h>

enum { HEAD_BYTES = CHANGE_INDEX_BYTES + 1 + 2 + 8, FAMILY = 1, END_BYTES = 2 };

static void put_digits(uint8_t *p, int n, uint64_t v)
{
	for (int i = n - 1; i >= 0; i--, v >>= 7)
		p[i] = (uint8_t)(0x80 | (v & 0x7f));
}

static bool get_digits(const uint8_t *p, int n, uint64_t *v)
{
	*v = 0;
	for (int i = 0; i < n; i++) {
		if (!(p[i] & 0x80))
			return false;
		*v = *v << 7 | (p[i] & 0x7f);
	}
	return true;
}

int change_key_append(struct buf *out, const struct change *c)
{
	uint8_t head[HEAD_BYTES];
	int err = change_stamp_append(out, 0);

	put_digits(head, CHANGE_INDEX_BYTES, c->index);
	head[CHANGE_INDEX_BYTES] = (uint8_t)c->kind;
	put_be16(head + CHANGE_INDEX_BYTES + 1, c->family);
	put_be64(head + CHANGE_INDEX_BYTES + 3, (uint64_t)c->ts);
	/* The escaped parts of a qualifier, each without its end, are the escaped qualifier. */
	if (err || (err = cellkey_row_prefix(out, c->row)) || (err = buf_be16(out, FAMILY)) ||
		(err = cellkey_row_prefix(out, tfs_bytes_of(head, sizeof(head)))))
		return err;
	out->n -= END_BYTES;
	if ((err = cellkey_row_prefix(out, c->qualifier)) || (err = buf_be64(out, cellkey_ts(0))) ||
		(err = buf_be64(out, ~UINT64_C(0))))
		return err;
	return buf_u8(out, CELL_VALUE);
}

void change_key_set(uint8_t *key, size_t n, int64_t stamp, uint64_t seq)
{
	put_digits(key, CHANGE_STAMP_BYTES, (uint64_t)stamp);
	put_be64(key + n - 9, ~seq);
}

int change_stamp_append(struct buf *out, int64_t stamp)
{
	uint8_t digits[CHANGE_STAMP_BYTES];

	put_digits(digits, CHANGE_STAMP_BYTES, (uint64_t)stamp);
	return buf_append(out, digits, sizeof(digits));
}

int change_stamp(struct tfs_bytes key, int64_t *stamp)
{
	uint64_t v;

	if (key.n < CHANGE_STAMP_BYTES || !get_digits(key.p, CHANGE_STAMP_BYTES, &v))
		return -EBADMSG;
	*stamp = (int64_t)v;
	return 0;
}

int change_decode(struct tfs_bytes key, struct change *c, uint64_t *seq, struct buf *scratch)
{
	struct cellkey k;
	uint64_t stamp, index;
	int err = cellkey_decode(key, &k, scratch);

	if (err)
		return err;
	if (k.kind != CELL_VALUE || k.family != FAMILY || k.row.n < CHANGE_STAMP_BYTES || k.qualifier.n < HEAD_BYTES ||
		!get_digits(k.row.p, CHANGE_STAMP_BYTES, &stamp) || !get_digits(k.qualifier.p, CHANGE_INDEX_BYTES, &index) ||
		index > UINT32_MAX)
		return -EBADMSG;
	*c = (struct change){.stamp = (int64_t)stamp,
		.index = (uint32_t)index,
		.kind = (enum cell_kind)k.qualifier.p[CHANGE_INDEX_BYTES],
		.family = load_be16(k.qualifier.p + CHANGE_INDEX_BYTES + 1),
		.ts = (int64_t)load_be64(k.qualifier.p + CHANGE_INDEX_BYTES + 3),
		.row = tfs_bytes_of(k.row.p + CHANGE_STAMP_BYTES, k.row.n - CHANGE_STAMP_BYTES),
		.qualifier = tfs_bytes_of(k.qualifier.p + HEAD_BYTES, k.qualifier.n - HEAD_BYTES)};
	*seq = k.seq;
	return (int)c->kind < CELL_DELETE_ROW || c->kind > CELL_VALUE ? -EBADMSG : 0;
}

size_t change_position_len(struct tfs_bytes key)
{
	const size_t row = cellkey_row_len(key);

	return row && row + 2 + CHANGE_INDEX_BYTES <= key.n ? row + 2 + CHANGE_INDEX_BYTES : 0;
}

int change_position_row(struct tfs_bytes position, struct buf *scratch, struct tfs_bytes *row)
{
	const size_t n = change_position_len(position);

	if (n != position.n)
		return -EBADMSG;
	return cellkey_unescape(
		tfs_bytes_of(position.p + CHANGE_STAMP_BYTES, n - 2 - CHANGE_INDEX_BYTES - CHANGE_STAMP_BYTES), scratch, row);
}

int sent_change_append(struct buf *out, const struct sent_change *s)
{
	int err = buf_lstr(out, s->position);

	if (!err)
		err = buf_u8(out, s->hidden ? 0 : (uint8_t)s->c.kind);
	if (err || s->hidden)
		return err;
	if ((err = buf_be16(out, s->c.family)) || (err = buf_be64(out, (uint64_t)s->c.ts)) ||
		(err = buf_lstr(out, s->c.qualifier)) || (err = buf_be64(out, s->size)))
		return err;
	return buf_lstr(out, s->value);
}

int sent_change_next(struct reader *r, struct sent_change *s)
{
	struct sent_change x = {0};
	uint64_t ts = 0;
	uint8_t kind;

	if (!reader_left(r))
		return 0;
	if (!get_lstr(r, &x.position) || change_stamp(x.position, &x.c.stamp) || change_position_len(x.position) != x.position.n ||
		!get_u8(r, &kind) || kind > CELL_VALUE)
		return -EBADMSG;
	x.hidden = kind == 0;
	if (!x.hidden &&
		(!get_be16(r, &x.c.family) || !get_be64(r, &ts) || !get_lstr(r, &x.c.qualifier) || !get_be64(r, &x.size) ||
			!get_lstr(r, &x.value)))
		return -EBADMSG;
	x.c.kind = (enum cell_kind)kind;
	x.c.ts = (int64_t)ts;
	*s = x;
	return 1;
}
