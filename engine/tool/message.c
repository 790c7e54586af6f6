/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by all subcommands: errors, memory, and the lines of a report. */
#include "engine/base/file.h"
#include "engine/base/hashtable.h"
#include "engine/tool/progress.h"
#include "engine/tool/tool.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void complain(const char *fmt, ...)
{
	char *line;
	va_list ap;

	fflush(stdout);
	va_start(ap, fmt);
	if (vasprintf(&line, fmt, ap) < 0)
		line = NULL;
	else
		text_hide_controls(line); /* a file's name cannot forge a line of output */
	va_end(ap);
	progress_clear();
	fprintf(stderr, "tabletctl: %s\n", line ? line : strerror(ENOMEM));
	free(line);
}

/* ---- memory ---- */

void no_memory(void)
{
	complain("%s", strerror(ENOMEM));
	exit(EXIT_CANNOT);
}

char *text(const char *fmt, ...)
{
	static struct arena texts;
	char *line, *out;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&line, fmt, ap);
	va_end(ap);
	out = n < 0 ? NULL : arena_alloc(&texts, (size_t)n + 1);
	if (!out)
		no_memory();
	memcpy(out, line, (size_t)n + 1);
	free(line);
	return out;
}

const char *given(const char *path)
{
	char *real = file_real(path), *out = real ? text("%s", real) : NULL;

	if (!real)
		no_memory();
	free(real);
	return out;
}

const char *quoted(struct tfs_bytes s)
{
	static struct buf ring[8];
	static unsigned at;
	struct buf *b = &ring[at++ % 8];
	int err;

	buf_reset(b);
	err = buf_u8(b, '"');
	for (size_t i = 0; i < s.n && !err; i++) {
		if (s.p[i] == '"' || s.p[i] == '\\')
			err = buf_printf(b, "\\%c", s.p[i]);
		else if (s.p[i] >= 0x20 && s.p[i] < 0x7f)
			err = buf_u8(b, s.p[i]);
		else
			err = buf_printf(b, "\\x%02x", s.p[i]);
	}
	if (err || buf_append(b, "\"", 2))
		no_memory();
	return (const char *)b->p;
}

/* ---- reports ---- */

struct printed_line {
	UT_hash_handle hh;
	char line[];
};

static bool was_printed(struct report *r, const char *line)
{
	size_t n = strlen(line);
	struct printed_line *p;

	HASH_FIND(hh, r->printed, line, n, p);
	if (p)
		return true;
	p = calloc(1, sizeof(*p) + n + 1);
	if (!p)
		no_memory();
	memcpy(p->line, line, n);
	HASH_ADD_KEYPTR(hh, r->printed, p->line, n, p);
	if (!p->hh.tbl)
		no_memory();
	return false;
}

void report(struct report *r, enum report_kind kind, const char *fmt, ...)
{
	static const char *const names[REPORT_KINDS] = {"damaged", "note", "repair", "lost"};
	va_list ap;
	char *line;

	if (r->repeated && (kind == REPORT_STEP || kind == REPORT_LOSS))
		return;
	va_start(ap, fmt);
	if (vasprintf(&line, fmt, ap) < 0)
		no_memory();
	va_end(ap);
	text_hide_controls(line);
	if (!was_printed(r, line)) {
		r->count[kind]++;
		progress_clear();
		if (kind != REPORT_NOTE || !r->no_notes)
			fprintf(r->to, "%s: %s\n", names[kind], line);
	}
	free(line);
}

void report_fini(struct report *r)
{
	struct printed_line *p, *tmp;

	HASH_ITER(hh, r->printed, p, tmp)
	{
		HASH_DEL(r->printed, p);
		free(p);
	}
}

const char *program_beside(const char *name)
{
	char self[4096];
	const ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *slash;

	if (n > 0) {
		self[n] = 0;
		slash = strrchr(self, '/');
		if (slash) {
			const char *beside = text("%.*s/%s", (int)(slash - self), self, name);

			if (access(beside, X_OK) == 0)
				return beside;
		}
	}
	return name;
}
