/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tabletctl bench: the speed of an embedded store on a directory's disk.
 *
 * The store is made in a new directory below the given one, and is removed at
 * the end, also after SIGINT, SIGTERM or an error.  A row is one cell; its key
 * is a number of 16 digits.  Values are half random bytes, half zeros, so they
 * compress to about half of their size.
 *
 * tabletctl probe: tries whether servers on several hosts can share a directory
 * (engine/probe/probe.h).
 */
#include "engine/base/clock.h"
#include "engine/probe/probe.h"
#include "engine/base/units.h"
#include "engine/tabletfs.h"
#include "engine/tool/progress.h"
#include "engine/tool/tool.h"

#include <errno.h>
#include <ftw.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define KEY_BYTES 16
#define FAMILY "f"
#define SYNCED_MAX 1000u /* synced writes: each waits for the disk */

struct bench {
	uint64_t cells;
	size_t value_bytes;
	struct tfs_store *store;
	struct tfs_table *table;
	uint8_t *value;
};

static volatile sig_atomic_t interrupted;

static void note_signal(int number)
{
	interrupted = number;
}

enum work { WRITE, SYNCED_WRITE, READ, SCAN };
struct line {
	const char *name;
	enum work work;
	bool random;
};
static const struct line lines[] = {
	{"sequential write", WRITE, false},
	{"random write", WRITE, true},
	{"synced write", SYNCED_WRITE, true},
	{"sequential read", READ, false},
	{"random read", READ, true},
	{"scan", SCAN, false},
};

static int write_cell(struct bench *b, struct tfs_bytes key, uint64_t state, unsigned flags)
{
	struct tfs_mutation *m = tfs_mutation_new(b->table, key);
	int err;

	if (!m)
		return -ENOMEM;
	for (size_t k = 0; k < b->value_bytes / 2; k++) {
		state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		b->value[k] = (uint8_t)(state >> 56);
	}
	err = tfs_mutation_put(m, FAMILY, TFS_S(""), TFS_AUTO, tfs_bytes_of(b->value, b->value_bytes));
	if (!err)
		err = tfs_apply(m, flags, NULL);
	tfs_mutation_free(m);
	return err;
}

static int scan_all(struct bench *b)
{
	struct tfs_scan_spec spec = {.what = TFS_SCAN_CELLS};
	struct tfs_scan *s;
	struct tfs_cell c;
	uint64_t n = 0;
	int err = tfs_scan_new(b->table, &spec, &s);

	if (err)
		return err;
	while (!interrupted && (err = tfs_scan_next(s, &c)) > 0)
		n++;
	tfs_scan_free(s);
	return err < 0 ? err : n == b->cells || interrupted ? 0 : -EBADMSG;
}

static int run_operation(struct bench *b, const struct line *l, uint64_t i)
{
	char text[24];
	struct tfs_bytes key;
	size_t got;

	/* In random order: the factor is prime, so each key occurs once. */
	snprintf(text, sizeof(text), "%016" PRIu64, l->random ? i * UINT64_C(2654435761) % b->cells : i);
	key = tfs_bytes_of(text, KEY_BYTES);
	if (l->work == READ)
		return tfs_read(b->table, key, FAMILY, TFS_S(""), TFS_AUTO, 0, b->value, b->value_bytes, &got, NULL);
	return write_cell(b, key, i + 1, l->work == SYNCED_WRITE ? TFS_APPLY_SYNC : 0);
}

static int bench_line(struct bench *b, const struct line *l)
{
	uint64_t n = l->work == SYNCED_WRITE && b->cells > SYNCED_MAX ? SYNCED_MAX : b->cells, began = monotonic_us();
	double seconds;
	int err = 0;

	if (l->work == SCAN)
		err = scan_all(b);
	for (uint64_t i = 0; l->work != SCAN && i < n && !err && !interrupted; i++)
		err = run_operation(b, l, i);
	if (err || interrupted)
		return err;
	seconds = (double)(monotonic_us() - began + 1) / 1e6;
	printf("%-17s %10" PRIu64 " %9.3f %11.0f %9.1f\n", l->name, n, seconds, (double)n / seconds,
		(double)n * (double)(b->value_bytes + KEY_BYTES) / 1e6 / seconds);
	fflush(stdout);
	return 0;
}

static int bench_lines(struct bench *b, const char *dir)
{
	char *why = NULL;
	int err = tfs_open(dir, NULL, &b->store, &why);

	if (!err)
		err = tfs_table_create(b->store, "bench", 0, 0, 0755);
	if (!err)
		err = tfs_table_open(b->store, "bench", &b->table);
	if (!err)
		err = tfs_schema_set_text(
			b->table, TFS_S("families = ({ name = \"" FAMILY "\"; gc = \"maxversions=1\"; });\n"), TFS_NO_TIME, &why);
	if (!err)
		printf("%-17s %10s %9s %11s %9s\n", "", "operations", "seconds", "op/s", "MB/s");
	for (unsigned i = 0; i < sizeof(lines) / sizeof(*lines) && !err && !interrupted; i++)
		err = bench_line(b, &lines[i]);
	if (err)
		complain("%s", why ? why : strerror(-err));
	free(why);
	if (b->table)
		tfs_table_close(b->table);
	if (b->store && tfs_close(b->store) && !err) {
		complain("the store: an error when it was closed");
		err = -EIO;
	}
	return err;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	return remove(path);
}

