/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to the file layer: the descriptors of files opened with FILE_POOLED.
 * One may be closed while no thread reads from it; the next read opens the
 * file again by its path.
 */
#ifndef TFS_BASE_FILE_POOL_H
#define TFS_BASE_FILE_POOL_H

#include <bsd/sys/queue.h>
#include <stdatomic.h>
#include <stdbool.h>

struct file {
	_Atomic int fd; /* -1: a pooled file that is not open */
	bool pooled, only_read;
	/* pooled files only */
	_Atomic unsigned users;    /* threads that read; fd stays open while they use it */
	_Atomic bool used;         /* since the last pass of the hand */
	TAILQ_ENTRY(file) in_ring; /* for open files; under the pool's lock */
	char path[];
};

/* *fd stays open until pool_put. */
int pool_get(struct file *f, int *fd);
void pool_put(struct file *f);
/* Closes its descriptor, before f is freed. */
void pool_remove(struct file *f);
/* Opens path.  While no descriptor is free it closes idle ones of the pool and tries again.  Returns a descriptor or -errno. */
int pool_open(const char *path, int flags);
/* err is the error of a call that needed a descriptor.  Returns true if none was free and some idle ones have been closed. */
bool pool_can_retry(int err);

#endif
