/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The escapes of texts (escape.h).  Bytes that need no escape are copied eight
 * at a time, because most values are text.
 */
#include "engine/bulk/escape.h"

#include <errno.h>

enum { ESCAPE_LONGEST = 4 };

/* The letter after the backslash, or 0. */
static char escape_letter(uint8_t c)
{
	return c == '\t' ? 't' : c == '\n' ? 'n' : c == '\r' ? 'r' : c == '\\' ? '\\' : 0;
}

/* Bytes that are written as they are, whatever follows. */
static bool is_plain(uint8_t c)
{
	return c >= 0x20 && c < 0x7f && c != '\\';
}

/* Returns true if all eight bytes are plain.  A subtraction borrows from the next byte only if this byte is not plain. */
static bool is_plain_word(uint64_t w)
{
	const uint64_t ones = UINT64_MAX / 255, tops = ones * 0x80;
	const uint64_t del = w ^ ones * 0x7f, slash = w ^ ones * '\\';

	return !((w | ((w - ones * 0x20) & ~w) | ((del - ones) & ~del) | ((slash - ones) & ~slash)) & tops);
}

/* A reader of lines skips it at the start of its input. */
static bool is_byte_order_mark(const uint8_t *p, const uint8_t *end)
{
	return end - p >= 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0;
}

static uint8_t *put_escape(uint8_t *to, uint8_t c)
{
	static const char digits[] = "0123456789ABCDEF";
	const char letter = escape_letter(c);

	*to++ = '\\';
	if (letter) {
		*to++ = (uint8_t)letter;
		return to;
	}
	*to++ = 'x';
	*to++ = (uint8_t)digits[c >> 4];
	*to++ = (uint8_t)digits[c & 15];
	return to;
}

int text_escape(struct tfs_bytes s, struct buf *out)
{
	const uint8_t *p = s.p, *end = p + s.n;
	uint8_t *to;
	int err = buf_reserve(out, s.n * ESCAPE_LONGEST);

	if (err)
		return err;
	to = out->p + out->n;
	while (p < end) {
		size_t n;

		for (uint64_t word; end - p >= 8; p += 8, to += 8) {
			memcpy(&word, p, 8);
			if (!is_plain_word(word))
				break;
			memcpy(to, p, 8);
		}
		while (p < end && is_plain(*p))
			*to++ = *p++;
		if (p == end)
			break;
		n = *p >= 0x80 && !control_length(p, (size_t)(end - p)) && !is_byte_order_mark(p, end)
			? utf8_length(p, (size_t)(end - p))
			: 0;
		if (n == 0)
			to = put_escape(to, *p++);
		for (; n; n--)
			*to++ = *p++;
	}
	out->n = (size_t)(to - out->p);
	return 0;
}

int text_number(int64_t v, struct buf *out)
{
	uint64_t left = v < 0 ? -(uint64_t)v : (uint64_t)v;
	char digits[20];
	size_t at = sizeof(digits);

	do
		digits[--at] = (char)('0' + left % 10);
	while (left /= 10);
	if (v < 0)
		digits[--at] = '-';
	return buf_append(out, digits + at, sizeof(digits) - at);
}

static int hex_value(uint8_t c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Reads the escape at p, a backslash.  Returns its length, or 0. */
static size_t escape_read(const uint8_t *p, size_t n, uint8_t *out)
{
	static const char letters[] = "tnr\\", bytes[] = "\t\n\r\\";
	const char *letter = n > 1 && p[1] ? strchr(letters, p[1]) : NULL;

	if (letter) {
		*out = (uint8_t)bytes[letter - letters];
		return 2;
	}
	if (n < 4 || p[1] != 'x' || hex_value(p[2]) < 0 || hex_value(p[3]) < 0)
		return 0;
	*out = (uint8_t)(hex_value(p[2]) << 4 | hex_value(p[3]));
	return 4;
}

int text_unescape(struct tfs_bytes s, struct buf *out)
{
	const size_t before = out->n;
	size_t at = 0;
	int err = buf_reserve(out, s.n);

	while (at < s.n && !err) {
		const uint8_t *slash = memchr(s.p + at, '\\', s.n - at);
		const size_t run = slash ? (size_t)(slash - s.p) - at : s.n - at;
		size_t n = 0;
		uint8_t c;

		if (run)
			memcpy(out->p + out->n, s.p + at, run);
		out->n += run;
		at += run;
		if (!slash)
			break;
		n = escape_read(slash, s.n - at, &c);
		if (n)
			out->p[out->n++] = c;
		else
			err = -EINVAL;
		at += n;
	}
	if (err)
		out->n = before;
	return err;
}
