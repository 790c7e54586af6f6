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
	struct line_reader lines;
	size_t end[FIELDS]; /* the end of each field that has ended */
	unsigned field;
	uint8_t escape[ESCAPE_MAX];
	size_t escape_n; /* bytes of an unfinished escape */
};

static struct tfs_bytes field_of(const struct tsv_reader *t, unsigned i)
{
	size_t from = i ? t->end[i - 1] : 0;

	return tfs_bytes_of(t->lines.line.p + from, t->end[i] - from);
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

static const char *tsv_parse(struct line_reader *l, struct record *r)
{
	struct tsv_reader *t = (struct tsv_reader *)l;

	if (t->escape_n)
		return "a backslash begins no escape";
	if (t->field < FIELDS - 1)
		return "it has fewer than four fields: ROW, FAMILY:QUALIFIER, TIMESTAMP, VALUE, with tabs between them";
	t->end[FIELDS - 1] = l->line.n;
	return parse_fields(t, r);
}

static void tsv_begin(struct line_reader *l)
{
	struct tsv_reader *t = (struct tsv_reader *)l;

	t->field = 0;
	t->escape_n = 0;
}

/* Adds a byte to an unfinished escape, or ends it. */
static int take_escape(struct tsv_reader *t, uint8_t c)
{
	int err;

	t->escape[t->escape_n++] = c;
	if (t->escape_n < (t->escape[1] == 'x' ? 4 : 2))
		return 0;
	err = text_unescape(tfs_bytes_of(t->escape, t->escape_n), &t->lines.line);
	t->escape_n = 0;
	if (err == -EINVAL) {
		t->lines.reason = "a backslash begins no escape";
		err = 0;
	}
	return err;
}

static void end_field(struct tsv_reader *t)
{
	if (t->field == FIELDS - 1) {
		t->lines.reason = "it has more than four fields; a tab in a value is written \\t";
		return;
	}
	t->end[t->field++] = t->lines.line.n;
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
		t->lines.reason = "it contains a carriage return, which is written \\r";
	return 0;
}

static int tsv_take(struct line_reader *l, const uint8_t *p, const uint8_t *end)
{
	struct tsv_reader *t = (struct tsv_reader *)l;
	int err = 0;

	while (p < end && !t->lines.reason && !err) {
		const uint8_t *run = p;

		if (t->escape_n) {
			err = take_escape(t, *p++);
			continue;
		}
		while (p < end && is_plain(*p))
			p++;
		if (p > run) {
			if (t->lines.line.n + (size_t)(p - run) > RECORD_BYTES_MAX)
				t->lines.reason = "it is longer than any cell";
			else
				err = buf_append(&t->lines.line, run, (size_t)(p - run));
		}
		if (p < end && !t->lines.reason && !err)
			err = take_special(t, *p++);
	}
	return err;
}

const struct record_reader_ops tsv_reader_ops = {
	.bytes = sizeof(struct tsv_reader), .begin = tsv_begin, .take = tsv_take, .parse = tsv_parse};
