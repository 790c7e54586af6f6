/* SPDX-License-Identifier: Apache-2.0 */
/* The last requests of the kernel that took long. */
#ifndef TFS_FS_BASE_SLOW_H
#define TFS_FS_BASE_SLOW_H

#include "engine/base/bytes.h"

#include <sys/types.h>
#include <time.h>

enum { SLOW_MOST = 20 };
struct slow_request {
	time_t ended;
	uint64_t us;
	uint32_t opcode; /* FUSE_READ and others */
	pid_t pid;
	uid_t uid;
	char program[16]; /* as in /proc/PID/comm */
};
void slow_set_limit(uint64_t us); /* 0: none is noted */
uint64_t slow_limit(void);
/* Called when a request that began at since_us (monotonic_us) has ended. */
void slow_note(uint32_t opcode, pid_t pid, uid_t uid, uint64_t since_us);
/* Copies them, the newest first.  Returns the number. */
unsigned slow_list(struct slow_request out[SLOW_MOST]);
const char *slow_name(uint32_t opcode); /* "READ" */

#endif
