/* SPDX-License-Identifier: Apache-2.0 */
/* For LD_PRELOAD: a pread of the sector that has the byte FAIL_AT, of a file whose path ends in FAIL_READ, fails with EIO. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int fails(int fd, size_t n, off_t at)
{
	const char *end = getenv("FAIL_READ");
	off_t bad = atoll(getenv("FAIL_AT")) & ~511LL;
	char link[64], path[4096];
	ssize_t len;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	len = readlink(link, path, sizeof(path) - 1);
	if (len < (ssize_t)strlen(end))
		return 0;
	path[len] = 0;
	return strcmp(path + len - strlen(end), end) == 0 && at < bad + 512 && at + (off_t)n > bad;
}

#define WRAP(name)                                                                                                                 \
	ssize_t name(int fd, void *p, size_t n, off_t at);                                                                         \
	ssize_t name(int fd, void *p, size_t n, off_t at)                                                                          \
	{                                                                                                                          \
		ssize_t (*real)(int, void *, size_t, off_t) = (ssize_t(*)(int, void *, size_t, off_t))dlsym(RTLD_NEXT, #name);     \
                                                                                                                                   \
		if (fails(fd, n, at)) {                                                                                            \
			errno = EIO;                                                                                               \
			return -1;                                                                                                 \
		}                                                                                                                  \
		return real(fd, p, n, at);                                                                                         \
	}
WRAP(pread)
WRAP(pread64)
