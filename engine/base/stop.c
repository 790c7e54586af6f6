/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the work of a thread is still wanted (stop.h). */
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
