/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The threads that serve requests on scans.  Requests on scans (node_in_scan)
 * may read a whole table before they have an answer.  A pool of their own
 * serves them, so that they never occupy all threads that serve other requests.
 * They run on behalf of the user who asks, and end when that process is
 * interrupted.
 *
 * A request begins only if its user has fewer threads of the pool than are free.  So one user
 * gets half of the threads, and each further user half of the rest: long scans of one
 * user do not delay those of another.
 */
#include "fs/request/request.h"

#include "engine/base/stop.h"
#include "fs/base/access.h"
#include "fs/base/reply.h"
#include "fs/file/file.h"

#include <bsd/sys/queue.h>
#include <errno.h>
#include <stdlib.h>

#define SCAN_THREADS 16

enum call { CALL_LOOKUP, CALL_READ, CALL_READDIR, CALL_READDIRPLUS };

struct scanning {
	STAILQ_ENTRY(scanning) next;
	enum call call;
	fuse_req_t req;
	uid_t uid;
	struct node *node; /* counted */
	size_t size;
	off_t offset;
	struct fuse_file_info fi;
	uint64_t since_us, limit_us; /* stop_wait_begin */
	char name[];
};

static struct {
	struct mutex lock; /* RANK_FS_NOTIFY: nothing is called under it */
	struct cond wake;
	STAILQ_HEAD(, scanning) queue;
	pthread_t threads[SCAN_THREADS];
	unsigned count;             /* threads that exist */
	unsigned free;              /* threads that serve no request */
	uid_t serves[SCAN_THREADS]; /* the users of the others */
	bool stop;
} pool;

static void scanning_serve(struct scanning *s)
{
	const struct fuse_ctx *ctx = fuse_req_ctx(s->req);
	fuse_ino_t ino = id_of(s->node);

	stop_wait_begin(s->since_us, s->limit_us);
	repeats_begin(ctx->pid);
	refuse_begin();
	fs_asked_by(ctx->uid, ctx->gid, ctx->pid);
	fs_serve(s->req);
	switch (s->call) {
	case CALL_LOOKUP:
		request_lookup(s->req, ino, s->name);
		break;
	case CALL_READ:
		ofile_read(s->req, ino, s->size, s->offset, &s->fi);
		break;
	case CALL_READDIR:
		dir_readdir(s->req, ino, s->size, s->offset, &s->fi);
		break;
	case CALL_READDIRPLUS:
		dir_readdirplus(s->req, ino, s->size, s->offset, &s->fi);
		break;
	}
	fs_serve(NULL);
	fs_asked_by(0, 0, 0);
	node_put(s->node);
	free(s);
}

/* Returns true if a free thread may serve a request of the user. */
static bool has_share(uid_t uid)
{
	unsigned used = 0;

	for (unsigned i = 0; i < SCAN_THREADS - pool.free; i++)
		used += pool.serves[i] == uid;
	return used < pool.free || pool.stop;
}

/* Takes the oldest request that may begin from the queue, or returns NULL. */
static struct scanning *scanning_take(void)
{
	struct scanning *s;

	STAILQ_FOREACH (s, &pool.queue, next) {
		if (has_share(s->uid)) {
			STAILQ_REMOVE(&pool.queue, s, scanning, next);
			pool.serves[SCAN_THREADS - pool.free--] = s->uid;
			return s;
		}
	}
	return NULL;
}

/* A thread has served a request of the user. */
static void scanning_end(uid_t uid)
{
	unsigned i = 0;

	while (pool.serves[i] != uid)
		i++;
	pool.serves[i] = pool.serves[SCAN_THREADS - ++pool.free];
	/* Two requests may be able to begin now: this thread takes one, and the thread that it wakes the other one. */
	if (!STAILQ_EMPTY(&pool.queue))
		cond_signal(&pool.wake);
}

/* Serves requests until the queue is empty at the end. */
static void *scanning_main(void *unused)
{
	mutex_lock(&pool.lock);
	for (;;) {
		struct scanning *s = scanning_take();
		uid_t uid;

		if (!s && pool.stop)
			break;
		if (!s) {
			cond_wait(&pool.wake, &pool.lock);
			continue;
		}
		uid = s->uid;
		mutex_unlock(&pool.lock);
		scanning_serve(s);
		mutex_lock(&pool.lock);
		scanning_end(uid);
	}
	mutex_unlock(&pool.lock);
	return NULL;
}

int scanning_start(void)
{
	int err = 0;

	mutex_init(&pool.lock, RANK_FS_NOTIFY);
	cond_init(&pool.wake);
	STAILQ_INIT(&pool.queue);
	pool.free = SCAN_THREADS;
	while (pool.count < SCAN_THREADS && err == 0) {
		err = pthread_create(&pool.threads[pool.count], NULL, scanning_main, NULL);
		pool.count += err == 0;
	}
	return -err;
}

void scanning_stop(void)
{
	if (!pool.count)
		return;
	fs_interrupt_all();
	mutex_lock(&pool.lock);
	pool.stop = true;
	cond_broadcast(&pool.wake);
	mutex_unlock(&pool.lock);
	while (pool.count)
		pthread_join(pool.threads[--pool.count], NULL);
	cond_fini(&pool.wake);
	mutex_fini(&pool.lock);
}

/* Returns false if the request is not one on a scan: the caller serves it. */
static bool pass_on(enum call call, fuse_req_t req, fuse_ino_t ino, const char *name, size_t size, off_t offset,
	const struct fuse_file_info *fi)
{
	struct node *n = node_of(ino);
	size_t name_n = name ? strlen(name) + 1 : 0;
	struct scanning *s;

	if (!node_in_scan(n))
		return false;
	s = calloc(1, sizeof(*s) + name_n);
	if (!s) {
		reply_err(req, -ENOMEM);
		return true;
	}
	s->call = call;
	s->req = req;
	s->uid = fuse_req_ctx(req)->uid;
	s->node = n;
	s->size = size;
	s->offset = offset;
	if (fi)
		s->fi = *fi;
	if (name)
		memcpy(s->name, name, name_n);
	stop_wait_get(&s->since_us, &s->limit_us);
	node_hold(n);
	mutex_lock(&pool.lock);
	STAILQ_INSERT_TAIL(&pool.queue, s, next);
	cond_signal(&pool.wake);
	mutex_unlock(&pool.lock);
	return true;
}

void scanning_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	if (!pass_on(CALL_LOOKUP, req, parent, name, 0, 0, NULL))
		request_lookup(req, parent, name);
}

void scanning_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi)
{
	if (!pass_on(CALL_READ, req, ino, NULL, size, offset, fi))
		ofile_read(req, ino, size, offset, fi);
}

void scanning_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi)
{
	if (!pass_on(CALL_READDIR, req, ino, NULL, size, offset, fi))
		dir_readdir(req, ino, size, offset, fi);
}

void scanning_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi)
{
	if (!pass_on(CALL_READDIRPLUS, req, ino, NULL, size, offset, fi))
		dir_readdirplus(req, ino, size, offset, fi);
}
