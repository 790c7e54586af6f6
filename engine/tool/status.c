/* SPDX-License-Identifier: Apache-2.0 */
/* tabletctl status: prints MOUNTPOINT/.tabletfs/status. */
#include "engine/base/file.h"
#include "engine/tool/tool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define STATUS_BYTES_MAX (1u << 20)

static int status_run(const struct arguments *a)
{
	const char *mountpoint = a->operand[0];
	struct buf b = {0};
	int err = file_read_all(text("%s/.tabletfs/status", mountpoint), STATUS_BYTES_MAX, &b);

	if (err == -ENOENT || err == -ENOTDIR)
		complain("%s: %s", mountpoint, access(mountpoint, F_OK) ? "no such directory" : "tabletfs is not mounted there");
	else if (err)
		complain("%s: %s", mountpoint, strerror(-err));
	else
		fwrite(b.p, 1, b.n, stdout);
	buf_fini(&b);
	return err ? EXIT_CANNOT : 0;
}

const struct command status_command = {
	.name = "status",
	.brief = "print the state of a mounted store",
	.usage = "usage: tabletctl status MOUNTPOINT\n"
		 "\n"
		 "Prints the state of the store that is mounted there in ten lines, out of\n"
		 "MOUNTPOINT/.tabletfs/status.\n"
		 "\n"
		 "Exit status: 0, or 2 when no store is mounted there.\n",
	.letters = ":h",
	.options = (const struct option[]){{"help", no_argument, NULL, 'h'}, {0}},
	.least = 1,
	.most = 1,
	.operands = "the mount point of a mounted store is",
	.run = status_run,
};
