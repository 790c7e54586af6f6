/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tabletctl's inside: its subcommands, and what they share.
 *
 * Exit codes of every subcommand: 0 done (check: clean), 1 damage was found,
 * 2 it could not be done (bad usage, in use, not a store, an I/O error).
 * What was asked for goes to standard output; errors are one line
 * "tabletctl: ..." on standard error.
 */
#ifndef TFS_TOOL_TOOL_H
#define TFS_TOOL_TOOL_H

#include "engine/base/bytes.h"

#include <stdio.h>

enum { EXIT_CLEAN = 0, EXIT_DAMAGED = 1, EXIT_CANNOT = 2 };

struct command {
	const char *name, *brief;
	const char *usage;                 /* for -h: synopsis, then paragraphs */
	int (*run)(int argc, char **argv); /* argv[0] is the subcommand; returns the exit code */
};
extern const struct command check_command, repair_command, dump_command, status_command, bench_command;

/* Control bytes become '?': a file's name cannot forge a line of ours. */
void make_one_line(char *text);
/* "tabletctl: ..." on standard error, one line. */
void complain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* The same with a pointer to the subcommand's help; returns EXIT_CANNOT. */
int bad_usage(const struct command *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* What getopt_long has just refused (its letter is '?' or ':'); returns EXIT_CANNOT. */
int bad_option(const struct command *c, char **argv);
/* For option letter 'h'; returns 0. */
int print_help(const struct command *c);

/*
 * Bytes between double quotes: printable ASCII as it is, but \" and \\, all
 * else \xHH.  Returns a string in *b (reset first); "(out of memory)" at worst.
 */
const char *quoted(struct buf *b, struct slice s);

/* The findings of check, dump and repair about a store. */
struct report {
	unsigned problems, notes;
	bool quiet; /* notes are counted and not printed */
	FILE *to;
	uint64_t *printed; /* hashes of the lines so far: a second line with the same text is not printed */
	unsigned printed_count;
};
/* Print one line that begins with "damaged: " or "note: ". */
void report_problem(struct report *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void report_note(struct report *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void report_fini(struct report *r);

#endif
