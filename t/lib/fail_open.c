/* SPDX-License-Identifier: Apache-2.0 */
/* For LD_PRELOAD: the FAIL_AT-th opening of a file whose path ends in FAIL_OPEN fails with EIO. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>

static int fails(const char *path)
{
	static int left;
	const char *end = getenv("FAIL_OPEN");

	if (!left)
		left = atoi(getenv("FAIL_AT"));
	return strlen(path) >= strlen(end) && strcmp(path + strlen(path) - strlen(end), end) == 0 && left > 0 && --left == 0;
}

/* glibc has no function for openat2. */
long syscall(long number, ...);
long syscall(long number, ...)
{
	long (*real)(long, ...) = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
	long a[6];
	va_list ap;

	va_start(ap, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	if (number == SYS_openat2 && fails((const char *)a[1])) {
		errno = EIO;
		return -1;
	}
	return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

#define WRAP(name)                                                                                                                 \
	int name(const char *path, int flags, ...);                                                                                \
	int name(const char *path, int flags, ...)                                                                                 \
	{                                                                                                                          \
		int (*real)(const char *, int, ...) = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, #name);                    \
		va_list ap;                                                                                                        \
		mode_t mode;                                                                                                       \
                                                                                                                                   \
		va_start(ap, flags);                                                                                               \
		mode = va_arg(ap, mode_t);                                                                                         \
		va_end(ap);                                                                                                        \
		if (fails(path)) {                                                                                                 \
			errno = EIO;                                                                                               \
			return -1;                                                                                                 \
		}                                                                                                                  \
		return real(path, flags, mode);                                                                                    \
	}
WRAP(open)
WRAP(open64)
