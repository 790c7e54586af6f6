/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading ahead of an iterator that walks through a table (ahead.c says how).
 *
 * Threads: a walk belongs to its iterator's thread; struct ahead_env is shared.
 */
#ifndef TFS_SSTABLE_AHEAD_H
#define TFS_SSTABLE_AHEAD_H

#include "engine/base/mutex.h"
#include "engine/base/task.h"
#include "engine/sstable/blockfile.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What all walks of one cache share. */
struct ahead_env {
	struct mutex lock;
	struct task_pool *pool;  /* made by the first walk that reads ahead; lock */
	bool no_pool;            /* it could not be made, or there is one CPU only; lock */
	size_t bytes, bytes_max; /* of all walks' buffers; lock */
};
void ahead_env_init(struct ahead_env *e, size_t bytes_max);
void ahead_env_fini(struct ahead_env *e); /* no walk may be left */

struct ahead;
struct walk {
	struct ahead_env *env;
	struct blockfile *file;
	bool fill;           /* blocks are copied into memory that a cache will keep */
	bool refused;        /* no room for buffers: not asked for again */
	int64_t last;        /* block read last */
	unsigned run;        /* how many in a row before it */
	struct ahead *ahead; /* NULL until the walk is one */
};
/*
 * fill: blocks are to be had in the memory offered, for a block cache.
 * Otherwise a walk that has begun to read ahead gives its own memory, which
 * keeps until the second next walk_read.
 */
void walk_init(struct walk *w, struct ahead_env *env, struct blockfile *file, bool fill);
/* After the iterator that may point into its memory; waits for a read under way. */
void walk_fini(struct walk *w);
/* May it lie idle as it is?  Not at its end; and idle ones leave half of the room to others. */
bool walk_may_rest(struct walk *w);
/* The unit at this logical offset: in dst, of n bytes, or in the walk's memory.  Errors are blockfile_read's. */
int walk_read(struct walk *w, uint64_t logical, size_t n, void *dst, const void **at) TFS_MUST;

#ifdef __cplusplus
}
#endif
#endif
