/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the file layer: descriptors of files opened with FILE_POOLED, which
 * may be closed while nobody reads from them and are opened again by path.
 * Other rooms do not include this.
 */
#ifndef TFS_BASE_FILE_POOL_H
#define TFS_BASE_FILE_POOL_H

#include <stdatomic.h>
#include <stdbool.h>

struct file {
	_Atomic int fd; /* -1: pooled, and not open now */
	bool pooled;
	/* of pooled ones */
	_Atomic unsigned users;   /* calls under way; one that has found fd keeps it */
	_Atomic bool used;        /* since the hand passed */
	struct file *prev, *next; /* a ring of those that are open; the pool's lock */
	char path[];
};

/* A descriptor until pool_put; 0 or -errno. */
int pool_get(struct file *f, int *fd);
void pool_put(struct file *f);
/* Closes its descriptor, before f is freed. */
void pool_remove(struct file *f);
/* Opens path.  While no descriptor is free it closes idle ones of the pool and tries again.  Returns a descriptor or -errno. */
int pool_open(const char *path, int flags);
/* err is that of a call that needed a descriptor.  Returns true if none was free and some idle ones have been closed. */
bool pool_can_retry(int err);

#endif
