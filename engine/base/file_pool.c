/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pool of descriptors.
 *
 * SSTables are immutable and keep their path while they are in use.  Scans may
 * use more of them than the process may have descriptors, so the struct file
 * of an SSTable has a descriptor only while there are enough.  The pool uses
 * at most half of RLIMIT_NOFILE; the rest is for the log, outputs of
 * compactions, METADATA, and the mount.
 *
 * Reads take no lock.  A reader increments `users` and then loads fd.  A
 * closer first exchanges fd for -1 and then loads `users`; if it is not 0, it
 * stores fd back.  All four accesses are sequentially consistent, so a closer
 * sees the reader, or the reader sees -1.  A reader that loads -1 opens the
 * file; if several readers do, one descriptor is stored and the rest are
 * closed.
 *
 * The clock algorithm selects the file to close: a hand moves around the ring
 * and skips the files that were used since its last pass.
 */
#include "engine/base/file_pool.h"

#include "engine/base/file.h"
#include "engine/base/file_ops.h"
#include "engine/base/mutex.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#define POOL_LEAST 8u
#define POOL_MOST (1u << 20)
#define CLOSE_AT_ONCE 16u

static struct mutex lock = MUTEX_INITIALIZER(RANK_FILE_POOL);
/* under lock */
static TAILQ_HEAD(, file) ring = TAILQ_HEAD_INITIALIZER(ring); /* the hand is at the first */
static unsigned count;

void file_raise_limit(void)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur < r.rlim_max) {
		r.rlim_cur = r.rlim_max;
		(void)!setrlimit(RLIMIT_NOFILE, &r);
	}
}

static unsigned pool_max(void)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r) || r.rlim_cur / 2 > POOL_MOST)
		return POOL_MOST;
	return r.rlim_cur / 2 < POOL_LEAST ? POOL_LEAST : (unsigned)(r.rlim_cur / 2);
}

static void ring_add_locked(struct file *f)
{
	TAILQ_INSERT_TAIL(&ring, f, in_ring);
	count++;
}

static void ring_remove_locked(struct file *f)
{
	TAILQ_REMOVE(&ring, f, in_ring);
	count--;
}

/* Removes one idle descriptor, which the caller closes.  Returns -1 if all are in use. */
static int take_idle_locked(void)
{
	for (unsigned left = 2 * count; left > 0; left--) {
		struct file *f = TAILQ_FIRST(&ring);
		int fd;

		TAILQ_REMOVE(&ring, f, in_ring);
		TAILQ_INSERT_TAIL(&ring, f, in_ring);
		if (atomic_exchange(&f->used, false))
			continue;
		fd = atomic_exchange(&f->fd, -1);
		if (!atomic_load(&f->users)) {
			ring_remove_locked(f);
			return fd;
		}
		atomic_store(&f->fd, fd);
	}
	return -1;
}

static unsigned close_some(unsigned more_than)
{
	int fds[CLOSE_AT_ONCE];
	unsigned n = 0;

	mutex_lock(&lock);
	while (n < CLOSE_AT_ONCE && count > more_than && (fds[n] = take_idle_locked()) >= 0)
		n++;
	mutex_unlock(&lock);
	for (unsigned i = 0; i < n; i++)
		close(fds[i]);
	return n;
}

bool pool_can_retry(int err)
{
	return (err == -EMFILE || err == -ENFILE) && close_some(0) > 0;
}

int pool_open(const char *path, int flags)
{
	int fd;

	do
		fd = file_ops->open(path, flags);
	while (pool_can_retry(fd));
	return fd;
}

/* The caller has incremented users. */
static int open_again(struct file *f, int *fd)
{
	int fresh = pool_open(f->path, O_RDONLY | O_NONBLOCK), there;

	if (fresh < 0)
		return fresh;
	mutex_lock(&lock);
	there = atomic_load(&f->fd);
	if (there < 0) {
		atomic_store(&f->fd, fresh);
		ring_add_locked(f);
	}
	mutex_unlock(&lock);
	if (there >= 0)
		close(fresh);
	else
		(void)!close_some(pool_max());
	*fd = there >= 0 ? there : fresh;
	return 0;
}

int pool_get(struct file *f, int *fd)
{
	int err;

	atomic_fetch_add(&f->users, 1);
	*fd = atomic_load(&f->fd);
	err = *fd < 0 ? open_again(f, fd) : 0;
	if (err)
		pool_put(f);
	else if (!atomic_load_explicit(&f->used, memory_order_relaxed))
		atomic_store_explicit(&f->used, true, memory_order_relaxed);
	return err;
}

void pool_put(struct file *f)
{
	atomic_fetch_sub(&f->users, 1);
}

void pool_remove(struct file *f)
{
	int fd;

	mutex_lock(&lock);
	fd = atomic_load(&f->fd);
	if (fd >= 0)
		ring_remove_locked(f);
	mutex_unlock(&lock);
	if (fd >= 0)
		close(fd);
}
