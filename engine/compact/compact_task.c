/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compactions in the background: when each kind is attempted.
 *
 * An error is logged once; the attempt is repeated after growing pauses.  A
 * full disk is such an error; reads and writes continue.
 *
 * Merges and flushes limit the number of files that reads search, and writers
 * are slowed down when the compactions are late.  So they have priority: at
 * most one worker of the background runs a major compaction, and no worker
 * waits for one that a user asked for.
 *
 * A free worker takes the most urgent tablet (compact_urgency): first those
 * whose files slow writers down, then those with too many files for reads,
 * then other merges, then major compactions, the nearest promised time first.
 * An overdue task runs first.  Waiting time adds to the urgency, so no task
 * waits forever.  Tablets of METADATA have workers of their own.
 *
 * On a full disk a tablet from which much was removed is compacted before the
 * promised time, because that frees space.  An attempt that does not fit may
 * have read the tablet, so the next one waits, for up to a minute.
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

/* Returns true if the tablet or its server ends, so the task is not repeated. */
static bool is_over(const struct tablet *t, int err)
{
	return tablet_stopping(t) || err == -TABLET_STOPPED || err == -SESSION_ENDED;
}

/* Repeats the task after a pause.  Logs the first of consecutive failures. */
static void compact_retry(struct tablet *t, struct task *task, uint64_t *pause_us, const char *what, int err)
{
	uint64_t most_us = is_no_space(err) && task == &t->major_task ? NO_SPACE_MOST_US : BACKOFF_MOST_US;

	if (!*pause_us && err != -ECANCELED)
		msg_error("table %u: a %s compaction failed, to be tried again: %s", t->table, what, error_text(err));
	*pause_us = *pause_us ? *pause_us * 2 : BACKOFF_LEAST_US;
	if (*pause_us > most_us)
		*pause_us = most_us;
	task_queue_after(task, *pause_us);
}

static void compact_flush_task(struct task *task)
{
	struct tablet *t = (struct tablet *)((char *)task - offsetof(struct tablet, flush_task));
	int err = compact_flush_now(t);

	if (!err) {
		t->flush_backoff_us = 0;
	} else if (!is_over(t, err)) {
		t->flush_wanted = true;
		compact_retry(t, task, &t->flush_backoff_us, "minor", err);
	}
}

uint64_t compact_urgency(const struct task *task, uint64_t waited_us)
{
	const struct tablet *t;
	uint64_t need, share;

	if (task->run == compact_major_task) {
		t = (const struct tablet *)((const char *)task - offsetof(struct tablet, major_task));
		if (t->env->major_under_way)
			return 0;
		share = t->env->major_within_us / 64 + 1; /* half of the promised time has 32 of them */
		need = (uint64_t)t->major_late_us / share * 8 * MINUTE_US;
	} else {
		t = (const struct tablet *)((const char *)task - offsetof(struct tablet, merge_task));
		need = (t->debt > FILES_FREE ? 120 : t->debt > COMPACT_MOST_FILES ? 60 : 30) * MINUTE_US;
		need += (t->debt < 60 ? t->debt : 60) * MINUTE_US / 2;
	}
	return 1 + need + waited_us;
}

static uint64_t compact_check_interval_us(const struct tablet *t)
{
	uint64_t us = t->env->major_within_us / 16;

	return t->env->look_us ? t->env->look_us : us < LOOK_AGAIN_US ? us : LOOK_AGAIN_US;
}

static bool major_is_due(struct tablet *t)
{
	return compact_wants_major(t) || t->major_unfinished;
}

int64_t tablet_overdue_us(struct tablet *t)
{
	int64_t within = (int64_t)t->env->major_within_us;
	int64_t after = compact_major_after(t->table, buf_bytes(&t->begin), t->env->major_within_us);
	int64_t late = t->major_late_us + after - within; /* when it was checked */
	int64_t last;

	mutex_lock(&t->lock);
	last = t->major_us;
	mutex_unlock(&t->lock);
	last = clock_now(t->env->clock) - last - within;
	if (late > last) /* a major compaction has succeeded since then */
		late = last;
	return late > 0 ? late : 0;
}

void compact_merge_task(struct task *task)
{
	struct tablet *t = (struct tablet *)((char *)task - offsetof(struct tablet, merge_task));
	bool did;
	int err;

	if (t->split_wanted)
		return; /* tablet_retire_done queues the task again */
	err = compact_merge(t, true, &did);
	if (err == -ECANCELED && t->leaves)
		return;                                            /* tablet_retire_done queues this task again, too */
	t->merge_no_space = is_no_space(err) || err == -ECANCELED; /* canceled: on a full disk */
	if (is_over(t, err))
		return;
	if (err) {
		compact_retry(t, task, &t->merge_backoff_us, "merging", err);
		if (major_is_due(t)) /* the merge may lack the space that a major compaction frees */
			task_queue(&t->major_task);
		return;
	}
	t->merge_backoff_us = 0;
	if (did) {
		task_queue(task);
		return;
	}
	if (major_is_due(t))
		task_queue(&t->major_task);
	task_queue_after(task, compact_check_interval_us(t));
}

void compact_major_task(struct task *task)
{
	struct tablet *t = (struct tablet *)((char *)task - offsetof(struct tablet, major_task));
	int err;

	if (tablet_stopping(t) || t->split_wanted || !major_is_due(t))
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
		tablet_want_merge(t);
	else if (!is_over(t, err))
		compact_retry(t, task, &t->major_backoff_us, "major", err);
	t->major_after_us = is_no_space(err) ? monotonic_us() + t->major_backoff_us : 0;
}

static int flush_memtables(struct tablet *t)
{
	return compact_flush_all(t, NULL);
}

static void drop_jobs(struct tablet *t)
{
	compact_flush_free(t->pending);
	compact_job_free(t->pending_merge);
	compact_job_free(t->pending_major);
}

const struct tablet_compactor compact_functions = {
	.flush_task = compact_flush_task,
	.merge_task = compact_merge_task,
	.major_task = compact_major_task,
	.flush = flush_memtables,
	.repeat_edits = compact_repeat_edits,
	.drop_jobs = drop_jobs,
};
