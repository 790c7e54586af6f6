/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The subcommands of tabletctl, and functions that they share.
 *
 * Each subcommand exits with 0 if it succeeded (check: the store is clean), 1
 * if it found damage, 2 if it failed (bad usage, the store is in use or is not
 * one, an I/O error).  Results are printed on standard output, errors as one
 * line "tabletctl: ..." on standard error.
 */
#ifndef TFS_TOOL_TOOL_H
#define TFS_TOOL_TOOL_H

#include "engine/base/bytes.h"

#include <stdio.h>

enum { EXIT_CLEAN = 0, EXIT_DAMAGED = 1, EXIT_CANNOT = 2 };

struct command {
	const char *name, *brief;
	const char *usage;                 /* printed for -h */
	int (*run)(int argc, char **argv); /* argv[0] is the subcommand; returns the exit code */
};
extern const struct command check_command, repair_command, dump_command, status_command, bench_command;

/* Replaces control bytes by '?', so that a file's name cannot forge a line of output. */
void make_one_line(char *text);
/* Prints one line "tabletctl: ..." on standard error. */
void complain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* The same, and names the subcommand's help.  Returns EXIT_CANNOT. */
int bad_usage(const struct command *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Reports the option that getopt_long has refused (with '?' or ':').  Returns EXIT_CANNOT. */
int bad_option(const struct command *c, char **argv);
/* Prints the subcommand's usage.  Returns 0. */
int print_help(const struct command *c);

/*
 * Returns the bytes between double quotes, in *b: printable ASCII unchanged
 * except \" and \\, all others as \xHH.  Without memory, "(out of memory)".
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
