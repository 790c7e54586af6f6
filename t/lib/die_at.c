/* SPDX-License-Identifier: Apache-2.0 */
/* For LD_PRELOAD: the program exits instead of making its DIE_AT-th call that changes a directory or a file. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static void step(void)
{
	static int left;

	if (!left)
		left = atoi(getenv("DIE_AT") ? getenv("DIE_AT") : "0");
	if (left && --left == 0)
		_exit(99);
}

#define WRAP(type, name, params, args)                                                                                             \
	type name params;                                                                                                          \
	type name params                                                                                                           \
	{                                                                                                                          \
		type(*real) params = (type(*) params)dlsym(RTLD_NEXT, #name);                                                      \
		step();                                                                                                            \
		return real args;                                                                                                  \
	}
WRAP(int, rename, (const char *a, const char *b), (a, b))
WRAP(int, link, (const char *a, const char *b), (a, b))
WRAP(int, unlink, (const char *a), (a))
WRAP(int, mkdir, (const char *a, mode_t m), (a, m))
WRAP(int, fsync, (int fd), (fd))
WRAP(int, fdatasync, (int fd), (fd))
WRAP(ssize_t, pwrite, (int fd, const void *p, size_t n, off_t o), (fd, p, n, o))
WRAP(ssize_t, pwrite64, (int fd, const void *p, size_t n, off_t o), (fd, p, n, o))
WRAP(ssize_t, pwritev, (int fd, const struct iovec *v, int n, off_t o), (fd, v, n, o))
WRAP(ssize_t, pwritev64, (int fd, const struct iovec *v, int n, off_t o), (fd, v, n, o))
