/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rate limit of merging and major compactions in the background
 * (env->compaction_rate).
 *
 * A compaction that has read or written more than its time allows waits for
 * the rest of that time.  It does not wait while writers are slowed down, or
 * when a split waits for it.  Flushes, and compactions that a user asked for,
 * have no limit.
 */
#include "engine/compact/compact_internal.h"

#define PACE_BURST_US (UINT64_C(200) * 1000)
#define PACE_CHECK_US (UINT64_C(50) * 1000)
#define SLOWED_RECENTLY_US (UINT64_C(2000) * 1000)

static bool compact_is_urgent(const struct tablet *t, uint64_t now)
{
	return tablet_stopping(t) || t->split_wanted || t->debt > FILES_FREE || now - t->env->slowed_us < SLOWED_RECENTLY_US;
}

void compact_pace(struct tablet *t, uint64_t bytes)
{
	struct tablet_env *env = t->env;
	const uint64_t rate = env->compaction_rate; /* it may change */
	uint64_t now = monotonic_us(), paid, until;

	if (!rate || compact_is_urgent(t, now))
		return;
	paid = env->paced_us;
	do
		until = (paid + PACE_BURST_US < now ? now - PACE_BURST_US : paid) + bytes * 1000000 / rate;
	while (!atomic_compare_exchange_weak(&env->paced_us, &paid, until));
	mutex_lock(&t->lock);
	while ((now = monotonic_us()) < until && !compact_is_urgent(t, now))
		(void)cond_wait_us(&t->changed, &t->lock, until - now < PACE_CHECK_US ? until - now : PACE_CHECK_US);
	mutex_unlock(&t->lock);
}
