/* SPDX-License-Identifier: Apache-2.0 */
/* Runs of bytes that need no escape are copied at once, because most values are text. */
#include "engine/bulk/escape.h"

#include <errno.h>

/* The letter after the backslash, or 0. */
static char escape_letter(uint8_t c)
{
	return c == '\t' ? 't' : c == '\n' ? 'n' : c == '\r' ? 'r' : c == '\\' ? '\\' : 0;
}

/* The length of the character at p if it is written as it is, or 0. */
static size_t plain_length(const uint8_t *p, size_t n)
{
	if (*p >= 0x80)
		return utf8_length(p, n);
	return *p >= 0x20 && *p != 0x7f && *p != '\\';
}

int text_escape(struct slice s, struct buf *out)
{
	static const char digits[] = "0123456789ABCDEF";
	const size_t before = out->n;
	size_t at = 0;
	int err = 0;

	while (at < s.n && !err) {
		size_t run = at, n;

		while (run < s.n && (n = plain_length(s.p + run, s.n - run)))
			run += n;
		if (run > at)
			err = buf_append(out, s.p + at, run - at);
		if (!err && run < s.n) {
			const uint8_t c = s.p[run++];
			const char letter = escape_letter(c), hex[] = {'\\', 'x', digits[c >> 4], digits[c & 15]};

			err = letter ? buf_append(out, (const char[]){'\\', letter}, 2) : buf_append(out, hex, sizeof hex);
		}
		at = run;
	}
	if (err)
		out->n = before;
	return err;
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

int text_unescape(struct slice s, struct buf *out)
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
