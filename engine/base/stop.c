/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the work of a thread is still wanted, how long it may wait, and for whom it is (stop.h). */
#include "engine/base/stop.h"

#include "engine/base/clock.h"
#include "engine/base/outcome.h"

#include <stdatomic.h>
#include <stddef.h>

static _Thread_local struct {
	stop_fn *fn;
	void *arg;
} stop;

void stop_set(stop_fn *fn, void *arg)
{
	stop.fn = fn;
	stop.arg = arg;
}

static bool (*_Atomic waiting)(bool silent);

void stop_set_waiting(bool (*fn)(bool silent))
{
	waiting = fn;
}

bool stop_asked_waiting(bool silent)
{
	bool (*fn)(bool silent) = waiting;

	return stop_asked() || (fn && fn(silent));
}

bool stop_asked(void)
{
	return stop.fn && stop.fn(stop.arg);
}

/* ---- the time of a request ---- */

static _Thread_local struct {
	uint64_t since_us, limit_us;
	bool failed;
} wait;
static _Atomic uint64_t answered_us; /* when a thread with a limit got the last answer */

void stop_wait_begin(uint64_t since_us, uint64_t limit_us)
{
	wait.since_us = since_us;
	wait.limit_us = limit_us;
	wait.failed = false;
}

uint64_t stop_wait_left(uint64_t us)
{
	const uint64_t least_us = wait.failed ? 0 : STOP_TRY_US(wait.limit_us);
	uint64_t now, end, left;

	if (!wait.limit_us)
		return us;
	if (!wait.failed && answered_us > wait.since_us)
		wait.since_us = answered_us;
	now = monotonic_us();
	end = wait.since_us + wait.limit_us;
	left = end > now + least_us ? end - now : least_us;
	return us < left ? us : left;
}

void stop_wait_ended(int err)
{
	if (!wait.limit_us)
		return;
	wait.failed = !outcome_is_answer(err);
	if (!wait.failed)
		answered_us = wait.since_us = monotonic_us();
}

void stop_wait_get(uint64_t *since_us, uint64_t *limit_us)
{
	*since_us = wait.since_us;
	*limit_us = wait.limit_us;
}

void stop_wait_repeats(void)
{
	wait.since_us = monotonic_us() - wait.limit_us;
}

/* A wait ends a little earlier than its time if there is none left for another attempt. */
uint64_t stop_wait_in_vain(void)
{
	return wait.failed && stop_wait_left(wait.limit_us) <= wait.limit_us / 4 ? wait.limit_us : 0;
}

/* ---- the user ---- */

static const struct tfs_user *(*_Atomic asker)(void);
static _Atomic bool wanted;

void asker_set(const struct tfs_user *(*fn)(void))
{
	asker = fn;
}

bool asker_is_set(void)
{
	return asker != NULL;
}

const struct tfs_user *asker_get(void)
{
	const struct tfs_user *(*fn)(void) = asker;

	return fn ? fn() : NULL;
}

void asker_want(void)
{
	wanted = true;
}

bool asker_is_wanted(void)
{
	return wanted;
}
