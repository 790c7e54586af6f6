/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tabletctl put, delete, increment and mutate: a mutation of one row of a
 * mounted table, through ROW/.mutate.
 *
 * The kernel looks ROW up before .mutate, so the directory of an absent row is
 * made first, and removed again if the mutation is refused.  Each component of a
 * long row name is opened by itself, because the path may be longer than
 * PATH_MAX.
 */
#include "engine/base/file.h"
#include "engine/base/name.h"
#include "engine/bulk/escape.h"
#include "engine/bulk/mutation_lines.h"
#include "engine/tool/scan.h"
#include "engine/tool/transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { EXIT_CHECK = 1, EXIT_ERROR = 3, RACES_MAX = 100 };

/* Appends, or ends the program. */
static void put_text(struct buf *out, const char *s)
{
	if (buf_append(out, s, strlen(s)))
		no_memory();
}

/* ---- the mutation ---- */

/* Returns the reason that the descriptor of a refused mutation returned.  NULL: it returned none. */
static const char *reason_of(struct tfs_bytes answer)
{
	static const char refused[] = "refused\t";
	const size_t word = sizeof(refused) - 1;

	if (!bytes_has_prefix(answer, tfs_str(refused)) || answer.n <= word + 1)
		return NULL;
	return text("%.*s", (int)(answer.n - word - 1), (const char *)answer.p + word);
}

/* Writes the lines to .mutate in the row's directory, and reads the answer. */
static int apply_in(int dir, struct tfs_bytes lines, struct buf *answer)
{
	int fd = openat(dir, ".mutate", O_RDWR | O_CLOEXEC), err;

	if (fd < 0)
		return -errno;
	err = transfer_write(fd, lines);
	if (transfer_read(fd, answer))
		buf_reset(answer);
	close(fd);
	return err;
}

/* Writes the lines in the directory `path` below dir, as apply_in does.  Components that are absent are made, and removed if they stay empty. */
static int apply_below(int dir, char *path, struct tfs_bytes lines, struct buf *answer)
{
	char *next = strchr(path, '/');
	bool made = false;
	int fd, err;

	if (next)
		*next++ = 0;
	fd = openat(dir, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT) {
		made = mkdirat(dir, path, 0777) == 0;
		fd = made || errno == EEXIST ? openat(dir, path, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
	}
	if (fd < 0)
		return -errno;
	err = next ? apply_below(fd, next, lines, answer) : apply_in(fd, lines, answer);
	close(fd);
	if (made)
		(void)!unlinkat(dir, path, AT_REMOVEDIR);
	return err;
}

/* Applies lines to the row of operands TABLE_PATH and ROW; *answer is the result.  Returns the exit code. */
static int row_mutate(const struct arguments *a, struct buf *lines, struct buf *answer)
{
	const char *table = a->operand[0], *shown = a->operand[1], *reason;
	struct mutation_lines parsed = {0};
	struct buf key = {0}, name = {0};
	int err = 0, dir = -1, tries = RACES_MAX;

	if (!scan_row_key(shown, &key) || scan_lines(a->command, buf_bytes(lines), &parsed)) {
		mutation_lines_fini(&parsed);
		buf_fini(&key);
		return EXIT_CANNOT;
	}
	mutation_lines_fini(&parsed);
	if (stored_is(table)) {
		err = stored_mutate(table, buf_bytes(&key), buf_bytes(lines), answer);
		if (err && err != -EBUSY)
			complain("%s: %s: %s", table, shown, (reason = reason_of(buf_bytes(answer))) ? reason : strerror(-err));
		buf_fini(&key);
		return err == -ECANCELED ? EXIT_CHECK : err ? EXIT_ERROR : 0;
	}
	if (name_encode(NAME_ROW, buf_bytes(&key), 0, &name))
		no_memory();
	dir = scan_open_table(table);
	if (dir < 0) {
		err = -ENOTDIR;
	} else {
		/* -ENOENT: the process that made the directory has removed it. */
		do
			err = apply_below(dir, text("%.*s", (int)name.n, (const char *)name.p), buf_bytes(lines), answer);
		while (err == -ENOENT && --tries);
		reason = err ? reason_of(buf_bytes(answer)) : NULL;
		if (reason)
			complain("%s: %s: %s", table, shown, reason);
		else if (err)
			complain_refused(table, text("%s: %s", table, shown), err);
	}
	if (dir >= 0)
		close(dir);
	buf_fini(&key);
	buf_fini(&name);
	return err == -ECANCELED ? EXIT_CHECK : err ? EXIT_ERROR : 0;
}

/* Reads a file, or standard input for "-". */
static int read_input(const char *path, struct buf *out)
{
	int fd = strcmp(path, "-") == 0 ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC), err;

	err = fd < 0 ? -errno : transfer_read(fd, out);
	if (fd >= 0)
		close(fd);
	if (err)
		complain("%s: %s", strcmp(path, "-") == 0 ? "standard input" : path, strerror(-err));
	return err;
}

