/* SPDX-License-Identifier: Apache-2.0 */
/* tabletctl: finds the subcommand and runs it. */
#include "engine/base/file.h"
#include "engine/tool/tool.h"
#include "engine/base/msg.h"

#include <stdio.h>
#include <stdlib.h>

static const struct command *const commands[] = {&check_command, &repair_command, &dump_command, &put_command, &delete_command,
	&increment_command, &mutate_command, &import_command, &export_command, &scan_command, &get_command, &count_command,
	&run_command, &splits_command, &du_command, &sql_command, &compact_command, &ctl_command, &config_command, &status_command,
	&why_command, &bench_command, &probe_command, &keys_command, &serve_command, &complete_command, &cluster_command,
	&init_command, &adopt_command, &drain_command, &create_command, &ls_command, &describe_command, &drop_command,
	&alter_command, &mirror_command, &compare_command, NULL};
#define COMMANDS (sizeof(commands) / sizeof(*commands) - 1)

static void print_usage(void)
{
	puts("usage: tabletctl SUBCOMMAND [ARGUMENTS]\n"
	     "\n"
	     "Works on the data directories and mounts of tabletfs.\n");
	for (unsigned i = 0; i < COMMANDS; i++)
		printf("  %-10s %s\n", commands[i]->name, commands[i]->brief);
	puts("\n"
	     "  tabletctl help SUBCOMMAND  help on one of them (SUBCOMMAND -h does the same)\n"
	     "  tabletctl -h, --help       this text\n"
	     "  tabletctl -V, --version    the version\n"
	     "\n"
	     "Exit status: 0 success, or clean; 1 damage was found, a check failed, storage is\n"
	     "not safe, import refused a line, a mirror has ended, or tables differ; 2 bad\n"
	     "usage, or the data directory is in use or is not one, or an I/O error; 3 any other\n"
	     "error of a command on a mounted table; 128 and the number of a signal that\n"
	     "interrupted it, 130 for ^C.");
}

static const struct command *command_named(const char *name)
{
	for (unsigned i = 0; i < COMMANDS; i++)
		if (strcmp(name, commands[i]->name) == 0)
			return commands[i];
	complain("%s: no such subcommand; see 'tabletctl -h'", name);
	return NULL;
}

static int print_help(const struct command *c)
{
	fputs(c->usage, stdout);
	return 0;
}

static int carry_out(const struct command *c, int argc, char **argv)
{
	static const struct option only_help[] = {{"help", no_argument, NULL, 'h'}, {0}};
	const char *letters = c->letters ? c->letters : !c->options && c->one_path ? "+:h" : ":h";
	struct arguments a = {.command = c, .commands = commands};
	int letter, status;

	a.given = calloc((size_t)argc, sizeof(*a.given)); /* kept at wrong arguments, which end the program */
	if (!a.given)
		no_memory();
	while ((letter = getopt_long(argc, argv, letters, c->options ? c->options : only_help, NULL)) != -1) {
		const char *last = argv[optind - 1];

		if (letter == 'h')
			return print_help(c);
		if (letter != '?' && letter != ':')
			a.given[a.given_count++] = (struct given_option){letter, a.option[letter] = optarg ? optarg : ""};
		else if (strncmp(last, "--", 2) == 0)
			return bad_usage(c, "no such option, or a wrong argument: %s", last);
		else /* a letter may be part of a word with others */
			return bad_usage(c, "no such option: -%c", optopt);
	}
	a.operand = argv + optind;
	a.operands = argc - optind;
	for (int i = 0; i < (c->one_path && a.operands ? 1 : a.operands); i++) /* paths are printed without slashes at their end */
		for (size_t n = strlen(a.operand[i]); n > 1 && a.operand[i][n - 1] == '/'; n--)
			a.operand[i][n - 1] = 0;
	if (a.operands < c->least || a.operands > c->most)
		return bad_usage(c, "too %s arguments: %.*s", a.operands < c->least ? "few" : "many", (int)strcspn(c->usage, "\n"),
			c->usage);
	status = c->run(&a);
	free(a.given);
	return status;
}

static void refused(const char *path, const char *why)
{
	static const char *last;

	if (!last || strcmp(last, path))
		complain("%s: %s", path, why);
	last = text("%s", path);
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : NULL;
	const struct command *c;
	int status = EXIT_CANNOT;

	/* The subcommands report damage themselves, so the engine's messages are discarded. */
	msg_to_nowhere();
	refusals_begin();
	file_tell_refusals(refused);
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
		status = c ? carry_out(c, argc - 1, argv + 1) : EXIT_CANNOT;
	}
	if (fflush(stdout) || ferror(stdout)) {
		complain("standard output: cannot be written");
		return EXIT_CANNOT;
	}
	return status;
}
