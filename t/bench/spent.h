/* SPDX-License-Identifier: Apache-2.0 */
/* The processor time that this process and other processes have used, in seconds. */
#ifndef TFS_T_BENCH_SPENT_H
#define TFS_T_BENCH_SPENT_H

#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

static inline double spent_here(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

/* pid is the process's number as text. */
static inline double spent_by(const char *pid)
{
	char path[300];
	unsigned long user = 0, system = 0;
	double s = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%s/stat", pid);
	f = fopen(path, "re");
	if (f && fscanf(f, "%*d %*s %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system) == 2)
		s = (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
	if (f)
		fclose(f);
	return s;
}

#endif
