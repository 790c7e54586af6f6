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

#include <getopt.h>
#include <stdio.h>

enum { EXIT_CLEAN = 0, EXIT_DAMAGED = 1, EXIT_CANNOT = 2 };

/* One use of an option. */
struct given_option {
	int val;
	const char *argument; /* "" if it takes none */
};
struct arguments {
	const char *option
		[128]; /* the argument of each option, by option.val; "" if it takes none; NULL if it was not given; the last one of several */
	struct given_option *given; /* all options, in their order; for options that may be repeated */
	int given_count;
	char **operand;
	int operands;
	const struct command *command, *const *commands; /* the subcommand, and all subcommands, up to NULL */
};
struct command {
	const char *name, *brief;
	const char *usage;            /* printed for -h; its first line for a wrong number of operands */
	const char *letters;          /* as for getopt_long; NULL: -h only */
	const struct option *options; /* NULL for --help only; a command with one_path has its options before the first operand */
	/*
	 * A letter for each operand, for complete: p a path below a mount, r a row and c a
	 * column of the first operand, v a verb of it, a the argument of a verb, s a setting of
	 * it, d a kind of dump, f another file.
	 */
	const char *kinds;
	bool one_path;                         /* only the first operand is a path */
	int least, most;                       /* number of operands */
	int (*run)(const struct arguments *a); /* returns the exit code */
};
extern const struct command check_command, repair_command, dump_command, put_command, delete_command, increment_command,
	mutate_command, import_command, export_command, scan_command, get_command, count_command, run_command, splits_command,
	du_command, compact_command, ctl_command, config_command, status_command, bench_command, probe_command, keys_command,
	serve_command, complete_command, why_command, cluster_command, init_command, adopt_command, drain_command, sql_command;

extern const struct command create_command, ls_command, describe_command, drop_command, alter_command; /* table.c */
extern const struct command mirror_command, compare_command;

/* Prints one line "tabletctl: ..." on standard error. */
void complain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Complains about the use of subcommand c, and names its help.  fmt is a literal with an argument.  Is EXIT_CANNOT. */
#define bad_usage(c, fmt, ...) (complain("%s: " fmt "; see 'tabletctl %s -h'", (c)->name, __VA_ARGS__, (c)->name), EXIT_CANNOT)
/*
 * Returns the path and the reason of the last call of a process that a mount has refused since this program began, as the
 * mount's file /.tabletfs/refused has them.  path: the mount point or a path below it, which may be absent.  NULL: there is
 * none.  The text is not freed.
 */
const char *refusal(const char *path, pid_t process);
/* Complains about an error, -errno, of this process's last system call below `path` in a mount: the mount's reason, or else "about: " and the error's text. */
void complain_refused(const char *path, const char *about, int err);
/* To be called when the program begins. */
void refusals_begin(void);

/* The next functions end the program, with EXIT_CANNOT and a message, if there is no memory. */
void no_memory(void) __attribute__((noreturn));
#define tool_grow(array, count) (array_grow(&(array), count, sizeof(*(array))) ? no_memory() : (void)0)
/* A formatted string that stays until the end of the program, as a path. */
char *text(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Returns the path of a program in the directory of the running program, or else its name, for PATH. */
const char *program_beside(const char *name);
/* A path that the user gave, as file_real() resolves it. */
const char *given(const char *path);
/*
 * The bytes between double quotes: printable ASCII unchanged except \" and
 * \\, all others as \xHH.  Valid for the next seven calls.
 */
const char *quoted(struct tfs_bytes s);

/* The output of check, dump and repair about a store.  Each line begins with the name of its kind. */
enum report_kind { REPORT_PROBLEM, REPORT_NOTE, REPORT_STEP, REPORT_LOSS, REPORT_KINDS }; /* damaged, note, repair, lost */
struct report {
	unsigned count[REPORT_KINDS];
	bool no_notes; /* notes are counted and not printed */
	bool repeated; /* steps and losses were printed before, and are neither printed nor counted */
	FILE *to;
	struct printed_line *printed; /* the lines printed so far; a line with the same text is not printed again */
};
void report(struct report *r, enum report_kind kind, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
#define report_problem(r, ...) report(r, REPORT_PROBLEM, __VA_ARGS__)
#define report_note(r, ...) report(r, REPORT_NOTE, __VA_ARGS__)
void report_fini(struct report *r);

#endif
