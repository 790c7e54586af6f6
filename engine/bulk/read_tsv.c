/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines of TSV.  The fields of a line are unescaped while they arrive and lie
 * one after another in `line`, so a line in pieces needs no second copy, and an
 * escaped value no more memory than the value itself.
 *
 * A raw carriage return is refused: in a file with DOS line ends it would
 * become a part of every value.
 */
#include "engine/bulk/escape.h"
#include "engine/bulk/reader_internal.h"
#include "engine/base/name.h"

#include <errno.h>

enum { FIELDS = 4, ESCAPE_MAX = 4 };

struct tsv_reader {
	struct record_reader reader;
	uint64_t number;    /* of the lines that have ended */
	struct buf line;    /* unescaped fields */
	size_t end[FIELDS]; /* of the fields that have ended */
	unsigned field;
	bool begun;         /* the line has a byte */
	const char *reason; /* the line is refused; the rest of it is skipped */
	uint8_t escape[ESCAPE_MAX];
	size_t escape_n; /* bytes of an unfinished escape */
};

static struct tfs_bytes field_of(const struct tsv_reader *t, unsigned i)
{
	size_t from = i ? t->end[i - 1] : 0;

	return tfs_bytes_of(t->line.p + from, t->end[i] - from);
}

/* Returns NULL, or the reason why the fields are no cell. */
static const char *parse_fields(const struct tsv_reader *t, struct record *r)
{
	struct tfs_bytes column = field_of(t, 1), ts = field_of(t, 2);
	const uint8_t *colon = column.n ? memchr(column.p, ':', column.n) : NULL;

	if (!colon)
		return "the second field is not FAMILY:QUALIFIER";
	r->row = field_of(t, 0);
	r->family = tfs_bytes_of(column.p, (size_t)(colon - column.p));
	r->qualifier = tfs_bytes_of(colon + 1, column.n - r->family.n - 1);
	r->value = field_of(t, 3);
	r->has_ts = ts.n > 0;
	if (ts.n && !name_parse_ts(ts, &r->ts))
		return "the third field is not a timestamp: a decimal number of 64 bits, or empty";
	return record_fault(r);
}

static int end_line(struct tsv_reader *t)
{
	struct record r = {.number = ++t->number};

	if (!t->reason && t->escape_n)
		t->reason = "a backslash begins no escape";
	if (!t->reason && t->field < FIELDS - 1)
		t->reason = "it has fewer than four fields: ROW, FAMILY:QUALIFIER, TIMESTAMP, VALUE, with tabs between them";
	if (!t->reason) {
		t->end[FIELDS - 1] = t->line.n;
		t->reason = parse_fields(t, &r);
	}
	return t->reason ? t->reader.sink.refused(t->reader.sink.arg, r.number, t->reason)
			 : t->reader.sink.cell(t->reader.sink.arg, &r);
}

static void begin_line(struct tsv_reader *t)
{
	if (t->line.cap > 1u << 20)
		buf_fini(&t->line);
	buf_reset(&t->line);
	t->field = 0;
	t->escape_n = 0;
	t->reason = NULL;
	t->begun = false;
}

/* Adds a byte to an unfinished escape, or ends it. */
static int take_escape(struct tsv_reader *t, uint8_t c)
{
	int err;

	t->escape[t->escape_n++] = c;
	if (t->escape_n < (t->escape[1] == 'x' ? 4 : 2))
		return 0;
	err = text_unescape(tfs_bytes_of(t->escape, t->escape_n), &t->line);
	t->escape_n = 0;
	if (err == -EINVAL) {
		t->reason = "a backslash begins no escape";
		err = 0;
	}
	return err;
}

static void end_field(struct tsv_reader *t)
{
	if (t->field == FIELDS - 1) {
		t->reason = "it has more than four fields; a tab in a value is written \\t";
		return;
	}
	t->end[t->field++] = t->line.n;
}

static bool is_plain(uint8_t c)
{
	return c != '\t' && c != '\n' && c != '\\' && c != '\r';
}

static int take_special(struct tsv_reader *t, uint8_t c)
{
	if (c == '\\')
		t->escape[t->escape_n++] = c;
	else if (c == '\t')
		end_field(t);
	else if (c == '\r')
		t->reason = "it contains a carriage return, which is written \\r";
	return 0;
}

/* Reads bytes of one line, of which none is a newline. */
static int take_bytes(struct tsv_reader *t, const uint8_t *p, const uint8_t *end)
{
	int err = 0;

	while (p < end && !t->reason && !err) {
		const uint8_t *run = p;

		if (t->escape_n) {
			err = take_escape(t, *p++);
			continue;
		}
		while (p < end && is_plain(*p))
			p++;
		if (p > run) {
			if (t->line.n + (size_t)(p - run) > RECORD_BYTES_MAX)
				t->reason = "it is longer than any cell";
			else
				err = buf_append(&t->line, run, (size_t)(p - run));
		}
		if (p < end && !t->reason && !err)
			err = take_special(t, *p++);
	}
	return err;
}

static int tsv_feed(struct record_reader *r, const uint8_t *p, size_t n)
{
	struct tsv_reader *t = (struct tsv_reader *)r;
	const uint8_t *end = p + n;
	int err = 0;

	while (p < end && !err) {
		const uint8_t *newline = memchr(p, '\n', (size_t)(end - p)), *to = newline ? newline : end;

		err = take_bytes(t, p, to);
		t->begun = true;
		if (newline && !err) {
			err = end_line(t);
			begin_line(t);
		}
		p = newline ? to + 1 : to;
	}
	return err;
}

static bool tsv_within(const struct record_reader *r, uint64_t *number)
{
	const struct tsv_reader *t = (const struct tsv_reader *)r;

	*number = t->number + 1;
	return t->begun;
}

static int tsv_end(struct record_reader *r)
{
	struct tsv_reader *t = (struct tsv_reader *)r;
	int err = t->begun ? end_line(t) : 0;

	begin_line(t);
	return err;
}

static void tsv_fini(struct record_reader *r)
{
	buf_fini(&((struct tsv_reader *)r)->line);
}

const struct record_reader_ops tsv_reader_ops = {
	.bytes = sizeof(struct tsv_reader), .feed = tsv_feed, .within = tsv_within, .end = tsv_end, .fini = tsv_fini};
