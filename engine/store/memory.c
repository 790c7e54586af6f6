/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slowing writers down, so that memory stays bounded and reads meet few
 * files: writers are delayed, never refused, as long as flushing works.
 *
 * Below the bound nothing happens; a tablet whose active memtable has half
 * of it starts a flush, so the other half takes what is written meanwhile.
 * What is being flushed counts as memory, but asks for no further flush.
 * Above the bound each write waits a time that grows with the square of the
 * excess, up to 50 ms; at one and a half times the bound it waits until
 * there is room.  Many files waiting for a merge delay in the same way.  If
 * flushing fails (a full disk) the wait at the top ends with its error:
 * waiting longer would hang the mount.
 *
 * The delay is taken before any lock.  Tablets of METADATA and root pass by
 * (env->unthrottled): a flush of a user tablet needs them.
 */
#include "engine/store/tablet_impl.h"

#include <errno.h>

enum {
	DELAY_MOST_US = 50000,
	FILES_STEP_US = 100,
};

void
tablet_want_flush(struct tablet *t)
{
	if (t->env->no_background || t->state != TABLET_SERVING)
		return;
	if (!atomic_exchange_explicit(&t->flush_wanted, true, memory_order_acq_rel))
		task_queue(&t->flush_task);
}

static void
pause_us(struct tablet *t, uint64_t us)
{
	uint64_t until = monotonic_us() + us, now;

	mutex_lock(&t->lock);
	while (t->state != TABLET_CLOSING && (now = monotonic_us()) < until)
		if (!cond_wait_us(&t->changed, &t->lock, until - now))
			break;
	mutex_unlock(&t->lock);
}

/* Unless what is being flushed already will do: else small memtables would become small files. */
static void
relieve(struct tablet *t)
{
	struct tablet_env *env = t->env;

	if (*env->memory_used < env->flushing_bytes + env->memtable_bytes / 2)
		return;
	if (env->over_memory)
		env->over_memory(env->arg);
	else
		tablet_want_flush(t);
}

static uint64_t
delay_us(const struct tablet *t, size_t used, size_t bound)
{
	uint64_t us = 0;
	unsigned files = t->debt;

	if (used > bound) {
		double excess = 2.0 * (double)(used - bound) / (double)bound;

		us = excess >= 1 ? DELAY_MOST_US : (uint64_t)(DELAY_MOST_US * excess * excess);
	}
	if (files > FILES_FREE) {
		uint64_t f = (uint64_t)(files - FILES_FREE) * (files - FILES_FREE) * FILES_STEP_US;

		us = f > us ? f : us;
	}
	return us < DELAY_MOST_US ? us : DELAY_MOST_US;
}

int
memory_slow_down(struct tablet *t)
{
	struct tablet_env *env = t->env;
	size_t bound = env->memtable_bytes, used;
	uint64_t us, start;
	int err = 0;

	if (env->unthrottled || env->no_background || !env->memory_used)
		return 0;
	used = *env->memory_used;
	us = delay_us(t, used, bound);
	if (!us)
		return 0;
	start = monotonic_us();
	env->slowed_us = start;
	if (used > bound)
		relieve(t);
	pause_us(t, us);
	while (*env->memory_used > bound + bound / 2 && t->state == TABLET_SERVING) {
		if (env->flush_error) {
			err = env->flush_error;
			task_queue(&t->flush_task); /* there may be room again */
			break;
		}
		relieve(t);
		pause_us(t, DELAY_MOST_US);
	}
	env->stalls++;
	env->stall_us += monotonic_us() - start;
	return err;
}

void
memory_after_write(struct tablet *t, size_t active_bytes, size_t used_before)
{
	struct tablet_env *env = t->env;

	if (env->no_background)
		return;
	if (active_bytes > env->memtable_bytes / 2)
		tablet_want_flush(t);
	if (env->memory_used && used_before <= env->memtable_bytes && *env->memory_used > env->memtable_bytes)
		relieve(t);
}
