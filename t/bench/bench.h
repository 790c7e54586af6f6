/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the benchmarks of single parts of the engine. */
#ifndef TFS_T_BENCH_BENCH_H
#define TFS_T_BENCH_BENCH_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ends the program if the call returns an error. */
#define OK(call)                                                                                                                   \
	do {                                                                                                                       \
		int e_ = (call);                                                                                                   \
		if (e_) {                                                                                                          \
			fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, strerror(-e_));                              \
			exit(1);                                                                                                   \
		}                                                                                                                  \
	} while (0)

/* Removes the directory of the benchmark's store. */
static inline void bench_remove(const char *dir)
{
	char cmd[600];

	snprintf(cmd, sizeof(cmd), "rm -rf '%s'", dir);
	if (system(cmd))
		exit(1);
}

#endif
