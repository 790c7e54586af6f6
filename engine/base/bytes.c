/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Byte strings: growing buffers, bounded readers, and the two checksums.
 *
 * A buffer grows by doubling and every append reserves all it needs before
 * it touches the contents, so a failed append leaves the buffer as it was.
 * A reader that has failed once returns nothing more, so a decoder needs no
 * test after each field.
 *
 * A number has one varint encoding.  Overlong forms are refused, so the
 * decoder accepts only bytes that the encoder can write.
 */
#include "engine/base/bytes.h"

#include <errno.h>
#include <isa-l/crc.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <xxhash.h>

enum { BUF_FIRST_CAP = 64, VARINT_MAX_BYTES = 10, CRC_STEP_BYTES = 1 << 30 };

bool bytes_int64(struct tfs_bytes s, int64_t *v)
{
	const bool negative = s.n && s.p[0] == '-';
	int64_t n = 0;

	if (s.n == negative)
		return false;
	for (size_t i = negative; i < s.n; i++) {
		const int d = s.p[i] - '0';

		if (d < 0 || d > 9 || __builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, negative ? -d : d, &n))
			return false;
	}
	*v = n;
	return true;
}

void buf_fini(struct buf *b)
{
	free(b->p);
	*b = (struct buf){0};
}

int buf_reserve(struct buf *b, size_t extra)
{
	size_t need, cap;
	uint8_t *p;

	if (b->cap - b->n >= extra)
		return 0;
	if (extra > (size_t)PTRDIFF_MAX - b->n)
		return -ENOMEM;
	need = b->n + extra;
	cap = b->cap ? b->cap : BUF_FIRST_CAP;
	while (cap < need)
		cap = cap > (size_t)PTRDIFF_MAX / 2 ? need : cap * 2;
	p = realloc(b->p, cap);
	if (!p)
		return -ENOMEM;
	b->p = p;
	b->cap = cap;
	return 0;
}

int buf_append(struct buf *b, const void *p, size_t n)
{
	int err = buf_reserve(b, n);

	if (err < 0)
		return err;
	if (n)
		memcpy(b->p + b->n, p, n);
	b->n += n;
	return 0;
}

int buf_append_bytes(struct buf *b, struct tfs_bytes s)
{
	return buf_append(b, s.p, s.n);
}

int buf_set(struct buf *b, const void *p, size_t n)
{
	if (n > b->cap) {
		/* p cannot lie in b: there it would have at most cap bytes. */
		int err = buf_reserve(b, n - b->n);

		if (err < 0)
			return err;
	}
	if (n)
		memmove(b->p, p, n);
	b->n = n;
	return 0;
}

int buf_u8(struct buf *b, uint8_t v)
{
	return buf_append(b, &v, 1);
}

int buf_be16(struct buf *b, uint16_t v)
{
	uint8_t x[2];

	put_be16(x, v);
	return buf_append(b, x, sizeof(x));
}

int buf_be32(struct buf *b, uint32_t v)
{
	uint8_t x[4];

	put_be32(x, v);
	return buf_append(b, x, sizeof(x));
}

int buf_be64(struct buf *b, uint64_t v)
{
	uint8_t x[8];

	put_be64(x, v);
	return buf_append(b, x, sizeof(x));
}

static size_t varint_encode(uint8_t *x, uint64_t v)
{
	size_t n = 0;

	while (v >= 0x80) {
		x[n++] = (uint8_t)(v | 0x80);
		v >>= 7;
	}
	x[n++] = (uint8_t)v;
	return n;
}

int buf_varint(struct buf *b, uint64_t v)
{
	uint8_t x[VARINT_MAX_BYTES];

	return buf_append(b, x, varint_encode(x, v));
}

int buf_lstr(struct buf *b, struct tfs_bytes s)
{
	uint8_t x[VARINT_MAX_BYTES];
	size_t n = varint_encode(x, s.n);

	return buf_reserve(b, n + s.n) || buf_append(b, x, n) || buf_append_bytes(b, s) ? -ENOMEM : 0;
}

