/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A scan as a stream of lines.  An unfinished line is continued by the next
 * call, so a call adds at most one piece of a value more than the caller asked
 * for.
 */
#include "engine/bulk/line.h"

#include "engine/bulk/value.h"

#include <errno.h>
#include <stdlib.h>

struct line_stream {
	struct tfs_table *table;
	struct tfs_scan *scan;
	enum line_format format;
	struct tfs_cell cell;
	struct value value; /* the value of `cell` */
	struct line line;   /* the line of `cell` */
	bool within;        /* a large value is being written, and `at` bytes of it are done */
	uint64_t at;
	int result; /* 1 while the stream continues, 0 at its end, or -errno */
};

int line_stream_new(struct tfs_table *t, struct tfs_scan *scan, enum line_format format, struct line_stream **out)
{
	struct line_stream *s = calloc(1, sizeof(*s));

	if (!s) {
		tfs_scan_free(scan);
		return -ENOMEM;
	}
	*s = (struct line_stream){.table = t, .scan = scan, .format = format, .result = 1};
	*out = s;
	return 0;
}

void line_stream_free(struct line_stream *s)
{
	if (!s)
		return;
	tfs_scan_free(s->scan);
	value_fini(&s->value);
	free(s);
}

static int begin_large(struct line_stream *s, struct buf *out)
{
	bool utf8 = true;
	int err = value_begin(&s->value, s->table, &s->cell);

	if (!err && s->format == LINE_JSON)
		err = value_is_utf8(&s->value, &utf8);
	if (err == -ENOENT)
		return 0;
	if (!err)
		err = line_begin(&s->line, s->format, &s->cell, utf8, out);
	if (err)
		return err;
	s->within = true;
	s->at = 0;
	return 0;
}

static int next_cell(struct line_stream *s, struct buf *out)
{
	int r = tfs_scan_next(s->scan, &s->cell);

	if (r == 0)
		s->result = 0;
	if (r <= 0)
		return r;
	if (!s->cell.value.p && s->cell.size)
		return begin_large(s, out);
	return line_append(s->format, &s->cell, out);
}

static int next_piece(struct line_stream *s, struct buf *out)
{
	struct tfs_bytes piece;
	ssize_t n;
	int err = value_read(&s->value, s->at, &piece);

	if (err)
		return err;
	n = line_piece(&s->line, piece, s->at + piece.n == s->value.size, out);
	if (n < 0)
		return (int)n;
	s->at += (uint64_t)n;
	if (s->at < s->value.size)
		return 0;
	s->within = false;
	return line_end(&s->line, out);
}

int line_stream_read(struct line_stream *s, size_t enough, struct buf *out)
{
	while (s->result > 0 && out->n < enough) {
		int err = s->within ? next_piece(s, out) : next_cell(s, out);

		if (err == -EINTR)
			return err;
		if (err)
			s->result = err;
	}
	return s->result;
}
