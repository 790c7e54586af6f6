/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tabletctl delete --scan: deletes the rows, or the versions, that match the clauses of a
 * scan.  It uses the library, also for a mounted table, because one .mutate a row is slow.
 *
 * If all clauses select rows, each matching row is deleted as it is then.  Otherwise exactly the
 * versions that the scan returns are deleted, and nothing that is written meanwhile.
 *
 * A scan runs beside a batch of mutations.  A row is deleted in pieces of PIECE_CELLS versions.
 * The command may end at each instant: what was deleted stays deleted, and a second run deletes
 * the rest.  Counts have what a flush of the batch has confirmed.
 *
 * Rejected: to ask the question before the matching cells are counted.  A user who reads
 * that two million rows match, and expected two, answers no.
 */
#include "engine/tool/scan.h"

#include "engine/tool/progress.h"
#include "engine/tool/transfer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { PIECE_CELLS = 8192, FLUSH_EVERY = 65536, EXIT_ERROR = 3 };

struct counts {
	uint64_t rows, cells, bytes;
};

struct deleting {
	const char *path;
	struct tfs_table *table;
	const struct tfs_scan_spec *spec;
	bool whole_rows;
	bool counts_only;
	struct tfs_batch *batch;
	struct tfs_mutation *mutation; /* of `row`, with `piece` versions; NULL: there is none */
	unsigned piece;
	struct arena keys;
	struct buf row;               /* the row of the last cell */
	struct counts found, deleted; /* deleted: as of the last flush */
};

static bool is_interrupted(void *arg)
{
	return progress_signal() != 0;
}

/* Adds the mutation of the last row to the batch. */
static int end_piece(struct deleting *d)
{
	int err = d->mutation ? tfs_batch_add(d->batch, d->mutation) : 0;

	tfs_mutation_free(d->mutation);
	d->mutation = NULL;
	d->piece = 0;
	arena_reset(&d->keys);
	return err;
}

static int flush(struct deleting *d)
{
	int err = end_piece(d);

	if (!err)
		err = tfs_batch_flush(d->batch);
	if (!err)
		d->deleted = d->found;
	return err;
}

/* A mutation borrows its keys, so d->row and the arena have them until it is in the batch. */
static int add_version(struct deleting *d, const struct tfs_cell *c)
{
	struct tfs_bytes qualifier;

	if (!arena_dup(&d->keys, c->qualifier, &qualifier))
		return -ENOMEM;
	return tfs_mutation_delete_version(d->mutation, c->family, qualifier, c->ts);
}

static int delete_cell(struct deleting *d, const struct tfs_cell *c, bool new_row)
{
	int err = 0;

	if (d->counts_only || (d->whole_rows && !new_row))
		return 0;
	if (d->piece == PIECE_CELLS)
		err = end_piece(d);
	if (!err && !d->mutation && !(d->mutation = tfs_mutation_new(d->table, buf_bytes(&d->row))))
		err = -ENOMEM;
	if (!err)
		err = d->whole_rows ? tfs_mutation_delete_row(d->mutation) : add_version(d, c);
	d->piece++;
	return err;
}

static int take_cell(struct deleting *d, const struct tfs_cell *c)
{
	const bool new_row = !d->found.rows || !bytes_eq(buf_bytes(&d->row), c->row);
	int err = 0;

	if (!d->counts_only && d->found.cells - d->deleted.cells >= FLUSH_EVERY)
		err = flush(d);
	if (!err && new_row)
		err = end_piece(d);
	if (!err && new_row)
		err = buf_set(&d->row, c->row.p, c->row.n);
	if (!err)
		err = delete_cell(d, c, new_row);
	if (err)
		return err;
	d->found.rows += new_row;
	d->found.cells++;
	d->found.bytes += c->row.n + c->qualifier.n + c->size;
	progress_set(d->found.bytes, d->found.cells);
	progress_cells(d->found.cells, d->found.rows);
	return 0;
}

/* Returns 0, -EINTR if a signal came, or another error. */
static int scan_all(struct deleting *d)
{
	struct tfs_scan_spec spec = *d->spec;
	struct tfs_scan *scan = NULL;
	struct tfs_cell c;
	int r, flushed;

	spec.what = TFS_SCAN_KEYS;
	spec.stop = is_interrupted;
	d->found = d->deleted = (struct counts){0};
	r = tfs_scan_new(d->table, &spec, &scan);
	while (!r && !progress_signal() && (r = tfs_scan_next(scan, &c)) > 0)
		r = take_cell(d, &c);
	tfs_scan_free(scan);
	if (!r && progress_signal())
		r = -EINTR;
	flushed = d->counts_only ? 0 : flush(d);
	return flushed ? flushed : r;
}

