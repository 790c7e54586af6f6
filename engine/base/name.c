/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys to file names and back (name.h).  Encoding reads a key in units: a byte
 * that must be escaped becomes "%XX"; a valid UTF-8 character, or any other
 * byte, is copied.  The units are put into components.  A name that fits into
 * one component is not split; otherwise each component is filled as far as
 * possible.  In front of each component the rest is measured again, because a
 * '.' is escaped only at the start of a component.
 *
 * Decoding accepts more than canonical names, then encodes the result again and
 * compares.  So each rule of canonical names is written once, in the encoder.
 *
 * Rejected: a table of escaped names or a trie of parts.  A name is computed
 * from its key wherever it is needed, which takes less than 100 ns.
 */
#include "engine/base/name.h"

#include <errno.h>
#include <stdio.h>

static const char hex_digits[] = "0123456789ABCDEF";

static bool always_escaped(uint8_t c)
{
	return c < 0x20 || c == 0x7f || c == '/' || c == '%';
}

/* The text to encode: a key, then plain text that needs no escape ("@TS"). */
struct source {
	struct tfs_bytes key;
	size_t escaped_at; /* index of the '@' written %40, or SIZE_MAX */
	const char *tail;
	size_t tail_n;
	size_t at; /* position over key, then tail */
};

struct unit {
	uint8_t bytes[4];
	size_t n;       /* the length of the name */
	size_t advance; /* how far the source advances */
};

static bool unit_at(const struct source *s, size_t at, bool first, struct unit *u)
{
	uint8_t c;
	size_t n;

	if (at >= s->key.n) {
		if (at - s->key.n >= s->tail_n)
			return false;
		u->bytes[0] = (uint8_t)s->tail[at - s->key.n];
		u->n = u->advance = 1;
		return true;
	}
	c = s->key.p[at];
	if (always_escaped(c) || at == s->escaped_at || (first && c == '.')) {
		u->bytes[0] = '%';
		u->bytes[1] = (uint8_t)hex_digits[c >> 4];
		u->bytes[2] = (uint8_t)hex_digits[c & 15];
		u->n = 3;
		u->advance = 1;
		return true;
	}
	n = c >= 0x80 ? utf8_length(s->key.p + at, s->key.n - at) : 0;
	if (n == 0)
		n = 1;
	memcpy(u->bytes, s->key.p + at, n);
	u->n = u->advance = n;
	return true;
}

/* Writes the next component.  *done is set to true if it was the last, else to false. */
static int put_component(struct source *s, struct buf *path, bool *done)
{
	uint8_t name[NAME_LONGEST + 4];
	size_t n = 0, part_n = 0, part_at = s->at, at = s->at;
	struct unit u;

	while (unit_at(s, at, at == s->at, &u)) {
		if (n + u.n > NAME_LONGEST) {
			s->at = part_at;
			*done = false;
			name[part_n] = '%';
			return buf_append(path, name, part_n + 1);
		}
		memcpy(name + n, u.bytes, u.n);
		n += u.n;
		at += u.advance;
		if (n < NAME_LONGEST) {
			part_n = n;
			part_at = at;
		}
	}
	s->at = at;
	*done = true;
	return buf_append(path, name, n);
}

/* The last '@' of s, if only digits, or '-' and digits, follow it; else NULL. */
static const uint8_t *timestamp_sign(struct tfs_bytes s)
{
	const uint8_t *at = s.n ? memrchr(s.p, '@', s.n) : NULL, *end = s.p + s.n;
	const uint8_t *p = at ? at + 1 : end;

	if (p < end && *p == '-')
		p++;
	while (p < end && *p >= '0' && *p <= '9')
		p++;
	return p == end ? at : NULL;
}

/* Writes "@" and the timestamp at the end of text; returns the start.  Does not use printf, because a listing calls it for each cell. */
static const char *version_tail(int64_t ts, char *text, size_t bytes)
{
	uint64_t n = ts < 0 ? 0 - (uint64_t)ts : (uint64_t)ts;
	char *p = text + bytes;

	do {
		*--p = (char)('0' + n % 10);
		n /= 10;
	} while (n);
	if (ts < 0)
		*--p = '-';
	*--p = '@';
	return p;
}

