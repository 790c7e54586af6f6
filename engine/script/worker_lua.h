/* SPDX-License-Identifier: Apache-2.0 */
/* A run of a script in its worker.  Every error ends the process (worker_fail). */
#ifndef TFS_SCRIPT_WORKER_LUA_H
#define TFS_SCRIPT_WORKER_LUA_H

#include "engine/script/worker.h"

/* Compiles the text and runs it as far as its declarations.  w has the limits and the name. */
void lua_begin(struct worker *w, struct tfs_bytes text, const struct tfs_bytes *args, unsigned arg_count);
/* Runs the row that was read, and forgets it. */
void lua_row(struct worker *w);
/* Writes the delta, and forgets the outputs. */
int lua_take(struct worker *w, int (*write)(void *arg, struct tfs_bytes piece), void *arg) TFS_MUST;
/* Frees all of the run. */
void lua_end(struct worker *w);

#endif
