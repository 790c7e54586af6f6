/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Byte strings: borrowed ones (struct tfs_bytes of tabletfs.h; {NULL, 0} is an
 * empty one) and a growing owned buffer (struct buf).  Row keys, qualifiers and
 * values are any bytes, so nothing here is NUL-terminated unless it says so.
 *
 * Threads: values, no sharing; the caller serialises access to one buf.
 * Errors: -ENOMEM only; a buf is unchanged when an append fails.
 */
#ifndef TFS_BASE_BYTES_H
#define TFS_BASE_BYTES_H

#include "engine/tabletfs.h"

#define TFS_MUST __attribute__((warn_unused_result))

/* memcmp order; a prefix sorts first. */
static inline int bytes_cmp(struct tfs_bytes a, struct tfs_bytes b)
{
	size_t n = a.n < b.n ? a.n : b.n;
	int c = n ? memcmp(a.p, b.p, n) : 0;

	return c ? c : (a.n > b.n) - (a.n < b.n);
}

static inline bool bytes_eq(struct tfs_bytes a, struct tfs_bytes b)
{
	return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

static inline bool bytes_has_prefix(struct tfs_bytes s, struct tfs_bytes prefix)
{
	return s.n >= prefix.n && (prefix.n == 0 || memcmp(s.p, prefix.p, prefix.n) == 0);
}

/* Reads s, which is one decimal number, perhaps with a '-'.  Returns false for other texts, and if the number does not fit. */
bool bytes_int64(struct tfs_bytes s, int64_t *v);

/* An owned, growing byte string.  {0} is an empty one; buf_fini frees. */
struct buf {
	uint8_t *p;
	size_t n, cap;
};

void buf_fini(struct buf *b); /* frees and leaves {0} */
static inline void buf_reset(struct buf *b)
{
	b->n = 0;
}
int buf_reserve(struct buf *b, size_t extra) TFS_MUST;
int buf_append(struct buf *b, const void *p, size_t n) TFS_MUST;
int buf_append_bytes(struct buf *b, struct tfs_bytes s) TFS_MUST;
int buf_set(struct buf *b, const void *p, size_t n) TFS_MUST; /* replaces the contents */
int buf_u8(struct buf *b, uint8_t v) TFS_MUST;
int buf_be16(struct buf *b, uint16_t v) TFS_MUST;
int buf_be32(struct buf *b, uint32_t v) TFS_MUST;
int buf_be64(struct buf *b, uint64_t v) TFS_MUST;
int buf_varint(struct buf *b, uint64_t v) TFS_MUST;       /* LEB128, 1..10 bytes */
int buf_lstr(struct buf *b, struct tfs_bytes s) TFS_MUST; /* varint length, bytes */
int buf_printf(struct buf *b, const char *fmt, ...) TFS_MUST __attribute__((format(printf, 2, 3)));
static inline struct tfs_bytes buf_bytes(const struct buf *b)
{
	return (struct tfs_bytes){b->p, b->n};
}

/*
 * Bounded reading of bytes that may be damaged or hostile.  Every get_*
 * returns false if the input is too short or malformed.  r->bad then stays
 * true, and further gets return false and set their outputs to zero.  So a
 * decoder may read all its fields and test r->bad once.
 */
struct reader {
	const uint8_t *p, *end;
	bool bad;
};

static inline struct reader reader_of(struct tfs_bytes s)
{
	return (struct reader){s.p, s.n ? s.p + s.n : s.p, false};
}
static inline size_t reader_left(const struct reader *r)
{
	return (size_t)(r->end - r->p);
}
bool get_u8(struct reader *r, uint8_t *v);
bool get_be16(struct reader *r, uint16_t *v);
bool get_be32(struct reader *r, uint32_t *v);
bool get_be64(struct reader *r, uint64_t *v);
bool get_varint(struct reader *r, uint64_t *v);
bool get_bytes(struct reader *r, size_t n, struct tfs_bytes *v); /* borrowed from the input */
bool get_lstr(struct reader *r, struct tfs_bytes *v);            /* borrowed from the input */

/* Fixed big-endian stores and loads on memory known to be large enough. */
static inline void put_be16(uint8_t *p, uint16_t v)
{
	v = __builtin_bswap16(v);
	memcpy(p, &v, 2);
}
static inline void put_be32(uint8_t *p, uint32_t v)
{
	v = __builtin_bswap32(v);
	memcpy(p, &v, 4);
}
static inline void put_be64(uint8_t *p, uint64_t v)
{
	v = __builtin_bswap64(v);
	memcpy(p, &v, 8);
}
static inline uint16_t load_be16(const uint8_t *p)
{
	uint16_t v;
	memcpy(&v, p, 2);
	return __builtin_bswap16(v);
}
static inline uint32_t load_be32(const uint8_t *p)
{
	uint32_t v;
	memcpy(&v, p, 4);
	return __builtin_bswap32(v);
}
static inline uint64_t load_be64(const uint8_t *p)
{
	uint64_t v;
	memcpy(&v, p, 8);
	return __builtin_bswap64(v);
}

/*
 * A bump allocator for many small things with one lifetime (an answer, a
 * scan batch).  arena_alloc returns 8-aligned memory or NULL when out of
 * memory; all of it is freed by arena_fini at once.  arena_reset keeps the
 * first block for reuse.
 */
struct arena_block;
struct arena {
	struct arena_block *head;
	size_t used_bytes; /* allocated by callers */
};
void *arena_alloc(struct arena *a, size_t n) TFS_MUST;
/* Copies s into the arena; on failure returns false. */
bool arena_dup(struct arena *a, struct tfs_bytes s, struct tfs_bytes *out) TFS_MUST;
/* Copies a text; on failure returns NULL. */
const char *arena_text(struct arena *a, const char *text) TFS_MUST;
/* Replaces *b by a copy in the arena.  NULL stays NULL, and empty bytes stay different from NULL.  -ENOMEM. */
int bytes_own(struct tfs_bytes *b, struct arena *a) TFS_MUST;
void arena_reset(struct arena *a);
void arena_fini(struct arena *a);

/* The length of the valid UTF-8 character of 2 to 4 bytes at p, or 0.  n is at least 1. */
size_t utf8_length(const uint8_t *p, size_t n);
/*
 * Returns the length in bytes of the control character at p, 0 if there is none.  n
 * is at least 1.  Control characters are those of ASCII, U+0080 to U+009F, the marks
 * that change the direction of text, the line and paragraph separators, and a byte
 * from 0x80 to 0x9f that is not part of UTF-8.  A terminal would obey them.
 */
size_t control_length(const uint8_t *p, size_t n);
/* Returns true if the text has a control character. */
bool text_has_control(const char *text);
/* Replaces each control character by '?'. */
void text_hide_controls(char *text);
/* Returns true if all of s is valid UTF-8. */
bool utf8_valid(struct tfs_bytes s);
/* The number of bytes, 0 to 3, at the end of s that more bytes may complete to a character. */
size_t utf8_unfinished(struct tfs_bytes s);
/* CRC-32C (Castagnoli), as in iSCSI. crc is 0 for the first bytes, and the result so far for the next ones. */
uint32_t crc32c(uint32_t crc, const void *p, size_t n);
/*
 * Seeded 64-bit hash (XXH3), for Bloom filters and fingerprints.  Users can choose keys
 * with equal hashes: tables use hash_private (hash.h).
 */
uint64_t hash64(struct tfs_bytes s, uint64_t seed);

/*
 * Makes space for one more element of `size` bytes.  array: the address of the
 * pointer to a malloc'd array, or to NULL.  The array's capacity is at least the
 * power of two at or above its count.
 */
int array_grow(void *array, size_t count, size_t size) TFS_MUST;
/* Takes the first line, without its newline, from *text.  Returns false at the end; the last line may lack its newline. */
bool bytes_line(struct tfs_bytes *text, struct tfs_bytes *line);
/* For qsort: compares two uint64_t, or structs that begin with one. */
int number_order(const void *a, const void *b);

#endif
