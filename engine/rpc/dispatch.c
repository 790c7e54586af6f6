/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The dispatcher (dispatch.h).  A class has a queue of requests and a task for each
 * of its workers.  A task runs requests until the queue is empty, and is idle
 * then.  A new request queues an idle task, if there is one.
 */
#include "engine/rpc/dispatch.h"
#include "engine/base/clock.h"
#include "engine/base/task.h"
#include "engine/meta/meta.h"

#include <errno.h>
#include <stdlib.h>

struct waiting {
	struct buf bytes; /* q borrows from it and from the arena */
	struct arena arena;
	struct ts_request q;
	uint64_t until_us; /* monotonic */
	dispatch_answer_fn *fn;
	void *arg;
	TAILQ_ENTRY(waiting) next;
};

struct worker {
	struct task task; /* first */
	struct pool *pool;
	struct worker *next_idle;
};

struct pool {
	struct tablet_service *service;
	struct mutex lock; /* RANK_DISPATCH; guards the next members */
	TAILQ_HEAD(, waiting) queue;
	unsigned count, most; /* requests in the queue */
	size_t bytes;         /* the sum of their sizes */
	struct worker *idle, *workers;
	struct task_pool *threads;
};

struct dispatcher {
	struct tablet_service *service;
	struct pool pools[DISPATCH_CLASSES];
};

static const struct {
	const char *name;
	struct dispatch_limits limits;
} classes[DISPATCH_CLASSES] = {
	[DISPATCH_CONTROL] = {"rpc-control", {2, 256}},
	[DISPATCH_SORT] = {"rpc-sort", {4, 256}},
	[DISPATCH_ROOT] = {"rpc-root", {4, 256}},
	[DISPATCH_METADATA] = {"rpc-metadata", {8, 1024}},
	[DISPATCH_TABLETS] = {"rpc-tablets", {4, 64}},
	[DISPATCH_USER] = {"rpc-user", {32, 1024}},
};

/* ---- classes ---- */

static bool is_control(enum ts_method m)
{
	return m == TS_HELLO || m == TS_LIST || m == TS_FILES || m == TS_BURY || m == TS_BLOCK_WRITES || m == TS_UNBLOCK_WRITES ||
		m == TS_SCAN_CLOSE || m == TS_STORAGE || m == TS_REACH;
}

static bool is_of_tablets(enum ts_method m)
{
	return m == TS_LOAD || m == TS_UNLOAD || m == TS_COPY_TABLE;
}

enum dispatch_class dispatch_class_of(const struct ts_request *q)
{
	const struct ts_assigned *t = q->tablet_count ? q->tablets : NULL;
	const uint32_t table = t ? t->table : q->table;

	if (is_control(q->method))
		return DISPATCH_CONTROL;
	if (q->method == TS_SORT)
		return DISPATCH_SORT;
	if (q->method == TS_SEAL)
		return DISPATCH_ROOT;
	if (table == META_TABLE && (t || !is_of_tablets(q->method)))
		return bytes_cmp(t ? t->begin : ts_request_row(q), META_ROOT_END) < 0 ? DISPATCH_ROOT : DISPATCH_METADATA;
	return is_of_tablets(q->method) ? DISPATCH_TABLETS : DISPATCH_USER;
}

/* ---- requests ---- */

static void waiting_free(struct waiting *w)
{
	arena_fini(&w->arena);
	buf_fini(&w->bytes);
	free(w);
}

static void answer_and_free(struct waiting *w, int err, struct buf *answer)
{
	w->fn(w->arg, err, answer);
	buf_fini(answer);
	waiting_free(w);
}

static void answer_at_once(struct waiting *w, const struct ts_answer *a)
{
	struct buf answer = {0};

	answer_and_free(w, ts_answer_pack(&w->q, a, &answer), &answer);
}

/* Calls the service, or refuses the request if service is NULL; answers, and frees the request. */
static void finish(struct waiting *w, struct tablet_service *service)
{
	const bool poll = w->q.method == TS_POLL; /* -EAGAIN would be the result of the action */
	struct buf answer = {0};

	if (service)
		answer_and_free(w, ts_serve_decoded(service, &w->q, &w->arena, &answer), &answer);
	else
		answer_at_once(w, &(struct ts_answer){.err = poll ? 0 : -EAGAIN, .scan = poll ? w->q.scan : 0});
}

/* The memory that a request in the queue occupies. */
static size_t bytes_of(const struct waiting *w)
{
	return w->bytes.n + w->arena.used_bytes;
}

static struct waiting *take_locked(struct pool *p)
{
	struct waiting *w = TAILQ_FIRST(&p->queue);

	if (w) {
		TAILQ_REMOVE(&p->queue, w, next);
		p->count--;
		p->bytes -= bytes_of(w);
	}
	return w;
}

