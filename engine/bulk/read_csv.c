/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Wide CSV (RFC 4180): a header, and then one line for each row (csv_stream.h).
 * The header's first separator, a comma, a semicolon or a tab, separates the fields of all
 * lines, so that wide TSV and the files of spreadsheets in other languages are read too.
 *
 * The decoded fields of a line lie one after another in `line`.  A line is refused before
 * one of its cells is passed on.  So all of it is kept, and it may have as many bytes
 * as a line of any other format.
 *
 * A field that is empty and has no quotes is no cell.
 */
#include "engine/bulk/csv_stream.h"
#include "engine/bulk/reader_internal.h"

#include <errno.h>
#include <stdlib.h>

/* The place within a field. */
enum place { FIELD_START, PLAIN, QUOTED, QUOTE_IN_QUOTED, AFTER_CR };

struct csv_reader {
	struct line_reader lines;
	uint8_t separator; /* 0 before the header's first one */
	enum place place;
	struct csv_field {
		size_t end;  /* in `line` */
		bool quoted; /* an empty field in quotes is an empty value */
	} * fields;          /* those of the line that have ended; CSV_COLUMNS_MAX + 1 of them are allocated by steps */
	size_t count, allocated;
	bool quoted;        /* of the field that is read */
	struct buf header;  /* the decoded fields of the header */
	size_t *column_end; /* the end of each in `header`, without the key's; NULL: the header was not read */
	size_t column_count;
};

static void refuse_line(struct csv_reader *c, const char *reason)
{
	if (!c->lines.reason)
		c->lines.reason = reason;
}

static void csv_begin(struct line_reader *l)
{
	struct csv_reader *c = (struct csv_reader *)l;

	c->place = FIELD_START;
	c->count = 0;
	c->quoted = false;
}

static bool csv_within(struct line_reader *l)
{
	return ((struct csv_reader *)l)->place == QUOTED;
}

static int end_field(struct csv_reader *c)
{
	const size_t most = c->column_end ? c->column_count + 1 : CSV_COLUMNS_MAX + 1;

	c->place = FIELD_START;
	if (c->count == most) {
		refuse_line(c, c->column_end ? "it has more fields than the header" : "the header has more than 16384 columns");
		return 0;
	}
	if (c->count == c->allocated) {
		const size_t more = c->allocated ? c->allocated * 2 : 16;
		struct csv_field *fields = reallocarray(c->fields, more, sizeof(*fields));

		if (!fields)
			return -ENOMEM;
		c->fields = fields;
		c->allocated = more;
	}
	c->fields[c->count++] = (struct csv_field){c->lines.line.n, c->quoted};
	c->quoted = false;
	return 0;
}

/* Adds decoded bytes to the field. */
static int take_text(struct csv_reader *c, const uint8_t *p, size_t n)
{
	if (c->lines.reason)
		return 0;
	if (c->lines.line.n + n > RECORD_BYTES_MAX) {
		refuse_line(c, "it has more than 64 MiB");
		return 0;
	}
	return buf_append(&c->lines.line, p, n);
}

static bool is_separator(const struct csv_reader *c, uint8_t byte)
{
	return c->separator ? byte == c->separator : byte == ',' || byte == ';' || byte == '\t';
}

static int take_separator(struct csv_reader *c, uint8_t byte)
{
	c->separator = byte;
	return end_field(c);
}

/* Reads a byte outside of quotes. */
static int take_byte(struct csv_reader *c, uint8_t byte)
{
	if (c->place == AFTER_CR) {
		refuse_line(c, "a carriage return is neither in quotes nor at the end of the line");
		c->place = PLAIN;
	}
	if (is_separator(c, byte))
		return take_separator(c, byte);
	if (byte == '\r') {
		c->place = AFTER_CR;
		return 0;
	}
	if (byte == '"' && c->place == FIELD_START) {
		c->place = QUOTED;
		c->quoted = true;
		return 0;
	}
	if (c->quoted)
		refuse_line(c, "a field goes on behind its second quote; a quote in a field is written twice");
	else if (byte == '"')
		refuse_line(c, "a quote is in a field that does not begin with a quote");
	c->place = PLAIN;
	return take_text(c, &byte, 1);
}

static bool is_plain(const struct csv_reader *c, uint8_t byte)
{
	return byte != '"' && byte != '\r' && !is_separator(c, byte);
}

/* Also a line that is refused is read to its end, which may be behind newlines in quotes. */
static int csv_take(struct line_reader *l, const uint8_t *p, const uint8_t *end)
{
	struct csv_reader *c = (struct csv_reader *)l;
	int err = 0;

	while (p < end && !err) {
		const uint8_t *run = p;

		if (c->place == QUOTED) {
			p = memchr(p, '"', (size_t)(end - p));
			p = p ? p : end;
			err = take_text(c, run, (size_t)(p - run));
			if (p < end) {
				p++;
				c->place = QUOTE_IN_QUOTED;
			}
			continue;
		}
		if (c->place == QUOTE_IN_QUOTED && *p == '"') {
			err = take_text(c, p++, 1);
			c->place = QUOTED;
			continue;
		}
		while (c->place == PLAIN && !c->quoted && p < end && is_plain(c, *p))
			p++;
		err = p > run ? take_text(c, run, (size_t)(p - run)) : take_byte(c, *p++);
	}
	return err;
}

