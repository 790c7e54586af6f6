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
};

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
	struct record r = {.number = ++l->number};
	const struct record_sink *sink = &l->reader.sink;
	int err;

	if (!l->reason)
		l->reason = l->reader.ops->parse(l, &r);
	err = l->reason ? sink->refused(sink->arg, r.number, l->reason) : sink->cell(sink->arg, &r);
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
		if (newline && !err)
			err = end_line(l);
		p = newline ? to + 1 : to;
	}
	return err;
}

/* ---- all formats ---- */

static struct line_reader *line_reader_of(struct record_reader *r)
{
	return r->ops->take ? (struct line_reader *)r : NULL;
}

int record_reader_feed(struct record_reader *r, const void *p, size_t n)
{
	struct line_reader *l = line_reader_of(r);

	if (!r->err && n)
		r->err = l ? feed_lines(l, p, n) : r->ops->feed(r, p, n);
	return r->err;
}

int record_reader_pause(struct record_reader *r)
{
	struct line_reader *l = line_reader_of(r);

	if (r->err || !l)
		return record_reader_end(r);
	if (!l->begun)
		return 0;
	(void)r->sink.refused(r->sink.arg, l->number + 1, "it has no newline: it is cut off, and is not stored");
	return -EBADMSG;
}

int record_reader_end(struct record_reader *r)
{
	struct line_reader *l = line_reader_of(r);
	int err = r->err;

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
	else if (r)
		r->ops->fini(r);
	free(r);
}