/* Appends `commit`, unless the user wrote it. */
static void lines_end(struct buf *lines)
{
	static const char commit[] = "\ncommit\n";
	const size_t n = sizeof(commit) - 2; /* at the beginning of the lines there is no newline before it */

	if (lines->n && lines->p[lines->n - 1] != '\n')
		put_text(lines, "\n");
	if (lines->n < n || memcmp(lines->p + lines->n - n, commit + 1, n) != 0 ||
		(lines->n > n && lines->p[lines->n - n - 1] != '\n'))
		put_text(lines, commit + 1);
}

/* Appends the line of a command other than mutate.  Returns the exit code. */
static int add_line(const struct arguments *a, struct buf *lines)
{
	const struct command *c = a->command;
	const char *verb = c == &put_command ? "set" : c->name, *column = a->operands > 2 ? a->operand[2] : "row";
	const char *value = a->operands > 3 ? a->operand[3] : c == &put_command ? "-" : "1";
	struct buf bytes = {0};
	int status = 0;

	if (strpbrk(column, "\t\n") || (c == &increment_command && strpbrk(value, "\t\n")))
		return bad_usage(c, "a tab or newline in %s is written \\t or \\n", "FAMILY:QUALIFIER");
	if (c == &delete_command && a->operands > 2 && !strchr(column, ':'))
		return bad_usage(c, "FAMILY: is needed, not %s", column);
	put_text(lines, text("%s %s", verb, column));
	if (c == &put_command) {
		if (strcmp(value, "-") != 0)
			put_text(&bytes, value);
		else if (read_input("-", &bytes))
			status = EXIT_ERROR;
		put_text(lines, "\t");
		if (text_escape(buf_bytes(&bytes), lines))
			no_memory();
	} else if (c == &increment_command) {
		put_text(lines, text("\t%s", value));
	}
	buf_fini(&bytes);
	return status;
}

static void print_number(struct tfs_bytes answer)
{
	const uint8_t *tab = answer.n ? memchr(answer.p, '\t', answer.n) : NULL, *end = answer.p + answer.n;
	const uint8_t *newline = tab ? memchr(tab, '\n', (size_t)(end - tab)) : NULL;

	if (tab)
		fwrite(tab + 1, 1, (size_t)((newline ? newline : end) - tab - 1), stdout);
	putchar('\n');
}

static int row_run(const struct arguments *a)
{
	const bool is_mutate = a->command == &mutate_command;
	struct buf lines = {0}, answer = {0};
	int status;

	if (a->command == &delete_command && delete_is_scan(a))
		return delete_scan(a);
	if (a->operands < 2)
		return bad_usage(a->command, "%s", "too few arguments: a ROW is needed, or --scan");
	if (!is_mutate)
		status = add_line(a, &lines);
	else
		status = read_input(a->operands > 2 ? a->operand[2] : "-", &lines) ? EXIT_ERROR : 0;
	if (!status) {
		lines_end(&lines);
		status = row_mutate(a, &lines, &answer);
	}
	if (!status && is_mutate)
		fwrite(answer.p, 1, answer.n, stdout);
	else if (!status && a->command == &increment_command)
		print_number(buf_bytes(&answer));
	buf_fini(&lines);
	buf_fini(&answer);
	return status;
}