int name_encode(enum name_kind kind, struct tfs_bytes key, int64_t ts, struct buf *path)
{
	struct source s = {.key = key, .escaped_at = SIZE_MAX};
	char tail[32];
	size_t undo = path->n;
	bool done = false;
	int err;

	if (kind == NAME_ROW) {
		if (key.n == 0)
			return -EINVAL;
	} else {
		const uint8_t *at = timestamp_sign(key);

		if (at)
			s.escaped_at = (size_t)(at - key.p);
		if (kind == NAME_VERSION) {
			s.tail = version_tail(ts, tail, sizeof(tail));
			s.tail_n = (size_t)(tail + sizeof(tail) - (const char *)s.tail);
		} else if (key.n == 0) {
			s.tail_n = 1;
			s.tail = "@";
		}
	}
	for (;;) {
		err = put_component(&s, path, &done);
		if (err == 0 && !done)
			err = buf_u8(path, '/');
		if (err) {
			path->n = undo;
			return err;
		}
		if (done)
			return 0;
	}
}

static int hex_value(uint8_t c)
{
	const char *digit = memchr(hex_digits, c, 16);

	return digit ? (int)(digit - hex_digits) : -1;
}

/* Returns the byte of the escape "%XX" at p, or -1. */
static int escaped_byte(const uint8_t *p, size_t n)
{
	int hi = n > 2 ? hex_value(p[1]) : -1, lo = hi >= 0 ? hex_value(p[2]) : -1;

	return lo < 0 ? -1 : hi << 4 | lo;
}

int name_unescape(struct tfs_bytes s, struct buf *out)
{
	int err = buf_reserve(out, s.n);

	if (err)
		return err;
	for (size_t i = 0; i < s.n; i++) {
		int c = s.p[i] == '%' ? escaped_byte(s.p + i, s.n - i) : s.p[i];

		if (c < 0)
			return -ENOENT;
		i += s.p[i] == '%' ? 2 : 0;
		out->p[out->n++] = (uint8_t)c;
	}
	return 0;
}

/* Reads the component at *at and moves *at to the start of the next.  Returns false at the end. */
static bool next_component(struct tfs_bytes path, size_t *at, struct tfs_bytes *component)
{
	const uint8_t *slash = path.n > *at ? memchr(path.p + *at, '/', path.n - *at) : NULL;

	if (*at > path.n)
		return false;
	*component = tfs_bytes_of(path.p + *at, (slash ? (size_t)(slash - path.p) : path.n) - *at);
	*at += component->n + 1;
	return true;
}

/* Joins the components of a path.  The '%' at the end of each part is left out. */
static int name_join_parts(struct tfs_bytes path, bool parts_only, struct buf *out)
{
	struct tfs_bytes c;
	size_t at = 0;
	int err = 0;

	buf_reset(out);
	while (err == 0 && next_component(path, &at, &c)) {
		bool part = at <= path.n || parts_only;

		if (c.n == 0 || c.n > NAME_LONGEST || (part && c.p[c.n - 1] != '%'))
			return -ENOENT;
		err = buf_append(out, c.p, part ? c.n - 1 : c.n);
	}
	return err;
}

static int same_again(enum name_kind kind, struct tfs_bytes key, int64_t ts, struct tfs_bytes path)
{
	struct buf again = {0};
	int err = name_encode(kind, key, ts, &again);

	if (err == 0 && !bytes_eq(buf_bytes(&again), path))
		err = -ENOENT;
	if (err == -EINVAL)
		err = -ENOENT;
	buf_fini(&again);
	return err;
}

bool name_parse_ts(struct tfs_bytes text, int64_t *ts)
{
	const size_t sign = text.n > 0 && text.p[0] == '-';

	return text.n > sign && !(text.p[sign] == '0' && text.n > 1) && bytes_int64(text, ts);
}

