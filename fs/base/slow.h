/* SPDX-License-Identifier: Apache-2.0 */
/* The last requests of the kernel that took long. */
#ifndef TFS_FS_BASE_SLOW_H
#define TFS_FS_BASE_SLOW_H

#include "engine/base/bytes.h"

#include <linux/fuse.h>
#include <stdbool.h>
#include <sys/types.h>
#include <time.h>

struct node;
enum { SLOW_MOST = 20 };
struct slow_request {
	time_t ended;
	uint64_t us;
	uint32_t opcode; /* FUSE_READ and others */
	pid_t pid;
	uid_t uid;
	char program[16]; /* as in /proc/PID/comm */
	char path[512];   /* below the mount point, cut off if it is longer; a file's, or a directory's and the name in it */
};
/* The node of a request that is served, counted, and the name in it. */
struct slow_place {
	struct node *n;
	char name[256]; /* "": the request is about n itself */
};
void slow_set_limit(uint64_t us); /* 0: none is noted */
uint64_t slow_limit(void);
/* Called before a request of n bytes is served: the kernel may forget the node as soon as it has the answer. */
void slow_begin(const struct fuse_in_header *h, size_t n, struct slow_place *p);
/* Called when a request that began at since_us (monotonic_us) has ended.  notes: it is listed if it was slow. */
void slow_end(uint32_t opcode, pid_t pid, uid_t uid, uint64_t since_us, bool notes, struct slow_place *p);
/* Copies them, the newest first.  Returns the number. */
unsigned slow_list(struct slow_request out[SLOW_MOST]);
const char *slow_name(uint32_t opcode); /* "READ" */

#endif