#define ROW_USAGE                                                                                                                  \
	"TABLE_PATH is a table below a mount point, or SOURCE/TABLE.  ROW,\n"                                                      \
	"FAMILY:QUALIFIER and the lines have the escapes \\t \\n \\r \\\\ \\xHH for single\n"                                      \
	"bytes.\n"                                                                                                                 \
	"\n"                                                                                                                       \
	"Exit status: 0 done; 1 a check failed; 2 bad usage; 3 any other error.  Unless it\n"                                      \
	"is 0, nothing has changed (after an I/O error that is unknown).\n"

const struct command put_command = {
	.name = "put",
	.kinds = "prc",
	.brief = "write a cell of a table",
	.usage = "usage: tabletctl put TABLE_PATH ROW FAMILY:QUALIFIER[@TIMESTAMP] [VALUE|-]\n"
		 "\n"
		 "Writes the newest version of a column, or the version at TIMESTAMP.  Without\n"
		 "VALUE, or if it is -, all of standard input is the value.\n"
		 "\n" ROW_USAGE,
	.one_path = true,
	.least = 3,
	.most = 4,
	.run = row_run,
};
const struct command delete_command = {
	.name = "delete",
	.kinds = "prc",
	.brief = "delete a cell, a column, a family of a row, a row, or what a scan finds",
	.usage = "usage: tabletctl delete TABLE_PATH ROW [FAMILY:[QUALIFIER[@TIMESTAMP]]]\n"
		 "       tabletctl delete --scan [--dry-run] [--yes] [--before TIME] CLAUSES TABLE_PATH\n"
		 "\n"
		 "Deletes the row; with FAMILY: its cells in this family, with a qualifier the\n"
		 "column, with a timestamp one version.  FAMILY:@ is the column with the empty\n"
		 "qualifier.  Deleting what is absent succeeds.\n"
		 "\n"
		 "--scan deletes the rows that match CLAUSES, which are options, or the matching\n"
		 "versions, if a clause selects columns, versions or values:\n" CLAUSE_USAGE
		 "  --before TIME    versions with timestamps before TIME, as --until\n"
		 "  --dry-run        only count what would be deleted\n"
		 "  --yes            do not ask; needed if there is no terminal\n"
		 "Options are written before TABLE_PATH.\n"
		 "\n" ROW_USAGE,
	.letters = "+:h",
	.options = (const struct option[]){CLAUSE_OPTIONS{"scan", no_argument, NULL, 's'}, {"before", required_argument, NULL, 'b'},
		{"dry-run", no_argument, NULL, 'n'}, {"yes", no_argument, NULL, 'y'}, {"help", no_argument, NULL, 'h'}, {0}},
	.one_path = true,
	.least = 1,
	.most = 3,
	.run = row_run,
};
const struct command increment_command = {
	.name = "increment",
	.kinds = "prc",
	.brief = "add to a number in a cell, and print it",
	.usage = "usage: tabletctl increment TABLE_PATH ROW FAMILY:QUALIFIER [N]\n"
		 "\n"
		 "Adds N, which may be negative, or 1, and prints the new number.  An absent one\n"
		 "is 0.\n"
		 "\n" ROW_USAGE,
	.one_path = true,
	.least = 3,
	.most = 4,
	.run = row_run,
};
const struct command mutate_command = {
	.name = "mutate",
	.kinds = "prf",
	.brief = "apply lines of operations and checks to a row",
	.usage = "usage: tabletctl mutate TABLE_PATH ROW [FILE]\n"
		 "\n"
		 "Applies the lines in FILE, or on standard input, to a row, all or none:\n"
		 "  set F:Q[@TS]<tab>VALUE    append F:Q<tab>VALUE    increment F:Q<tab>N\n"
		 "  delete F:Q[@TS]           delete F:               delete row\n"
		 "  check F:Q<tab>VALUE       check-absent F:Q        check-match F:Q<tab>REGEX\n"
		 "A last line `commit' may be left out.  Prints a line with the result of each.\n"
		 "See tabletfs-scan(7).\n"
		 "\n" ROW_USAGE,
	.one_path = true,
	.least = 2,
	.most = 3,
	.run = row_run,
};
