/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tabletctl export: a table as a stream.  In a mount it is copied from the file of
 * the daemon, so the caller's permissions hold.  On a data directory the store is
 * opened.
 */
#include "engine/bulk/line.h"
#include "engine/bulk/tar_stream.h"
#include "engine/tool/transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

struct output {
	int fd;
	const char *name; /* for messages */
	struct progress progress;
};

static int put(struct output *o, struct slice s)
{
	int err = transfer_write(o->fd, s);

	if (err) {
		progress_interrupt(&o->progress);
		complain("%s: %s", o->name, strerror(-err));
		return EXIT_CANNOT;
	}
	o->progress.bytes += s.n;
	progress_show(&o->progress);
	return 0;
}

static uint64_t count_newlines(struct slice s)
{
	const uint8_t *p = s.p, *end = p + s.n;
	uint64_t n = 0;

	while (p < end && (p = memchr(p, '\n', (size_t)(end - p)))) {
		n++;
		p++;
	}
	return n;
}

/* Copies the stream of a mounted table. */
static int export_mounted(const struct place *p, enum bulk_format format, struct output *o)
{
	static const char *const streams[] = {[BULK_TSV] = ".scan/.tsv", [BULK_JSONL] = ".scan/.jsonl", [BULK_TAR] = ".export.tar"};
	uint8_t *piece = malloc(TRANSFER_BYTES);
	int fd = openat(p->dir, streams[format], O_RDONLY | O_CLOEXEC), status = 0;
	ssize_t n = 1;

	if (!piece)
		no_memory();
	while (fd >= 0 && status == 0 && (n = read(fd, piece, TRANSFER_BYTES)) != 0) {
		if (n < 0 && errno != EINTR)
			break;
		if (n < 0)
			continue;
		if (format != BULK_TAR)
			o->progress.cells += count_newlines(slice_of(piece, (size_t)n));
		status = put(o, slice_of(piece, (size_t)n));
	}
	if (fd < 0 || n < 0) {
		progress_interrupt(&o->progress);
		complain("%s/%s: %s%s", p->path, streams[format], strerror(errno),
			errno == EOPNOTSUPP ? " (a read-only mount has no streams)" : "");
		status = EXIT_CANNOT;
	}
	if (fd >= 0)
		close(fd);
	free(piece);
	return status;
}

/* A stream of either kind. */
struct stream {
	struct line_stream *lines;
	struct tar_stream *tar;
};

static int stream_new(struct tfs_table *t, enum bulk_format format, struct stream *out)
{
	struct tfs_scan_spec spec = {.what = TFS_SCAN_CELLS};
	struct tfs_scan *scan;
	int err = tfs_scan_new(t, &spec, &scan);

	*out = (struct stream){0};
	if (err)
		return err;
	return format == BULK_TAR ? tar_stream_new(t, scan, &out->tar)
				  : line_stream_new(t, scan, format == BULK_TSV ? LINE_TSV : LINE_JSON, &out->lines);
}

static int export_stored(const struct place *p, enum bulk_format format, struct output *o)
{
	struct buf piece = {0};
	struct stream s;
	int r = stream_new(p->table, format, &s), status = 0;

	for (r = r ? r : 1; r > 0 && status == 0;) {
		buf_reset(&piece);
		r = s.tar ? tar_stream_read(s.tar, TRANSFER_BYTES, &piece) : line_stream_read(s.lines, TRANSFER_BYTES, &piece);
		o->progress.cells = s.tar ? tar_stream_cells(s.tar) : line_stream_cells(s.lines);
		if (r >= 0)
			status = put(o, buf_slice(&piece));
	}
	if (r < 0) {
		progress_interrupt(&o->progress);
		complain("%s: %s", p->path, strerror(-r));
		status = EXIT_CANNOT;
	}
	line_stream_free(s.lines);
	tar_stream_free(s.tar);
	buf_fini(&piece);
	return status;
}

static int export_run(const struct arguments *a)
{
	const char *file = a->operands > 1 && strcmp(a->operand[1], "-") != 0 ? a->operand[1] : NULL;
	struct output o = {.fd = STDOUT_FILENO, .name = file ? file : "standard output"};
	enum bulk_format format;
	struct place p;
	int status;

	if (!transfer_format(&export_command, a->option['f'], file, &format))
		return EXIT_CANNOT;
	status = place_open(&p, a->operand[0], false);
	if (status)
		return status;
	if (file)
		o.fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (o.fd < 0) {
		complain("%s: %s", file, strerror(errno));
		return place_close(&p, EXIT_CANNOT);
	}
	progress_begin(&o.progress, "exported");
	status = p.store ? export_stored(&p, format, &o) : export_mounted(&p, format, &o);
	if (file && close(o.fd) && !status) {
		complain("%s: %s", file, strerror(errno));
		status = EXIT_CANNOT;
	}
	if (!status)
		progress_end(&o.progress);
	return place_close(&p, status);
}

const struct command export_command = {
	.name = "export",
	.brief = "write all cells of a table to one file",
	.usage = "usage: tabletctl export [--format tsv|jsonl|tar] TABLE_PATH [FILE]\n"
		 "\n"
		 "Writes all cells of a table to FILE, or to standard output, in one of the\n"
		 "formats of tabletfs-formats(5).  TABLE_PATH is a table's directory in a mount,\n"
		 "or DATADIR/TABLE if the store is not in use.\n"
		 "\n"
		 "  --format FORMAT  else the end of FILE's name says it: .tsv .jsonl .tar; else tsv\n",
	.letters = ":h",
	.options = (const struct option[]){TRANSFER_OPTIONS, {0}},
	.least = 1,
	.most = 2,
	.operands = "TABLE_PATH and at most one FILE are",
	.run = export_run,
};