static struct tfs_bytes field_of(const struct csv_reader *c, size_t i)
{
	size_t from = i ? c->fields[i - 1].end : 0;

	return tfs_bytes_of(c->lines.line.p + from, c->fields[i].end - from);
}

/* The family and the qualifier of a column of the header. */
static bool read_column(struct tfs_bytes title, struct record *r)
{
	const uint8_t *colon = title.n ? memchr(title.p, ':', title.n) : NULL;

	if (!colon)
		return false;
	r->family = tfs_bytes_of(title.p, (size_t)(colon - title.p));
	r->qualifier = tfs_bytes_of(colon + 1, title.n - r->family.n - 1);
	return true;
}

static int compare_titles(const void *a, const void *b)
{
	return bytes_cmp(*(const struct tfs_bytes *)a, *(const struct tfs_bytes *)b);
}

/* Returns NULL, or the reason why the line is no header.  titles has room for all. */
static const char *check_header(const struct csv_reader *c, struct tfs_bytes *titles)
{
	for (size_t i = 1; i < c->count; i++) {
		struct record r = {.row = tfs_str("r")};
		const char *why;

		titles[i - 1] = field_of(c, i);
		if (!read_column(titles[i - 1], &r))
			return "it is no header: key, FAMILY:QUALIFIER, FAMILY:QUALIFIER, ...";
		why = record_fault(&r);
		if (why)
			return why;
	}
	if (memchr(c->lines.line.p ? (const void *)c->lines.line.p : "", ':', field_of(c, 0).n))
		return "it is no header: the first column is the row's key, and its title has no colon";
	qsort(titles, c->count - 1, sizeof(*titles), compare_titles);
	for (size_t i = 2; i < c->count; i++)
		if (bytes_eq(titles[i - 2], titles[i - 1]))
			return "the header names a column twice";
	return NULL;
}

/* Nothing after a header that is not valid can be read. */
static int read_header(struct csv_reader *c, uint64_t number)
{
	const struct record_sink *sink = &c->lines.reader.sink;
	struct tfs_bytes *titles = calloc(c->count, sizeof(*titles));
	int err;

	if (titles && !c->lines.reason)
		refuse_line(c, check_header(c, titles));
	free(titles);
	if (!titles)
		return -ENOMEM;
	if (c->lines.reason) {
		err = sink->refused(sink->arg, number, c->lines.reason);
		return err ? err : -EBADMSG;
	}
	c->column_end = calloc(c->count, sizeof(*c->column_end));
	if (!c->column_end)
		return -ENOMEM;
	c->column_count = c->count - 1;
	for (size_t i = 0; i < c->count; i++)
		c->column_end[i] = c->fields[i].end;
	return buf_append_bytes(&c->header, buf_bytes(&c->lines.line));
}

/* Sets *r to the cell of a field.  Returns false if the field is empty. */
static bool read_cell(const struct csv_reader *c, size_t field, struct record *r)
{
	const size_t from = c->column_end[field - 1];

	r->row = field_of(c, 0);
	r->value = field_of(c, field);
	return (r->value.n || c->fields[field].quoted) &&
		read_column(tfs_bytes_of(c->header.p + from, c->column_end[field] - from), r);
}

static int csv_record(struct line_reader *l, uint64_t number)
{
	struct csv_reader *c = (struct csv_reader *)l;
	const struct record_sink *sink = &l->reader.sink;
	struct record r = {.number = number};
	int err = 0;

	if (c->place == QUOTED)
		refuse_line(c, "a quoted field has no end");
	if (c->count == 0 && !l->line.n && !c->quoted && !l->reason)
		return 0; /* an empty line */
	err = end_field(c);
	if (err)
		return err;
	if (!c->column_end)
		return read_header(c, number);
	if (c->count <= c->column_count)
		refuse_line(c, "it has fewer fields than the header");
	for (size_t i = 1; i < c->count && !l->reason; i++)
		if (read_cell(c, i, &r))
			refuse_line(c, record_fault(&r));
	if (!l->reason && !field_of(c, 0).n)
		refuse_line(c, "the row key is empty");
	if (l->reason)
		return sink->refused(sink->arg, number, l->reason);
	for (size_t i = 1; i < c->count && !err; i++)
		if (read_cell(c, i, &r))
			err = sink->cell(sink->arg, &r);
	return err;
}

static void csv_fini(struct record_reader *r)
{
	struct csv_reader *c = (struct csv_reader *)r;

	free(c->fields);
	free(c->column_end);
	buf_fini(&c->header);
}

const struct record_reader_ops csv_reader_ops = {.bytes = sizeof(struct csv_reader),
	.begin = csv_begin,
	.take = csv_take,
	.within = csv_within,
	.record = csv_record,
	.fini = csv_fini};
