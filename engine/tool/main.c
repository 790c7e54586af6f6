/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tabletctl: the operator's tool.  One program, a subcommand for each job;
 * this file finds the subcommand and has the few things all of them need.
 */
#include "engine/base/file.h"
#include "engine/tool/tool.h"
#include "engine/base/msg.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static const struct command *const commands[] = {&check_command, &repair_command, &dump_command, &status_command, &bench_command};
#define COMMANDS (sizeof(commands) / sizeof(*commands))

void make_one_line(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < 0x20 || *text == 0x7f)
			*text = '?';
}

static void complain_of(const char *about, const char *fmt, va_list ap, const char *end)
{
	char *line;

	fflush(stdout);
	if (vasprintf(&line, fmt, ap) < 0)
		line = NULL;
	else
		make_one_line(line);
	fprintf(stderr, "tabletctl: %s%s%s\n", about, line ? line : strerror(ENOMEM), end);
	free(line);
}

void complain(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	complain_of("", fmt, ap, "");
	va_end(ap);
}

int bad_usage(const struct command *c, const char *fmt, ...)
{
	char about[32], end[64];
	va_list ap;

	snprintf(about, sizeof(about), "%s: ", c->name);
	snprintf(end, sizeof(end), "; see 'tabletctl %s -h'", c->name);
	va_start(ap, fmt);
	complain_of(about, fmt, ap, end);
	va_end(ap);
	return EXIT_CANNOT;
}

int bad_option(const struct command *c, char **argv)
{
	const char *last = argv[optind - 1];

	/* A letter may stand amid others; a long option is a word of its own. */
	if (strncmp(last, "--", 2) == 0)
		return bad_usage(c, "no such option, or not so: %s", last);
	return bad_usage(c, "no such option: -%c", optopt);
}

int print_help(const struct command *c)
{
	fputs(c->usage, stdout);
	return 0;
}

const char *quoted(struct buf *b, struct slice s)
{
	int err;

	buf_reset(b);
	err = buf_reserve(b, s.n + 3);
	if (!err)
		err = buf_u8(b, '"');
	for (size_t i = 0; i < s.n && !err; i++) {
		if (s.p[i] == '"' || s.p[i] == '\\')
			err = buf_printf(b, "\\%c", s.p[i]);
		else if (s.p[i] >= 0x20 && s.p[i] < 0x7f)
			err = buf_u8(b, s.p[i]);
		else
			err = buf_printf(b, "\\x%02x", s.p[i]);
	}
	if (!err)
		err = buf_append(b, "\"", 2);
	return err ? "(out of memory)" : (const char *)b->p;
}

static void print_usage(void)
{
	puts("usage: tabletctl SUBCOMMAND [ARGUMENTS]\n"
	     "\n"
	     "Looks at tabletfs data directories and mounts.\n");
	for (unsigned i = 0; i < COMMANDS; i++)
		printf("  %-8s %s\n", commands[i]->name, commands[i]->brief);
	puts("\n"
	     "  tabletctl help SUBCOMMAND  help on one of them (SUBCOMMAND -h does the same)\n"
	     "  tabletctl -h, --help       this text\n"
	     "  tabletctl -V, --version    the version\n"
	     "\n"
	     "Exit status: 0 done, or clean; 1 damage was found; 2 it could not be done\n"
	     "(bad usage, the data directory is in use or is not one, an I/O error).");
}

static const struct command *command_named(const char *name)
{
	for (unsigned i = 0; i < COMMANDS; i++)
		if (strcmp(name, commands[i]->name) == 0)
			return commands[i];
	complain("%s: no such subcommand; see 'tabletctl -h'", name);
	return NULL;
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : NULL;
	const struct command *c;
	int status = EXIT_CANNOT;

	/* What the engine's rooms say of damage is said here, in the report's own words. */
	msg_to_nowhere();
	file_raise_limit();
	if (!name) {
		complain("a subcommand is needed; see 'tabletctl -h'");
		return EXIT_CANNOT;
	}
	if (strcmp(name, "help") == 0 && argc > 2) {
		c = command_named(argv[2]);
		status = c ? print_help(c) : EXIT_CANNOT;
	} else if (strcmp(name, "-h") == 0 || strcmp(name, "--help") == 0 || strcmp(name, "help") == 0) {
		print_usage();
		status = 0;
	} else if (strcmp(name, "-V") == 0 || strcmp(name, "--version") == 0) {
		puts("tabletctl " PACKAGE_VERSION);
		status = 0;
	} else {
		c = command_named(name);
		status = c ? c->run(argc - 1, argv + 1) : EXIT_CANNOT;
	}
	if (fflush(stdout) || ferror(stdout)) {
		complain("standard output: cannot be written");
		return EXIT_CANNOT;
	}
	return status;
}