static void work(struct task *t)
{
	struct worker *me = (struct worker *)t;
	struct pool *p = me->pool;
	struct waiting *w;

	mutex_lock(&p->lock);
	while ((w = take_locked(p)) != NULL) {
		const bool late = monotonic_us() >= w->until_us;

		mutex_unlock(&p->lock);
		if (late)
			ts_refused(p->service->refused, TS_REFUSED_LATE);
		finish(w, late ? NULL : p->service);
		mutex_lock(&p->lock);
	}
	me->next_idle = p->idle;
	p->idle = me;
	mutex_unlock(&p->lock);
}

/* Returns false if the queue is full. */
static bool enqueue(struct pool *p, struct waiting *w)
{
	struct worker *free_worker = NULL;
	bool full;

	mutex_lock(&p->lock);
	full = p->count >= p->most || (p->count && p->bytes + bytes_of(w) > DISPATCH_BYTES_MAX);
	if (!full) {
		TAILQ_INSERT_TAIL(&p->queue, w, next);
		p->count++;
		p->bytes += bytes_of(w);
		free_worker = p->idle;
		if (free_worker)
			p->idle = free_worker->next_idle;
	}
	mutex_unlock(&p->lock);
	if (free_worker)
		task_queue(&free_worker->task);
	return !full;
}

static uint64_t wait_most_us(const struct ts_request *q)
{
	const bool no_limit = !q->time_left_us || (q->token.client && q->time_left_us > CLIENT_TIME_US);

	return !no_limit ? q->time_left_us : q->token.client ? CLIENT_TIME_US : UINT64_MAX;
}

void dispatch_request(struct dispatcher *d, struct buf *request, dispatch_answer_fn *fn, void *arg)
{
	dispatch_request_from(d, NULL, NULL, request, fn, arg);
}

void dispatch_request_from(
	struct dispatcher *d, dispatch_check_fn *check, void *peer, struct buf *request, dispatch_answer_fn *fn, void *arg)
{
	struct waiting *w = calloc(1, sizeof(*w));
	const uint64_t now_us = monotonic_us();
	struct buf none = {0};
	uint64_t most_us;
	int err;

	if (!w) {
		buf_fini(request);
		fn(arg, -ENOMEM, &none);
		return;
	}
	*w = (struct waiting){.bytes = *request, .fn = fn, .arg = arg};
	*request = none;
	err = ts_request_unpack(buf_bytes(&w->bytes), &w->arena, &w->q);
	if (err) {
		ts_refused_bytes(d->service->refused, err);
		waiting_free(w);
		fn(arg, err, &none);
		return;
	}
	err = check ? check(peer, &w->q) : 0;
	if (err == -EBADMSG) {
		ts_refused(d->service->refused, TS_REFUSED_MALFORMED);
		waiting_free(w);
		fn(arg, err, &none);
		return;
	}
	if (err) {
		ts_refused(d->service->refused, TS_REFUSED_INVALID);
		answer_at_once(w, &(struct ts_answer){.err = err});
		return;
	}
	if (w->q.method == TS_REACH && !w->q.incarnation) {
		answer_at_once(w, &(struct ts_answer){.exists = true});
		return;
	}
	most_us = wait_most_us(&w->q);
	w->until_us = most_us > UINT64_MAX - now_us ? UINT64_MAX : now_us + most_us;
	if (!enqueue(&d->pools[dispatch_class_of(&w->q)], w)) {
		ts_refused(d->service->refused, TS_REFUSED_BUSY);
		finish(w, NULL);
	}
}

/* ---- lifetime ---- */

static int pool_start(struct pool *p, struct tablet_service *service, const char *name, const struct dispatch_limits *l)
{
	int err;

	mutex_init(&p->lock, RANK_DISPATCH);
	TAILQ_INIT(&p->queue);
	p->service = service;
	p->most = l->queue;
	p->workers = calloc(l->workers, sizeof(*p->workers));
	err = p->workers ? task_pool_new(name, l->workers, &p->threads) : -ENOMEM;
	for (unsigned i = 0; i < l->workers && !err; i++) {
		struct worker *w = &p->workers[i];

		task_init(&w->task, p->threads, work);
		w->pool = p;
		w->next_idle = p->idle;
		p->idle = w;
	}
	return err;
}

int dispatch_new(struct tablet_service *service, const struct dispatch_limits *limits, struct dispatcher **out)
{
	struct dispatcher *d = calloc(1, sizeof(*d));
	int err = d ? 0 : -ENOMEM;

	if (!err)
		d->service = service;
	for (unsigned i = 0; i < DISPATCH_CLASSES && !err; i++)
		err = pool_start(&d->pools[i], service, classes[i].name, limits ? &limits[i] : &classes[i].limits);
	if (err)
		dispatch_free(d);
	else
		*out = d;
	return err;
}

void dispatch_free(struct dispatcher *d)
{
	if (!d)
		return;
	for (unsigned i = 0; i < DISPATCH_CLASSES; i++) {
		struct pool *p = &d->pools[i];

		task_pool_free(p->threads);
		free(p->workers);
		if (p->service)
			mutex_fini(&p->lock);
	}
	free(d);
}
