/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Quotes, backslashes and bytes below 0x20 must be escaped in JSON, and 0x7f is
 * escaped because terminals do not show it.  All other text stays as it is.
 */
#include "engine/bulk/json.h"

#include <errno.h>

enum { JSON_ESCAPE_LONGEST = 6 };

static bool is_plain(uint8_t c)
{
	return c >= 0x20 && c != '"' && c != '\\' && c != 0x7f;
}

static uint8_t *put_escape(uint8_t *to, uint8_t c)
{
	static const char hex_digits[] = "0123456789abcdef", bytes[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
	const char *letter = memchr(bytes, c, sizeof(bytes) - 1);

	*to++ = '\\';
	if (letter) {
		*to++ = (uint8_t)letters[letter - bytes];
		return to;
	}
	memcpy(to, "u00", 3);
	to[3] = (uint8_t)hex_digits[c >> 4];
	to[4] = (uint8_t)hex_digits[c & 15];
	return to + 5;
}

int json_escape(struct buf *out, struct slice utf8)
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
			to = put_escape(to, *p++);
	}
	out->n = (size_t)(to - out->p);
	return 0;
}

int base64_encode(struct buf *out, struct slice bytes)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
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
		*to++ = (uint8_t)digits[v >> 18];
		*to++ = (uint8_t)digits[v >> 12 & 63];
		*to++ = n > 1 ? (uint8_t)digits[v >> 6 & 63] : '=';
		*to++ = n > 2 ? (uint8_t)digits[v & 63] : '=';
	}
	out->n = (size_t)(to - out->p);
	return 0;
}

int json_member(struct buf *out, const char *name, struct slice bytes)
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
