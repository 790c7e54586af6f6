/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slowing writers down, so that memory stays bounded and reads search few
 * files.  Writers are delayed, never refused, as long as flushing works.
 *
 * Below the bound there is no delay.  A tablet whose active memtable has half
 * of it starts a flush, so that the other half takes the writes meanwhile.
 * Memtables being flushed count as memory, but cause no further flush.
 *
 * Above the bound, writers share a rate in bytes a second.  It falls with the
 * square of the space that is left below 1.5 times the bound.  Each writer waits
 * for as long as the bytes of the writers before it take at this rate.  So all
 * wait a little and none waits long (16 writers of 1000 bytes: 16 ms at the
 * lowest rate), whatever the speed of flushing, and there is space left when a
 * flush ends.  If there is none, writes wait until a flush ends.  Many files
 * that wait for a merge delay each write.
 *
 * If flushing fails (a full disk), a write above 1.5 times the bound fails with
 * that error, because waiting longer would hang the mount.  Mutations that only
 * remove are accepted then; the space left for the log bounds them.  The number
 * of files does not delay them while merges have no space.
 *
 * The wait happens before any lock is taken.  Tablets of METADATA and root are
 * not delayed (env->unthrottled), because a flush of a user tablet needs them.
 */
#include "engine/tablet/tablet_impl.h"

enum {
	DELAY_MOST_US = 50000, /* one write of many: large values */
	DELAY_LEAST_US = 200,  /* a shorter delay is left to a later write */
	FILES_STEP_US = 100,
	FILES_MOST_US = 10000,
	CHECK_SPACE_US = 2000,
	RATE_LEAST = 1 << 20, /* bytes a second */
	RATE_MOST = 128 << 20,
	CELL_BYTES = 100, /* overhead of a cell, about */
};

/* Sleeps.  Nothing ends it early, because it is short. */
static void throttle_sleep_us(uint64_t us)
{
	struct event never = {0};

	(void)event_wait_us(&never, 0, us);
}

/* Starts a flush, unless the memtables being flushed are enough; otherwise small memtables would become small files. */
static void throttle_start_flush(struct tablet *t)
{
	struct tablet_env *env = t->env;

	if (*env->memory_used < env->flushing_bytes + env->memtable_bytes / 2)
		return;
	if (env->over_memory)
		env->over_memory(env->arg);
	else
		tablet_want_flush(t);
}

/* Returns the delay of so many bytes at the current rate, and adds them to it. */
static uint64_t throttle_turn_us(struct tablet_env *env, size_t used, size_t bound, uint64_t bytes)
{
	double space = used < bound + bound / 2 ? 1 - 2.0 * (double)(used - bound) / (double)bound : 0;
	double rate = RATE_MOST * space * space;
	uint64_t cost, now = monotonic_us(), old = env->turn_us, turn;

	cost = (uint64_t)((double)bytes * 1e6 / (rate > RATE_LEAST ? rate : RATE_LEAST));
	do
		turn = (old < now ? now : old > now + DELAY_MOST_US ? now + DELAY_MOST_US : old) + cost;
	while (!atomic_compare_exchange_weak(&env->turn_us, &old, turn));
	return turn - now < DELAY_MOST_US ? turn - now : DELAY_MOST_US;
}

static uint64_t throttle_delay_us(struct tablet *t, size_t used, size_t bound, unsigned files, uint64_t bytes)
{
	uint64_t us = used > bound ? throttle_turn_us(t->env, used, bound, bytes) : 0, f = 0;

	if (files > FILES_FREE)
		f = (uint64_t)(files - FILES_FREE) * (files - FILES_FREE) * FILES_STEP_US;
	f = f < FILES_MOST_US ? f : FILES_MOST_US;
	us = us > f ? us : f;
	return us < DELAY_LEAST_US ? 0 : us;
}

static uint64_t op_bytes(struct slice row, const struct op *ops, unsigned count)
{
	uint64_t bytes = 0;

	for (unsigned i = 0; i < count; i++)
		bytes += CELL_BYTES + row.n + ops[i].qualifier.n + ops[i].value.n + ops[i].append.n;
	return bytes;
}

int tablet_throttle(struct tablet *t, struct slice row, const struct op *ops, unsigned count)
{
	struct tablet_env *env = t->env;
	size_t bound = env->memtable_bytes, used;
	unsigned files = t->debt;
	uint64_t us, start;
	int err = 0;

	if (env->unthrottled || env->no_background || !env->memory_used)
		return 0;
	used = *env->memory_used;
	if (files > FILES_FREE && t->merge_no_space && ops_only_remove(ops, count))
		files = 0;
	if (used <= bound && files <= FILES_FREE)
		return 0;
	start = monotonic_us();
	env->slowed_us = start;
	if (used > bound)
		throttle_start_flush(t);
	us = throttle_delay_us(t, used, bound, files, op_bytes(row, ops, count));
	if (us)
		throttle_sleep_us(us);
	while (*env->memory_used > bound + bound / 2 && t->state == TABLET_SERVING) {
		if (env->flush_error) {
			err = ops_only_remove(ops, count) ? 0 : env->flush_error;
			task_queue(&t->flush_task); /* there may be space again */
			break;
		}
		throttle_start_flush(t);
		throttle_sleep_us(CHECK_SPACE_US);
		us = 1;
	}
	env->stalls += us != 0;
	env->stall_us += us ? monotonic_us() - start : 0;
	return err;
}

void tablet_after_write(struct tablet *t, size_t active_bytes, size_t used_before)
{
	struct tablet_env *env = t->env;

	if (env->no_background)
		return;
	if (active_bytes > env->memtable_bytes / 2)
		tablet_want_flush(t);
	if (env->memory_used && used_before <= env->memtable_bytes && *env->memory_used > env->memtable_bytes)
		throttle_start_flush(t);
}
