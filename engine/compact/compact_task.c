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
 *
 * When a worker is free it takes the tablet that needs it most
 * (tablet_compact_urgency): first those whose files slow writers down, then
 * those of which reads meet too many, then other merges, then majors, those
 * before the others whose promised time is nearer; one that has used up the
 * time that is left to wait passes everything.  Waiting counts like need, so
 * nothing waits for ever.  Tablets of METADATA have workers of their own.
 *
 * On a full disk a tablet from which much was removed is compacted before the
 * promised time, because that frees space.  To find that it does not fit it
 * may have been read, so the next attempt waits, for up to a minute.
 *
 * A rate limit: who writes more than his time allows, or looks through more,
 * waits for the rest of it.  Not while writers are slowed down, not for a split that waits, and
 * never in what somebody asked for; flushes know no limit.
 */
#include "engine/compact/compact_internal.h"

#include <errno.h>

#include "engine/base/msg.h"

#define BACKOFF_LEAST_US (UINT64_C(100) * 1000)
#define BACKOFF_MOST_US (UINT64_C(10) * 1000000)
#define NO_SPACE_MOST_US MINUTE_US
#define SOON_US (UINT64_C(1000) * 1000)
#define LOOK_AGAIN_US (UINT64_C(3600) * 1000000)
#define MINUTE_US (UINT64_C(60) * 1000000)
#define PACE_BURST_US (UINT64_C(200) * 1000)
#define PACE_LOOK_US (UINT64_C(50) * 1000)
#define SLOWED_LATELY_US (UINT64_C(2000) * 1000)

static bool stopping(const struct tablet *t)
{
	return t->state == TABLET_CLOSING || t->state == TABLET_BROKEN || t->state == TABLET_GONE;
}

/* Again after a pause; the first failure of a row is told. */
static void try_again(struct tablet *t, struct task *task, uint64_t *pause_us, const char *what, int err)
{
	uint64_t most_us = no_space(err) && task == &t->major_task ? NO_SPACE_MOST_US : BACKOFF_MOST_US;

	if (!*pause_us && err != -ECANCELED)
		msg_error("table %u: a %s compaction failed, to be tried again: %s", t->table, what, strerror(-err));
	*pause_us = *pause_us ? *pause_us * 2 : BACKOFF_LEAST_US;
	if (*pause_us > most_us)
		*pause_us = most_us;
	task_queue_after(task, *pause_us);
}

void compact_schedule(struct tablet *t)
{
	if (!t->env->no_background && t->state == TABLET_SERVING)
		task_queue(&t->merge_task);
}

void tablet_flush_task(struct task *task)
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

uint64_t tablet_compact_urgency(const struct task *task, uint64_t waited_us)
{
	const struct tablet *t;
	uint64_t need, share;

	if (task->run == tablet_major_task) {
		t = (const struct tablet *)((const char *)task - offsetof(struct tablet, major_task));
		if (t->env->major_under_way)
			return 0;
		share = t->env->major_within_us / 64 + 1; /* half of the promise is 32 of them */
		need = (uint64_t)t->major_late_us / share * 8 * MINUTE_US;
	} else {
		t = (const struct tablet *)((const char *)task - offsetof(struct tablet, merge_task));
		need = (t->debt > FILES_FREE ? 120 : t->debt > COMPACT_MOST_FILES ? 60 : 30) * MINUTE_US;
		need += (t->debt < 60 ? t->debt : 60) * MINUTE_US / 2;
	}
	return 1 + need + waited_us;
}

/* Nobody may wait for a compaction that takes its time. */
static bool unpaced(const struct tablet *t, uint64_t now)
{
	return stopping(t) || t->split_wanted || t->debt > FILES_FREE || now - t->env->slowed_us < SLOWED_LATELY_US;
}

void compact_pace(struct tablet *t, uint64_t bytes)
{
	struct tablet_env *env = t->env;
	uint64_t now = monotonic_us(), paid, until;

	if (!env->compaction_rate || unpaced(t, now))
		return;
	paid = env->paced_us;
	do
		until = (paid + PACE_BURST_US < now ? now - PACE_BURST_US : paid) + bytes * 1000000 / env->compaction_rate;
	while (!atomic_compare_exchange_weak(&env->paced_us, &paid, until));
	mutex_lock(&t->lock);
	while ((now = monotonic_us()) < until && !unpaced(t, now))
		(void)cond_wait_us(&t->changed, &t->lock, until - now < PACE_LOOK_US ? until - now : PACE_LOOK_US);
	mutex_unlock(&t->lock);
}

static uint64_t look_again_us(const struct tablet *t)
{
	uint64_t us = t->env->major_within_us / 16;

	return t->env->look_us ? t->env->look_us : us < LOOK_AGAIN_US ? us : LOOK_AGAIN_US;
}

static bool wants_major(struct tablet *t)
{
	int64_t after = compact_major_after(t->table, buf_slice(&t->begin), t->env->major_within_us), late;
	struct snap snap;
	int64_t last;

	mutex_lock(&t->lock);
	last = t->major_us;
	mutex_unlock(&t->lock);
	snap_take(t, &snap);
	late = compact_major_late(snap.view, snap.schema, last, clock_now(t->env->clock), clock_collect(t->env->clock), after);
	if (late < 0 && tablet_disk_full(t) && monotonic_us() >= t->major_after_us && compact_frees_space(snap.view))
		late = 0;
	snap_put(&snap);
	t->major_late_us = late < 0 ? 0 : late;
	return late >= 0;
}

void tablet_merge_task(struct task *task)
{
	struct tablet *t = (struct tablet *)((char *)task - offsetof(struct tablet, merge_task));
	bool did;
	int err;

	if (t->split_wanted)
		return; /* it is scheduled anew afterwards */
	err = compact_merge(t, true, &did);
	t->merge_no_space = no_space(err) || err == -ECANCELED; /* canceled: on a full disk */
	if (stopping(t) || err == -ESHUTDOWN)
		return;
	if (err) {
		try_again(t, task, &t->merge_backoff_us, "merging", err);
		if (wants_major(t)) /* which may make the room that was missing */
			task_queue(&t->major_task);
		return;
	}
	t->merge_backoff_us = 0;
	if (did) {
		task_queue(task);
		return;
	}
	if (wants_major(t))
		task_queue(&t->major_task);
	task_queue_after(task, look_again_us(t));
}

void tablet_major_task(struct task *task)
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
	else if (err == -ECANCELED) /* it gave way to a split, which may be over */
		compact_schedule(t);
	else if (!stopping(t) && err != -ESHUTDOWN)
		try_again(t, task, &t->major_backoff_us, "major", err);
	t->major_after_us = no_space(err) ? monotonic_us() + t->major_backoff_us : 0;
}