static const char *reason_of(int err)
{
	return err == -EPERM     ? "the data of the table is protected"
		: err == -EROFS  ? "the table is read-only"
		: err == -EINVAL ? "there is no such family, or an expression is not valid"
				 : strerror(-err);
}

static char *counts_text(struct counts n)
{
	return text("%" PRIu64 " rows, %" PRIu64 " cells", n.rows, n.cells);
}

/* Counts, and asks the user.  Returns 1 if he agrees, 0 if he does not, -errno. */
static int ask(struct deleting *d)
{
	char answer[16] = "";
	int err;

	d->counts_only = true;
	err = scan_all(d);
	d->counts_only = false;
	if (err)
		return err;
	fprintf(stderr, "%s: delete %s? [y/N] ", d->path, counts_text(d->found));
	if (!fgets(answer, sizeof(answer), stdin))
		return 0;
	return strcmp(answer, "y\n") == 0 || strcmp(answer, "yes\n") == 0;
}

static int delete_matching(const struct arguments *a, struct deleting *d)
{
	const bool dry = a->option['n'];
	int err = 0, agreed = dry || a->option['y'] ? 1 : ask(d);

	if (agreed == 0) {
		complain("%s: nothing was deleted", d->path);
		return EXIT_CANNOT;
	}
	d->counts_only = dry;
	progress_begin(&(struct progress_options){.command = "delete", .done = dry ? "found" : "deleted", .polls = true});
	if (agreed < 0)
		err = agreed;
	if (!err && !dry)
		err = tfs_batch_new(d->table, NULL, &d->batch);
	if (!err)
		err = scan_all(d);
	tfs_mutation_free(d->mutation);
	if (d->batch)
		(void)!tfs_batch_close(d->batch); /* scan_all has flushed it */
	progress_end();
	if (dry && !err)
		printf("would delete %s\n", counts_text(d->found));
	else if (!dry)
		printf("deleted %s%s\n", err && err != -EINTR ? "at least " : "", counts_text(d->deleted));
	if (err == -EINTR)
		complain("delete: interrupted: what was deleted stays deleted; a second run deletes the rest");
	else if (err)
		complain("%s: %s", d->path, reason_of(err));
	buf_fini(&d->row);
	arena_fini(&d->keys);
	return err == -EINTR ? 128 + progress_signal() : err ? EXIT_ERROR : 0;
}

/* Narrows the times of the clauses by --before.  Returns false after a message. */
static bool add_before(const struct arguments *a, struct clauses *c)
{
	struct timespec now;
	int64_t us;
	bool is_age;

	if (!a->option['b'])
		return true;
	clock_gettime(CLOCK_REALTIME, &now);
	if (!clauses_time(a->option['b'], (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000, &us, &is_age)) {
		(void)bad_usage(a->command, "--before needs a time, such as 2026-01-01 or 10d, and not %s", a->option['b']);
		return false;
	}
	c->spec.until = us < c->spec.until ? us : c->spec.until;
	c->spec.has_times = true;
	return true;
}

bool delete_is_scan(const struct arguments *a)
{
	return scan_has_clauses(a) || a->option['s'] || a->option['n'] || a->option['y'] || a->option['b'];
}

int delete_scan(const struct arguments *a)
{
#define ROWS_ONLY(upper, ...) [CLAUSE_##upper] = true,
	static const bool selects_rows[CLAUSE_COUNT] = {ROW_CLAUSES(ROWS_ONLY)};
	struct deleting d = {.path = a->operand[0], .whole_rows = !a->option['b']};
	struct clauses c = {0};
	struct place p;
	int status = EXIT_CANNOT;

	if (a->operands > 1)
		return bad_usage(a->command, "--scan has the clauses of rows as options, and no operand %s", a->operand[1]);
	if (!scan_has_clauses(a) && !a->option['b'])
		return bad_usage(a->command, "--scan needs a clause, such as --prefix KEY; all rows are removed by %s",
			text("tabletctl ctl %s truncate", a->operand[0]));
	if (!a->option['n'] && !a->option['y'] && (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO)))
		return bad_usage(a->command, "%s: --yes deletes without a question, and --dry-run counts", "not a terminal");
	for (enum clause k = 0; k < CLAUSE_COUNT; k++)
		d.whole_rows = d.whole_rows && (selects_rows[k] || !a->option[CLAUSE_OPTION(k)]);
	if (scan_clauses_of(a, &c) && add_before(a, &c) && place_open_stored(&p, a->operand[0], false) == 0) {
		d.table = p.table;
		d.spec = &c.spec;
		status = place_close(&p, delete_matching(a, &d));
	}
	clauses_fini(&c);
	return status;
}
