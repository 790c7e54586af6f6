/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tabletctl compare: prints the cells that differ between two tables or snapshots, of any stores.
 *
 * The servers hash ranges of rows (ranges.h), and only the ranges whose hashes differ are read, in the order of keys.  So two
 * equal tables of other hosts are compared without their cells' being sent.
 */
#include "engine/bulk/escape.h"
#include "engine/tool/mirror/diff.h"
#include "engine/tool/progress.h"
#include "engine/tool/transfer.h"

#include <errno.h>
#include <inttypes.h>

enum { EXIT_DIFFERENT = 1 };

static void print_cell(const struct diff_cell *c, struct buf *line)
{
	static const char *const kinds[] = {[DIFF_ONLY_A] = "first", [DIFF_ONLY_B] = "second", [DIFF_VALUE] = "value"};
	const struct tfs_cell *cell = diff_any(c);

	buf_reset(line);
	if (buf_printf(line, "%s\t", kinds[c->kind]) || text_escape(cell->row, line) || buf_printf(line, "\t%s:", cell->family) ||
		text_escape(cell->qualifier, line) || buf_printf(line, "\t%" PRId64 "\n", cell->ts))
		no_memory();
	fwrite(line->p, 1, line->n, stdout); /* main reports an error */
}

static bool stopped(void *arg)
{
	(void)arg;
	return progress_signal() != 0;
}

/* Returns 0, 1 if the tables differ, -errno after a message. */
static int compare(const struct place *a, const struct place *b)
{
	const struct diff_options o = {.a = a->table, .b = b->table, .hashes = true, .after_family = "", .stop = stopped};
	uint64_t cells = 0, bytes = 0, different = 0;
	struct diff *d = NULL;
	struct diff_cell c;
	struct buf line = {0};
	int r = diff_new(&o, &d);

	while (!r && (r = diff_next(d, &c)) > 0) {
		const bool range = c.kind == DIFF_EQUAL_RANGE;

		r = progress_signal() ? -EINTR : 0;
		bytes += range ? c.bytes : diff_any(&c)->size;
		cells += range ? c.cells : 1;
		progress_set(bytes, cells);
		progress_cells(cells, 0);
		if (range || c.kind == DIFF_SAME)
			continue;
		different++;
		print_cell(&c, &line);
	}
	if (r == -EINTR)
		complain("compare: interrupted");
	else if (r < 0)
		place_complain(d && diff_failed(d) ? b : a, r);
	if (d)
		diff_free(d);
	buf_fini(&line);
	return r ? r : different != 0;
}

static int compare_run(const struct arguments *a)
{
	struct place x, y;
	struct tfs_usage usage;
	int status, r;

	progress_begin(&(struct progress_options){.command = "compare", .done = "compared", .polls = true});
	status = place_open_stored(&x, a->operand[0], false);
	if (status)
		return status;
	status = place_open_stored(&y, a->operand[1], false);
	if (status)
		return place_close(&x, status);
	if (!x.of && place_usage(&x, &usage) == 0)
		progress_total(usage.cells, true);
	r = compare(&x, &y);
	progress_end();
	status = r == -EINTR ? 128 + progress_signal() : r < 0 ? EXIT_CANNOT : r ? EXIT_DIFFERENT : 0;
	status = place_close(&y, status);
	return place_close(&x, status);
}

const struct command compare_command = {
	.name = "compare",
	.kinds = "pp",
	.brief = "print the cells that differ between two tables",
	.usage = "usage: tabletctl compare FIRST SECOND\n"
		 "\n"
		 "Prints the versions that differ between two tables or snapshots, of one store or\n"
		 "of two, one a line: first or second, if only that one has it, or value, if the\n"
		 "values differ; then row, family:qualifier, timestamp.  FIRST and SECOND are each a\n"
		 "table's directory in a mount, or SOURCE/TABLE; or a snapshot, which has\n"
		 "/.snap/NAME behind that.  The servers of the stores hash ranges of rows, and only\n"
		 "ranges with other hashes are read.\n"
		 "\n"
		 "Exit status: 0 no version differs; 1 some differ; 2 any error.\n",
	.least = 2,
	.most = 2,
	.run = compare_run,
};
