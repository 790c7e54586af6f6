/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A disk whose syncs take longer, for any program, rivals too: each fdatasync
 * and fsync is followed by SLOWSYNC_US microseconds of sleep.
 *
 *	cc -shared -fPIC -O2 -o slowsync.so t/bench/slowsync.c
 *	SLOWSYNC_US=1000 LD_PRELOAD=$PWD/slowsync.so t/bench/tabletbench writers --only sync
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static int slowly(const char *name, int fd)
{
	int (*call)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
	const char *s = getenv("SLOWSYNC_US");
	long us = s ? strtol(s, NULL, 10) : 0;
	struct timespec t = {us / 1000000, us % 1000000 * 1000};
	int done = call(fd), err = errno;

	(void)nanosleep(&t, NULL);
	errno = err;
	return done;
}

int fdatasync(int fd)
{
	return slowly("fdatasync", fd);
}

int fsync(int fd)
{
	return slowly("fsync", fd);
}
