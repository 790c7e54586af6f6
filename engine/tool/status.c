/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tabletctl status: prints MOUNTPOINT/.tabletfs/status and the last error or
 * warning of MOUNTPOINT/.tabletfs/log, which may name rows, and so is only readable
 * by its owner.
 */
#include "engine/base/file.h"
#include "engine/tool/tool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define STATUS_BYTES_MAX (1u << 20)
#define LOG_BYTES_MAX (16u << 20)

/* Prints the last line of the log that is an error or a warning. */
static void print_warning(const struct buf *log)
{
	struct slice last = {NULL, 0}, rest = buf_slice(log);

	while (rest.n) {
		const char *end = memchr(rest.p, '\n', rest.n);
		struct slice line = slice_of(rest.p, end ? (size_t)(end - (const char *)rest.p) : rest.n);

		if (memmem(line.p, line.n, " warning: ", 10) || memmem(line.p, line.n, " error: ", 8))
			last = line;
		rest = slice_of(rest.p + line.n + (end != NULL), rest.n - line.n - (end != NULL));
	}
	printf("warning      %.*s\n", (int)(last.n ? last.n : 4), last.n ? (const char *)last.p : "none");
}

static int status_run(const struct arguments *a)
{
	const char *mountpoint = a->operand[0];
	struct buf b = {0}, log = {0};
	int err = file_read_all(text("%s/.tabletfs/status", mountpoint), STATUS_BYTES_MAX, &b);

	if (err == -ENOENT || err == -ENOTDIR)
		complain("%s: %s", mountpoint, access(mountpoint, F_OK) ? "no such directory" : "tabletfs is not mounted there");
	else if (err)
		complain("%s: %s", mountpoint, strerror(-err));
	else
		fwrite(b.p, 1, b.n, stdout);
	if (!err && file_read_all(text("%s/.tabletfs/log", mountpoint), LOG_BYTES_MAX, &log) == 0)
		print_warning(&log);
	buf_fini(&log);
	buf_fini(&b);
	return err ? EXIT_CANNOT : 0;
}

const struct command status_command = {
	.name = "status",
	.brief = "print the state of a mounted store",
	.usage = "usage: tabletctl status MOUNTPOINT\n"
		 "\n"
		 "Prints the state of the store that is mounted there in ten lines, out of\n"
		 "MOUNTPOINT/.tabletfs/status and log.  The rates are those since the call before,\n"
		 "so `watch tabletctl status MOUNTPOINT' shows the present ones.\n"
		 "\n"
		 "Exit status: 0, or 2 when no store is mounted there.\n",
	.letters = ":h",
	.options = (const struct option[]){{"help", no_argument, NULL, 'h'}, {0}},
	.least = 1,
	.most = 1,
	.operands = "the mount point of a mounted store is",
	.run = status_run,
};
