/* SPDX-License-Identifier: Apache-2.0 */
/* The reader of each format. */
#include "engine/bulk/reader.h"

#include "engine/bulk/reader_internal.h"

#include <errno.h>
#include <stdlib.h>

static const struct record_reader_ops *const formats[] = {
	[BULK_TSV] = &tsv_reader_ops,
	[BULK_JSONL] = &json_reader_ops,
	[BULK_TAR] = &tar_reader_ops,
	[BULK_CSV] = &csv_reader_ops,
	[BULK_WIDE_TSV] = &csv_reader_ops,
};
const char *const bulk_format_names[BULK_FORMATS] = {
	[BULK_TSV] = "tsv", [BULK_JSONL] = "jsonl", [BULK_TAR] = "tar", [BULK_CSV] = "csv", [BULK_WIDE_TSV] = "wide.tsv"};

int record_reader_new(enum bulk_format format, const struct record_sink *sink, struct record_reader **out)
{
	const struct record_reader_ops *o = formats[format];
	struct record_reader *r = calloc(1, o->bytes);
	int err;

	if (!r)
		return -ENOMEM;
	r->ops = o;
	r->sink = *sink;
	err = o->init ? o->init(r) : 0;
	if (err) {
		free(r);
		return err;
	}
	*out = r;
	return 0;
}

/* ---- lines ---- */

static int end_line(struct line_reader *l)
{
	const struct record_reader_ops *ops = l->reader.ops;
	struct record r = {.number = l->number + 1};
	const struct record_sink *sink = &l->reader.sink;
	int err;

	if (!l->reason && ops->parse)
		l->reason = ops->parse(l, &r);
	err = ops->record   ? ops->record(l, r.number)
		: l->reason ? sink->refused(sink->arg, r.number, l->reason)
			    : sink->cell(sink->arg, &r);
	l->number += 1 + l->newlines;
	l->newlines = 0;
	if (l->line.cap > 1u << 20)
		buf_fini(&l->line);
	buf_reset(&l->line);
	l->begun = false;
	l->reason = NULL;
	l->reader.ops->begin(l);
	return err;
}

static int feed_lines(struct line_reader *l, const uint8_t *p, size_t n)
{
	const uint8_t *end = p + n;
	int err = 0;

	while (p < end && !err) {
		const uint8_t *newline = memchr(p, '\n', (size_t)(end - p)), *to = newline ? newline : end;

		err = l->reader.ops->take(l, p, to);
		l->begun = true;
		p = newline ? to + 1 : to;
		if (!newline || err)
			continue;
		if (!l->reader.ops->within || !l->reader.ops->within(l)) {
			err = end_line(l);
		} else {
			l->newlines++;
			err = l->reader.ops->take(l, to, p);
		}
	}
	return err;
}

/* ---- the first bytes ---- */

/* Beginnings of files that are no text, or a text behind a mark. */
static const struct mark {
	const char *bytes;
	size_t n;
	bool in_lines;      /* an archive may begin with a file name of these bytes */
	const char *reason; /* NULL: the mark is skipped */
} marks[] = {
	{"\xef\xbb\xbf", 3, true, NULL},
	{"\xff\xfe", 2, true, "the input is UTF-16: iconv -f UTF-16 -t UTF-8 converts it"},
	{"\xfe\xff", 2, true, "the input is UTF-16: iconv -f UTF-16 -t UTF-8 converts it"},
	{"\x1f\x8b", 2, false, "the input is compressed: gunzip -c reads it, and tabletctl import if its name ends in .gz"},
	{"\x28\xb5\x2f\xfd", 4, false, "the input is compressed: zstd -dc reads it, and tabletctl import if its name ends in .zst"},
	{"\xfd"
	 "7zXZ\0",
		6, false, "the input is compressed: xz -dc reads it"},
	{"PK\3\4", 4, false, "the input is a zip archive: unzip -p reads it"},
};

/* Returns the mark with which the head begins; NULL: there is none.  *more: more bytes may complete one. */
static const struct mark *find_mark(const struct record_reader *r, bool *more)
{
	const struct mark *found = NULL;

	*more = false;
	for (const struct mark *m = marks; m < marks + sizeof(marks) / sizeof(*marks); m++) {
		const size_t n = r->head_n < m->n ? r->head_n : m->n;

		if ((m->in_lines && !r->ops->take) || memcmp(m->bytes, r->head, n) != 0)
			continue;
		if (n == m->n)
			found = m;
		else
			*more = true;
	}
	return found;
}

static int feed_format(struct record_reader *r, const void *p, size_t n)
{
	return !n ? 0 : r->ops->take ? feed_lines((struct line_reader *)r, p, n) : r->ops->feed(r, p, n);
}

/* The head is complete, or the input has ended. */
static int feed_head(struct record_reader *r)
{
	bool more;
	const struct mark *m = find_mark(r, &more);
	const size_t skipped = m ? m->n : 0;
	int err;

	r->begun = true;
	if (!m || !m->reason)
		return feed_format(r, r->head + skipped, r->head_n - skipped);
	err = r->sink.refused(r->sink.arg, 1, m->reason);
	return err ? err : -EBADMSG;
}

static int feed_start(struct record_reader *r, const uint8_t *p, size_t n)
{
	bool more = true;
	int err = 0;

	while (n && !r->begun && !err) {
		r->head[r->head_n++] = *p++;
		n--;
		(void)find_mark(r, &more);
		if (!more)
			err = feed_head(r);
	}
	return err ? err : r->begun ? feed_format(r, p, n) : 0;
}

/* ---- all formats ---- */

static struct line_reader *line_reader_of(struct record_reader *r)
{
	return r->ops->take ? (struct line_reader *)r : NULL;
}

int record_reader_feed(struct record_reader *r, const void *p, size_t n)
{
	if (!r->err && n)
		r->err = r->begun ? feed_format(r, p, n) : feed_start(r, p, n);
	return r->err;
}

int record_reader_pause(struct record_reader *r)
{
	struct line_reader *l = line_reader_of(r);

	if (r->err || !l)
		return record_reader_end(r);
	if (!l->begun && (r->begun || !r->head_n))
		return 0;
	(void)r->sink.refused(r->sink.arg, l->number + 1, "it has no newline: it is cut off, and is not stored");
	return -EBADMSG;
}

int record_reader_end(struct record_reader *r)
{
	struct line_reader *l = line_reader_of(r);
	int err = r->err;

	if (!err && !r->begun)
		err = feed_head(r);
	if (!err)
		err = !l ? r->ops->end(r) : l->begun ? end_line(l) : 0;
	if (err != -EBADMSG)
		r->err = err;
	return err;
}

void record_reader_free(struct record_reader *r)
{
	struct line_reader *l = r ? line_reader_of(r) : NULL;

	if (l)
		buf_fini(&l->line);
	if (r && r->ops->fini)
		r->ops->fini(r);
	free(r);
}