int buf_printf(struct buf *b, const char *fmt, ...)
{
	va_list ap;
	int n, err;

	va_start(ap, fmt);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (n < 0)
		return -ENOMEM;
	err = buf_reserve(b, (size_t)n + 1);
	if (err < 0)
		return err;
	va_start(ap, fmt);
	vsnprintf((char *)b->p + b->n, (size_t)n + 1, fmt, ap);
	va_end(ap);
	b->n += (size_t)n;
	return 0;
}

/* Returns the next n bytes of the input.  If there are fewer, returns NULL and sets r->bad. */
static const uint8_t *reader_take(struct reader *r, size_t n)
{
	const uint8_t *p = r->p;

	if (r->bad || reader_left(r) < n) {
		r->bad = true;
		return NULL;
	}
	if (n)
		r->p += n;
	return p;
}

bool get_u8(struct reader *r, uint8_t *v)
{
	const uint8_t *p = reader_take(r, 1);

	*v = p ? *p : 0;
	return p != NULL;
}

bool get_be16(struct reader *r, uint16_t *v)
{
	const uint8_t *p = reader_take(r, 2);

	*v = p ? load_be16(p) : 0;
	return p != NULL;
}

bool get_be32(struct reader *r, uint32_t *v)
{
	const uint8_t *p = reader_take(r, 4);

	*v = p ? load_be32(p) : 0;
	return p != NULL;
}

bool get_be64(struct reader *r, uint64_t *v)
{
	const uint8_t *p = reader_take(r, 8);

	*v = p ? load_be64(p) : 0;
	return p != NULL;
}

bool get_varint(struct reader *r, uint64_t *v)
{
	uint64_t x = 0;
	uint8_t byte;

	*v = 0;
	for (unsigned i = 0; i < VARINT_MAX_BYTES; i++) {
		if (!get_u8(r, &byte))
			return false;
		x |= (uint64_t)(byte & 0x7f) << (7 * i);
		if (byte & 0x80)
			continue;
		if ((i > 0 && byte == 0) || (i == VARINT_MAX_BYTES - 1 && byte > 1))
			break;
		*v = x;
		return true;
	}
	r->bad = true;
	return false;
}

bool get_bytes(struct reader *r, size_t n, struct tfs_bytes *v)
{
	const uint8_t *p = reader_take(r, n);

	*v = r->bad ? (struct tfs_bytes){0} : (struct tfs_bytes){p, n};
	return !r->bad;
}

bool get_lstr(struct reader *r, struct tfs_bytes *v)
{
	uint64_t n;

	*v = (struct tfs_bytes){0};
	if (!get_varint(r, &n))
		return false;
	if (n > reader_left(r)) {
		r->bad = true;
		return false;
	}
	return get_bytes(r, (size_t)n, v);
}

/*
 * isa-l's routine for long inputs (2.30, AVX-512) returns with the upper
 * halves of the vector registers in use.  Every older vector instruction of
 * ours then waits for them until they are cleared: a log was read at a quarter
 * of its speed.
 */
static inline void clear_upper_halves(void)
{
#ifdef __x86_64__
	if (__builtin_cpu_supports("avx"))
		__asm__ volatile("vzeroupper");
#endif
}

uint32_t crc32c(uint32_t crc, const void *p, size_t n)
{
	const uint8_t *q = p;

	/* isa-l's routine does the polynomial division only, so this function inverts the CRC. The routine's length is an int. */
	crc = ~crc;
	while (n) {
		size_t step = n < CRC_STEP_BYTES ? n : CRC_STEP_BYTES;

		crc = crc32_iscsi((unsigned char *)(uintptr_t)q, (int)step, crc);
		q += step;
		n -= step;
	}
	clear_upper_halves();
	return ~crc;
}

uint64_t hash64(struct tfs_bytes s, uint64_t seed)
{
	return XXH3_64bits_withSeed(s.n ? s.p : (const uint8_t *)"", s.n, seed);
}

int array_grow(void *array, size_t count, size_t size)
{
	void *old, *more;

	if (count & (count - 1))
		return 0;
	memcpy(&old, array, sizeof old);
	more = reallocarray(old, count ? 2 * count : 1, size);
	if (!more)
		return -ENOMEM;
	memcpy(array, &more, sizeof more);
	return 0;
}

