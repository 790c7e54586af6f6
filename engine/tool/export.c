/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tabletctl export: a table, or the cells of it that match clauses, as a stream.
 * In a mount it is copied from a file of the daemon, so the caller's permissions
 * hold.  On a data directory the store is opened.
 *
 * The time left is an estimate, because the number of cells in the table's usage
 * includes deleted and replaced ones.  An export with clauses has no estimate.
 */
#include "engine/bulk/stream.h"
#include "engine/bulk/stream_count.h"
#include "engine/tool/packed.h"
#include "engine/tool/progress.h"
#include "engine/tool/scan.h"
#include "engine/tool/transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

struct output {
	int fd;
	const char *name; /* for messages */
	uint64_t bytes;
	struct stream_count count;
	struct packer *packer; /* NULL: the file is not compressed */
};

static int put_packed(void *arg, struct tfs_bytes s)
{
	return transfer_write(*(const int *)arg, s);
}

static int put(void *arg, struct tfs_bytes s)
{
	struct output *o = arg;
	int err = o->packer ? packer_write(o->packer, s) : transfer_write(o->fd, s);

	if (!err)
		err = stream_count_add(&o->count, s);
	if (err) {
		complain("%s: %s", o->name, strerror(-err));
		return EXIT_CANNOT;
	}
	o->bytes += s.n;
	progress_set(o->bytes, o->count.cells);
	progress_cells(o->count.cells, o->count.rows);
	return 0;
}

/* Copies the stream of a mounted table. */
static int export_mounted(const struct arguments *a, const struct place *p, struct output *o)
{
	const char *stream = text(".%s", bulk_format_names[o->count.format]);
	int dir = scan_open(a, p->path), status;

	if (dir < 0)
		return EXIT_CANNOT;
	status = scan_copy(dir, p->path, stream, text("%s/.scan/%s", p->path, stream), put, o);
	return status ? EXIT_CANNOT : 0;
}

static int copy_stream(const struct place *p, const struct clauses *c, struct output *o)
{
	struct buf piece = {0};
	struct bulk_stream *s = NULL;
	int r = bulk_stream_new(p->table, o->count.format, &c->spec, &s), status = 0;

	for (r = r ? r : 1; r > 0 && status == 0;) {
		buf_reset(&piece);
		r = bulk_stream_read(s, TRANSFER_BYTES, &piece);
		if (r >= 0)
			status = put(o, buf_bytes(&piece));
	}
	if (r < 0) {
		place_complain(p, r);
		status = EXIT_CANNOT;
	}
	bulk_stream_free(s);
	buf_fini(&piece);
	return status;
}

static int export_stored(const struct arguments *a, const struct place *p, struct output *o)
{
	struct clauses c;
	int status = scan_clauses_of(a, &c) ? copy_stream(p, &c, o) : EXIT_CANNOT;

	clauses_fini(&c);
	return status;
}

static int export_run(const struct arguments *a)
{
	const char *file = a->operands > 1 && strcmp(a->operand[1], "-") != 0 ? a->operand[1] : NULL;
	struct output o = {.fd = STDOUT_FILENO, .name = file ? file : "standard output"};
	enum packing packing;
	struct tfs_usage usage;
	struct place p;
	int status, err;

	if (!transfer_format(&export_command, a->option['f'], file, &o.count.format, &packing))
		return EXIT_CANNOT;
	progress_begin(&(struct progress_options){
		.command = "export", .done = "exported", .interrupted = text("%s is not whole", o.name), .summary = true});
	status = place_open(&p, a->operand[0], false);
	if (status)
		return status;
	if (file)
		o.fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (o.fd < 0) {
		complain("%s: %s", file, strerror(errno));
		return place_close(&p, EXIT_CANNOT);
	}
	if (!scan_has_clauses(a) && place_usage(&p, &usage) == 0)
		progress_total(usage.cells, true);
	if (packing != PACKED_NOT && packer_new(packing, put_packed, &o.fd, &o.packer))
		no_memory();
	status = p.store ? export_stored(a, &p, &o) : export_mounted(a, &p, &o);
	err = !status && o.packer ? packer_end(o.packer) : 0;
	packer_free(o.packer);
	if (err) {
		complain("%s: %s", o.name, strerror(-err));
		status = EXIT_CANNOT;
	}
	if (file && close(o.fd) && !status) {
		complain("%s: %s", file, strerror(errno));
		status = EXIT_CANNOT;
	}
	if (!status)
		progress_end();
	stream_count_fini(&o.count);
	return place_close(&p, status);
}

const struct command export_command = {
	.name = "export",
	.kinds = "pf",
	.brief = "write the cells of a table to one file",
	.usage = "usage: tabletctl export [OPTIONS] [--format FORMAT] TABLE_PATH [FILE]\n"
		 "\n"
		 "Writes all cells of a table, or those that match, to FILE or to standard\n"
		 "output, in one of the formats of tabletfs-formats(5).  TABLE_PATH is a table's\n"
		 "directory in a mount, or SOURCE/TABLE.\n"
		 "\n" TRANSFER_USAGE "\n"
		 "Other options, each at most once but --prefix and --where:\n" CLAUSE_USAGE,
	.options = (const struct option[]){CLAUSE_OPTIONS TRANSFER_OPTIONS, {0}},
	.least = 1,
	.most = 2,
	.run = export_run,
};
