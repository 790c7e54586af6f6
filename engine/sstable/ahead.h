/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads blocks ahead of an iterator that moves through a table in order.
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

/* Shared by all walks of one cache. */
struct ahead_env {
	struct mutex lock;
	struct task_pool *pool;  /* made by the first walk that reads ahead; under lock */
	bool no_pool;            /* the pool could not be made, or there is only one CPU; under lock */
	size_t bytes, bytes_max; /* the bytes of the buffers of all walks; under lock */
};
void ahead_env_init(struct ahead_env *e, size_t bytes_max);
void ahead_env_resize(struct ahead_env *e, size_t bytes_max);
void ahead_env_fini(struct ahead_env *e); /* after all walks */

struct ahead;
struct walk {
	struct ahead_env *env;
	struct blockfile *file;
	bool fill;    /* blocks are copied into memory that a cache takes */
	bool refused; /* there was no space for buffers; it is not tried again */
	uint64_t
		expected; /* an estimate of the bytes that the reader still takes, beyond which no block is read ahead; 0: unknown */
	int64_t last;     /* the last block read */
	unsigned run;     /* how many blocks in order were read before it */
	struct ahead *ahead; /* NULL until it reads ahead */
};
/*
 * fill: walk_read copies blocks into the caller's memory, for a block cache.
 * Otherwise a walk that reads ahead returns its own memory, which stays valid
 * until the second next walk_read.
 */
void walk_init(struct walk *w, struct ahead_env *env, struct blockfile *file, bool fill);
/* Called after the iterator was freed, which may point into the walk's memory.  Waits for a running read. */
void walk_fini(struct walk *w);
/* Returns true if an idle iterator may keep the walk: it is not at its end, and half of the buffer space is free for others. */
bool walk_may_idle(struct walk *w);
/* *at: the unit of n bytes at this logical offset, in dst or in the walk's memory.  Errors are blockfile_read's. */
int walk_read(struct walk *w, uint64_t logical, size_t n, void *dst, const void **at) TFS_MUST;

#ifdef __cplusplus
}
#endif
#endif
