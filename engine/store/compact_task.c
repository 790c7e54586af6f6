/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compactions in the background: when each kind is tried, and tried again.
 *
 * Errors are told once and tried again with growing pauses; a full disk is
 * such an error, reads and writes go on.
 *
 * Merges and flushes keep the number of files down that reads meet, and
 * writers are slowed down when they fall behind, so they come first: of the
 * background's workers one at most is in a major compaction, and none waits
 * for one that somebody asked for.
 */
#include "engine/store/compact.h"

#include <errno.h>

#include "engine/base/msg.h"

#define BACKOFF_LEAST_US (UINT64_C(100) * 1000)
#define BACKOFF_MOST_US (UINT64_C(10) * 1000000)
#define SOON_US (UINT64_C(1000) * 1000)
#define LOOK_AGAIN_US (UINT64_C(3600) * 1000000)

static bool
stopping(const struct tablet *t)
{
	return t->state == TABLET_CLOSING || t->state == TABLET_BROKEN || t->state == TABLET_GONE;
}

/* Again after a pause; the first failure of a row is told. */
static void
try_again(struct tablet *t, struct task *task, uint64_t *pause_us, const char *what, int err)
{
	if (!*pause_us)
		msg_error("table %u: a %s compaction failed, to be tried again: %s", t->table, what, strerror(-err));
	*pause_us = *pause_us ? *pause_us * 2 : BACKOFF_LEAST_US;
	if (*pause_us > BACKOFF_MOST_US)
		*pause_us = BACKOFF_MOST_US;
	task_queue_after(task, *pause_us);
}

void
compact_schedule(struct tablet *t)
{
	if (!t->env->no_background && t->state == TABLET_SERVING)
		task_queue(&t->merge_task);
}

void
tablet_flush_task(struct task *task)
{
	struct tablet *t = (struct tablet *)((char *)task - offsetof(struct tablet, flush_task));
	int err = flush_now(t);

	if (!err) {
		t->flush_backoff_us = 0;
	} else if (!stopping(t) && err != -ESHUTDOWN) {
		t->flush_wanted = true;
		try_again(t, task, &t->flush_backoff_us, "minor", err);
	}
}

static bool
wants_major(struct tablet *t)
{
	struct snap snap;
	int64_t last;
	bool wants;

	mutex_lock(&t->lock);
	last = t->major_us;
	mutex_unlock(&t->lock);
	snap_take(t, &snap);
	wants = compact_wants_major(snap.view, snap.schema, last, clock_now(t->env->clock));
	snap_put(&snap);
	return wants;
}

void
tablet_merge_task(struct task *task)
{
	struct tablet *t = (struct tablet *)((char *)task - offsetof(struct tablet, merge_task));
	bool did;
	int err;

	if (t->split_wanted)
		return; /* it is scheduled anew afterwards */
	err = compact_merge(t, &did);
	if (stopping(t) || err == -ESHUTDOWN)
		return;
	if (err) {
		try_again(t, task, &t->merge_backoff_us, "merging", err);
		return;
	}
	t->merge_backoff_us = 0;
	if (did) {
		task_queue(task);
		return;
	}
	if (wants_major(t))
		task_queue(&t->major_task);
	task_queue_after(task, LOOK_AGAIN_US);
}

void
tablet_major_task(struct task *task)
{
	struct tablet *t = (struct tablet *)((char *)task - offsetof(struct tablet, major_task));
	int err;

	if (stopping(t) || t->split_wanted || !wants_major(t))
		return;
	if (t->majoring || atomic_exchange(&t->env->major_under_way, true)) {
		task_queue_after(task, SOON_US);
		return;
	}
	err = compact_major(t, true);
	t->env->major_under_way = false;
	if (!err)
		t->major_backoff_us = 0;
	else if (!stopping(t) && err != -ESHUTDOWN && !(err == -ECANCELED && t->split_wanted))
		try_again(t, task, &t->major_backoff_us, "major", err);
}
