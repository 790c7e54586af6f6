/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tabletctl scan, count and get: cells of a mounted table, read through
 * TABLE/.scan.  Each component of a path is opened by itself, because a path may
 * be longer than PATH_MAX, and so that a refused clause is known.
 */
#include "engine/base/name.h"
#include "engine/bulk/escape.h"
#include "engine/bulk/mutation_lines.h"
#include "engine/tool/scan.h"

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

/* Appends the components of the clause NAME=VALUE. */
static void add_clause(struct buf *path, const char *name, struct tfs_bytes value)
{
	struct buf clause = {0};

	if (buf_printf(&clause, "%s=", name) || buf_append_bytes(&clause, value) ||
		name_encode(NAME_ROW, buf_bytes(&clause), 0, path))
		no_memory();
	buf_fini(&clause);
}

/* Enters the directory of the clause NAME=VALUE.  Returns a descriptor; after an error, which it prints, the negative exit code. */
static int enter_clause(int dir, const char *name, struct tfs_bytes value)
{
	struct buf path = {0};
	int fd;

	add_clause(&path, name, value);
	if (buf_u8(&path, 0))
		no_memory();
	fd = open_below(dir, (const char *)path.p, O_PATH | O_DIRECTORY);
	if (fd == -EINVAL)
		complain("--%s: the value is not valid, or there is no such family: see /.tabletfs/log of the mount", name);
	else if (fd < 0)
		complain("--%s: %s", name, strerror(-fd));
	buf_fini(&path);
	return fd == -EINVAL ? -EXIT_USAGE : fd < 0 ? -EXIT_ERROR : fd;
}

bool scan_has_clauses(const struct arguments *a)
{
	for (enum clause k = 0; k < CLAUSE_COUNT; k++)
		if (a->option[CLAUSE_OPTION(k)])
			return true;
	return false;
}

/* Appends the value of a clause among the options.  Returns false after a message. */
static bool value_of(const struct arguments *a, enum clause k, struct buf *out)
{
	const enum clause_type type = clause_kinds[k].type;
	const char *value = type == CLAUSE_TYPE_FLAG ? "yes" : a->option[CLAUSE_OPTION(k)];

	if (type == CLAUSE_TYPE_REGEX ? !buf_append(out, value, strlen(value)) : !text_unescape(tfs_str(value), out))
		return true;
	complain("--%s: " ESCAPES, clause_kinds[k].name);
	return false;
}

int scan_open_table(const char *path)
{
	int dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (dir < 0) {
		complain("%s: %s", path, strerror(errno));
		return -1;
	}
	if (faccessat(dir, ".scan", F_OK, 0) == 0)
		return dir;
	if (faccessat(dir, ".tabletfs", F_OK, 0) == 0)
		complain("%s: a mount, not a table: TABLE_PATH is %s%sTABLE", path, path, path[strlen(path) - 1] == '/' ? "" : "/");
	else
		complain("%s: not a table of a mounted store: TABLE_PATH is MOUNTPOINT/TABLE", path);
	close(dir);
	return -1;
}

