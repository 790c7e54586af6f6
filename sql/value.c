/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes of the store as values of SQLite, and back.
 *
 * The store has bytes without a type.  They are TEXT if they are UTF-8 without NUL, because
 * SQLite's functions end a text at its first NUL, else a BLOB.
 */
#include "sql/internal.h"

#include <errno.h>
#include <stdlib.h>

SQLITE_EXTENSION_INIT3

struct tfs_bytes bytes_copy(struct tfs_bytes b)
{
	uint8_t *p = sqlite3_malloc64(b.n + 1);

	if (!p)
		return tfs_bytes_of(NULL, 0);
	if (b.n)
		memcpy(p, b.p, b.n);
	p[b.n] = 0;
	return tfs_bytes_of(p, b.n);
}

void bytes_free(struct tfs_bytes *b)
{
	sqlite3_free((void *)(uintptr_t)b->p);
	*b = tfs_bytes_of(NULL, 0);
}

int bytes_compare(struct tfs_bytes a, struct tfs_bytes b)
{
	const size_t n = a.n < b.n ? a.n : b.n;
	const int order = n ? memcmp(a.p, b.p, n) : 0;

	return order ? order : (a.n > b.n) - (a.n < b.n);
}

/* ---- TEXT or BLOB ---- */

#define UTF8                                                                                                                       \
	"(?:[\\x01-\\x7f]++|[\\xc2-\\xdf][\\x80-\\xbf]|\\xe0[\\xa0-\\xbf][\\x80-\\xbf]|[\\xe1-\\xec\\xee\\xef][\\x80-\\xbf]{2}"    \
	"|\\xed[\\x80-\\x9f][\\x80-\\xbf]|\\xf0[\\x90-\\xbf][\\x80-\\xbf]{2}|[\\xf1-\\xf3][\\x80-\\xbf]{3}|\\xf4[\\x80-\\x8f]"     \
	"[\\x80-\\xbf]{2})*+"
const char value_text_pattern[] = UTF8, value_blob_pattern[] = "(?!" UTF8 "\\z).*";

/* Returns the length of the sequence at p, 0 if it is not valid. */
static size_t sequence(const uint8_t *p, size_t n)
{
	static const struct {
		uint8_t first, last, low, high, more;
	} kinds[] = {{0x01, 0x7f, 0, 0, 0}, {0xc2, 0xdf, 0x80, 0xbf, 1}, {0xe0, 0xe0, 0xa0, 0xbf, 2}, {0xe1, 0xec, 0x80, 0xbf, 2},
		{0xed, 0xed, 0x80, 0x9f, 2}, {0xee, 0xef, 0x80, 0xbf, 2}, {0xf0, 0xf0, 0x90, 0xbf, 3}, {0xf1, 0xf3, 0x80, 0xbf, 3},
		{0xf4, 0xf4, 0x80, 0x8f, 3}};

	for (size_t k = 0; k < sizeof(kinds) / sizeof(*kinds); k++) {
		if (p[0] < kinds[k].first || p[0] > kinds[k].last)
			continue;
		if (kinds[k].more >= n)
			return 0;
		for (size_t i = 1; i <= kinds[k].more; i++)
			if (p[i] < (i == 1 ? kinds[k].low : 0x80) || p[i] > (i == 1 ? kinds[k].high : 0xbf))
				return 0;
		return 1u + kinds[k].more;
	}
	return 0;
}

bool value_is_text(struct tfs_bytes b)
{
	for (size_t at = 0; at < b.n;) {
		size_t n = b.p[at] > 0 && b.p[at] < 0x80 ? 1 : sequence(b.p + at, b.n - at);

		if (!n)
			return false;
		at += n;
	}
	return true;
}

/* ---- values ---- */

struct tfs_bytes value_bytes(sqlite3_value *v)
{
	const void *p = sqlite3_value_type(v) == SQLITE_BLOB ? sqlite3_value_blob(v) : sqlite3_value_text(v);

	return tfs_bytes_of(p ? p : "", (size_t)sqlite3_value_bytes(v));
}

static bool is_blank(uint8_t c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

static size_t digits(const char *p)
{
	return strspn(p, "0123456789");
}

/* Returns true if the whole text is a number as SQLite's affinity understands it; *whole: without fraction and exponent. */
static bool is_number(const char *p, bool *whole)
{
	size_t n, m = 0;

	p += *p == '-' || *p == '+';
	n = digits(p);
	p += n;
	*whole = *p == 0;
	if (*p == '.') {
		m = digits(++p);
		p += m;
	}
	if (n + m == 0)
		return false;
	if (*p == 'e' || *p == 'E') {
		p++;
		p += *p == '-' || *p == '+';
		n = digits(p);
		if (!n)
			return false;
		p += n;
	}
	return *p == 0;
}

/*
 * A text in a numeric column must become the number that SQLite would store there: conditions on
 * keys of the store rely on it (range.c).  Numbers that long are text.
 */
enum { NUMBER_BYTES_MAX = 400 };
static bool result_number(sqlite3_context *ctx, struct tfs_bytes b, bool real)
{
	char text[NUMBER_BYTES_MAX + 1];
	long long integer;
	double number;
	bool whole;

	while (b.n && is_blank(b.p[b.n - 1]))
		b.n--;
	while (b.n && is_blank(b.p[0]))
		b = tfs_bytes_of(b.p + 1, b.n - 1);
	if (b.n > NUMBER_BYTES_MAX || (b.n && memchr(b.p, 0, b.n)))
		return false;
	memcpy(text, b.n ? b.p : (const uint8_t *)"", b.n);
	text[b.n] = 0;
	if (!is_number(text, &whole))
		return false;
	errno = 0;
	integer = strtoll(text, NULL, 10);
	if (whole && !errno && !real) {
		sqlite3_result_int64(ctx, integer);
		return true;
	}
	number = strtod(text, NULL);
	if (!real && number > -9223372036854775808.0 && number < 9223372036854775808.0 && number == (double)(long long)number)
		sqlite3_result_int64(ctx, (long long)number);
	else
		sqlite3_result_double(ctx, number);
	return true;
}

void value_result(sqlite3_context *ctx, struct tfs_bytes b, enum value_type type)
{
	if ((type == VALUE_INTEGER || type == VALUE_REAL) && result_number(ctx, b, type == VALUE_REAL))
		return;
	if (type != VALUE_BLOB && value_is_text(b))
		sqlite3_result_text64(ctx, b.n ? (const char *)b.p : "", b.n, SQLITE_TRANSIENT, SQLITE_UTF8);
	else
		sqlite3_result_blob64(ctx, b.n ? (const void *)b.p : "", b.n, SQLITE_TRANSIENT);
}
