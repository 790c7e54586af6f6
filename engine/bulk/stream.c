/* SPDX-License-Identifier: Apache-2.0 */
/* Streams of an export: the stream of each format behind one interface. */
#include "engine/bulk/stream.h"

#include "engine/bulk/csv_stream.h"
#include "engine/bulk/line.h"
#include "engine/bulk/tar_stream.h"

#include <errno.h>
#include <stdlib.h>

/* One of them is not NULL. */
struct bulk_stream {
	struct line_stream *lines;
	struct tar_stream *tar;
	struct csv_stream *csv;
};

static int new_of_scan(struct bulk_stream *s, struct tfs_table *t, enum bulk_format format, const struct tfs_scan_spec *of)
{
	struct tfs_scan_spec spec = *of;
	struct tfs_scan *scan;
	int err;

	spec.what = TFS_SCAN_CELLS;
	err = tfs_scan_new(t, &spec, &scan);
	if (err)
		return err;
	return format == BULK_TAR ? tar_stream_new(t, scan, &s->tar)
				  : line_stream_new(t, scan, format == BULK_TSV ? LINE_TSV : LINE_JSON, &s->lines);
}

int bulk_stream_new(struct tfs_table *t, enum bulk_format format, const struct tfs_scan_spec *spec, struct bulk_stream **out)
{
	struct bulk_stream *s = calloc(1, sizeof(*s));
	int err;

	if (!s)
		return -ENOMEM;
	err = format == BULK_CSV || format == BULK_WIDE_TSV ? csv_stream_new(t, spec, format == BULK_CSV ? ',' : '\t', &s->csv)
							    : new_of_scan(s, t, format, spec);
	if (err)
		free(s);
	else
		*out = s;
	return err;
}

int bulk_stream_read(struct bulk_stream *s, size_t enough, struct buf *out)
{
	return s->csv    ? csv_stream_read(s->csv, enough, out)
		: s->tar ? tar_stream_read(s->tar, enough, out)
			 : line_stream_read(s->lines, enough, out);
}

void bulk_stream_free(struct bulk_stream *s)
{
	if (!s)
		return;
	line_stream_free(s->lines);
	tar_stream_free(s->tar);
	csv_stream_free(s->csv);
	free(s);
}

const char *bulk_stream_why(int err)
{
	return err == -EINVAL ? "there is no such family, or an expression is not valid"
		: err == -E2BIG
		? "the cells have more than 16384 columns, or titles of more than 4 MiB: name fewer by clauses, or use tsv, jsonl or tar"
		: NULL;
}
