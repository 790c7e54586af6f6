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

int record_reader_feed(struct record_reader *r, const void *p, size_t n)
{
	if (!r->err && n)
		r->err = r->ops->feed(r, p, n);
	return r->err;
}

int record_reader_pause(struct record_reader *r)
{
	uint64_t number;

	if (r->err || !r->ops->within)
		return record_reader_end(r);
	if (!r->ops->within(r, &number))
		return 0;
	(void)r->sink.refused(r->sink.arg, number, "it has no newline: it is cut off, and is not stored");
	return -EBADMSG;
}

int record_reader_end(struct record_reader *r)
{
	int err = r->err ? r->err : r->ops->end(r);

	if (err != -EBADMSG)
		r->err = err;
	return err;
}

void record_reader_free(struct record_reader *r)
{
	if (!r)
		return;
	r->ops->fini(r);
	free(r);
}
