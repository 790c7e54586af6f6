/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slows writers down, so that memory stays bounded and reads search few files.
 * As long as flushing works, writers are delayed and never refused.
 *
 * The bound is env->memtable_bytes.  Memtables that are being flushed count as
 * memory, but do not cause another flush.
 *
 * Memory below the bound causes no delay.  A tablet starts a flush when its
 * active memtable has half of the bound, so that half is free for writes during
 * the flush.
 *
 * Above the bound, all writers together have a rate in bytes a second.  The
 * rate falls with the square of the space that is left below 1.5 times the
 * bound.  Each writer waits for as long as its bytes and the bytes of the
 * writers before it take at this rate.  So all writers wait, but each only for
 * a short time, however slow flushing is: at the lowest rate, 16 writers of
 * 1000 bytes each wait 16 ms.  Usually some space is left when the flush ends.
 * If memory reaches 1.5 times the bound, writes wait for the end of a flush.
 *
 * Each write is also delayed if many files wait for a merge.
 *
 * If flushing fails, for example on a full disk, a write above 1.5 times the
 * bound fails with that error, because a longer wait would hang the mount.
 * Mutations that only remove are still accepted; the log's space limits them.
 * While merges have no space, the number of files does not delay them.
 *
 * A writer waits here before it takes any lock.  Tablets of METADATA and the
 * root tablet are not delayed (env->unthrottled), because a flush of a user
 * tablet needs them.
 */
#include "engine/tablet/tablet_impl.h"

enum {
	DELAY_MOST_US = 50000, /* the longest delay of one write because of memory */
	DELAY_LEAST_US = 200,  /* a write does not wait for less; its bytes still delay later writes */
	FILES_STEP_US = 100,   /* the delay for n files above FILES_FREE is n * n of these */
	FILES_MOST_US = 10000, /* the longest delay of one write because of files */
	CHECK_SPACE_US = 2000, /* interval of checks for the end of a flush */
	RATE_LEAST = 1 << 20,  /* bytes a second */
	RATE_MOST = 128 << 20,
	CELL_BYTES = 100, /* approximate overhead of a cell */
};

/* Sleeps.  No event ends the sleep early, because it is short. */
static void throttle_sleep_us(uint64_t us)
{
	struct event never = {0};

	(void)event_wait_us(&never, 0, us);
}

/* Starts a flush, unless the memtables being flushed will free enough.  More flushes would only write small files. */
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

/*
 * Returns the delay of a write of these bytes, and moves env->turn_us by the
 * time that they take at the current rate.
 */
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

static uint64_t op_bytes(struct tfs_bytes row, const struct op *ops, unsigned count)
{
	uint64_t bytes = 0;

	for (unsigned i = 0; i < count; i++)
		bytes += CELL_BYTES + row.n + ops[i].w.qualifier.n + ops[i].value.n + ops[i].w.append.n;
	return bytes;
}

int tablet_throttle(struct tablet *t, struct tfs_bytes row, const struct op *ops, unsigned count)
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
			task_queue(&t->flush_task); /* the disk may have space again */
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
