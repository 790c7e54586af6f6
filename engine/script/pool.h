/* SPDX-License-Identifier: Apache-2.0 */
/* The pool, for runs (run.c). */
#ifndef TFS_SCRIPT_POOL_H
#define TFS_SCRIPT_POOL_H

#include "engine/script/worker_process.h"

/*
 * Sets the limits of the run and a worker of this user that nothing else uses.  *was_idle: it was started for an earlier
 * run.  Errors: those of script_run_new.
 */
int pool_take_worker(struct script_pool *p, uint32_t uid, struct script_limits *limits, struct worker_process **out, bool *was_idle,
	struct buf *why) TFS_MUST;
/* Returns a worker that can be used again. */
void pool_return_worker(struct script_pool *p, struct worker_process *w);

#endif
