/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loaded before the C library: while the file $HANG_SYNC exists, fdatasync waits,
 * as on a disk that does not answer.  The call makes the directory $HANG_SYNC.waits before it waits.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

int fdatasync(int fd)
{
	static int (*real)(int);
	const char *path = getenv("HANG_SYNC");

	if (!real)
		real = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
	while (path && access(path, F_OK) == 0) {
		char waits[4096];

		snprintf(waits, sizeof(waits), "%s.waits", path);
		(void)mkdir(waits, 0777);
		usleep(10000);
	}
	return real(fd);
}
