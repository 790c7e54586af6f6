/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of all subcommands: errors, usage errors, quoted bytes, and the lines of a report. */
#include "engine/tool/tool.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void make_one_line(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < 0x20 || *text == 0x7f)
			*text = '?';
}

static void print_error(const char *about, const char *fmt, va_list ap, const char *end)
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
	print_error("", fmt, ap, "");
	va_end(ap);
}

int bad_usage(const struct command *c, const char *fmt, ...)
{
	char about[32], end[64];
	va_list ap;

	snprintf(about, sizeof(about), "%s: ", c->name);
	snprintf(end, sizeof(end), "; see 'tabletctl %s -h'", c->name);
	va_start(ap, fmt);
	print_error(about, fmt, ap, end);
	va_end(ap);
	return EXIT_CANNOT;
}

int bad_option(const struct command *c, char **argv)
{
	const char *last = argv[optind - 1];

	/* A long option is the last word; a letter may be part of a word with others. */
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

/* ---- reports ---- */

/* Returns the line, or NULL if it was printed before. */
static char *report_line(struct report *r, const char *fmt, va_list ap)
{
	char *line;
	uint64_t hash, *v;

	if (vasprintf(&line, fmt, ap) < 0) {
		complain("%s", strerror(ENOMEM));
		exit(EXIT_CANNOT);
	}
	make_one_line(line);
	hash = hash64(slice_str(line), 0);
	for (unsigned i = 0; i < r->printed_count; i++)
		if (r->printed[i] == hash) {
			free(line);
			return NULL;
		}
	v = realloc(r->printed, (r->printed_count + 1) * sizeof(*v));
	if (v) {
		r->printed = v;
		v[r->printed_count++] = hash;
	}
	return line;
}

void report_problem(struct report *r, const char *fmt, ...)
{
	va_list ap;
	char *line;

	va_start(ap, fmt);
	line = report_line(r, fmt, ap);
	va_end(ap);
	if (!line)
		return;
	r->problems++;
	fprintf(r->to, "damaged: %s\n", line);
	free(line);
}

void report_note(struct report *r, const char *fmt, ...)
{
	va_list ap;
	char *line;

	va_start(ap, fmt);
	line = report_line(r, fmt, ap);
	va_end(ap);
	if (!line)
		return;
	r->notes++;
	if (!r->quiet)
		fprintf(r->to, "note: %s\n", line);
	free(line);
}

void report_fini(struct report *r)
{
	free(r->printed);
	r->printed = NULL;
	r->printed_count = 0;
}
