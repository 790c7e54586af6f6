/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sequential files, which are made while they are read, or applied while they
 * are written (sequential.h). A read continues where the last one ended, or
 * begins again at the start; a file whose bytes are in memory is read at any
 * place.  A program that writes and then reads through one descriptor reads at
 * the offset that its writes have reached, so the first READ after a write, at
 * any offset, is the start.  Writes are taken in the order in which they come.
 */
#include "fs/file/sequential.h"

#include "fs/base/access.h"
#include "fs/base/node_ops.h"
#include "fs/base/notify.h"
#include "fs/base/reply.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

struct waiting_read {
	TAILQ_ENTRY(waiting_read) next;
	struct sequential *s;
	fuse_req_t req;
	size_t size;
	off_t offset;
	_Atomic bool interrupted;
};
static struct task_pool *pool; /* tree lock; of the first read that waits, to the end of the daemon */
static LIST_HEAD(, sequential) open_all = LIST_HEAD_INITIALIZER(open_all); /* tree lock */

static const struct sequential_ops *ops_of(const struct sequential *s)
{
	return node_ops(s->node)->sequential;
}

int sequential_open(fuse_req_t req, struct node *n, struct fuse_file_info *fi)
{
	const struct sequential_ops *o = node_ops(n)->sequential;
	int access = fi->flags & O_ACCMODE, err;
	struct sequential *s;

	if (access != O_WRONLY && !o->read)
		return refuse(-EACCES, n, NULL, "it can only be written");
	if (access != O_RDONLY && !o->write)
		return refuse(-EACCES, n, NULL, "it can only be read");
	s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->node = n;
	s->req = req;
	err = o->open(s, fi->flags);
	if (err) {
		free(s);
		return err;
	}
	mutex_init(&s->lock, RANK_FS_SEQUENTIAL);
	TAILQ_INIT(&s->waiting);
	mutex_lock(tree_mutex());
	n->refs++;
	LIST_INSERT_HEAD(&open_all, s, all);
	mutex_unlock(tree_mutex());
	fi->fh = (uint64_t)(uintptr_t)s;
	fi->direct_io = 1;
	fi->nonseekable = 0;
	fi->noflush = access == O_RDONLY;
	return 0;
}

/* s->lock is held. */
static int read_at(struct sequential *s, uint64_t offset, void *buf, size_t n, size_t *got)
{
	const struct sequential_ops *o = ops_of(s);
	int err = 0;

	*got = 0;
	if (!s->reading) {
		s->reading = true;
		s->base = s->at = s->written ? offset : 0;
	}
	if (offset != s->at) {
		if (offset < s->base)
			s->base = 0;
		err = o->seek ? o->seek(s, offset - s->base) : -ESPIPE;
		if (err == -ESPIPE)
			return refuse(err, s->node, NULL, "it is read from its start to its end");
		s->at = err ? UINT64_MAX : offset; /* a place that no READ has, so that the next one seeks again */
	}
	if (err == 0)
		err = o->read(s, buf, n, got);
	if (err == 0)
		s->at += *got;
	return err;
}

/* ---- reads that wait ---- */

static void queue_ready(void *s)
{
	task_queue(&((struct sequential *)s)->ready);
}

static void interrupt_waiting(fuse_req_t req, void *arg)
{
	struct waiting_read *w = arg;

	w->interrupted = true;
	queue_ready(w->s);
}

/* Serves the read unless it must wait: then SEQUENTIAL_WAITS.  s->lock is held. */
static int waiting_serve(struct waiting_read *w)
{
	struct sequential *s = w->s;
	char *buf = malloc(w->size);
	size_t got = 0;
	int err = w->interrupted || fs_is_interrupted(NULL) ? -EINTR : buf ? 0 : -ENOMEM;

	if (!err) {
		s->req = w->req;
		err = read_at(s, (uint64_t)w->offset, buf, w->size, &got);
	}
	if (err != SEQUENTIAL_WAITS) {
		TAILQ_REMOVE(&s->waiting, w, next);
		fuse_req_interrupt_func(w->req, NULL, NULL); /* on return interrupt_waiting does not run */
		if (err)
			reply_err(w->req, refuse_store(err, s->node, NULL, "cannot be read"));
		else
			fuse_reply_buf(w->req, buf, got);
		free(w);
	}
	free(buf);
	return err;
}

/* The last reply may be followed by the end of s, which waits for this task. */
static void run_ready(struct task *task)
{
	struct sequential *s = (struct sequential *)(void *)((char *)task - offsetof(struct sequential, ready));
	struct waiting_read *w, *next;
	bool waits = false;

	mutex_lock(&s->lock);
	for (w = TAILQ_FIRST(&s->waiting); w; w = next) {
		next = TAILQ_NEXT(w, next);
		if (!waits || w->interrupted || fs_is_interrupted(NULL))
			waits = waiting_serve(w) == SEQUENTIAL_WAITS || waits;
	}
	if (waits && !s->ends)
		ops_of(s)->notify(s, queue_ready, s);
	mutex_unlock(&s->lock);
}

