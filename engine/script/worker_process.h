/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker process as the server has it.  Threads: one at a time.
 */
#ifndef TFS_SCRIPT_WORKER_PROCESS_H
#define TFS_SCRIPT_WORKER_PROCESS_H

#include "engine/script/channel.h"

#include <sys/types.h>

struct worker_process {
	int fd;      /* the server's end of the socket */
	int process; /* pidfd */
	pid_t pid;
	uint64_t memory; /* as process_start got it, and the next one */
	uint32_t uid;    /* whose scripts it runs */
	struct shared *shared;
	struct ring_end to, from; /* wait and arg are set by the run */
};

/* Starts the program tabletfs-script.  why: one line after an error. */
int process_start(uint64_t memory, uint32_t uid, struct worker_process **out, struct buf *why) TFS_MUST;
/* Kills the process if it still runs, and frees p.  Returns the number of the signal that had ended it before, or 0. */
int process_end(struct worker_process *p);
/* The processor time that the process has used. */
uint64_t process_worked_us(const struct worker_process *p);

#endif
