/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes as JSON strings and as base64 (json.h).  Quotes, backslashes and bytes
 * below 0x20 must be escaped in JSON.  Other control characters are escaped
 * because a terminal would obey them.  All other text stays as it is.
 */
#include "engine/bulk/json.h"

#include <errno.h>

enum { JSON_ESCAPE_LONGEST = 6 };

static bool is_plain(uint8_t c)
{
	return c >= 0x20 && c != '"' && c != '\\' && c < 0x7f;
}

/* c: a character up to U+FFFF. */
static uint8_t *put_escape(uint8_t *to, uint32_t c)
{
	static const char hex_digits[] = "0123456789abcdef", bytes[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
	const char *letter = c < 0x80 ? memchr(bytes, (int)c, sizeof(bytes) - 1) : NULL;

	*to++ = '\\';
	if (letter) {
		*to++ = (uint8_t)letters[letter - bytes];
		return to;
	}
	*to++ = 'u';
	for (int shift = 12; shift >= 0; shift -= 4)
		*to++ = (uint8_t)hex_digits[c >> shift & 15];
	return to;
}

/* Appends the character at *p, which is not plain, and moves *p past it. */
static uint8_t *put_character(uint8_t *to, const uint8_t **p, size_t n)
{
	const uint8_t *c = *p;
	size_t len = *c < 0x80 ? 1 : utf8_length(c, n);

	if (len == 0)
		len = 1;
	*p += len;
	if (len == 1 && *c < 0x80)
		return put_escape(to, *c);
	if (len == 2 && control_length(c, n))
		return put_escape(to, (c[0] & 0x1fu) << 6 | (c[1] & 0x3fu));
	if (len == 3 && control_length(c, n))
		return put_escape(to, (c[0] & 0x0fu) << 12 | (c[1] & 0x3fu) << 6 | (c[2] & 0x3fu));
	memcpy(to, c, len);
	return to + len;
}

int json_escape(struct buf *out, struct tfs_bytes utf8)
{
	const uint8_t *p = utf8.p, *end = p + utf8.n;
	uint8_t *to;
	int err = buf_reserve(out, utf8.n * JSON_ESCAPE_LONGEST);

	if (err)
		return err;
	to = out->p + out->n;
	while (p < end) {
		const uint8_t *run = p;

		while (p < end && is_plain(*p))
			p++;
		if (p > run) {
			memcpy(to, run, (size_t)(p - run));
			to += p - run;
		}
		if (p < end)
			to = put_character(to, &p, (size_t)(end - p));
	}
	out->n = (size_t)(to - out->p);
	return 0;
}

static const char base64_digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

int base64_encode(struct buf *out, struct tfs_bytes bytes)
{
	int err = buf_reserve(out, (bytes.n + 2) / 3 * 4);
	uint8_t *to;

	if (err)
		return err;
	to = out->p + out->n;
	for (size_t i = 0; i < bytes.n; i += 3) {
		size_t n = bytes.n - i < 3 ? bytes.n - i : 3;
		uint32_t v = (uint32_t)bytes.p[i] << 16;

		if (n > 1)
			v |= (uint32_t)bytes.p[i + 1] << 8;
		if (n > 2)
			v |= bytes.p[i + 2];
		*to++ = (uint8_t)base64_digits[v >> 18];
		*to++ = (uint8_t)base64_digits[v >> 12 & 63];
		*to++ = n > 1 ? (uint8_t)base64_digits[v >> 6 & 63] : '=';
		*to++ = n > 2 ? (uint8_t)base64_digits[v & 63] : '=';
	}
	out->n = (size_t)(to - out->p);
	return 0;
}

int json_member(struct buf *out, const char *name, struct tfs_bytes bytes)
{
	bool text = utf8_valid(bytes);
	size_t undo = out->n;
	int err = buf_printf(out, "\"%s%s\":\"", name, text ? "" : "_base64");

	if (!err)
		err = text ? json_escape(out, bytes) : base64_encode(out, bytes);
	if (!err)
		err = buf_u8(out, '"');
	if (err)
		out->n = undo;
	return err;
}

static int base64_value(uint8_t c)
{
	return c >= 'A' && c <= 'Z'    ? c - 'A'
		: c >= 'a' && c <= 'z' ? c - 'a' + 26
		: c >= '0' && c <= '9' ? c - '0' + 52
		: c == '+'             ? 62
		: c == '/'             ? 63
				       : -1;
}

int base64_feed(struct base64 *b, struct tfs_bytes piece, struct buf *out)
{
	int err = buf_reserve(out, piece.n / 4 * 3 + 3);

	for (size_t i = 0; i < piece.n && !err; i++) {
		const bool pad = piece.p[i] == '=';
		const int v = pad ? 0 : base64_value(piece.p[i]);

		if (v < 0 || (!pad && b->padding) || (pad && (b->digits < 2 || b->padding == 2)))
			return -EINVAL;
		b->padding += pad;
		b->bits = b->bits << 6 | (uint32_t)v;
		if (++b->digits < 4)
			continue;
		for (unsigned k = 0; k < 3 - b->padding; k++)
			out->p[out->n++] = (uint8_t)(b->bits >> (16 - 8 * k));
		if (b->padding && b->bits & (b->padding == 2 ? 0xffffu : 0xffu))
			return -EINVAL;
		b->bits = b->digits = 0;
	}
	return err;
}

int base64_decode(struct tfs_bytes base64, struct buf *out)
{
	const size_t before = out->n;
	struct base64 b = {0};
	int err = base64_feed(&b, base64, out);

	if (!err && b.digits)
		err = -EINVAL;
	if (err)
		out->n = before;
	return err;
}
