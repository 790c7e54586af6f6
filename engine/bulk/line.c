/* SPDX-License-Identifier: Apache-2.0 */
/* The lines of cells. */
#include "engine/bulk/line.h"

#include "engine/bulk/escape.h"
#include "engine/bulk/json.h"

#include <errno.h>

int line_name(const struct tfs_cell *c, struct buf *out)
{
	int err = text_escape(c->row, out);

	if (!err && (buf_u8(out, '\t') || buf_append(out, c->family, strlen(c->family)) || buf_u8(out, ':')))
		err = -ENOMEM;
	if (!err)
		err = text_escape(c->qualifier, out);
	if (!err)
		err = buf_u8(out, '\t');
	return err ? err : text_number(c->ts, out);
}

static int begin_tsv(const struct tfs_cell *c, struct buf *out)
{
	int err = line_name(c, out);

	return err ? err : buf_u8(out, '\t');
}

static int begin_json(const struct tfs_cell *c, bool value_is_utf8, struct buf *out)
{
	int err = buf_u8(out, '{');

	if (!err && c->row.p)
		err = json_member(out, "row", c->row);
	if (!err)
		err = buf_printf(out, "%s\"family\":\"%s\",", c->row.p ? "," : "", c->family);
	if (!err)
		err = json_member(out, "qualifier", c->qualifier);
	return err ? err : buf_printf(out, ",\"timestamp\":%lld,\"value%s\":\"", (long long)c->ts, value_is_utf8 ? "" : "_base64");
}

int line_begin(struct line *l, enum line_format format, const struct tfs_cell *c, bool value_is_utf8, struct buf *out)
{
	*l = (struct line){.format = format, .base64 = format == LINE_JSON && !value_is_utf8};
	return format == LINE_TSV ? begin_tsv(c, out) : begin_json(c, value_is_utf8, out);
}

ssize_t line_piece(const struct line *l, struct tfs_bytes piece, bool last, struct buf *out)
{
	int err;

	if (!last)
		piece.n -= l->base64 ? piece.n % 3 : utf8_unfinished(piece);
	err = l->format == LINE_TSV ? text_escape(piece, out) : l->base64 ? base64_encode(out, piece) : json_escape(out, piece);
	return err ? err : (ssize_t)piece.n;
}

int line_end(const struct line *l, struct buf *out)
{
	return l->format == LINE_TSV ? buf_u8(out, '\n') : buf_append(out, "\"}\n", 3);
}

int line_append(enum line_format format, const struct tfs_cell *c, struct buf *out)
{
	struct tfs_bytes value = c->value;
	struct line l;
	int err = line_begin(&l, format, c, format == LINE_TSV || utf8_valid(value), out);
	ssize_t n = err ? err : line_piece(&l, value, true, out);

	return n < 0 ? (int)n : line_end(&l, out);
}

int line_append_record(const struct record *r, struct buf *out)
{
	int err = text_escape(r->row, out);

	if (!err)
		err = buf_printf(out, "\t%.*s:", (int)r->family.n, (const char *)r->family.p);
	if (!err)
		err = text_escape(r->qualifier, out);
	if (!err)
		err = r->has_ts ? buf_printf(out, "\t%lld\t", (long long)r->ts) : buf_append(out, "\t\t", 2);
	if (!err)
		err = text_escape(r->value, out);
	return err ? err : buf_u8(out, '\n');
}
