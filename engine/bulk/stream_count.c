/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts the cells and rows of an export (stream_count.h).  A row's lines
 * follow each other, so a row is counted where the bytes up to the end of its
 * key differ from the line before.  In an archive the directories of rows are
 * counted.  All directories above a row's directory are parts, whose names end
 * with '%'.
 */
#include "engine/bulk/stream_count.h"

#include <errno.h>
#include <stdlib.h>

enum { BLOCK = 512, NAME_BYTES = 100, SIZE = 124, SIZE_BYTES = 12, TYPE = 156, JSON_ROW_QUOTES = 4 };

/* ---- lines ---- */

/* Returns true if the row's key ends before or at this byte. */
static bool ends_row(struct stream_count *c, uint8_t byte)
{
	bool quote = byte == '"' && !c->escaped;

	if (c->format == BULK_TSV)
		return byte == '\t';
	c->escaped = byte == '\\' && !c->escaped;
	c->quotes += quote;
	return c->quotes == JSON_ROW_QUOTES;
}

static void count_line(struct stream_count *c)
{
	struct buf swap = c->row;

	if (!c->cells++ || !bytes_eq(buf_bytes(&c->head), buf_bytes(&c->row)))
		c->rows++;
	c->row = c->head;
	c->head = swap;
	buf_reset(&c->head);
	c->quotes = 0;
	c->escaped = false;
	c->counted = true;
}

static int add_lines(struct stream_count *c, struct tfs_bytes s)
{
	while (s.n) {
		const uint8_t *end = c->counted ? memchr(s.p, '\n', s.n) : NULL;
		size_t n = c->counted ? end ? (size_t)(end - s.p) + 1 : s.n : 0;
		int err;

		if (c->counted) {
			c->counted = !end;
		} else {
			bool ends = false;

			while (n < s.n && !ends)
				ends = ends_row(c, s.p[n++]);
			err = buf_append(&c->head, s.p, n);
			if (err)
				return err;
			if (ends)
				count_line(c);
		}
		s = tfs_bytes_of(s.p + n, s.n - n);
	}
	return 0;
}

/* ---- CSV ---- */

static void end_field(struct stream_count *c, bool line)
{
	c->cells += c->counted && c->keyed && c->filled;
	c->rows += c->counted && line;
	c->counted = c->counted || line;
	c->keyed = !line;
	c->filled = false;
}

static void add_csv(struct stream_count *c, struct tfs_bytes s)
{
	const uint8_t separator = c->format == BULK_CSV ? ',' : '\t';

	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] == '"')
			c->quotes = !c->quotes;
		if (!c->quotes && (s.p[i] == separator || s.p[i] == '\n'))
			end_field(c, s.p[i] == '\n');
		else
			c->filled = true;
	}
}

/* ---- archives ---- */

/* The path among the attributes "LENGTH NAME=VALUE\n"; else the path in the header. */
static struct tfs_bytes path_of(const struct stream_count *c, const char *header)
{
	const char *p = (const char *)c->attributes.p, *end = p + c->attributes.n;

	while (p < end) {
		char *name;
		size_t length = strtoul(p, &name, 10);

		if (length < 8 || length > (size_t)(end - p))
			break;
		if (strncmp(name, " path=", 6) == 0)
			return tfs_bytes_of(name + 6, (size_t)(p + length - 1 - (name + 6)));
		p += length;
	}
	return tfs_bytes_of(header, strnlen(header, NAME_BYTES));
}

/* Returns true for "./KEY/" and "./PART%/KEY/", but not for the root and for "./PART%/". */
static bool is_row(struct tfs_bytes path)
{
	const char *p = (const char *)path.p + 2;
	size_t n = path.n < 4 ? 0 : path.n - 3; /* without "./" and the '/' at the end */

	if (!n || p[n - 1] == '%')
		return false;
	for (size_t i = 0; i < n; i++)
		if (p[i] == '/' && p[i - 1] != '%')
			return false;
	return true;
}

static void read_header(struct stream_count *c)
{
	const char *header = (const char *)c->head.p;
	struct tfs_bytes path = path_of(c, header);
	char size[SIZE_BYTES + 1] = "";

	memcpy(size, header + SIZE, SIZE_BYTES);
	c->skip = (strtoull(size, NULL, 8) + BLOCK - 1) / BLOCK * BLOCK;
	c->extended = header[TYPE] == 'x';
	if (header[TYPE] == '5')
		c->rows += is_row(path);
	else if (header[TYPE] == '0')
		c->cells += !bytes_eq(path, tfs_str("./.schema"));
	buf_reset(&c->attributes);
	buf_reset(&c->head);
}

static int add_archive(struct stream_count *c, struct tfs_bytes s)
{
	while (s.n) {
		uint64_t wanted = c->skip ? c->skip : BLOCK - c->head.n;
		size_t n = wanted < s.n ? (size_t)wanted : s.n;
		int err = !c->skip ? buf_append(&c->head, s.p, n) : c->extended ? buf_append(&c->attributes, s.p, n) : 0;

		if (err)
			return err;
		if (c->skip)
			c->skip -= n;
		else if (c->head.n == BLOCK)
			read_header(c);
		s = tfs_bytes_of(s.p + n, s.n - n);
	}
	return 0;
}

int stream_count_add(struct stream_count *c, struct tfs_bytes s)
{
	if (c->format == BULK_TAR)
		return add_archive(c, s);
	if (c->format == BULK_TSV || c->format == BULK_JSONL)
		return add_lines(c, s);
	add_csv(c, s);
	return 0;
}

void stream_count_fini(struct stream_count *c)
{
	buf_fini(&c->head);
	buf_fini(&c->row);
	buf_fini(&c->attributes);
}
