/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers and sums, and their encodings in deltas. */
#include "engine/script/total.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

int script_number_order(struct script_number a, struct script_number b)
{
	const long double x = a.is_float ? (long double)a.d : (long double)a.i,
			  y = b.is_float ? (long double)b.d : (long double)b.i;

	return (x > y) - (x < y);
}

size_t script_number_text(struct script_number n, char *text)
{
	int length;

	if (!n.is_float)
		return (size_t)snprintf(text, NUMBER_TEXT, "%lld", (long long)n.i);
	if (isnan(n.d))
		return (size_t)snprintf(text, NUMBER_TEXT, "nan");
	if (isinf(n.d))
		return (size_t)snprintf(text, NUMBER_TEXT, n.d < 0 ? "-inf" : "inf");
	for (int digits = 15; digits <= 17; digits++) {
		length = snprintf(text, NUMBER_TEXT, "%.*g", digits, n.d);
		if (strtod(text, NULL) == n.d)
			break;
	}
	if (!strpbrk(text, ".e"))
		length += snprintf(text + length, NUMBER_TEXT - (size_t)length, ".0");
	return (size_t)length;
}

int script_number_encode(struct script_number n, struct buf *out)
{
	uint64_t bits;
	int err = buf_u8(out, n.is_float);

	if (n.is_float)
		memcpy(&bits, &n.d, 8);
	else
		bits = (uint64_t)n.i;
	return err ? err : buf_be64(out, bits);
}

bool script_number_decode(struct reader *r, struct script_number *n)
{
	uint8_t is_float = 0;
	uint64_t bits = 0;

	*n = (struct script_number){0};
	if (!get_u8(r, &is_float) || !get_be64(r, &bits) || is_float > 1)
		return false;
	n->is_float = is_float;
	if (is_float)
		memcpy(&n->d, &bits, 8);
	else
		n->i = (int64_t)bits;
	return !(is_float && isnan(n->d));
}

bool total_add(struct total *t, struct script_number n)
{
	if (n.is_float) {
		t->part += n.d;
		t->has_part = true;
		return true;
	}
	return !__builtin_add_overflow(t->whole, (__int128)n.i, &t->whole);
}

bool total_merge(struct total *t, const struct total *more)
{
	t->part += more->part;
	t->has_part |= more->has_part;
	return !__builtin_add_overflow(t->whole, more->whole, &t->whole);
}

bool total_value(const struct total *t, struct script_number *n)
{
	*n = (struct script_number){.is_float = t->has_part};
	if (t->has_part)
		n->d = (double)t->whole + t->part;
	else if (t->whole > INT64_MAX || t->whole < INT64_MIN)
		return false;
	else
		n->i = (int64_t)t->whole;
	return true;
}

enum { TOTAL_WIDE = 1, TOTAL_PART = 2 };

int total_encode(const struct total *t, struct buf *out)
{
	const bool wide = t->whole > INT64_MAX || t->whole < INT64_MIN;
	const int64_t narrow = (int64_t)t->whole;
	uint64_t bits;
	int err = buf_u8(out, (uint8_t)((wide ? TOTAL_WIDE : 0) | (t->has_part ? TOTAL_PART : 0)));

	if (!err && wide)
		err = buf_be64(out, (uint64_t)((unsigned __int128)t->whole >> 64));
	if (!err)
		err = wide ? buf_be64(out, (uint64_t)t->whole)
			   : buf_varint(out, ((uint64_t)narrow << 1) ^ (uint64_t)(narrow >> 63));
	memcpy(&bits, &t->part, 8);
	if (!err && t->has_part)
		err = buf_be64(out, bits);
	return err;
}

bool total_decode(struct reader *r, struct total *t)
{
	uint64_t high = 0, low = 0, bits = 0;
	uint8_t flags = 0;

	*t = (struct total){0};
	if (!get_u8(r, &flags) || flags > (TOTAL_WIDE | TOTAL_PART))
		return false;
	if (flags & TOTAL_WIDE) {
		if (!get_be64(r, &high) || !get_be64(r, &low))
			return false;
		t->whole = (__int128)(((unsigned __int128)high << 64) | low);
	} else {
		if (!get_varint(r, &low))
			return false;
		t->whole = (int64_t)((low >> 1) ^ (0 - (low & 1)));
	}
	t->has_part = flags & TOTAL_PART;
	if (t->has_part && !get_be64(r, &bits))
		return false;
	memcpy(&t->part, &bits, 8);
	return true;
}