static int bench_in(struct bench *b, const char *parent)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
	struct sigaction noted = {.sa_handler = note_signal};
	char *dir = NULL;
	int err = asprintf(&dir, "%s/tabletctl-bench-XXXXXX", parent) < 0 ? -ENOMEM : 0;

	for (unsigned i = 0; i < sizeof(signals) / sizeof(*signals); i++)
		sigaction(signals[i], &noted, NULL);
	signal(SIGPIPE, SIG_IGN);
	b->value = calloc(1, b->value_bytes);
	if (err || !b->value || !mkdtemp(dir)) {
		complain("%s: %s", parent, strerror(err || !b->value ? ENOMEM : errno));
		err = -EIO;
	} else {
		err = bench_lines(b, dir);
		if (nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS)) {
			complain("%s: cannot be removed", dir);
			err = -EIO;
		}
	}
	free(b->value);
	free(dir);
	if (interrupted) {
		signal(interrupted, SIG_DFL);
		raise(interrupted);
	}
	return err ? EXIT_CANNOT : 0;
}

static bool parse_count(const char *text, uint64_t most, uint64_t *out)
{
	return units_number(&text, out) && !*text && *out >= 1 && *out <= most;
}

static int bench_run(const struct arguments *a)
{
	const char *cells = a->option['c'], *value = a->option['v'];
	struct bench b = {.cells = 100000};
	uint64_t value_bytes = 1000;

	if (cells && !parse_count(cells, UINT32_MAX, &b.cells))
		return bad_usage(&bench_command, "--cells: not a number in range: %s", cells);
	if (value && !parse_count(value, 1 << 20, &value_bytes))
		return bad_usage(&bench_command, "--value: not a number in range: %s", value);
	b.value_bytes = (size_t)value_bytes;
	return bench_in(&b, a->operand[0]);
}

const struct command bench_command = {
	.name = "bench",
	.kinds = "f",
	.brief = "measure a new store on a disk",
	.usage = "usage: tabletctl bench [--cells N] [--value BYTES] DIRECTORY\n"
		 "\n"
		 "Makes a store below DIRECTORY, writes and reads it in this process, without a\n"
		 "mount, prints one line for each kind of work, and removes the store.\n"
		 "\n"
		 "  --cells N      number of cells (100000)\n"
		 "  --value BYTES  size of a value (1000)\n",
	.options = (const struct option[]){{"cells", required_argument, NULL, 'c'}, {"value", required_argument, NULL, 'v'},
		{"help", no_argument, NULL, 'h'}, {0}},
	.least = 1,
	.most = 1,
	.run = bench_run,
};

/* ---- probe ---- */

static bool is_interrupted(void *arg)
{
	return progress_signal() != 0;
}

static void show_round(void *arg, unsigned done, unsigned rounds, uint64_t bytes)
{
	progress_total(rounds, true);
	progress_set(bytes, done);
}

static void print_wrong(const struct probe *p)
{
	struct buf line = {0};

	for (unsigned i = 0; i < PROBE_PROPERTIES; i++) {
		if (!p->wrong[i])
			continue;
		buf_reset(&line);
		if (probe_line(p, i, &line))
			no_memory();
		printf("unsafe: %.*s\n", (int)line.n, (const char *)line.p);
	}
	buf_fini(&line);
}

static int probe_dirs(const struct arguments *a)
{
	struct probe p = {.dir = {given(a->operand[0]), given(a->operand[1])}, .stop = is_interrupted, .round = show_round};
	unsigned wrong, tries = 0;
	int err;

	progress_begin(&(struct progress_options){.command = "probe", .done = "probed", .polls = true});
	err = probe_run(&p);
	progress_end();
	wrong = probe_wrong(&p);
	if (progress_signal()) {
		complain("probe: interrupted: no file is left");
		return 128 + progress_signal();
	}
	if (err) {
		complain("%s: %s", p.failed, err == -EXDEV ? "shows no file that is made in the other directory" : strerror(-err));
		return EXIT_CANNOT;
	}
	print_wrong(&p);
	for (unsigned i = 0; i < PROBE_PROPERTIES; i++)
		tries += p.tries[i];
	if (wrong && p.kind == PROBE_NFS)
		printf("note: two NFS mounts of one host share what its kernel knows, so they look stale with any options; a server that "
		       "starts probes the directory with a server of another host\n");
	printf("%s: %s after %u tries in %u rounds\n", a->operand[1], wrong ? "not safe for servers on several hosts" : "safe",
		tries, p.done);
	return wrong ? EXIT_DAMAGED : 0;
}

const struct command probe_command = {
	.name = "probe",
	.kinds = "ff",
	.brief = "try whether hosts can share a directory",
	.usage = "usage: tabletctl probe DIRECTORY DIRECTORY\n"
		 "\n"
		 "Tries whether servers on several hosts can share a directory.  The arguments are\n"
		 "two mounts of it.  The same path twice tries less: only two mounts show whether\n"
		 "one of them caches what the other one changes.  Two NFS mounts of one host look\n"
		 "unsafe with any options: servers of a cluster probe from two hosts when they start.\n"
		 "\n"
		 "Exit status: 0 safe; 1 not safe, each line names a property and the setting that\n"
		 "may mend it; 2 it could not be tried.\n",
	.least = 2,
	.most = 2,
	.run = probe_dirs,
};