static int ready_init(struct sequential *s)
{
	int err = 0;

	if (s->ready.pool)
		return 0;
	mutex_lock(tree_mutex());
	if (!pool)
		err = task_pool_new("follow", 2, &pool);
	mutex_unlock(tree_mutex());
	if (!err)
		task_init(&s->ready, pool, run_ready);
	return err;
}

/* Keeps the request.  s->lock is held. */
static int wait_for_bytes(struct sequential *s, fuse_req_t req, size_t size, off_t offset)
{
	struct waiting_read *w;
	int err = ready_init(s);

	if (err)
		return err;
	w = calloc(1, sizeof(*w));
	if (!w)
		return -ENOMEM;
	*w = (struct waiting_read){.s = s, .req = req, .size = size, .offset = offset};
	TAILQ_INSERT_TAIL(&s->waiting, w, next);
	fuse_req_interrupt_func(req, interrupt_waiting, w);
	if (fs_is_interrupted(NULL))
		queue_ready(s);
	else
		ops_of(s)->notify(s, queue_ready, s);
	return 0;
}

void sequential_interrupt_all(void)
{
	struct sequential *s;

	mutex_lock(tree_mutex());
	LIST_FOREACH (s, &open_all, all)
		if (s->ready.pool)
			task_queue(&s->ready);
	mutex_unlock(tree_mutex());
}

/* No read waits any more, and none begins. */
static void end_ready(struct sequential *s)
{
	struct waiting_read *w;

	if (!s->ready.pool)
		return;
	mutex_lock(&s->lock);
	s->ends = true; /* a run that is under way does not ask to be called again */
	mutex_unlock(&s->lock);
	ops_of(s)->notify(s, NULL, NULL);
	task_cancel(&s->ready);
	while ((w = TAILQ_FIRST(&s->waiting)) != NULL) { /* at the end of the daemon */
		TAILQ_REMOVE(&s->waiting, w, next);
		free(w);
	}
}

void sequential_read(fuse_req_t req, size_t size, off_t offset, struct fuse_file_info *fi)
{
	struct sequential *s = sequential_of(fi);
	char *buf = malloc(size);
	size_t got = 0;
	int err = -ENOMEM;

	if (buf) {
		mutex_lock(&s->lock);
		s->req = req;
		err = TAILQ_EMPTY(&s->waiting) ? read_at(s, (uint64_t)offset, buf, size, &got) : SEQUENTIAL_WAITS;
		if (err == SEQUENTIAL_WAITS && (err = wait_for_bytes(s, req, size, offset)) == 0)
			err = SEQUENTIAL_WAITS;
		mutex_unlock(&s->lock);
	}
	if (err < 0)
		reply_err(req, refuse_store(err, s->node, NULL, "cannot be read"));
	else if (err == 0)
		fuse_reply_buf(req, buf, got);
	free(buf);
}

void sequential_write(fuse_req_t req, const char *p, size_t size, struct fuse_file_info *fi)
{
	struct sequential *s = sequential_of(fi);
	struct changes c = {0};
	int err;

	mutex_lock(&s->lock);
	s->req = req;
	s->reading = false;
	s->written = true;
	err = s->write_error;
	if (err == 0) {
		fs_serve(req);
		err = ops_of(s)->write(s, p, size, &c);
		fs_serve(NULL);
		if (err)
			s->write_error = err = refuse_store(err, s->node, NULL, "the write was refused");
	}
	mutex_unlock(&s->lock);
	if (err)
		changes_reply_err(&c, req, err);
	else
		changes_reply_write(&c, req, size);
}

void sequential_flush(fuse_req_t req, bool sync, struct fuse_file_info *fi)
{
	struct sequential *s = sequential_of(fi);
	struct changes c = {0};
	int err = 0;

	mutex_lock(&s->lock);
	s->req = req;
	if (ops_of(s)->flush)
		err = ops_of(s)->flush(s, &c);
	mutex_unlock(&s->lock);
	if (err == 0 && sync)
		err = tfs_sync(fs.store);
	changes_reply_err(&c, req, refuse_store(err, s->node, NULL, "not all that was written was applied"));
}

void sequential_release(fuse_req_t req, struct sequential *s)
{
	struct node *n = s->node;
	struct changes c = {0};

	mutex_lock(tree_mutex());
	LIST_REMOVE(s, all);
	mutex_unlock(tree_mutex());
	if (req)
		fuse_reply_err(req, 0); /* replies before it waits for the written bytes, for the reason in ofile_release() */
	s->req = NULL;
	end_ready(s);
	if (ops_of(s)->close)
		ops_of(s)->close(s, &c);
	mutex_fini(&s->lock);
	free(s);
	if (req)
		changes_send(&c);
	else
		changes_fini(&c);
	node_put(n);
}

void sequential_close_all(void)
{
	for (;;) {
		struct sequential *s;

		mutex_lock(tree_mutex());
		s = LIST_FIRST(&open_all);
		mutex_unlock(tree_mutex());
		if (!s)
			break;
		refuse_begin();
		sequential_release(NULL, s);
	}
	if (pool)
		task_pool_free(pool);
	pool = NULL;
}
