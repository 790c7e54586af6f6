/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For LD_PRELOAD: at the INTERRUPT_AT-th call that reads or changes a file, the
 * program gets SIGINT, and the call never returns.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

static void step(void)
{
	static _Atomic int calls;
	const char *at = getenv("INTERRUPT_AT");

	if (!at || ++calls != atoi(at))
		return;
	kill(getpid(), SIGINT);
	for (;;)
		pause();
}

#define WRAP(type, name, params, args)                                                                                             \
	type name params;                                                                                                          \
	type name params                                                                                                           \
	{                                                                                                                          \
		type(*real) params = (type(*) params)dlsym(RTLD_NEXT, #name);                                                      \
		step();                                                                                                            \
		return real args;                                                                                                  \
	}
WRAP(ssize_t, pread, (int fd, void *p, size_t n, off_t o), (fd, p, n, o))
WRAP(ssize_t, pread64, (int fd, void *p, size_t n, off_t o), (fd, p, n, o))
WRAP(ssize_t, pwrite, (int fd, const void *p, size_t n, off_t o), (fd, p, n, o))
WRAP(ssize_t, pwrite64, (int fd, const void *p, size_t n, off_t o), (fd, p, n, o))
WRAP(ssize_t, pwritev, (int fd, const struct iovec *v, int n, off_t o), (fd, v, n, o))
WRAP(ssize_t, pwritev64, (int fd, const struct iovec *v, int n, off_t o), (fd, v, n, o))
WRAP(int, rename, (const char *a, const char *b), (a, b))
WRAP(int, link, (const char *a, const char *b), (a, b))
WRAP(int, unlink, (const char *a), (a))
WRAP(int, fsync, (int fd), (fd))
WRAP(int, fdatasync, (int fd), (fd))
