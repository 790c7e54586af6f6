/* SPDX-License-Identifier: Apache-2.0 */
/*
 * .tsv, .jsonl, .csv, .wide.tsv, .tar, .names, .keys and .count below a scan, and TABLE/.export.tar, which is
 * the .tar of a scan without clauses: sequential files.  Open begins the scan, so ages
 * count back from there.  The bytes are made as they are read.
 */
#include "fs/stream/stream.h"

#include "engine/bulk/escape.h"
#include "engine/bulk/line.h"
#include "engine/bulk/stream.h"
#include "fs/base/access.h"
#include "fs/base/reply.h"
#include "fs/file/cell.h"
#include "fs/file/sequential.h"
#include "fs/node/kinds.h"
#include "fs/node/schema/setting.h"
#include "fs/node/source.h"

#include <errno.h>
#include <stdlib.h>

enum { STOP_CELLS = 1024 };

#define STREAM_ENUMERATOR(upper, ...) STREAM_##upper,
enum stream { SCAN_STREAMS(STREAM_ENUMERATOR) STREAMS };
#define STREAM_KIND(upper, name, what, help) {name, TFS_SCAN_##what},
static const struct {
	const char *name;
	enum tfs_scan_what what;
} streams[] = {SCAN_STREAMS(STREAM_KIND){NULL, TFS_SCAN_CELLS}};

/* The formats of streams of cells. */
static const enum bulk_format formats[STREAMS + 1] = {[STREAM_TSV] = BULK_TSV,
	[STREAM_JSONL] = BULK_JSONL,
	[STREAM_CSV] = BULK_CSV,
	[STREAM_WIDE_TSV] = BULK_WIDE_TSV,
	[STREAM_TAR] = BULK_TAR,
	[STREAMS] = BULK_TAR};

/* .export.tar has no name of a stream. */
static enum stream stream_of(const struct node *n)
{
	enum stream k = 0;

	while (k < STREAMS && strcmp(streams[k].name, node_name(n)) != 0)
		k++;
	return k;
}

struct stream_state {
	struct tfs_table *table; /* on behalf of the user: families that the user may not read are left out */
	struct clauses clauses;
	struct tfs_scan *scan;      /* for .names, .keys and .count */
	struct bulk_stream *stream; /* for the others */
	struct unread out;
	struct buf row; /* the last row, for .count */
	uint64_t rows, cells;
	enum stream kind;
	bool ended;
};

static int begin(struct sequential *s)
{
	struct stream_state *st = s->state;
	struct tfs_scan_spec spec = st->clauses.spec;

	spec.stop = fs_is_interrupted;
	st->kind = stream_of(s->node);
	spec.what = streams[st->kind].what;
	return spec.what == TFS_SCAN_CELLS ? bulk_stream_new(st->table, formats[st->kind], &spec, &st->stream)
					   : tfs_scan_new(st->table, &spec, &st->scan);
}

static void end(struct stream_state *st)
{
	tfs_scan_free(st->scan);
	bulk_stream_free(st->stream);
	st->scan = NULL;
	st->stream = NULL;
	unread_reset(&st->out);
	buf_reset(&st->row);
	st->rows = st->cells = 0;
	st->ended = false;
}

static void stream_close(struct sequential *s, struct changes *c)
{
	struct stream_state *st = s->state;

	end(st);
	if (st->table)
		tfs_table_close(st->table);
	clauses_fini(&st->clauses);
	buf_fini(&st->out.text);
	buf_fini(&st->row);
	free(st);
}

static int stream_open(struct sequential *s, int flags)
{
	struct node *scan = s->node->parent;
	struct stream_state *st = calloc(1, sizeof(*st));
	int err;

	if (!st)
		return -ENOMEM;
	s->state = st;
	err = scan_clauses(scan, NULL, fs_now_us(), &st->clauses);
	if (err == 0)
		err = fs_table_as_asker(s->node, &st->table);
	if (err == 0 && st->clauses.partial)
		err = -ENOENT;
	if (err == 0)
		err = begin(s);
	if (err)
		stream_close(s, NULL);
	return err;
}

static int stream_seek(struct sequential *s, uint64_t at)
{
	struct stream_state *st = s->state;

	if (at)
		return unread_seek(&st->out, at) ? 0 : -ESPIPE;
	end(st);
	return begin(s);
}

static int count_cell(struct stream_state *st, const struct tfs_cell *cell)
{
	st->cells++;
	if (st->rows && bytes_eq(buf_bytes(&st->row), cell->row))
		return 0;
	st->rows++;
	return buf_set(&st->row, cell->row.p, cell->row.n);
}

static int add_key(struct stream_state *st, const struct tfs_cell *cell)
{
	int err = st->kind == STREAM_NAMES ? line_name(cell, &st->out.text) : text_escape(cell->row, &st->out.text);

	return err ? err : buf_u8(&st->out.text, '\n');
}

/* Reads as bulk_stream_read does. */
static int read_keys(struct stream_state *st, size_t enough)
{
	struct tfs_cell cell;

	while (!st->ended && st->out.text.n < enough) {
		int r;

		/* .count has no text before its end, and tfs_scan_next asks only while it finds nothing. */
		if (st->cells % STOP_CELLS == STOP_CELLS - 1 && fs_is_interrupted(NULL))
			return -EINTR;
		r = tfs_scan_next(st->scan, &cell);
		st->ended = r == 0;
		if (r > 0)
			r = st->kind == STREAM_COUNT ? count_cell(st, &cell) : add_key(st, &cell);
		else if (r == 0 && st->kind == STREAM_COUNT)
			r = buf_printf(&st->out.text, "rows\t%llu\ncells\t%llu\n", (unsigned long long)st->rows,
				(unsigned long long)st->cells);
		if (r)
			return r;
	}
	return 0;
}

static int stream_read(struct sequential *s, void *buf, size_t n, size_t *got)
{
	struct stream_state *st = s->state;
	size_t enough;
	int r;

	unread_trim(&st->out, n);
	enough = st->out.at + n;
	r = st->stream ? bulk_stream_read(st->stream, enough, &st->out.text) : read_keys(st, enough);
	*got = unread_take(&st->out, buf, n);
	if (r == -E2BIG && !*tfs_error(fs.store)) /* else the reason of the scan */
		(void)refuse(r, s->node, NULL, "%s", bulk_stream_why(r));
	return r < 0 && *got == 0 ? r : 0;
}

static const struct sequential_ops stream_ops = {
	.open = stream_open,
	.read = stream_read,
	.seek = stream_seek,
	.close = stream_close,
};

static int scan_stream_attr(struct node *n, struct stat *st, double *timeout)
{
	return stream_attr(n, 0444, fs_now_us(), st);
}

const struct node_ops scan_stream_ops = {
	.traits = KIND_UNCACHED | KIND_SCAN | KIND_NAMED,
	.attr = scan_stream_attr,
	.exists = stream_exists,
	.sequential = &stream_ops,
};

const struct node_ops export_ops = {
	.traits = KIND_UNCACHED | KIND_NAMED,
	.attr = scan_stream_attr,
	.exists = stream_exists,
	.unlink = stream_unlink,
	.rename = setting_rename,
	.sequential = &stream_ops,
};