bool bytes_line(struct tfs_bytes *text, struct tfs_bytes *line)
{
	const uint8_t *end = text->n ? memchr(text->p, '\n', text->n) : NULL;

	if (!text->n)
		return false;
	*line = tfs_bytes_of(text->p, end ? (size_t)(end - text->p) : text->n);
	*text = end ? tfs_bytes_of(end + 1, text->n - line->n - 1) : tfs_bytes_of(NULL, 0);
	return true;
}

int number_order(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* The length that the first byte of a character states; 0: no character begins with c. */
static size_t stated_length(uint8_t c)
{
	return c < 0xc2 || c > 0xf4 ? 0 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
}

size_t utf8_length(const uint8_t *p, size_t n)
{
	static const uint32_t least[] = {[2] = 0x80, [3] = 0x800, [4] = 0x10000};
	const size_t len = stated_length(p[0]);
	uint32_t v = p[0] & (0xffu >> (len + 1));

	if (len == 0 || n < len)
		return 0;
	for (size_t i = 1; i < len; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		v = v << 6 | (p[i] & 0x3fu);
	}
	return v < least[len] || v > 0x10ffff || (v >= 0xd800 && v <= 0xdfff) ? 0 : len;
}

/* The index of the first byte of s, at or after i, that is not ASCII; s.n if there is none. */
static size_t skip_ascii(struct tfs_bytes s, size_t i)
{
	uint64_t word;

	for (; i + sizeof word <= s.n; i += sizeof word) {
		memcpy(&word, s.p + i, sizeof word);
		if (word & UINT64_C(0x8080808080808080))
			break;
	}
	while (i < s.n && s.p[i] < 0x80)
		i++;
	return i;
}

size_t control_length(const uint8_t *p, size_t n)
{
	const size_t len = *p < 0x80 ? 1 : utf8_length(p, n);
	uint32_t v = *p;

	if (len == 0)
		return *p < 0xa0;
	if (len == 2)
		v = (p[0] & 0x1fu) << 6 | (p[1] & 0x3fu);
	else if (len == 3)
		v = (p[0] & 0x0fu) << 12 | (p[1] & 0x3fu) << 6 | (p[2] & 0x3fu);
	else if (len == 4)
		return 0;
	return v < 0x20 || (v >= 0x7f && v < 0xa0) || v == 0x61c || v == 0x200e || v == 0x200f || (v >= 0x2028 && v <= 0x202e) ||
			(v >= 0x2066 && v <= 0x2069)
		? len
		: 0;
}

/* Returns the length in bytes of the character at p, 1 if there is no valid one. */
static size_t step_length(const uint8_t *p, size_t n)
{
	const size_t len = *p < 0x80 ? 1 : utf8_length(p, n);

	return len ? len : 1;
}

bool text_has_control(const char *text)
{
	const uint8_t *p = (const uint8_t *)text, *end = p + strlen(text);

	while (p < end && !control_length(p, (size_t)(end - p)))
		p += step_length(p, (size_t)(end - p));
	return p < end;
}

void text_hide_controls(char *text)
{
	const uint8_t *from = (const uint8_t *)text, *end = from + strlen(text);
	char *to = text;

	while (from < end) {
		const size_t n = step_length(from, (size_t)(end - from));

		if (control_length(from, (size_t)(end - from))) {
			*to++ = '?';
		} else {
			memmove(to, from, n);
			to += n;
		}
		from += n;
	}
	*to = 0;
}

bool utf8_valid(struct tfs_bytes s)
{
	for (size_t i = skip_ascii(s, 0); i < s.n; i = skip_ascii(s, i)) {
		size_t n = utf8_length(s.p + i, s.n - i);

		if (n == 0)
			return false;
		i += n;
	}
	return true;
}

size_t utf8_unfinished(struct tfs_bytes s)
{
	for (size_t n = 1; n <= 3 && n <= s.n; n++) {
		uint8_t c = s.p[s.n - n];

		if (c < 0x80)
			return 0;
		if (c >= 0xc0)
			return stated_length(c) > n ? n : 0;
	}
	return 0;
}
