/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The setting `splits` of a schema: the keys at which a new set of tablets is
 * split (master/change.c).  They are keys as stored, as .tablets shows them: in
 * a salted table the salt's byte is the first.  In the text, %XX stands for any
 * byte, as in the name of a row, because a string of libconfig has no NUL and
 * a schema is UTF-8.
 */
#include "engine/base/name.h"
#include "engine/schema/schema_internal.h"

#include <errno.h>
#include <stdlib.h>

int draft_split(struct schema *s, struct tfs_bytes key, const char **reason)
{
	struct tfs_bytes copy;

	if (!key.n || key.n > TFS_ROW_MAX)
		return schema_refuse(reason, "a key has 1 to 65536 bytes");
	if (s->pub.split_count >= SCHEMA_SPLITS_MAX)
		return schema_refuse(reason, "too many keys");
	if (array_grow(&s->splits, s->pub.split_count, sizeof(*s->splits)) || !arena_dup(&s->arena, key, &copy))
		return -ENOMEM;
	s->splits[s->pub.split_count++] = copy;
	s->pub.splits = s->splits;
	return 0;
}

int draft_split_text(struct schema *s, const char *text, const char **reason)
{
	struct buf key = {0};
	int err = name_unescape(tfs_str(text), &key);

	if (!err)
		err = draft_split(s, buf_bytes(&key), reason);
	else if (err == -ENOENT)
		err = schema_refuse(reason, "a % is followed by two digits of hexadecimal, such as %2F");
	buf_fini(&key);
	return err;
}

static int split_order(const void *a, const void *b)
{
	const struct tfs_bytes *x = a, *y = b;

	return bytes_cmp(*x, *y);
}

int splits_finish(struct schema *s, const char **reason)
{
	const unsigned n = s->pub.split_count;

	if (n)
		qsort(s->splits, n, sizeof(*s->splits), split_order);
	for (unsigned i = 0; i < n; i++) {
		if (i && split_order(&s->splits[i - 1], &s->splits[i]) == 0)
			return schema_refuse(reason, "splits: a key is there twice");
		if (s->pub.salt && *(const uint8_t *)s->splits[i].p >= s->pub.salt)
			return schema_refuse(
				reason, "splits: the table is salted, and no row is stored with this byte in front of its key");
	}
	return 0;
}

/* Returns true for UTF-8 without control characters beyond ASCII. */
static bool is_plain_utf8(struct tfs_bytes s)
{
	for (size_t i = 0, n; i < s.n; i += n) {
		n = s.p[i] < 0x80 ? 1 : utf8_length(s.p + i, s.n - i);
		if (n == 0 || (n > 1 && control_length(s.p + i, s.n - i)))
			return false;
	}
	return true;
}

/* Returns true if the text shows the byte as %XX: names of rows escape it, or it is above 0x7f and the key is not UTF-8. */
static bool split_escapes(const struct tfs_bytes *key, size_t at, bool utf8)
{
	const uint8_t c = ((const uint8_t *)key->p)[at];

	return c < 0x20 || c == 0x7f || c == '%' || c == '/' || (c == '.' && at == 0) || (c >= 0x80 && !utf8);
}

int split_render(const struct tfs_bytes *key, struct buf *out)
{
	const uint8_t *p = key->p;
	const bool utf8 = is_plain_utf8(tfs_bytes_of(p, key->n));
	int err = 0;

	for (size_t i = 0; i < key->n && !err; i++)
		err = split_escapes(key, i, utf8) ? buf_printf(out, "%%%02X", p[i]) : buf_u8(out, p[i]);
	return err;
}