/* *kind is NAME_ROW or, for a cell, NAME_NEWEST.  It becomes NAME_VERSION if the cell's name has a timestamp. */
static int name_decode_parts(struct tfs_bytes path, struct buf *key, enum name_kind *kind, int64_t *ts)
{
	struct buf text = {0};
	int err = name_join_parts(path, false, &text);
	const uint8_t *at = err || *kind == NAME_ROW ? NULL : timestamp_sign(buf_bytes(&text));
	size_t n = at ? (size_t)(at - text.p) : text.n;

	/* A lone '@' is the name of the empty qualifier. */
	if (at && text.n > 1) {
		*kind = NAME_VERSION;
		err = name_parse_ts(tfs_bytes_of(at + 1, text.n - n - 1), ts) ? 0 : -ENOENT;
	}
	buf_reset(key);
	if (err == 0)
		err = name_unescape(tfs_bytes_of(text.p, n), key);
	if (err == 0)
		err = same_again(*kind, buf_bytes(key), *ts, path);
	buf_fini(&text);
	return err;
}

int name_decode_row(struct tfs_bytes path, struct buf *key)
{
	return name_decode_parts(path, key, &(enum name_kind){NAME_ROW}, &(int64_t){0});
}

int name_decode_text(struct tfs_bytes path, struct buf *text)
{
	struct buf joined = {0};
	int err = name_join_parts(path, false, &joined);

	buf_reset(text);
	if (err == 0)
		err = name_unescape(buf_bytes(&joined), text);
	buf_fini(&joined);
	return err;
}

int name_decode_cell(struct tfs_bytes path, struct buf *qualifier, enum name_kind *kind, int64_t *ts)
{
	enum name_kind k = NAME_NEWEST;
	int64_t t = 0;
	int err = name_decode_parts(path, qualifier, &k, &t);

	if (err == 0) {
		*kind = k;
		*ts = t;
	}
	return err;
}

bool name_is_part(struct tfs_bytes component)
{
	return component.n > 0 && component.p[component.n - 1] == '%';
}

bool name_parts_valid(struct tfs_bytes path, size_t *raw_n)
{
	size_t at = 0, raw = 0;
	struct tfs_bytes part;

	while (next_component(path, &at, &part)) {
		/* A part ends because the next unit, of at most four bytes, did not fit. */
		if (part.n < NAME_LONGEST - 3 || part.n > NAME_LONGEST || part.p[part.n - 1] != '%' || part.p[0] == '.')
			return false;
		for (size_t i = 0; i < part.n - 1; i++) {
			uint8_t c = part.p[i];
			int escaped;

			raw++;
			if (c != '%' && always_escaped(c))
				return false;
			if (c != '%')
				continue;
			escaped = escaped_byte(part.p + i, part.n - 1 - i);
			if (escaped < 0)
				return false;
			c = (uint8_t)escaped;
			if (!always_escaped(c) && c != '@' && !(c == '.' && i == 0))
				return false;
			i += 2;
		}
	}
	*raw_n = raw;
	return true;
}

int name_prefix_init(struct tfs_bytes path, bool cell, struct name_prefix *out)
{
	struct name_prefix p = {0};
	struct buf text = {0};
	int err = name_join_parts(path, true, &text);

	if (err == 0)
		err = name_unescape(buf_bytes(&text), &p.raw);
	if (err == 0 && cell && text.n > 0) {
		/* Keys below a part that contains no timestamp may still be versions: the next part may begin with '@'. */
		const uint8_t *at = timestamp_sign(buf_bytes(&text));

		p.split_version = true;
		err = name_unescape(tfs_bytes_of(text.p, at ? (size_t)(at - text.p) : text.n), &p.qualifier);
	}
	buf_fini(&text);
	if (err) {
		name_prefix_fini(&p);
		return err;
	}
	*out = p;
	return 0;
}

void name_prefix_fini(struct name_prefix *p)
{
	buf_fini(&p->raw);
	buf_fini(&p->qualifier);
	p->split_version = false;
}

bool name_component(struct tfs_bytes path, struct tfs_bytes dir, struct tfs_bytes *component, bool *last)
{
	size_t at = dir.n ? dir.n + 1 : 0;

	if (dir.n && (path.n <= dir.n || path.p[dir.n] != '/' || memcmp(path.p, dir.p, dir.n) != 0))
		return false;
	(void)next_component(path, &at, component);
	*last = at > path.n;
	return true;
}

int key_after_prefix(struct tfs_bytes s, struct buf *out)
{
	int err = buf_set(out, s.p, s.n);

	while (err == 0 && out->n && out->p[out->n - 1] == 0xff)
		out->n--;
	if (err == 0 && out->n)
		out->p[out->n - 1]++;
	return err;
}
