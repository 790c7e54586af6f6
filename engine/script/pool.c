/* SPDX-License-Identifier: Apache-2.0 */
/* The pool of workers: how many runs are open, and the workers that wait for the next run. */
#include "engine/script/pool.h"
#include "engine/base/clock.h"
#include "engine/base/mutex.h"
#include "engine/base/stop.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>

struct script_pool {
	struct mutex lock;
	struct cond room;
	struct script_limits limits;
	unsigned most, open, idle_count;
	struct worker_process *idle[]; /* most elements */
};

static void set_limits(struct script_limits *to, const struct script_limits *l)
{
	to->instructions = l->instructions ? l->instructions : SCRIPT_INSTRUCTIONS;
	to->memory = l->memory ? l->memory : SCRIPT_MEMORY;
	to->time_us = l->time_us ? l->time_us : SCRIPT_TIME_US;
}

int script_pool_new(const struct script_limits *l, unsigned workers, struct script_pool **out)
{
	struct script_pool *p = calloc(1, sizeof(*p) + workers * sizeof(*p->idle));

	if (!p)
		return -ENOMEM;
	mutex_init(&p->lock, RANK_SCRIPT);
	cond_init(&p->room);
	set_limits(&p->limits, l);
	p->most = workers;
	*out = p;
	return 0;
}

void script_pool_free(struct script_pool *p)
{
	if (!p)
		return;
	for (unsigned i = 0; i < p->idle_count; i++)
		(void)process_end(p->idle[i]);
	cond_fini(&p->room);
	mutex_fini(&p->lock);
	free(p);
}

void script_pool_set_limits(struct script_pool *p, const struct script_limits *l)
{
	mutex_lock(&p->lock);
	set_limits(&p->limits, l);
	mutex_unlock(&p->lock);
}

/* Waits until a run more may be open.  Sets an idle worker, or NULL. */
static int take_place(struct script_pool *p, struct script_limits *limits, struct worker_process **idle)
{
	const uint64_t start = monotonic_us();
	int err = 0;

	mutex_lock(&p->lock);
	while (p->open == p->most && !err) {
		(void)cond_wait_us(&p->room, &p->lock, STOP_CHECK_US);
		if (p->open == p->most)
			err = stop_asked() ? -EINTR : monotonic_us() - start > p->limits.time_us ? -EAGAIN : 0;
	}
	if (!err) {
		p->open++;
		*limits = p->limits;
		*idle = p->idle_count ? p->idle[--p->idle_count] : NULL;
	}
	mutex_unlock(&p->lock);
	return err;
}

/* Returns false if the worker died while it was idle, or has another limit. */
static bool is_usable(struct worker_process *w, const struct script_limits *limits)
{
	struct pollfd fd = {.fd = w->fd, .events = 0};

	return w->memory == limits->memory && poll(&fd, 1, 0) == 0;
}

int pool_take_worker(
	struct script_pool *p, struct script_limits *limits, struct worker_process **out, bool *was_idle, struct buf *why)
{
	struct worker_process *w = NULL;
	int err = take_place(p, limits, &w);

	if (err == -EAGAIN) {
		buf_reset(why);
		return buf_printf(why, "%u scripts run already, and none has ended in time", p->most) ? -ENOMEM : err;
	}
	if (err)
		return err;
	if (w && !is_usable(w, limits)) {
		(void)process_end(w);
		w = NULL;
	}
	*was_idle = w;
	if (!w)
		err = process_start(limits->memory, &w, why);
	if (err)
		pool_return_worker(p, NULL);
	else
		*out = w;
	return err;
}

void pool_return_worker(struct script_pool *p, struct worker_process *w)
{
	mutex_lock(&p->lock);
	p->open--;
	if (w)
		p->idle[p->idle_count++] = w;
	cond_signal(&p->room);
	mutex_unlock(&p->lock);
}
