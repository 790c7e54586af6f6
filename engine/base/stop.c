/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the work of a thread is still wanted, and for whom it is (stop.h). */
#include "engine/base/stop.h"

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
