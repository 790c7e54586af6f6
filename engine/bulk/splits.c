/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines of TABLE/.splits (splits.h).
 *
 * A path has letters, digits and punctuation without a meaning for shells only, so
 * loops of a shell, xargs and parallel pass it on unchanged.  With a mount point of a
 * thousand bytes in front it is shorter than PATH_MAX, because long ends are cut.  All
 * ranges are cut in the same way, so together they still have each row once.  Some
 * rows are then in a range next to their tablet's range.
 */
#include "engine/bulk/splits.h"

#include "engine/base/name.h"

#include <ctype.h>
#include <string.h>

#define SPLIT_KEY_MOST 500

/* Appends one byte of a clause.  *n: the length of the present component, which is split before it is too long. */
static int put_byte(struct buf *out, uint8_t c, size_t *n)
{
	bool plain;
	int err = 0;

	if (*n + 3 > NAME_LONGEST - 1) {
		err = buf_printf(out, "%%/");
		*n = 0;
	}
	plain = c && isascii(c) && (isalnum(c) || strchr("-_,:@+=", c) || (c == '.' && *n)); /* no name begins with a dot */
	if (!err)
		err = plain ? buf_u8(out, c) : buf_printf(out, "%%%02X", c);
	*n += plain ? 1 : 3;
	return err;
}

static int put_clause(struct buf *out, bool salted, const char *name, struct tfs_bytes key)
{
	const size_t at = out->n;
	int err = buf_printf(out, "%s%s=", salted ? "stored-" : "", name);
	size_t n = out->n - at;

	if (!err && bytes_eq(key, TFS_S("-"))) /* "-" is an open end */
		return buf_printf(out, "%%2D");
	for (size_t i = 0; i < key.n && !err; i++)
		err = put_byte(out, key.p[i], &n);
	return err;
}

int splits_add(struct splits *s, struct tfs_bytes end, const char *server, uint64_t bytes)
{
	const struct tfs_bytes from = buf_bytes(&s->from);
	int err = 0;

	if (end.n > SPLIT_KEY_MOST)
		end.n = SPLIT_KEY_MOST;
	s->bytes += bytes;
	if (end.p && bytes_cmp(end, from) <= 0)
		return 0;
	if (from.n || !end.p)
		err = put_clause(s->out, s->salted, "from", from);
	if (!err && from.n && end.p)
		err = buf_u8(s->out, '/');
	if (!err && end.p)
		err = put_clause(s->out, s->salted, "to", end);
	if (!err)
		err = buf_printf(s->out, "\t%s\t%llu\n", server, (unsigned long long)s->bytes);
	s->bytes = 0;
	return err ? err : buf_set(&s->from, end.p, end.n);
}

void splits_fini(struct splits *s)
{
	buf_fini(&s->from);
}
