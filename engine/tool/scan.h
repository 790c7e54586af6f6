/* SPDX-License-Identifier: Apache-2.0 */
/* The clauses of tabletfs-scan(7) as options of subcommands. */
#ifndef TFS_TOOL_SCAN_H
#define TFS_TOOL_SCAN_H

#include "engine/bulk/clauses.h"
#include "engine/tool/tool.h"

/* Option values: clauses from 1 on. */
#define CLAUSE_OPTION(clause) ((int)(clause) + 1)

/* Entries of struct command's options. */
#define CLAUSE_LONG(upper, name, type, ...)                                                                                        \
	{name, CLAUSE_TYPE_##type == CLAUSE_TYPE_FLAG ? no_argument : required_argument, NULL, CLAUSE_OPTION(CLAUSE_##upper)},
#define CLAUSE_OPTIONS CLAUSES(CLAUSE_LONG)

/* Lines of struct command's usage. */
#define CLAUSE_USAGE_OF(upper, name, type, member, argument, help) " --" name argument
#define CLAUSE_USAGE_LINE(LIST) " " LIST(CLAUSE_USAGE_OF) "\n"
#define CLAUSE_USAGE                                                                                                               \
	CLAUSE_USAGE_LINE(ROW_CLAUSES)                                                                                             \
	CLAUSE_USAGE_LINE(COLUMN_CLAUSES)                                                                                          \
	CLAUSE_USAGE_LINE(VERSION_CLAUSES)                                                                                         \
	CLAUSE_USAGE_LINE(VALUE_CLAUSES)                                                                                           \
	"They are the clauses of tabletfs-scan(7).  KEY, Q and TEXT have the escapes\n"                                            \
	"\\t \\n \\r \\\\ \\xHH for single bytes.\n"

/* delete.c: tabletctl delete --scan. */
bool delete_is_scan(const struct arguments *a);
int delete_scan(const struct arguments *a);
/* Returns true if a clause is among the options. */
bool scan_has_clauses(const struct arguments *a);
/* Opens the directory of a mounted table.  Returns a descriptor, or -1 after a message. */
int scan_open_table(const char *path);
/* Opens the directory of the clauses in the mounted table `path`.  Returns a descriptor or, after an error, which it prints, the negative exit code. */
int scan_open(const struct arguments *a, const char *path);
/*
 * Copies the file `name` below dir, of the table with this path, in pieces to put, until it returns an exit code other than 0,
 * and closes dir.  Returns the exit code, 1 without a message if there is no such file.
 */
int scan_copy(
	int dir, const char *table, const char *name, const char *shown, int (*put)(void *arg, struct tfs_bytes piece), void *arg);
/* Appends the row key that the user wrote with escapes.  Returns false after a message. */
bool scan_row_key(const char *shown, struct buf *out);
/* Reads lines of mutation_lines.h, without a table.  Returns 0, also if they are too long, or an exit code after a message.  The caller calls mutation_lines_fini in any case. */
struct mutation_lines;
int scan_lines(const struct command *c, struct tfs_bytes lines, struct mutation_lines *out);
/* The clauses for a table of an opened store.  Returns false after a message.  The caller calls clauses_fini in any case. */
bool scan_clauses_of(const struct arguments *a, struct clauses *out);

#endif
