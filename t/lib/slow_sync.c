/* SPDX-License-Identifier: Apache-2.0 */
/* For LD_PRELOAD: while the file SLOW_FLAG exists, each sync of a file or directory of the lock service waits for a minute. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int slowly(const char *name, int fd)
{
	int (*call)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
	const char *flag = getenv("SLOW_FLAG");
	char link[64], path[4096];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof(path) - 1);
	path[n > 0 ? n : 0] = 0;
	if (flag && strstr(path, "/lock") && access(flag, F_OK) == 0)
		sleep(60);
	return call(fd);
}

int fdatasync(int fd)
{
	return slowly("fdatasync", fd);
}

int fsync(int fd)
{
	return slowly("fsync", fd);
}
