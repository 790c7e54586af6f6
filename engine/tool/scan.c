/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tabletctl scan, count, get and run: cells of a mounted table, read through
 * TABLE/.scan.  Each component of a path is opened by itself, because a path may
 * be longer than PATH_MAX, and so that a refused clause is known.
 */
#include "engine/base/counter.h"
#include "engine/base/file.h"
#include "engine/base/name.h"
#include "engine/bulk/escape.h"
#include "engine/bulk/mutation_lines.h"
#include "engine/bulk/outputs.h"
#include "engine/bulk/splits.h"
#include "engine/tool/scan.h"
#include "engine/tool/transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { EXIT_NOTHING = 1, EXIT_USAGE = 2, EXIT_ERROR = 3 };

#define ESCAPES "a backslash begins one of \\t \\n \\r \\\\ \\xHH"

bool scan_row_key(const char *shown, struct buf *out)
{
	if (text_unescape(tfs_str(shown), out) == 0 && out->n && out->n <= TFS_ROW_MAX)
		return true;
	complain("%s: a row key has 1 to 65536 bytes, and " ESCAPES, shown);
	return false;
}

int scan_lines(const struct command *c, struct tfs_bytes lines, struct mutation_lines *out)
{
	int err = mutation_lines_add(out, NULL, lines);
	const struct tfs_bytes why = mutation_lines_reason(out);
	const char *reason = text("%.*s", (int)why.n, (const char *)why.p);

	if (err == -ENOMEM)
		no_memory();
	if (err != -EINVAL)
		return 0;
	return bad_usage(c, "%s", strcmp(c->name, "mutate") == 0 ? reason : strstr(reason, ": ") + 2);
}

/* Opens a path of components below dir, and closes dir.  Returns a descriptor or -errno. */
static int open_below(int dir, const char *path, int flags)
{
	while (dir >= 0) {
		const char *slash = strchr(path, '/');
		const char *name = slash ? text("%.*s", (int)(slash - path), path) : path;
		int fd = openat(dir, name, slash ? O_PATH | O_DIRECTORY | O_CLOEXEC : flags | O_CLOEXEC);

		if (fd < 0)
			fd = -errno;
		close(dir);
		if (!slash || fd < 0)
			return fd;
		dir = fd;
		path = slash + 1;
	}
	return dir;
}

/* Appends the components of the clause NAME=VALUE.  The value "-" is a key, and not an open end. */
static void add_clause(struct buf *path, const char *name, struct tfs_bytes value)
{
	struct buf clause = {0};

	if ((path->n && buf_u8(path, '/')) || buf_printf(&clause, "%s=", name) || buf_append_bytes(&clause, value) ||
		name_encode(NAME_ROW, buf_bytes(&clause), 0, path))
		no_memory();
	if (bytes_eq(value, TFS_S("-"))) {
		path->n--;
		if (buf_append(path, "%2D", 3))
			no_memory();
	}
	buf_fini(&clause);
}

bool scan_has_clauses(const struct arguments *a)
{
	for (enum clause k = 0; k < CLAUSE_COUNT; k++)
		if (a->option[CLAUSE_OPTION(k)])
			return true;
	return false;
}

/* Appends the value of a clause, given as the argument of an option.  Returns false after a message. */
static bool value_of(const char *argument, enum clause k, struct buf *out)
{
	const enum clause_type type = clause_kinds[k].type;
	const char *value = type == CLAUSE_TYPE_FLAG ? "yes" : argument;

	if (type == CLAUSE_TYPE_REGEX || type == CLAUSE_TYPE_WHERE ? !buf_append(out, value, strlen(value))
								   : !text_unescape(tfs_str(value), out))
		return true;
	complain("--%s: " ESCAPES, clause_kinds[k].name);
	return false;
}

int scan_open_table(const char *path)
{
	int dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (dir < 0 && errno == ENOENT)
		complain("%s: there is no such table", path);
	else if (dir < 0)
		complain_refused(path, path, -errno);
	if (dir < 0)
		return -1;
	if (faccessat(dir, ".scan", F_OK, 0) == 0)
		return dir;
	if (errno == EACCES)
		complain_refused(path, path, -EACCES);
	else if (faccessat(dir, ".tabletfs", F_OK, 0) == 0)
		complain("%s: a mount, not a table: TABLE_PATH is %s%sTABLE", path, path, path[strlen(path) - 1] == '/' ? "" : "/");
	else
		complain("%s: not a table of a mounted store: TABLE_PATH is MOUNTPOINT/TABLE", path);
	close(dir);
	return -1;
}

