/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For LD_PRELOAD into a daemon: shifts its clocks.  Each call reads two
 * numbers from the file named by FAKE_CLOCK: seconds to add to the system's
 * time, and seconds to add to both that and the time since boot.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t id, struct timespec *ts)
{
	static _Thread_local int fd = -1;
	long long real = 0, both = 0;
	char text[64] = "";
	int r = (int)syscall(SYS_clock_gettime, id, ts);

	if (r || (id != CLOCK_REALTIME && id != CLOCK_BOOTTIME))
		return r;
	if (fd < 0)
		fd = open(getenv("FAKE_CLOCK"), O_RDONLY | O_CLOEXEC);
	if (pread(fd, text, sizeof(text) - 1, 0) > 0)
		(void)sscanf(text, "%lld %lld", &real, &both);
	ts->tv_sec += both + (id == CLOCK_REALTIME ? real : 0);
	return 0;
}