int scan_open(const struct arguments *a, const char *path)
{
	int table = scan_open_table(path), dir = table < 0 ? -1 : openat(table, ".scan", O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (table >= 0 && dir < 0)
		complain("%s: %s", path, strerror(errno));
	if (table >= 0)
		close(table);
	if (dir < 0)
		return -EXIT_ERROR;
	for (enum clause k = 0; k < CLAUSE_COUNT && dir >= 0; k++) {
		struct buf value = {0};

		if (!a->option[CLAUSE_OPTION(k)])
			continue;
		if (value_of(a, k, &value)) {
			dir = enter_clause(dir, clause_kinds[k].name, buf_bytes(&value));
		} else {
			close(dir);
			dir = -EXIT_USAGE;
		}
		buf_fini(&value);
	}
	return dir;
}

bool scan_clauses_of(const struct arguments *a, struct clauses *out)
{
	struct timespec now;
	struct buf path = {0};
	const char *why = NULL;
	bool valid = true;
	int err = 0;

	*out = (struct clauses){0};
	clock_gettime(CLOCK_REALTIME, &now);
	for (enum clause k = 0; k < CLAUSE_COUNT && valid; k++) {
		struct buf value = {0};

		if (!a->option[CLAUSE_OPTION(k)])
			continue;
		if (path.n && buf_u8(&path, '/'))
			no_memory();
		valid = value_of(a, k, &value);
		if (valid)
			add_clause(&path, clause_kinds[k].name, buf_bytes(&value));
		buf_fini(&value);
	}
	if (valid)
		err = clauses_parse(buf_bytes(&path), (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000, out, &why);
	if (err)
		complain("%.*s: %s", (int)path.n, (const char *)path.p, why ? why : strerror(-err));
	buf_fini(&path);
	return valid && !err;
}

/* Copies a file below dir to standard output, and closes dir.  *bytes (may be NULL): how many.  Returns the exit code; it prints nothing if there is no such file. */
static int copy_out(int dir, const char *name, const char *shown, uint64_t *bytes)
{
	static uint8_t block[256 << 10];
	int fd = open_below(dir, name, O_RDONLY);
	ssize_t n = fd < 0 ? -1 : 1;

	if (fd < 0)
		errno = -fd;
	while (n > 0) {
		n = read(fd, block, sizeof(block));
		if (n > 0 && fwrite(block, 1, (size_t)n, stdout) != (size_t)n)
			break; /* main reports it */
		if (bytes)
			*bytes += n > 0 ? (uint64_t)n : 0;
	}
	if (n < 0 && fd != -ENOENT)
		complain("%s: %s%s", shown, strerror(errno), errno == EOPNOTSUPP ? " (a read-only mount has no streams)" : "");
	if (fd >= 0)
		close(fd);
	return n >= 0 ? 0 : fd == -ENOENT ? EXIT_NOTHING : EXIT_ERROR;
}

static int scan_run(const struct arguments *a)
{
	const char *format = a->option['f'] ? a->option['f'] : "tsv";
	int dir;

	if (strcmp(format, "tsv") != 0 && strcmp(format, "jsonl") != 0 && strcmp(format, "keys") != 0)
		return bad_usage(&scan_command, "--format is tsv, jsonl or keys, not %s", format);
	dir = scan_open(a, a->operand[0]);
	return dir < 0 ? -dir : copy_out(dir, text(".%s", format), a->operand[0], NULL);
}

static int count_run(const struct arguments *a)
{
	int dir = scan_open(a, a->operand[0]);

	return dir < 0 ? -dir : copy_out(dir, ".count", a->operand[0], NULL);
}

/* ---- get ---- */

/* The cells of a row: its key is both bounds of the scan. */
static int get_row(const struct arguments *a, struct tfs_bytes key)
{
	struct buf behind = {0};
	uint64_t bytes = 0;
	int dir = scan_open(a, a->operand[0]), status;

	if (buf_append_bytes(&behind, key) || buf_u8(&behind, 0))
		no_memory();
	if (dir >= 0)
		dir = enter_clause(dir, "from", key);
	if (dir >= 0)
		dir = enter_clause(dir, "to", buf_bytes(&behind));
	status = dir < 0 ? -dir : copy_out(dir, ".tsv", a->operand[0], &bytes);
	buf_fini(&behind);
	return status == 0 && bytes == 0 ? EXIT_NOTHING : status;
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
	int status = EXIT_USAGE, dir;

	if (!strchr(column, ':') || strpbrk(column, "\t\n"))
		return bad_usage(&get_command, "FAMILY:QUALIFIER is needed, not %s", column);
	if (scan_lines(&get_command, tfs_str(text("delete %s\n", column)), &lines))
		goto out;
	add_name(&path, NAME_ROW, row, 0);
	if (buf_printf(&path, "/%s/", lines.lines->family))
		no_memory();
	add_name(&path, lines.lines->has_ts ? NAME_VERSION : NAME_NEWEST, lines.lines->qualifier, lines.lines->ts);
	if (buf_u8(&path, 0))
		no_memory();
	dir = scan_open_table(a->operand[0]);
	status = dir < 0 ? EXIT_ERROR : copy_out(dir, (const char *)path.p, column, NULL);
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

/* ---- help ---- */

static const struct option scan_options[] = {
	CLAUSE_OPTIONS{"format", required_argument, NULL, 'f'},
	{"help", no_argument, NULL, 'h'},
	{0},
};

#define SCAN_USAGE                                                                                                                 \
	"TABLE_PATH is a table below a mount point.  Options, each at most once:\n" CLAUSE_USAGE "\n"                              \
	"Exit status: 0 done; 1 get: there is none; 2 bad usage; 3 any other error.\n"

const struct command scan_command = {
	.name = "scan",
	.kinds = "p",
	.brief = "print cells of a mounted table",
	.usage = "usage: tabletctl scan [OPTIONS] TABLE_PATH\n"
		 "\n"
		 "Prints the matching cells, one a line: row, family:qualifier, timestamp, value.\n"
		 "--format jsonl prints JSON objects, --format keys the row keys only.\n"
		 "\n" SCAN_USAGE,
	.letters = ":h",
	.options = scan_options,
	.one_path = true,
	.least = 1,
	.most = 1,
	.operands = "TABLE_PATH is",
	.run = scan_run,
};
const struct command count_command = {
	.name = "count",
	.kinds = "p",
	.brief = "count rows and cells of a mounted table",
	.usage = "usage: tabletctl count [OPTIONS] TABLE_PATH\n"
		 "\n"
		 "Prints the number of rows and of cells that match.\n"
		 "\n" SCAN_USAGE,
	.letters = ":h",
	.options = scan_options,
	.one_path = true,
	.least = 1,
	.most = 1,
	.operands = "TABLE_PATH is",
	.run = count_run,
};
const struct command get_command = {
	.name = "get",
	.kinds = "prc",
	.brief = "print a cell or a row of a mounted table",
	.usage = "usage: tabletctl get [OPTIONS] TABLE_PATH ROW [FAMILY:QUALIFIER[@TIMESTAMP]]\n"
		 "\n"
		 "Prints the value of a cell, the newest version or that at TIMESTAMP.  Without\n"
		 "a column it prints the matching cells of the row as scan does.\n"
		 "\n" SCAN_USAGE,
	.letters = ":h",
	.options = scan_options,
	.one_path = true,
	.least = 2,
	.most = 3,
	.operands = "TABLE_PATH and ROW are",
	.run = get_run,
};