/* Appends the clauses among the options as a path.  Returns false after a message. */
static bool clauses_path(const struct arguments *a, struct buf *path)
{
	bool valid = true;

	for (int i = 0; i < a->given_count && valid; i++) {
		const enum clause k = (enum clause)(a->given[i].val - CLAUSE_OPTION(0));
		struct buf value = {0};

		if (a->given[i].val < CLAUSE_OPTION(0) || k >= CLAUSE_COUNT)
			continue;
		valid = value_of(a->given[i].argument, k, &value);
		if (valid)
			add_clause(path, clause_kinds[k].name, buf_bytes(&value));
		buf_fini(&value);
	}
	return valid;
}

/* Parses the path of clauses.  Returns false after a message.  The caller calls clauses_fini in any case. */
static bool path_parse(const struct buf *path, struct clauses *out)
{
	struct timespec now;
	const char *why;
	int err;

	clock_gettime(CLOCK_REALTIME, &now);
	err = clauses_parse(buf_bytes(path), (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000, out, &why);
	if (err)
		complain("%.*s: %s", (int)path->n, (const char *)path->p, why ? why : strerror(-err));
	return !err;
}

/* Opens a scan as scan_open does.  If row.p is not NULL, the scan has the cells of this row only: its key is both bounds. */
static int scan_open_row(const struct arguments *a, const char *path, struct tfs_bytes row)
{
	struct buf below = {0}, behind = {0};
	struct clauses parsed = {0};
	int dir = -EXIT_USAGE;

	if (!clauses_path(a, &below))
		goto out;
	if (row.p) {
		if (buf_append_bytes(&behind, row) || buf_u8(&behind, 0))
			no_memory();
		add_clause(&below, "from", row);
		add_clause(&below, "to", buf_bytes(&behind));
	}
	if (!path_parse(&below, &parsed))
		goto out;
	dir = scan_open_table(path);
	if (dir < 0) {
		dir = -EXIT_ERROR;
		goto out;
	}
	dir = open_below(dir, text(".scan%s%.*s", below.n ? "/" : "", (int)below.n, (const char *)below.p), O_PATH | O_DIRECTORY);
	if (dir < 0)
		complain_refused(path, text("%s/.scan/%.*s", path, (int)below.n, (const char *)below.p), dir);
	dir = dir == -EINVAL ? -EXIT_USAGE : dir < 0 ? -EXIT_ERROR : dir;
out:
	clauses_fini(&parsed);
	buf_fini(&below);
	buf_fini(&behind);
	return dir;
}

int scan_open(const struct arguments *a, const char *path)
{
	return scan_open_row(a, path, (struct tfs_bytes){NULL, 0});
}

bool scan_clauses_of(const struct arguments *a, struct clauses *out)
{
	struct buf path = {0};
	bool valid;

	*out = (struct clauses){0};
	valid = clauses_path(a, &path) && path_parse(&path, out);
	buf_fini(&path);
	return valid;
}

int scan_copy(
	int dir, const char *table, const char *name, const char *shown, int (*put)(void *arg, struct tfs_bytes piece), void *arg)
{
	uint8_t *piece = malloc(TRANSFER_BYTES);
	int fd = open_below(dir, name, O_RDONLY), status = 0;
	ssize_t n = 1;

	if (!piece)
		no_memory();
	while (fd >= 0 && status == 0 && (n = read(fd, piece, TRANSFER_BYTES)) > 0)
		status = put(arg, tfs_bytes_of(piece, (size_t)n));
	if (fd == -ENOENT)
		status = EXIT_NOTHING;
	else if (fd < 0 || n < 0) {
		complain_refused(table, shown, fd < 0 ? fd : -errno);
		status = EXIT_ERROR;
	}
	if (fd >= 0)
		close(fd);
	free(piece);
	return status;
}

/* Copies to standard output.  *bytes (may be NULL): how many. */
static int put_out(void *bytes, struct tfs_bytes piece)
{
	fwrite(piece.p, 1, piece.n, stdout); /* main reports an error */
	if (bytes)
		*(uint64_t *)bytes += piece.n;
	return 0;
}

static int copy_out(int dir, const char *table, const char *name, uint64_t *bytes)
{
	return scan_copy(dir, table, name, text("%s/%s", table, name), put_out, bytes);
}

/* Adds the key on a line of the file of --rows.  Returns false after a message. */
static bool add_row_key(
	const char *file, unsigned number, struct tfs_bytes line, struct buf *bytes, struct tfs_key **keys, unsigned *count)
{
	const size_t from = bytes->n;

	if (text_unescape(line, bytes) || bytes->n == from || bytes->n - from > TFS_ROW_MAX) {
		complain("%s:%u: a row key has 1 to 65536 bytes, and " ESCAPES, file, number);
		return false;
	}
	tool_grow(*keys, *count);
	(*keys)[(*count)++] = (struct tfs_key){.key = {NULL, bytes->n - from}};
	return true;
}

/* Reads the keys of --rows, one a line.  Their bytes are in `bytes`.  Returns false after a message. */
static bool read_row_keys(const char *file, struct buf *bytes, struct tfs_key **keys, unsigned *count)
{
	const bool is_stdin = strcmp(file, "-") == 0;
	FILE *f = is_stdin ? stdin : fopen(given(file), "r");
	bool valid = true;
	char *line = NULL;
	size_t room = 0, at = 0;
	ssize_t n;

	if (!f) {
		complain("%s: %s", file, strerror(errno));
		return false;
	}
	for (unsigned number = 1; valid && (n = getline(&line, &room, f)) > 0; number++) {
		n -= line[n - 1] == '\n';
		valid = add_row_key(file, number, tfs_bytes_of(line, (size_t)n), bytes, keys, count);
	}
	if (valid && ferror(f)) {
		complain("%s: %s", file, strerror(errno));
		valid = false;
	}
	for (unsigned i = 0; i < *count; at += (*keys)[i++].key.n)
		(*keys)[i].key.p = bytes->p + at;
	free(line);
	if (!is_stdin)
		fclose(f);
	return valid;
}

static bool has_prefix(const struct clauses *c, struct tfs_bytes row)
{
	bool found = !c->spec.keys;

	for (unsigned i = 0; i < c->spec.key_count && !found; i++)
		found = bytes_has_prefix(row, c->spec.keys[i].key);
	return found;
}

/* Scans the table by the library: its cells as lines or, if format is not of lines, a list.  Of one row unless row.p is NULL. */
static int scan_stored(const struct arguments *a, struct tfs_bytes row, const char *format, uint64_t *bytes)
{
	const enum bulk_format of_cells = transfer_format_named(format);
	const char *file = a->option['r'];
	struct tfs_key *keys = NULL;
	struct buf key_bytes = {0};
	struct clauses c;
	unsigned count = 0, kept = 0;
	bool valid = scan_clauses_of(a, &c) && (!file || read_row_keys(file, &key_bytes, &keys, &count));
	int status = EXIT_USAGE;

	if (valid && file) {
		for (unsigned i = 0; i < count; i++)
			if (has_prefix(&c, keys[i].key))
				keys[kept++] = keys[i];
		c.spec.keys = keys ? keys : &(const struct tfs_key){.is_prefix = false};
		c.spec.key_count = kept;
	}
	if (valid && of_cells != BULK_FORMATS)
		status = stored_scan(a->operand[0], &c, row, of_cells, bytes);
	else if (valid)
		status = stored_list(a->operand[0], &c,
			*format == 'k'           ? STORED_KEYS
				: *format == 'n' ? STORED_NAMES
						 : STORED_COUNT);
	clauses_fini(&c);
	buf_fini(&key_bytes);
	free(keys);
	return status;
}

/* As scan_stored(), or by the stream of a mount. */
static int scan_by_format(const struct arguments *a, const char *format)
{
	int dir;

	if (stored_is(a->operand[0]) || a->option['r'])
		return scan_stored(a, (struct tfs_bytes){0}, format, NULL);
	dir = scan_open(a, a->operand[0]);
	return dir < 0 ? -dir : copy_out(dir, a->operand[0], text(".%s", format), NULL);
}

static int scan_run(const struct arguments *a)
{
	const char *format = a->option['f'] ? a->option['f'] : "tsv";
	const enum bulk_format of_cells = transfer_format_named(format);

	if ((of_cells == BULK_FORMATS || of_cells == BULK_TAR) && strcmp(format, "keys") != 0 && strcmp(format, "names") != 0)
		return bad_usage(&scan_command, "--format is tsv, jsonl, csv, wide.tsv, names or keys, not %s", format);
	return scan_by_format(a, format);
}

static int count_run(const struct arguments *a)
{
	return scan_by_format(a, "count");
}

/* ---- get ---- */

static int get_row(const struct arguments *a, struct tfs_bytes key)
{
	uint64_t bytes = 0;
	int dir, status;

	if (stored_is(a->operand[0])) {
		status = scan_stored(a, key, "tsv", &bytes);
	} else {
		dir = scan_open_row(a, a->operand[0], key);
		status = dir < 0 ? -dir : copy_out(dir, a->operand[0], ".tsv", &bytes);
	}
	return status == 0 && bytes == 0 ? EXIT_NOTHING : status;
}

/* dir: the table; it is closed. */
static bool is_counter(int dir, const char *family)
{
	const int fd = open_below(dir, text(".families/%s/type", family), O_RDONLY);
	struct buf type = {0};
	const bool is = fd >= 0 && transfer_read(fd, &type) == 0 && bytes_eq(buf_bytes(&type), tfs_str("counter\n"));

	if (fd >= 0)
		close(fd);
	buf_fini(&type);
	return is;
}

/* Copies the file of a counter's plain name to standard output, without the newline that the value does not have. */
static int put_counter(void *bytes, struct tfs_bytes piece)
{
	return put_out(bytes, *(uint64_t *)bytes ? piece : counter_file_value(piece));
}

/* Appends the path of a row or cell name. */
static void add_name(struct buf *path, enum name_kind kind, struct tfs_bytes key, int64_t ts)
{
	if (name_encode(kind, key, ts, path))
		no_memory();
}

/* The value of one cell: column is FAMILY:QUALIFIER[@TIMESTAMP], as in the line that deletes it. */
static int get_cell(const struct arguments *a, struct tfs_bytes row, const char *column)
{
	struct mutation_lines lines = {0};
	struct buf path = {0};
	uint64_t bytes = 0;
	int status = EXIT_USAGE, dir;

	if (!strchr(column, ':') || strpbrk(column, "\t\n"))
		return bad_usage(&get_command, "FAMILY:QUALIFIER is needed, not %s", column);
	if (scan_lines(&get_command, tfs_str(text("delete %s\n", column)), &lines))
		goto out;
	if (stored_is(a->operand[0])) {
		status = stored_get(a->operand[0], row, lines.lines);
		goto out;
	}
	add_name(&path, NAME_ROW, row, 0);
	if (buf_printf(&path, "/%s/", lines.lines->family))
		no_memory();
	add_name(&path, lines.lines->has_ts ? NAME_VERSION : NAME_NEWEST, lines.lines->qualifier, lines.lines->ts);
	if (buf_u8(&path, 0))
		no_memory();
	dir = scan_open_table(a->operand[0]);
	status = EXIT_ERROR;
	if (dir >= 0)
		status = scan_copy(dir, a->operand[0], (const char *)path.p, text("%s/%s", a->operand[0], (const char *)path.p),
			!lines.lines->has_ts && is_counter(dup(dir), lines.lines->family) ? put_counter : put_out, &bytes);
out:
	mutation_lines_fini(&lines);
	buf_fini(&path);
	return status;
}

static int get_run(const struct arguments *a)
{
	struct buf row = {0};
	int status = EXIT_USAGE;

	if (scan_row_key(a->operand[1], &row))
		status = a->operands > 2 ? get_cell(a, buf_bytes(&row), a->operand[2]) : get_row(a, buf_bytes(&row));
	buf_fini(&row);
	return status;
}

/* ---- splits ---- */

enum { RANGES_MOST = 4096 };

static int put_range(void *arg, const struct tfs_tablet *range)
{
	return splits_add(arg, range->end, range->server, range->bytes);
}

static int splits_run(const struct arguments *a)
{
	const char *text_n = a->option['n'];
	struct buf out = {0};
	struct splits splits = {.out = &out};
	const struct tfs_schema *s;
	struct place p;
	char *rest;
	int dir, err;
	unsigned long n = text_n && *text_n >= '1' && *text_n <= '9' ? strtoul(text_n, &rest, 10) : 0;

	if (!n || *rest || n > RANGES_MOST)
		return bad_usage(&splits_command, "-n N is needed, from 1 to %d", RANGES_MOST);
	if (!stored_is(a->operand[0])) {
		dir = scan_open_table(a->operand[0]);
		return dir < 0 || copy_out(dir, a->operand[0], text(".splits.%lu", n), NULL) ? EXIT_CANNOT : 0;
	}
	if (place_open(&p, a->operand[0], false))
		return EXIT_CANNOT;
	err = tfs_schema_get(p.table, &s);
	if (!err) {
		splits.salted = s->salt_in_use > 0;
		tfs_schema_put(s);
		err = tfs_splits(p.table, (unsigned)n, put_range, &splits);
	}
	if (err)
		place_complain(&p, err);
	else
		(void)put_out(NULL, buf_bytes(&out));
	splits_fini(&splits);
	buf_fini(&out);
	return place_close(&p, err ? EXIT_CANNOT : 0);
}

/* ---- run, which uses the library also for a mount ---- */

enum { SCRIPT_BYTES_MAX = 1 << 20 };

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Prints the outputs.  Returns 0 or -errno. */
static int print_outputs(struct tfs_run *run, enum line_format format)
{
	struct buf piece = {0};
	int r = 1;

	while (r > 0) {
		buf_reset(&piece);
		r = outputs_read(run, format, TRANSFER_BYTES, &piece);
		if (piece.n && fwrite(piece.p, 1, piece.n, stdout) != piece.n)
			break; /* main reports it */
	}
	buf_fini(&piece);
	return r < 0 ? r : 0;
}

static int run_script(
	const struct arguments *a, const struct tfs_script *script, const struct tfs_arguments *args, enum line_format format)
{
	struct tfs_run *run = NULL;
	struct clauses c;
	struct place p;
	int err;

	if (!scan_clauses_of(a, &c)) {
		clauses_fini(&c);
		return EXIT_CANNOT;
	}
	if (place_open_stored(&p, a->operand[0], false)) {
		clauses_fini(&c);
		return EXIT_CANNOT;
	}
	err = tfs_run_new(p.table, script, args, &c.spec, &run);
	if (!err)
		err = print_outputs(run, format);
	if (err)
		place_complain(&p, err);
	tfs_run_free(run);
	clauses_fini(&c);
	return place_close(&p, err ? EXIT_CANNOT : 0);
}

static int run_run(const struct arguments *a)
{
	const char *file = a->option['s'], *format = a->option['f'] ? a->option['f'] : "tsv";
	const struct tfs_arguments args = {(const char *const *)(a->operand + 1), (unsigned)a->operands - 1};
	struct tfs_script script = {0};
	struct buf text = {0};
	int err, status;

	if (!file)
		return bad_usage(&run_command, "%s", "--script is needed");
	if (strcmp(format, "tsv") != 0 && strcmp(format, "jsonl") != 0)
		return bad_usage(&run_command, "--format is tsv or jsonl, not %s", format);
	for (unsigned i = 0; i < args.count; i++)
		if (!strchr(args.v[i], '='))
			return bad_usage(&run_command, "an argument is KEY=VALUE, not %s", args.v[i]);
	err = file_read_all(given(file), SCRIPT_BYTES_MAX, &text);
	if (err) {
		complain("%s: %s", file, strerror(-err));
		buf_fini(&text);
		return EXIT_CANNOT;
	}
	script.name = base_name(file);
	script.text = buf_bytes(&text);
	status = run_script(a, &script, &args, *format == 't' ? LINE_TSV : LINE_JSON);
	buf_fini(&text);
	return status;
}

/* ---- help ---- */

static const struct option get_options[] = {CLAUSE_OPTIONS{"help", no_argument, NULL, 'h'}, {0}};
static const struct option scan_options[] = {
	CLAUSE_OPTIONS{"format", required_argument, NULL, 'f'},
	{"rows", required_argument, NULL, 'r'},
	{"help", no_argument, NULL, 'h'},
	{0},
};

#define ROWS_USAGE                                                                                                                 \
	"--rows FILE (- for standard input) has the only row keys to look for, one a line.\n"                                      \
	"It uses the store itself, also if TABLE_PATH is in a mount.\n"

#define SCAN_USAGE                                                                                                                          \
	"TABLE_PATH is a table below a mount point, or SOURCE/TABLE.  Options,\neach at most once but --prefix and --where:\n" CLAUSE_USAGE \
	"\n"                                                                                                                                \
	"Exit status: 0 done; 1 get: there is none; 2 bad usage; 3 any other error.\n"

const struct command scan_command = {
	.name = "scan",
	.kinds = "p",
	.brief = "print cells of a table",
	.usage = "usage: tabletctl scan [OPTIONS] TABLE_PATH\n"
		 "\n"
		 "Prints the matching cells, one a line: row, family:qualifier, timestamp, value.\n"
		 "--format jsonl prints JSON objects, names no values, keys the row keys only, csv and\n"
		 "wide.tsv a header and one line a row.\n" ROWS_USAGE "\n" SCAN_USAGE,
	.options = scan_options,
	.one_path = true,
	.least = 1,
	.most = 1,
	.run = scan_run,
};
const struct command count_command = {
	.name = "count",
	.kinds = "p",
	.brief = "count rows and cells of a table",
	.usage = "usage: tabletctl count [OPTIONS] TABLE_PATH\n"
		 "\n"
		 "Prints the number of rows and of cells that match.\n" ROWS_USAGE "\n" SCAN_USAGE,
	.options = scan_options,
	.one_path = true,
	.least = 1,
	.most = 1,
	.run = count_run,
};
const struct command get_command = {
	.name = "get",
	.kinds = "prc",
	.brief = "print a cell or a row of a table",
	.usage = "usage: tabletctl get [OPTIONS] TABLE_PATH ROW [FAMILY:QUALIFIER[@TIMESTAMP]]\n"
		 "\n"
		 "Prints the value of a cell, the newest version or that at TIMESTAMP.  Without\n"
		 "a column it prints the matching cells of the row as scan does.\n"
		 "\n" SCAN_USAGE,
	.options = get_options,
	.one_path = true,
	.least = 2,
	.most = 3,
	.run = get_run,
};
static const struct option splits_options[] = {{"help", no_argument, NULL, 'h'}, {0}};
const struct command splits_command = {
	.name = "splits",
	.kinds = "p",
	.brief = "print ranges of a table for a parallel job",
	.usage = "usage: tabletctl splits -n N TABLE_PATH\n"
		 "\n"
		 "Prints at most N ranges of about equal bytes, one a line: clauses of a scan,\n"
		 "server, bytes, as TABLE/.splits has one for each tablet.  Together they select\n"
		 "each row once; see tabletfs-jobs(7).  TABLE_PATH is a table below a mount point,\n"
		 "or SOURCE/TABLE.\n",
	.letters = ":n:h",
	.options = splits_options,
	.least = 1,
	.most = 1,
	.run = splits_run,
};

static const struct option run_options[] = {
	CLAUSE_OPTIONS{"format", required_argument, NULL, 'f'},
	{"script", required_argument, NULL, 's'},
	{"help", no_argument, NULL, 'h'},
	{0},
};

const struct command run_command = {
	.name = "run",
	.kinds = "p",
	.brief = "run a script over the rows of a table",
	.usage =
		"usage: tabletctl run --script FILE [OPTIONS] TABLE_PATH [KEY=VALUE ...]\n"
		"\n"
		"Runs the Lua script in FILE beside the data (tabletfs-script(7)), over the cells\n"
		"that match, and prints its outputs, one a line: output, key, value.\n"
		"--format jsonl prints JSON objects.  The script has each KEY=VALUE as arg.KEY.\n"
		"\n"
		"TABLE_PATH is a table below a mount point, or SOURCE/TABLE.  Options,\neach at most once but --prefix and --where:\n" CLAUSE_USAGE
		"\n"
		"Exit status: 0 done; 2 any error.\n",
	.options = run_options,
	.one_path = true,
	.least = 1,
	.most = 100,
	.run = run_run,
};
